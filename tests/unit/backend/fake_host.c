/* SPDX-License-Identifier: BSD-3-Clause */
#include "backend/fake_host.h"

#include "base/clock.h"
#include "base/mem.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct failure {
        const char             *name; /* borrowed; NULL: every call */
        const char             *text; /* borrowed; NULL: no failure */
        TRITONSERVER_Error_Code code;
};

struct errand {
        void (*run)(void *userp);
        void *userp;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t  changed = PTHREAD_COND_INITIALIZER;

/* Under the lock. */
static unsigned       counts[FAKE_N_CALLS];
static struct errand  errands[FAKE_N_CALLS];
static struct failure failures[FAKE_N_CALLS];
static unsigned       preferred_count;
static bool           is_parallel;
static const char    *complete_json;
static bool           is_gate_closed;

void fake_host_reset(void) {
        pthread_mutex_lock(&lock);
        memset(counts, 0, sizeof(counts));
        memset(failures, 0, sizeof(failures));
        memset(errands, 0, sizeof(errands));
        preferred_count = 0;
        is_parallel = false;
        complete_json = NULL;
        is_gate_closed = false;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
}

unsigned fake_host_count(enum fake_call call) {
        unsigned n;

        pthread_mutex_lock(&lock);
        n = counts[call];
        pthread_mutex_unlock(&lock);
        return n;
}

void fake_host_fail(enum fake_call call, const char *name, TRITONSERVER_Error_Code code,
                    const char *text) {
        pthread_mutex_lock(&lock);
        failures[call] = (struct failure){ .name = name, .text = text, .code = code };
        pthread_mutex_unlock(&lock);
}

void fake_host_prefer_instances(unsigned count) {
        pthread_mutex_lock(&lock);
        preferred_count = count;
        pthread_mutex_unlock(&lock);
}

void fake_host_allow_parallel(void) {
        pthread_mutex_lock(&lock);
        is_parallel = true;
        pthread_mutex_unlock(&lock);
}

void fake_host_complete_config(const char *json) {
        pthread_mutex_lock(&lock);
        complete_json = json;
        pthread_mutex_unlock(&lock);
}

static void set_gate(bool is_closed) {
        pthread_mutex_lock(&lock);
        is_gate_closed = is_closed;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
}

void fake_host_close_gate(void) {
        set_gate(true);
}

void fake_host_open_gate(void) {
        set_gate(false);
}

void fake_host_on_call(enum fake_call call, void (*run)(void *userp), void *userp) {
        pthread_mutex_lock(&lock);
        errands[call] = (struct errand){ run, userp };
        pthread_mutex_unlock(&lock);
}

void fake_host_await(enum fake_call call, unsigned n) {
        pthread_mutex_lock(&lock);
        while (counts[call] < n)
                pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Counts the call; the error that it is to return, NULL: none. */
static TRITONSERVER_Error *enter(enum fake_call call, const char *const *names, size_t n_names) {
        struct failure failure;
        struct errand  errand;
        bool           is_meant;

        pthread_mutex_lock(&lock);
        counts[call]++;
        failure = failures[call];
        errand = errands[call];
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);

        if (errand.run != NULL)
                errand.run(errand.userp);
        is_meant = failure.name == NULL;
        for (size_t i = 0; i < n_names; i++)
                is_meant = is_meant || strcmp(failure.name, names[i]) == 0;
        return failure.text != NULL && is_meant ? TRITONSERVER_ErrorNew(failure.code, failure.text)
                                                : NULL;
}

static TRITONSERVER_Error *enter_backend(enum fake_call call, TRITONBACKEND_Backend *backend) {
        const char *name;

        TRITONBACKEND_BackendName(backend, &name);
        return enter(call, &name, 1);
}

static TRITONSERVER_Error *enter_model(enum fake_call call, TRITONBACKEND_Model *model,
                                       const char *instance) {
        const char *name;
        uint64_t    version;
        char       *full;

        TRITONBACKEND_ModelName(model, &name);
        TRITONBACKEND_ModelVersion(model, &version);
        full = mem_printf("%s/%llu", name, (unsigned long long)version);

        TRITONSERVER_Error *err =
                enter(call, (const char *[]){ name, full, instance }, instance != NULL ? 3 : 2);

        free(full);
        return err;
}

static TRITONSERVER_Error *enter_instance(enum fake_call               call,
                                          TRITONBACKEND_ModelInstance *instance) {
        TRITONBACKEND_Model *model;
        const char          *name;

        TRITONBACKEND_ModelInstanceModel(instance, &model);
        TRITONBACKEND_ModelInstanceName(instance, &name);
        return enter_model(call, model, name);
}

static TRITONSERVER_Error *initialize(TRITONBACKEND_Backend *backend) {
        return enter_backend(FAKE_INITIALIZE, backend);
}

static TRITONSERVER_Error *finalize(TRITONBACKEND_Backend *backend) {
        return enter_backend(FAKE_FINALIZE, backend);
}

static TRITONSERVER_Error *get_attributes(TRITONBACKEND_Backend          *backend,
                                          TRITONBACKEND_BackendAttribute *attributes) {
        unsigned count;
        bool     parallel;

        pthread_mutex_lock(&lock);
        count = preferred_count;
        parallel = is_parallel;
        pthread_mutex_unlock(&lock);
        if (parallel)
                TRITONSERVER_ErrorDelete(
                        TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(attributes,
                                                                                      true));
        if (count > 0)
                TRITONSERVER_ErrorDelete(TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(
                        attributes, TRITONSERVER_INSTANCEGROUPKIND_CPU, count, NULL, 0));
        return enter_backend(FAKE_GET_ATTRIBUTES, backend);
}

static TRITONSERVER_Error *complete(TRITONBACKEND_Model *model) {
        TRITONSERVER_Message *message;
        TRITONSERVER_Error   *err;
        const char           *json;

        pthread_mutex_lock(&lock);
        json = complete_json;
        pthread_mutex_unlock(&lock);
        if (json == NULL)
                return NULL;
        err = TRITONSERVER_MessageNewFromSerializedJson(&message, json, strlen(json));
        if (err != NULL)
                return err;
        err = TRITONBACKEND_ModelSetConfig(model, 1, message);
        TRITONSERVER_MessageDelete(message);
        return err;
}

static TRITONSERVER_Error *model_initialize(TRITONBACKEND_Model *model) {
        TRITONSERVER_Error *err = enter_model(FAKE_MODEL_INITIALIZE, model, NULL);

        return err != NULL ? err : complete(model);
}

static TRITONSERVER_Error *model_finalize(TRITONBACKEND_Model *model) {
        return enter_model(FAKE_MODEL_FINALIZE, model, NULL);
}

static TRITONSERVER_Error *instance_initialize(TRITONBACKEND_ModelInstance *instance) {
        return enter_instance(FAKE_INSTANCE_INITIALIZE, instance);
}

static TRITONSERVER_Error *instance_finalize(TRITONBACKEND_ModelInstance *instance) {
        return enter_instance(FAKE_INSTANCE_FINALIZE, instance);
}

static TRITONSERVER_Error *instance_ready(TRITONBACKEND_ModelInstance *instance) {
        return enter_instance(FAKE_INSTANCE_READY, instance);
}

/* ---- execution ------------------------------------------------------------------------------- */

#define TRY_API(call)                                                                              \
        do {                                                                                       \
                TRITONSERVER_Error *api_err_ = (call);                                             \
                if (api_err_ != NULL)                                                              \
                        return api_err_;                                                           \
        } while (0)

/* The rows of a request: its first dimension. */
static TRITONSERVER_Error *repeat(TRITONBACKEND_Request *request, uint32_t index,
                                  TRITONBACKEND_Response *response, uint64_t *ret_rows) {
        TRITONBACKEND_Input    *input;
        TRITONBACKEND_Output   *output;
        const char             *name;
        TRITONSERVER_DataType   type;
        const int64_t          *shape;
        uint32_t                n_dims, n_buffers;
        uint64_t                n_bytes, at = 0;
        TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
        int64_t                 memory_id = 0;
        void                   *out;

        TRY_API(TRITONBACKEND_RequestOutputName(request, index, &name));
        TRY_API(TRITONBACKEND_RequestInputByIndex(request, index, &input));
        TRY_API(TRITONBACKEND_InputProperties(input, NULL, &type, &shape, &n_dims, &n_bytes,
                                              &n_buffers));
        TRY_API(TRITONBACKEND_ResponseOutput(response, &output, name, type, shape, n_dims));
        TRY_API(TRITONBACKEND_OutputBuffer(output, &out, n_bytes, &memory, &memory_id));
        for (uint32_t i = 0; i < n_buffers; i++) {
                const void *piece;
                uint64_t    piece_bytes;

                TRY_API(TRITONBACKEND_InputBuffer(input, i, &piece, &piece_bytes, &memory,
                                                  &memory_id));
                memcpy((char *)out + at, piece, piece_bytes);
                at += piece_bytes;
        }
        *ret_rows = n_dims > 0 && shape[0] > 0 ? (uint64_t)shape[0] : 1;
        return NULL;
}

static TRITONSERVER_Error *fill(TRITONBACKEND_Request *request, TRITONBACKEND_Response *response,
                                uint64_t *ret_rows) {
        uint32_t n;

        TRY_API(TRITONBACKEND_RequestOutputCount(request, &n));
        for (uint32_t i = 0; i < n; i++)
                TRY_API(repeat(request, i, response, ret_rows));
        return NULL;
}

/* Answers one request and gives it back; its rows. */
static uint64_t answer(TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request *request,
                       uint64_t start_ns) {
        TRITONBACKEND_Response *response;
        TRITONSERVER_Error     *err;
        uint64_t                rows = 1;
        uint64_t                now_ns = clock_now_ns();

        err = TRITONBACKEND_ResponseNew(&response, request);
        if (err == NULL) {
                err = fill(request, response, &rows);
                TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, err);
        }
        TRITONBACKEND_ModelInstanceReportStatistics(instance, request, err == NULL, start_ns,
                                                    start_ns, now_ns, now_ns);
        if (err != NULL)
                TRITONSERVER_ErrorDelete(err);
        TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL);
        return rows;
}

static void wait_at_gate(void) {
        pthread_mutex_lock(&lock);
        while (is_gate_closed)
                pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
}

static TRITONSERVER_Error *execute(TRITONBACKEND_ModelInstance *instance,
                                   TRITONBACKEND_Request **requests, uint32_t n_requests) {
        TRITONSERVER_Error *err = enter_instance(FAKE_EXECUTE, instance);
        uint64_t            start_ns = clock_now_ns();
        uint64_t            rows = 0;

        wait_at_gate();
        if (err != NULL)
                return err;
        for (uint32_t i = 0; i < n_requests; i++)
                rows += answer(instance, requests[i], start_ns);
        return TRITONBACKEND_ModelInstanceReportBatchStatistics(instance, rows, start_ns, start_ns,
                                                                clock_now_ns(), clock_now_ns());
}

/* ---- libraries ------------------------------------------------------------------------------- */

static const struct fake_backend_hooks hooks = {
        .initialize = initialize,
        .finalize = finalize,
        .get_attributes = get_attributes,
        .model_initialize = model_initialize,
        .model_finalize = model_finalize,
        .instance_initialize = instance_initialize,
        .instance_finalize = instance_finalize,
        .instance_ready = instance_ready,
        .execute = execute,
};

struct fake_library fake_library_open(const struct temp_tree *tree, const char *kind,
                                      const char *to) {
        struct fake_library               library = { .path = temp_tree_path(tree, to) };
        const struct fake_backend_hooks **variable;
        AUTO_CHARS                        from = mem_printf("%s/lib%s.so", FAKE_BACKEND_DIR, kind);

        temp_tree_copy(tree, from, to);
        library.native = dlopen(library.path, RTLD_NOW | RTLD_LOCAL);
        if (library.native == NULL)
                fail_msg("%s", dlerror());
        variable = dlsym(library.native, "fake_backend_hooks");
        assert_non_null(variable);
        *variable = &hooks;
        return library;
}

void fake_library_close(struct fake_library *library) {
        assert_int_equal(dlclose(library->native), 0);
        free(library->path);
        *library = (struct fake_library){ 0 };
}

bool fake_library_is_loaded(const char *path) {
        void *native = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);

        if (native == NULL)
                return false;
        dlclose(native);
        return true;
}
