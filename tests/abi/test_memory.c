/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of a program that embeds the server, as a backend sees it: inputs of several buffers, for
 * host policies, with attributes and without a name; where an output will lie, before there is one.
 *
 *   test_memory <the probe backend's library>
 *
 * The backend's executions are functions of this file (probe_backend.c).
 */
#include "api_assert.h"
#include "embedded.h"
#include "model_place.h"
#include "triton/core/tritonbackend.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX_BUFFERS 4

static const char config_text[] = "backend: \"probe\"\nruntime: \"libtriton_probe.so\"\n"
                                  "input { name: \"INPUT0\" data_type: TYPE_FP32 dims: -1 }\n"
                                  "output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: -1 }\n"
                                  "instance_group { count: 1 kind: KIND_CPU }\n";
static char      *library;

static struct model_place          place;
static struct TRITONSERVER_Server *server;

/* ---- the backend: what it saw, for the test to look at ------------------------------------------ */

struct buffer {
        const void             *base;
        uint64_t                n_bytes;
        TRITONSERVER_MemoryType type;
        int64_t                 id;
};

static struct {
        /* of the query */
        struct TRITONSERVER_Error *err; /* owned */
        size_t                     n_bytes;
        bool                       asks_size;
        TRITONSERVER_MemoryType    type;
        int64_t                    id;
        /* of the input */
        const char   *policy; /* to be asked for; NULL: for none */
        struct buffer buffers[MAX_BUFFERS];
        uint32_t      n_buffers;
        uint64_t      n_input_bytes;
        /* of the output */
        TRITONSERVER_MemoryType out_type;
        int64_t                 out_id;
        size_t                  out_bytes;
} seen;

static TRITONSERVER_Error *look_at_input(TRITONBACKEND_Request *request) {
        TRITONBACKEND_Input *input;
        TRITONSERVER_Error  *err = TRITONBACKEND_RequestInput(request, "INPUT0", &input);

        if (err == NULL)
                err = TRITONBACKEND_InputPropertiesForHostPolicy(input, seen.policy, NULL, NULL,
                                                                 NULL, NULL, &seen.n_input_bytes,
                                                                 &seen.n_buffers);
        for (uint32_t i = 0; err == NULL && i < seen.n_buffers && i < MAX_BUFFERS; i++) {
                struct buffer *b = &seen.buffers[i];

                err = TRITONBACKEND_InputBufferForHostPolicy(input, seen.policy, i, &b->base,
                                                             &b->n_bytes, &b->type, &b->id);
        }
        return err;
}

/* Two values; where they lie is up to whoever asked. */
static TRITONSERVER_Error *fill(TRITONBACKEND_Response *response) {
        static const int64_t           shape[] = { 2 };
        static const float             values[] = { 1, 2 };
        TRITONSERVER_MemoryType        type = TRITONSERVER_MEMORY_CPU;
        TRITONSERVER_BufferAttributes *attributes;
        TRITONBACKEND_Output          *output;
        TRITONSERVER_Error            *err;
        int64_t                        id = 0;
        void                          *buffer;

        err = TRITONBACKEND_ResponseOutput(response, &output, "OUTPUT0", TRITONSERVER_TYPE_FP32,
                                           shape, 1);
        if (err == NULL)
                err = TRITONBACKEND_OutputBuffer(output, &buffer, sizeof(values), &type, &id);
        if (err != NULL)
                return err;
        memcpy(buffer, values, sizeof(values));
        assert_ok(TRITONBACKEND_OutputBufferAttributes(output, &attributes));
        assert_ok(TRITONSERVER_BufferAttributesMemoryType(attributes, &seen.out_type));
        assert_ok(TRITONSERVER_BufferAttributesMemoryTypeId(attributes, &seen.out_id));
        assert_ok(TRITONSERVER_BufferAttributesByteSize(attributes, &seen.out_bytes));
        return NULL;
}

static TRITONSERVER_Error *execute(TRITONBACKEND_ModelInstance *instance,
                                   TRITONBACKEND_Request **requests, uint32_t n_requests) {
        TRITONBACKEND_Response *response;
        TRITONSERVER_Error     *err;

        (void)instance, (void)n_requests; /* one: the model does not batch */
        seen.type = TRITONSERVER_MEMORY_CPU;
        seen.id = 0;
        seen.err =
                TRITONBACKEND_RequestOutputBufferProperties(requests[0], "OUTPUT0",
                                                            seen.asks_size ? &seen.n_bytes : NULL,
                                                            &seen.type, &seen.id);
        assert_ok(TRITONBACKEND_ResponseNew(&response, requests[0]));
        err = look_at_input(requests[0]);
        if (err == NULL)
                err = fill(response);
        assert_ok(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, err));
        assert_ok(TRITONBACKEND_RequestRelease(requests[0], TRITONSERVER_REQUEST_RELEASE_ALL));
        if (err != NULL)
                TRITONSERVER_ErrorDelete(err);
        return NULL;
}

/* ---- the program's memory ------------------------------------------------------------------------ */

#define GIVEN_ID 5
#define SAID_ID 7

static struct {
        const char *fails; /* the query does, with this */
        const char *output;
        void       *userp;
        size_t     *n_bytes;
} asked;

static struct TRITONSERVER_Error *give(struct TRITONSERVER_ResponseAllocator *a, const char *name,
                                       size_t n_bytes, TRITONSERVER_MemoryType type, int64_t id,
                                       void *userp, void **buffer, void **buffer_userp,
                                       TRITONSERVER_MemoryType *ret_type, int64_t *ret_id) {
        (void)a, (void)name, (void)type, (void)id, (void)userp;
        *buffer = malloc(n_bytes + 1);
        *buffer_userp = NULL;
        *ret_type = TRITONSERVER_MEMORY_CPU;
        *ret_id = GIVEN_ID;
        return NULL;
}

static struct TRITONSERVER_Error *take_back(struct TRITONSERVER_ResponseAllocator *a, void *buffer,
                                            void *buffer_userp, size_t n_bytes,
                                            TRITONSERVER_MemoryType type, int64_t id) {
        (void)a, (void)buffer_userp, (void)n_bytes, (void)type, (void)id;
        free(buffer);
        return NULL;
}

static struct TRITONSERVER_Error *query(struct TRITONSERVER_ResponseAllocator *a, void *userp,
                                        const char *name, size_t *n_bytes,
                                        TRITONSERVER_MemoryType *type, int64_t *id) {
        (void)a;
        asked.output = name != NULL && strcmp(name, "OUTPUT0") == 0 ? "OUTPUT0" : NULL;
        asked.userp = userp;
        asked.n_bytes = n_bytes;
        if (asked.fails != NULL)
                return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_NOT_FOUND, asked.fails);
        assert_int_equal(*type, TRITONSERVER_MEMORY_CPU);
        if (n_bytes != NULL)
                *n_bytes = 8;
        *type = TRITONSERVER_MEMORY_CPU_PINNED;
        *id = GIVEN_ID;
        return NULL;
}

static struct TRITONSERVER_Error *tell(struct TRITONSERVER_ResponseAllocator *a, const char *name,
                                       struct TRITONSERVER_BufferAttributes *attributes,
                                       void *userp, void *buffer_userp) {
        (void)a, (void)name, (void)userp, (void)buffer_userp;
        return TRITONSERVER_BufferAttributesSetMemoryTypeId(attributes, SAID_ID);
}

/* ---- inferences ---------------------------------------------------------------------------------- */

/* One request, and an allocator that it alone has. */
struct call {
        struct inference                       in;
        struct TRITONSERVER_ResponseAllocator *allocator;
};

/* A request without inputs. */
static void begin(struct call *c) {
        assert_ok(TRITONSERVER_ResponseAllocatorNew(&c->allocator, give, take_back, NULL));
        inference_open(&c->in, server, "m", c->allocator, &asked);
}

static void add_input(struct call *c, int64_t n) {
        assert_ok(TRITONSERVER_InferenceRequestAddInput(c->in.request, "INPUT0",
                                                        TRITONSERVER_TYPE_FP32, &n, 1));
}

static void append(struct call *c, const float *values, size_t n) {
        assert_ok(TRITONSERVER_InferenceRequestAppendInputData(c->in.request, "INPUT0", values,
                                                               n * sizeof(*values),
                                                               TRITONSERVER_MEMORY_CPU, 0));
}

static void run(struct call *c) {
        assert_ok(TRITONSERVER_InferenceResponseError(inference_run(&c->in)));
}

static void end(struct call *c) {
        inference_close(&c->in);
        assert_ok(TRITONSERVER_ResponseAllocatorDelete(c->allocator));
}

/* ---- tests --------------------------------------------------------------------------------------- */

static const float values[6] = { 1, 2, 3, 4, 5, 6 };

static void test_query(void **state) {
        struct call c;

        (void)state;
        begin(&c);
        add_input(&c, 1);
        append(&c, values, 1);
        run(&c);
        assert_error(seen.err, TRITONSERVER_ERROR_UNAVAILABLE,
                     "[request id: <id_unknown>] Output properties are not available");

        assert_ok(TRITONSERVER_ResponseAllocatorSetQueryFunction(c.allocator, query));
        seen.asks_size = true;
        run(&c);
        assert_ok(seen.err);
        assert_string_equal(asked.output, "OUTPUT0");
        assert_ptr_equal(asked.userp, &asked);
        assert_int_equal(seen.n_bytes, 8);
        assert_int_equal(seen.type, TRITONSERVER_MEMORY_CPU_PINNED);
        assert_int_equal(seen.id, GIVEN_ID);

        seen.asks_size = false; /* nobody knows it yet */
        run(&c);
        assert_ok(seen.err);
        assert_null(asked.n_bytes);

        asked.fails = "no idea";
        run(&c);
        assert_error(seen.err, TRITONSERVER_ERROR_NOT_FOUND, "no idea");
        asked.fails = NULL;
        end(&c);
}

static void test_output_attributes(void **state) {
        struct call c;

        (void)state;
        begin(&c);
        add_input(&c, 1);
        append(&c, values, 1);
        run(&c);
        assert_int_equal(seen.out_type, TRITONSERVER_MEMORY_CPU);
        assert_int_equal(seen.out_id, GIVEN_ID);
        assert_int_equal(seen.out_bytes, 8);
        TRITONSERVER_ErrorDelete(seen.err);
        assert_ok(TRITONSERVER_ResponseAllocatorSetBufferAttributesFunction(c.allocator, tell));
        run(&c);
        assert_int_equal(seen.out_id, SAID_ID);
        assert_int_equal(seen.out_bytes, 8);
        TRITONSERVER_ErrorDelete(seen.err);
        end(&c);
}

static void assert_buffer(uint32_t i, const void *base, size_t n, TRITONSERVER_MemoryType type,
                          int64_t id) {
        assert_ptr_equal(seen.buffers[i].base, base);
        assert_int_equal(seen.buffers[i].n_bytes, n * sizeof(float));
        assert_int_equal(seen.buffers[i].type, type);
        assert_int_equal(seen.buffers[i].id, id);
}

/* In their order, not copied; what is empty does not count. */
static void test_several_buffers(void **state) {
        struct TRITONSERVER_BufferAttributes *attributes;
        struct call                           c;

        (void)state;
        begin(&c);
        add_input(&c, 6);
        append(&c, values, 1);
        append(&c, values, 0);
        append(&c, &values[1], 2);
        assert_ok(TRITONSERVER_BufferAttributesNew(&attributes));
        assert_ok(TRITONSERVER_BufferAttributesSetMemoryType(attributes,
                                                             TRITONSERVER_MEMORY_CPU_PINNED));
        assert_ok(TRITONSERVER_BufferAttributesSetMemoryTypeId(attributes, 3));
        assert_ok(TRITONSERVER_BufferAttributesSetByteSize(attributes, 3 * sizeof(float)));
        assert_ok(TRITONSERVER_InferenceRequestAppendInputDataWithBufferAttributes(
                c.in.request, "INPUT0", &values[3], attributes));
        assert_ok(TRITONSERVER_BufferAttributesDelete(attributes)); /* was copied */
        run(&c);
        assert_int_equal(seen.n_buffers, 3);
        assert_int_equal(seen.n_input_bytes, sizeof(values));
        assert_buffer(0, values, 1, TRITONSERVER_MEMORY_CPU, 0);
        assert_buffer(1, &values[1], 2, TRITONSERVER_MEMORY_CPU, 0);
        assert_buffer(2, &values[3], 3, TRITONSERVER_MEMORY_CPU_PINNED, 3);
        TRITONSERVER_ErrorDelete(seen.err);

        /* The request is used again, with other bytes. */
        assert_ok(TRITONSERVER_InferenceRequestRemoveAllInputData(c.in.request, "INPUT0"));
        append(&c, values, 6);
        run(&c);
        assert_int_equal(seen.n_buffers, 1);
        assert_buffer(0, values, 6, TRITONSERVER_MEMORY_CPU, 0);
        TRITONSERVER_ErrorDelete(seen.err);
        end(&c);
}

static void test_host_policies(void **state) {
        static const float nearer[2] = { 8, 9 };
        struct call        c;

        (void)state;
        begin(&c);
        add_input(&c, 2);
        append(&c, values, 2);
        assert_ok(TRITONSERVER_InferenceRequestAppendInputDataWithHostPolicy(
                c.in.request, "INPUT0", nearer, sizeof(nearer), TRITONSERVER_MEMORY_CPU, 0,
                "near"));
        seen.policy = "near";
        run(&c);
        assert_int_equal(seen.n_buffers, 1);
        assert_buffer(0, nearer, 2, TRITONSERVER_MEMORY_CPU, 0);
        TRITONSERVER_ErrorDelete(seen.err);
        seen.policy = "far"; /* has none of its own */
        run(&c);
        assert_int_equal(seen.n_buffers, 1);
        assert_buffer(0, values, 2, TRITONSERVER_MEMORY_CPU, 0);
        TRITONSERVER_ErrorDelete(seen.err);
        seen.policy = NULL;
        run(&c);
        assert_int_equal(seen.n_buffers, 1);
        assert_buffer(0, values, 2, TRITONSERVER_MEMORY_CPU, 0);
        TRITONSERVER_ErrorDelete(seen.err);
        end(&c);
}

/* Bytes alone: the model's one input, its shape by the number of bytes. */
static void test_raw_input(void **state) {
        struct call c;

        (void)state;
        begin(&c);
        assert_ok(TRITONSERVER_InferenceRequestAddRawInput(c.in.request, "INPUT0"));
        append(&c, values, 5);
        run(&c);
        assert_int_equal(seen.n_input_bytes, 5 * sizeof(float));
        TRITONSERVER_ErrorDelete(seen.err);
        end(&c);
}

/* ---- the server ---------------------------------------------------------------------------------- */

static int open_server(void **state) {
        void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);

        (void)state;
        model_place_open(&place);
        model_place_add_model(&place, "m", config_text, library);
        assert_non_null(handle);
        *(void **)dlsym(handle, "probe_execute") = (void *)execute;
        server = embedded_start(embedded_options(place.root, NULL));
        return 0;
}

static int close_server(void **state) {
        (void)state;
        assert_ok(TRITONSERVER_ServerDelete(server));
        model_place_close(&place);
        return 0;
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_query),           cmocka_unit_test(test_output_attributes),
                cmocka_unit_test(test_several_buffers), cmocka_unit_test(test_host_policies),
                cmocka_unit_test(test_raw_input),
        };

        if (argc != 2)
                return 2;
        library = realpath(argv[1], NULL);
        if (library == NULL)
                return 2;
        int failed = cmocka_run_group_tests(tests, open_server, close_server);

        free(library);
        return failed;
}
