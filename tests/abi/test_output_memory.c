/* SPDX-License-Identifier: BSD-3-Clause */
/* An allocator that is asked where outputs will lie before there are any, and one that answers NULL.
 *
 *   test_output_memory <the probe backend's library>
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

#define N_OUTPUTS 2
#define ID_WANTED 1
#define ID_ANSWERED 2

static const char        config_text[] = "backend: \"probe\"\nruntime: \"libtriton_probe.so\"\n"
                                         "input { name: \"IN\" data_type: TYPE_UINT8 dims: 1 }\n"
                                         "output { name: \"OUT0\" data_type: TYPE_UINT8 dims: -1 }\n"
                                         "output { name: \"OUT1\" data_type: TYPE_UINT8 dims: -1 }\n"
                                         "instance_group { count: 1 kind: KIND_CPU }\n";
static const char *const names[N_OUTPUTS] = { "OUT0", "OUT1" };
static char             *library;

static struct model_place          place;
static struct TRITONSERVER_Server *server;

/* ---- the backend --------------------------------------------------------------------------------- */

enum query { NO_QUERY, QUERY_EACH, QUERY_UNNAMED };

/* What the backend is to do, and what it got. */
static struct {
        enum query query;
        size_t     n_bytes;    /* of each output; of a query without a name: of all of them */
        bool       asks_twice; /* for each buffer */
        void      *buffers[N_OUTPUTS];
} plan;

static TRITONSERVER_Error *ask_where(TRITONBACKEND_Request *request, const char *name,
                                     size_t *n_bytes, TRITONSERVER_MemoryType *type, int64_t *id) {
        *type = TRITONSERVER_MEMORY_CPU_PINNED;
        *id = ID_WANTED;
        return TRITONBACKEND_RequestOutputBufferProperties(request, name, n_bytes, type, id);
}

/* Does not write to the memory. */
static TRITONSERVER_Error *add_output(TRITONBACKEND_Response *response, size_t i,
                                      TRITONSERVER_MemoryType type, int64_t id) {
        const int64_t         shape[] = { (int64_t)plan.n_bytes };
        TRITONBACKEND_Output *output;
        TRITONSERVER_Error   *err;

        err = TRITONBACKEND_ResponseOutput(response, &output, names[i], TRITONSERVER_TYPE_UINT8,
                                           shape, 1);
        for (int n = 0; err == NULL && n <= plan.asks_twice; n++) {
                TRITONSERVER_MemoryType got_type = type;
                int64_t                 got_id = id;

                err = TRITONBACKEND_OutputBuffer(output, &plan.buffers[i], plan.n_bytes, &got_type,
                                                 &got_id);
        }
        return err;
}

static TRITONSERVER_Error *add_outputs(TRITONBACKEND_Request  *request,
                                       TRITONBACKEND_Response *response) {
        TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
        TRITONSERVER_Error     *err = NULL;
        int64_t                 id = 0;
        size_t                  all = plan.n_bytes * N_OUTPUTS;

        if (plan.query == QUERY_UNNAMED)
                err = ask_where(request, NULL, &all, &type, &id);
        for (size_t i = 0; err == NULL && i < N_OUTPUTS; i++) {
                if (plan.query == QUERY_EACH)
                        err = ask_where(request, names[i], NULL, &type, &id);
                if (err == NULL)
                        err = add_output(response, i, type, id);
        }
        return err;
}

static TRITONSERVER_Error *execute(TRITONBACKEND_ModelInstance *instance,
                                   TRITONBACKEND_Request **requests, uint32_t n_requests) {
        TRITONBACKEND_Response *response;
        TRITONSERVER_Error     *err;

        (void)instance, (void)n_requests; /* one: the model does not batch */
        assert_ok(TRITONBACKEND_ResponseNew(&response, requests[0]));
        err = add_outputs(requests[0], response);
        assert_ok(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, err));
        assert_ok(TRITONBACKEND_RequestRelease(requests[0], TRITONSERVER_REQUEST_RELEASE_ALL));
        if (err != NULL)
                TRITONSERVER_ErrorDelete(err);
        return NULL;
}

/* ---- the program's memory ------------------------------------------------------------------------ */

struct call_of_query {
        bool                    has_name;
        char                    name[8];
        bool                    has_bytes;
        size_t                  n_bytes;
        TRITONSERVER_MemoryType type;
        int64_t                 id;
};

struct call_of_give {
        char                    name[8];
        size_t                  n_bytes;
        TRITONSERVER_MemoryType type;
        int64_t                 id;
};

/* The calls of one request's allocator. */
struct calls {
        bool                    gives; /* memory; false: NULL */
        TRITONSERVER_MemoryType answer;
        struct call_of_query    queries[8];
        struct call_of_give     given[8];
        unsigned                n_queries, n_given, n_taken;
};

static struct TRITONSERVER_Error *give(struct TRITONSERVER_ResponseAllocator *a, const char *name,
                                       size_t n_bytes, TRITONSERVER_MemoryType type, int64_t id,
                                       void *userp, void **buffer, void **buffer_userp,
                                       TRITONSERVER_MemoryType *ret_type, int64_t *ret_id) {
        struct calls        *c = userp;
        struct call_of_give *g = &c->given[c->n_given++];

        (void)a, (void)buffer_userp, (void)ret_type, (void)ret_id;
        strncpy(g->name, name, sizeof(g->name) - 1);
        g->n_bytes = n_bytes;
        g->type = type;
        g->id = id;
        if (c->gives)
                *buffer = malloc(n_bytes + 1);
        return NULL; /* as it is wanted; without memory the buffer is not even written */
}

static struct calls *current; /* the release function gets no userp of the request */

static struct TRITONSERVER_Error *take_back(struct TRITONSERVER_ResponseAllocator *a, void *buffer,
                                            void *buffer_userp, size_t n_bytes,
                                            TRITONSERVER_MemoryType type, int64_t id) {
        (void)a, (void)buffer_userp, (void)n_bytes, (void)type, (void)id;
        current->n_taken++;
        free(buffer);
        return NULL;
}

static struct TRITONSERVER_Error *answer(struct TRITONSERVER_ResponseAllocator *a, void *userp,
                                         const char *name, size_t *n_bytes,
                                         TRITONSERVER_MemoryType *type, int64_t *id) {
        struct calls         *c = userp;
        struct call_of_query *q = &c->queries[c->n_queries++];

        (void)a;
        *q = (struct call_of_query){ .has_name = name != NULL,
                                     .has_bytes = n_bytes != NULL,
                                     .n_bytes = n_bytes != NULL ? *n_bytes : 0,
                                     .type = *type,
                                     .id = *id };
        if (name != NULL)
                strncpy(q->name, name, sizeof(q->name) - 1);
        *type = c->answer;
        *id = ID_ANSWERED;
        return NULL;
}

/* ---- requests ------------------------------------------------------------------------------------ */

struct call {
        struct inference                       in;
        struct TRITONSERVER_ResponseAllocator *allocator;
        struct calls                           calls;
};

static void begin(struct call *c, bool has_query) {
        static const uint8_t byte = 1;

        *c = (struct call){ .calls = { .answer = TRITONSERVER_MEMORY_CPU } };
        current = &c->calls;
        plan.query = NO_QUERY;
        plan.n_bytes = 2;
        plan.asks_twice = false;
        memset(plan.buffers, 0, sizeof(plan.buffers));
        assert_ok(TRITONSERVER_ResponseAllocatorNew(&c->allocator, give, take_back, NULL));
        if (has_query)
                assert_ok(TRITONSERVER_ResponseAllocatorSetQueryFunction(c->allocator, answer));
        inference_open(&c->in, server, "m", c->allocator, &c->calls);
        inference_add_input(&c->in, "IN", TRITONSERVER_TYPE_UINT8, 1, &byte);
}

static void end(struct call *c) {
        inference_close(&c->in);
        assert_ok(TRITONSERVER_ResponseAllocatorDelete(c->allocator));
}

static void assert_given(const struct call *c, unsigned i, size_t n_bytes,
                         TRITONSERVER_MemoryType type, int64_t id) {
        const struct call_of_give *g = &c->calls.given[i];

        assert_true(i < c->calls.n_given);
        assert_string_equal(g->name, names[i]);
        assert_int_equal(g->n_bytes, n_bytes);
        assert_int_equal(g->type, type);
        assert_int_equal(g->id, id);
}

/* Both outputs are there, without memory. */
static void assert_nowhere(struct TRITONSERVER_InferenceResponse *response, size_t n_bytes,
                           TRITONSERVER_MemoryType type, int64_t id) {
        assert_ok(TRITONSERVER_InferenceResponseError(response));
        for (uint32_t i = 0; i < N_OUTPUTS; i++) {
                struct inference_output o = inference_output(response, i);

                assert_string_equal(o.name, names[i]);
                assert_null(o.base);
                assert_null(o.userp);
                assert_int_equal(o.n_bytes, n_bytes);
                assert_int_equal(o.shape[0], n_bytes);
                assert_int_equal(o.memory_type, type);
                assert_int_equal(o.memory_id, id);
                assert_null(plan.buffers[i]);
        }
}

/* ---- tests --------------------------------------------------------------------------------------- */

/* The backend asks about each output, and prefers what was answered. Nothing lies anywhere. */
static void test_each_output_is_queried(void **state) {
        struct call c;

        (void)state;
        begin(&c, true);
        plan.query = QUERY_EACH;
        assert_nowhere(inference_run(&c.in), 2, TRITONSERVER_MEMORY_CPU, ID_ANSWERED);
        assert_int_equal(c.calls.n_queries, N_OUTPUTS);
        assert_int_equal(c.calls.n_given, N_OUTPUTS);
        for (unsigned i = 0; i < N_OUTPUTS; i++) {
                const struct call_of_query *q = &c.calls.queries[i];

                assert_string_equal(q->name, names[i]);
                assert_false(q->has_bytes);
                assert_int_equal(q->type, TRITONSERVER_MEMORY_CPU_PINNED);
                assert_int_equal(q->id, ID_WANTED);
                assert_given(&c, i, 2, TRITONSERVER_MEMORY_CPU, ID_ANSWERED);
        }
        inference_drop(&c.in, 0);
        assert_int_equal(c.calls.n_taken, N_OUTPUTS);
        end(&c);
}

/* One question for both: no name, the size of both. The answer is a memory that we do not have. */
static void test_a_query_without_a_name(void **state) {
        struct call c;

        (void)state;
        begin(&c, true);
        plan.query = QUERY_UNNAMED;
        plan.n_bytes = 16;
        c.calls.answer = TRITONSERVER_MEMORY_GPU;
        assert_nowhere(inference_run(&c.in), 16, TRITONSERVER_MEMORY_GPU, ID_ANSWERED);
        assert_int_equal(c.calls.n_queries, 1);
        assert_false(c.calls.queries[0].has_name);
        assert_true(c.calls.queries[0].has_bytes);
        assert_int_equal(c.calls.queries[0].n_bytes, 32);
        assert_int_equal(c.calls.queries[0].type, TRITONSERVER_MEMORY_CPU_PINNED);
        assert_int_equal(c.calls.queries[0].id, ID_WANTED);
        assert_int_equal(c.calls.n_given, N_OUTPUTS);
        for (unsigned i = 0; i < N_OUTPUTS; i++)
                assert_given(&c, i, 16, TRITONSERVER_MEMORY_GPU, ID_ANSWERED);
        end(&c);
}

static void test_an_allocator_without_a_query(void **state) {
        struct call c;

        (void)state;
        begin(&c, false);
        plan.query = QUERY_EACH;
        assert_error(TRITONSERVER_InferenceResponseError(inference_run(&c.in)),
                     TRITONSERVER_ERROR_UNAVAILABLE,
                     "[request id: <id_unknown>] Output properties are not available");
        assert_int_equal(c.calls.n_given, 0);
        end(&c);
}

/* A backend that has not asked expects memory: it would write to the NULL. The same request, without
 * the question, is not remembered as one that was asked about. */
static void test_no_memory_without_a_query(void **state) {
        struct call c;

        (void)state;
        begin(&c, true);
        plan.query = QUERY_EACH;
        assert_nowhere(inference_run(&c.in), 2, TRITONSERVER_MEMORY_CPU, ID_ANSWERED);
        plan.query = NO_QUERY;
        assert_error(TRITONSERVER_InferenceResponseError(inference_run(&c.in)),
                     TRITONSERVER_ERROR_UNAVAILABLE, "no memory was given for output 'OUT0'");
        end(&c);
}

static void test_no_memory_for_no_bytes(void **state) {
        struct call c;

        (void)state;
        begin(&c, false);
        plan.n_bytes = 0;
        assert_nowhere(inference_run(&c.in), 0, TRITONSERVER_MEMORY_CPU, 0);
        assert_int_equal(c.calls.n_given, N_OUTPUTS);
        inference_drop(&c.in, 0);
        assert_int_equal(c.calls.n_taken, N_OUTPUTS);
        end(&c);
}

static void test_memory_is_taken_back(void **state) {
        struct call c;

        (void)state;
        begin(&c, true);
        plan.query = QUERY_EACH;
        c.calls.gives = true;
        assert_ok(TRITONSERVER_InferenceResponseError(inference_run(&c.in)));
        for (unsigned i = 0; i < N_OUTPUTS; i++)
                assert_non_null(plan.buffers[i]);
        inference_drop(&c.in, 0);
        assert_int_equal(c.calls.n_taken, N_OUTPUTS);
        plan.asks_twice = true;
        assert_error(TRITONSERVER_InferenceResponseError(inference_run(&c.in)),
                     TRITONSERVER_ERROR_ALREADY_EXISTS,
                     "allocated buffer for output 'OUT0' already exists");
        inference_drop(&c.in, 0);
        assert_int_equal(c.calls.n_taken, N_OUTPUTS + 1);
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
                cmocka_unit_test(test_each_output_is_queried),
                cmocka_unit_test(test_a_query_without_a_name),
                cmocka_unit_test(test_an_allocator_without_a_query),
                cmocka_unit_test(test_no_memory_without_a_query),
                cmocka_unit_test(test_no_memory_for_no_bytes),
                cmocka_unit_test(test_memory_is_taken_back),
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
