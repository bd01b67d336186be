/* SPDX-License-Identifier: BSD-3-Clause */
#include "testing/testing.h"

#include "kit/model.h"
#include "kit/scratch.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Number of instances made, of all models. */
static atomic_uint_least64_t n_made;

TRITONSERVER_Error *TRITONBACKEND_Initialize(TRITONBACKEND_Backend *backend) {
        (void)backend;
        return kit_check_api_version("testing");
}

TRITONSERVER_Error *TRITONBACKEND_GetBackendAttribute(TRITONBACKEND_Backend          *backend,
                                                      TRITONBACKEND_BackendAttribute *attributes) {
        (void)backend;
        KIT_TRY(TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(
                attributes, TRITONSERVER_INSTANCEGROUPKIND_CPU, 0, NULL, 0));
        return TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(attributes, true);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *triton) {
        struct testing_model *model;

        KIT_TRY(testing_model_new(triton, &model));
        return TRITONBACKEND_ModelSetState(triton, model);
}

TRITONSERVER_Error *TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model *triton) {
        void *model;

        KIT_TRY(TRITONBACKEND_ModelState(triton, &model));
        if (model != NULL)
                testing_model_free(model);
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance *triton) {
        struct testing_instance *instance;
        struct testing_model    *model;
        TRITONBACKEND_Model     *of;
        void                    *state;

        KIT_TRY(TRITONBACKEND_ModelInstanceModel(triton, &of));
        KIT_TRY(TRITONBACKEND_ModelState(of, &state));
        model = state;
        KIT_TRY(testing_pass_instance(model));
        if (model->fail_instance != NULL)
                return kit_error(TRITONSERVER_ERROR_INTERNAL, "%s", model->fail_instance);
        instance = kit_alloc_array(1, sizeof(*instance));
        if (instance == NULL)
                return kit_error_no_memory(sizeof(*instance), "an instance");
        instance->model = model;
        instance->serial = (int64_t)atomic_fetch_add(&n_made, 1) + 1;
        KIT_TRY(TRITONBACKEND_ModelInstanceName(triton, &instance->name));
        KIT_TRY(testing_memory_open(instance, triton));
        KIT_TRY(testing_life_begin(instance, triton));
        return TRITONBACKEND_ModelInstanceSetState(triton, instance);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance *triton) {
        void *instance;

        KIT_TRY(TRITONBACKEND_ModelInstanceState(triton, &instance));
        if (instance != NULL) {
                testing_life_note(instance, "end");
                testing_sequences_free(instance);
                testing_memory_close(instance);
        }
        free(instance);
        return NULL;
}

static int64_t count_rows(const struct testing_model *model, TRITONBACKEND_Request *request) {
        TRITONBACKEND_Input *input;
        const int64_t       *shape = NULL;
        uint32_t             n_dims = 0;
        TRITONSERVER_Error  *err;

        if (model->kit.max_batch_size == 0)
                return 1;
        err = TRITONBACKEND_RequestInputByIndex(request, 0, &input);
        if (err == NULL)
                err = TRITONBACKEND_InputProperties(input, NULL, NULL, &shape, &n_dims, NULL, NULL);
        if (err != NULL)
                TRITONSERVER_ErrorDelete(err);
        return n_dims > 0 ? shape[0] : 1;
}

/* A decoupled model answers through response factories, so no batch holds responses. */
static void execute_decoupled(struct testing_execution    *execution,
                              TRITONBACKEND_ModelInstance *triton,
                              TRITONBACKEND_Request      **requests) {
        struct kit_stats stats = { .exec_start = kit_clock_ns() };

        stats.compute_start = stats.exec_start;
        for (uint32_t i = 0; i < execution->n_requests; i++) {
                int64_t             rows = count_rows(execution->instance->model, requests[i]);
                TRITONSERVER_Error *err = testing_answer_many(execution, requests[i], rows);

                stats.compute_end = stats.exec_end = kit_clock_ns();
                kit_stats_report(&stats, triton, requests[i], err == NULL);
                kit_error_log(err, "a request of a decoupled model failed");
                kit_error_log(TRITONBACKEND_RequestRelease(requests[i],
                                                           TRITONSERVER_REQUEST_RELEASE_ALL),
                              "failed to release a request");
        }
        kit_stats_report_batch(&stats, triton, execution->n_rows);
}

/* The server ends the request's sequence. */
static void close_sequence(struct testing_execution *execution, TRITONBACKEND_ModelInstance *triton,
                           TRITONBACKEND_Request *request, const struct kit_stats *stats) {
        TRITONSERVER_Error *err = kit_error(TRITONSERVER_ERROR_CANCELLED, "the sequence is closed");

        testing_sequence_forget(execution->instance, request);
        TRITONSERVER_ErrorDelete(testing_refuse(request, err));
        kit_stats_report(stats, triton, request, false);
        kit_stats_report_batch(stats, triton, 1);
        kit_error_log(TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL),
                      "failed to release a request");
}

/* Runs one step of each request; the server sends unfinished requests again. */
static void execute_step(struct testing_execution *execution, TRITONBACKEND_ModelInstance *triton,
                         TRITONBACKEND_Request *request) {
        const struct testing_model *model = execution->instance->model;
        struct testing_sequence    *sequence = testing_sequence_of(execution->instance, request);
        int64_t                     n = model->n_iterations;
        struct kit_stats            stats = { .exec_start = kit_clock_ns() };
        struct testing_addresses    unused;
        bool                        is_last;

        kit_error_log(testing_sequence_note(execution->instance, request),
                      "failed to write the sequence_log");
        if (testing_sequence_is_closing(request)) {
                stats.compute_start = stats.compute_end = stats.exec_end = stats.exec_start;
                close_sequence(execution, triton, request, &stats);
                return;
        }
        if (sequence != NULL)
                n = sequence->n_executions =
                        testing_sequence_begins(request) ? 1 : sequence->n_executions + 1;
        is_last = n >= model->n_iterations;
        stats.compute_start = stats.compute_end = stats.exec_end = stats.exec_start;
        kit_error_log(testing_states_step(execution->instance, request, false, &unused),
                      "failed to make the next states");
        if (is_last || model->is_decoupled)
                kit_error_log(testing_answer_step(execution, request, count_rows(model, request),
                                                  n - 1, is_last),
                              "failed to answer a step");
        if (!is_last) {
                TRITONSERVER_Error *err =
                        TRITONBACKEND_RequestRelease(request,
                                                     TRITONSERVER_REQUEST_RELEASE_RESCHEDULE);

                kit_stats_report_batch(&stats, triton, 1);
                if (err == NULL)
                        return;
                TRITONSERVER_ErrorDelete(testing_refuse(request, err));
        }
        kit_stats_report(&stats, triton, request, is_last);
        if (is_last)
                kit_stats_report_batch(&stats, triton, 1);
        kit_error_log(TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL),
                      "failed to release a request");
}

static TRITONSERVER_Error *execute_batch(struct testing_execution    *execution,
                                         TRITONBACKEND_ModelInstance *triton,
                                         TRITONBACKEND_Request      **requests) {
        struct kit_batch batch;
        struct kit_slot *slot;

        KIT_TRY(kit_batch_open(&batch, triton, requests, execution->n_requests));
        kit_batch_read_rows(&batch, execution->instance->model->kit.max_batch_size);
        for (slot = kit_batch_live(&batch, batch.slots); slot != NULL;
             slot = kit_batch_live(&batch, slot + 1)) {
                TRITONSERVER_Error *err = testing_answer(execution, slot);

                if (err != NULL)
                        kit_batch_fail(&batch, slot, err);
        }
        kit_batch_close(&batch);
        return NULL;
}

/* Raises SIGBUS: there is no page beyond the end of a file. */
static void touch_no_page(void) {
        volatile char *page;
        FILE          *empty = tmpfile();

        if (empty == NULL)
                abort();
        page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(empty), 0);
        if (page != MAP_FAILED)
                (void)*page;
}

/* Recursion that no compiler recognises as endless. */
static int overflow(volatile int *depth) {
        volatile char frame[4096];

        frame[0] = (char)*depth;
        return ++*depth > 0 ? overflow(depth) + frame[0] : frame[0];
}

/* Ends the process as the model's parameter says; returns for names that it does not know. */
static void crash(const char *how) {
        volatile int *volatile nowhere = NULL;
        volatile int depth = 0;

        if (strcmp(how, "SIGSEGV") == 0)
                *nowhere = 1;
        else if (strcmp(how, "SIGBUS") == 0)
                touch_no_page();
        else if (strcmp(how, "SIGABRT") == 0)
                abort();
        else if (strcmp(how, "SIGFPE") == 0)
                raise(SIGFPE); /* a division by zero does not fail on every machine */
        else if (strcmp(how, "SIGILL") == 0)
                __builtin_trap();
        else if (strcmp(how, "overflow") == 0)
                overflow(&depth);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *triton,
                                                       TRITONBACKEND_Request      **requests,
                                                       const uint32_t               n_requests) {
        struct testing_execution execution = { .n_requests = n_requests };
        struct testing_model    *model;
        void                    *state;

        KIT_TRY(TRITONBACKEND_ModelInstanceState(triton, &state));
        execution.instance = state;
        model = execution.instance->model;
        execution.number = atomic_fetch_add(&model->n_executions, 1) + 1;
        testing_life_note(execution.instance, "execute");
        for (uint32_t i = 0; i < n_requests; i++)
                execution.n_rows += count_rows(model, requests[i]);
        KIT_TRY(testing_pause(model, execution.n_rows, n_requests));
        if (model->crash != NULL)
                crash(model->crash);
        if (model->fail_execute != NULL)
                return kit_error(TRITONSERVER_ERROR_INTERNAL, "%s", model->fail_execute);
        if (model->n_iterations > 0) {
                for (uint32_t i = 0; i < n_requests; i++)
                        execute_step(&execution, triton, requests[i]);
                return NULL;
        }
        if (!model->is_decoupled)
                return execute_batch(&execution, triton, requests);
        execute_decoupled(&execution, triton, requests);
        return NULL;
}
