/* SPDX-License-Identifier: BSD-3-Clause */
/* Several servers in one process, side by side and one after the other; stopping with requests in
 * flight; what an allocator may do.
 *
 *   test_servers <directory of backends>
 *
 * Each server has a repository of its own with one model of the testing backend, "m", which takes a
 * while for each execution, and one of the identity backend, "id".
 */
#include "api_assert.h"
#include "embedded.h"
#include "model_place.h"
#include "triton/core/neso.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX_REQUESTS 8

static const char *backend_directory;

/* ---- a server --------------------------------------------------------------------------------- */

struct place {
        struct model_place          models;
        struct TRITONSERVER_Server *server;
};

#define TENSORS                                                                                    \
        "input { name: \"INPUT0\" data_type: TYPE_FP32 dims: -1 }\n"                               \
        "output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: -1 }\n"                             \
        "instance_group { count: 1 kind: KIND_CPU }\n"

static void place_open(struct place *p, const char *id, const char *delay_ms) {
        struct TRITONSERVER_ServerOptions *options;
        char                               config[1024];

        model_place_open(&p->models);
        snprintf(config, sizeof(config),
                 "backend: \"testing\"\n" TENSORS
                 "parameters { key: \"execute_delay_ms\" value { string_value: \"%s\" } }\n",
                 delay_ms);
        model_place_add_model(&p->models, "m", config, NULL);
        model_place_add_model(&p->models, "id", "backend: \"identity\"\n" TENSORS, NULL);

        options = embedded_options(p->models.root, backend_directory);
        assert_ok(TRITONSERVER_ServerOptionsSetServerId(options, id));
        assert_ok(TRITONSERVER_ServerOptionsSetExitTimeout(options, 30));
        p->server = embedded_start(options);
}

static void place_close(struct place *p) {
        assert_ok(TRITONSERVER_ServerDelete(p->server));
        model_place_close(&p->models);
}

/* ---- inferences ------------------------------------------------------------------------------- */

/* Guards what the allocator counts. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* What an allocator does, and saw. */
struct memory {
        struct TRITONSERVER_ResponseAllocator *allocator;
        TRITONSERVER_MemoryType                type;
        int64_t                                id;
        const char                            *fail; /* alloc answers with it */
        const char                            *fail_start;
        size_t                                 last_size;
        int n_started, n_given, n_empty, n_taken_back, n_attributes;
};

static struct memory memory;

static struct TRITONSERVER_Error *start(struct TRITONSERVER_ResponseAllocator *a, void *userp) {
        struct memory *m = userp;

        (void)a;
        m->n_started++;
        return m->fail_start != NULL
                       ? TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, m->fail_start)
                       : NULL;
}

static struct TRITONSERVER_Error *give(struct TRITONSERVER_ResponseAllocator *a, const char *name,
                                       size_t byte_size, TRITONSERVER_MemoryType wanted_type,
                                       int64_t wanted_id, void *userp, void **buffer,
                                       void **buffer_userp, TRITONSERVER_MemoryType *type,
                                       int64_t *id) {
        struct memory *m = userp;

        (void)a, (void)wanted_type, (void)wanted_id;
        if (m->fail != NULL)
                return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, m->fail);
        pthread_mutex_lock(&lock);
        if (strcmp(name, "OUTPUT0") == 0)
                m->n_given++;
        m->n_empty += byte_size == 0;
        m->last_size = byte_size;
        pthread_mutex_unlock(&lock);
        *buffer = byte_size > 0 ? malloc(byte_size) : NULL;
        *buffer_userp = m;
        *type = m->type;
        *id = m->id;
        return NULL;
}

static struct TRITONSERVER_Error *take_back(struct TRITONSERVER_ResponseAllocator *a, void *buffer,
                                            void *buffer_userp, size_t byte_size,
                                            TRITONSERVER_MemoryType type, int64_t id) {
        struct memory *m = buffer_userp;

        (void)a, (void)byte_size;
        pthread_mutex_lock(&lock);
        m->n_taken_back += type == m->type && id == m->id;
        pthread_mutex_unlock(&lock);
        free(buffer);
        return NULL;
}

static struct TRITONSERVER_Error *tell_attributes(struct TRITONSERVER_ResponseAllocator *a,
                                                  const char                            *name,
                                                  struct TRITONSERVER_BufferAttributes  *attributes,
                                                  void *userp, void *buffer_userp) {
        struct memory *m = userp;
        size_t         byte_size = 99;

        (void)a, (void)name;
        assert_ok(TRITONSERVER_BufferAttributesByteSize(attributes, &byte_size));
        assert_ptr_equal(buffer_userp, m);
        pthread_mutex_lock(&lock);
        m->n_attributes += byte_size == m->last_size;
        pthread_mutex_unlock(&lock);
        return NULL;
}

static const float numbers[4] = { 1, -2.5f, 3e9f, 0 };

static void submit(struct TRITONSERVER_Server *server, const char *model, int64_t n,
                   struct inference *ret) {
        inference_open(ret, server, model, memory.allocator, &memory);
        inference_add_input(ret, "INPUT0", TRITONSERVER_TYPE_FP32, n, numbers);
        inference_start(ret);
}

/* The first n numbers, in the memory that the allocator gave. */
static void assert_answer(struct inference *in, int64_t n) {
        struct inference_output out;

        inference_wait(in, 1, INFERENCE_ENDS);
        out = inference_output(in->responses[0], 0);
        assert_int_equal(out.n_dims, 1);
        assert_int_equal(out.shape[0], n);
        assert_int_equal(out.n_bytes, (size_t)n * sizeof(float));
        if (n > 0)
                assert_memory_equal(out.base, numbers, out.n_bytes);
        assert_int_equal(out.memory_type, memory.type);
        assert_int_equal(out.memory_id, memory.id);
        assert_ptr_equal(out.userp, &memory);
}

static void infer(struct TRITONSERVER_Server *server, const char *model, int64_t n) {
        struct inference in;

        submit(server, model, n, &in);
        assert_answer(&in, n);
        inference_close(&in);
}

static int make_memory(void **state) {
        (void)state;
        memory = (struct memory){ .type = TRITONSERVER_MEMORY_CPU };
        assert_ok(TRITONSERVER_ResponseAllocatorNew(&memory.allocator, give, take_back, start));
        assert_ok(TRITONSERVER_ResponseAllocatorSetBufferAttributesFunction(memory.allocator,
                                                                            tell_attributes));
        return 0;
}

static int end_memory(void **state) {
        (void)state;
        assert_ok(TRITONSERVER_ResponseAllocatorDelete(memory.allocator));
        return 0;
}

/* ---- side by side ----------------------------------------------------------------------------- */

static bool has_text(struct TRITONSERVER_Message *message, const char *part) {
        const char *base;
        size_t      n;
        bool        found;

        assert_ok(TRITONSERVER_MessageSerializeToJson(message, &base, &n));
        found = memmem(base, n, part, strlen(part)) != NULL;
        assert_ok(TRITONSERVER_MessageDelete(message));
        return found;
}

static bool counts(struct TRITONSERVER_Server *server, const char *part) {
        struct TRITONSERVER_Message *message;

        assert_ok(TRITONSERVER_ServerModelStatistics(server, "id", -1, &message));
        return has_text(message, part);
}

static bool measures(struct TRITONSERVER_Server *server, const char *line) {
        struct TRITONSERVER_Metrics *metrics;
        const char                  *base;
        size_t                       n;
        bool                         found;

        assert_ok(TRITONSERVER_ServerMetrics(server, &metrics));
        assert_ok(
                TRITONSERVER_MetricsFormatted(metrics, TRITONSERVER_METRIC_PROMETHEUS, &base, &n));
        found = memmem(base, n, line, strlen(line)) != NULL;
        assert_ok(TRITONSERVER_MetricsDelete(metrics));
        return found;
}

static void test_side_by_side(void **state) {
        struct TRITONSERVER_MetricFamily *family;
        struct TRITONSERVER_Metric       *metric;
        struct TRITONSERVER_Message      *message;
        struct place                      a, b;

        (void)state;
        place_open(&a, "first", "0");
        place_open(&b, "second", "0");
        assert_ok(TRITONSERVER_ServerMetadata(a.server, &message));
        assert_true(has_text(message, "\"first\""));
        assert_ok(TRITONSERVER_ServerMetadata(b.server, &message));
        assert_true(has_text(message, "\"second\""));

        infer(a.server, "id", 3);
        infer(a.server, "id", 4);
        infer(b.server, "id", 2);
        assert_true(counts(a.server, "\"inference_count\":2,"));
        assert_true(counts(b.server, "\"inference_count\":1,"));
        assert_true(measures(a.server, "nv_inference_count{model=\"id\",version=\"1\"} 2\n"));
        assert_true(measures(b.server, "nv_inference_count{model=\"id\",version=\"1\"} 1\n"));

        /* Metrics of the program's own are the process's. */
        assert_ok(TRITONSERVER_MetricFamilyNew(&family, TRITONSERVER_METRIC_KIND_GAUGE, "own_gauge",
                                               "what the program says"));
        assert_ok(TRITONSERVER_MetricNew(&metric, family, NULL, 0));
        assert_ok(TRITONSERVER_MetricSet(metric, 2.5));
        assert_true(measures(a.server, "own_gauge 2.5\n"));
        assert_true(measures(b.server, "own_gauge 2.5\n"));

        place_close(&a);
        infer(b.server, "id", 1);
        infer(b.server, "m", 1);
        assert_true(measures(b.server, "nv_inference_count{model=\"id\",version=\"1\"} 2\n"));
        assert_true(measures(b.server, "own_gauge 2.5\n"));
        place_close(&b);
        assert_ok(TRITONSERVER_MetricDelete(metric));
        assert_ok(TRITONSERVER_MetricFamilyDelete(family));
}

static void test_one_after_the_other(void **state) {
        (void)state;
        for (int i = 0; i < 10; i++) {
                struct place p;

                place_open(&p, "again", "0");
                infer(p.server, "id", 4);
                infer(p.server, "m", 4);
                assert_true(counts(p.server, "\"inference_count\":1,"));
                place_close(&p);
        }
}

/* ---- stopping --------------------------------------------------------------------------------- */

static void test_stop_in_flight(void **state) {
        struct inference all[MAX_REQUESTS], late;
        struct place     p;
        bool             is_live = true;

        (void)state;
        place_open(&p, "stops", "20");
        for (int i = 0; i < MAX_REQUESTS; i++)
                submit(p.server, "m", 2, &all[i]);
        assert_ok(TRITONSERVER_ServerSetExitTimeout(p.server, 0));
        assert_error(TRITONSERVER_ServerStop(p.server), TRITONSERVER_ERROR_INTERNAL,
                     "Exit timeout expired. Exiting immediately.");
        assert_error(TRITONSERVER_ServerIsLive(p.server, &is_live), TRITONSERVER_ERROR_UNAVAILABLE,
                     "Server exiting");
        assert_false(is_live);
        assert_error(TRITONSERVER_InferenceRequestNew(&late.request, p.server, "m", -1),
                     TRITONSERVER_ERROR_UNAVAILABLE, "Server not ready");
        assert_error(TRITONSERVER_ServerDelete(p.server), TRITONSERVER_ERROR_INTERNAL,
                     "Exit timeout expired. Exiting immediately.");
        for (int i = 0; i < MAX_REQUESTS; i++) {
                assert_answer(&all[i], 2); /* what was accepted is answered */
                inference_close(&all[i]);
        }
        assert_ok(TRITONSERVER_ServerSetExitTimeout(p.server, 30));
        assert_ok(TRITONSERVER_ServerStop(p.server));
        assert_ok(TRITONSERVER_ServerStop(p.server));
        place_close(&p);
}

struct stopper {
        struct place *place;
        pthread_t     thread;
};

static void *stop_on_thread(void *arg) {
        return TRITONSERVER_ServerStop(((struct stopper *)arg)->place->server);
}

/* The stop waits for requests that are in flight, and for nothing else. */
static void test_stop_waits(void **state) {
        struct inference all[MAX_REQUESTS];
        struct place     p;
        struct stopper   s = { .place = &p };
        void            *err;

        (void)state;
        place_open(&p, "waits", "20");
        for (int i = 0; i < MAX_REQUESTS; i++)
                submit(p.server, "m", 1, &all[i]);
        assert_int_equal(pthread_create(&s.thread, NULL, stop_on_thread, &s), 0);
        for (int i = 0; i < MAX_REQUESTS; i++) {
                assert_answer(&all[i], 1);
                inference_close(&all[i]);
        }
        assert_int_equal(pthread_join(s.thread, &err), 0);
        assert_ok(err);
        place_close(&p);
}

/* ---- allocators ------------------------------------------------------------------------------- */

static void test_allocator(void **state) {
        struct place p;

        (void)state;
        make_memory(NULL);
        place_open(&p, "memory", "0");
        infer(p.server, "id", 4);
        assert_int_equal(memory.n_started, 1);
        assert_int_equal(memory.n_given, 1);
        assert_int_equal(memory.n_attributes, 1);
        assert_int_equal(memory.n_taken_back, 1);
        assert_int_equal(memory.n_empty, 0);

        /* Asked also for nothing, and may answer with nothing. */
        infer(p.server, "id", 0);
        assert_int_equal(memory.n_empty, 1);
        assert_int_equal(memory.n_given, 2);
        assert_int_equal(memory.n_taken_back, 2);

        /* Another memory than was wanted. */
        memory.type = TRITONSERVER_MEMORY_CPU_PINNED;
        memory.id = 1;
        infer(p.server, "id", 4);
        infer(p.server, "m", 4);
        assert_int_equal(memory.n_taken_back, 4);
        assert_int_equal(memory.n_attributes, 4);
        place_close(&p);
        end_memory(NULL);
}

static void assert_fails(struct TRITONSERVER_Server *server, const char *model, const char *text) {
        struct inference           in;
        struct TRITONSERVER_Error *err;

        submit(server, model, 2, &in);
        inference_wait(&in, 1, INFERENCE_ENDS);
        err = TRITONSERVER_InferenceResponseError(in.responses[0]);
        assert_non_null(err);
        assert_non_null(strstr(TRITONSERVER_ErrorMessage(err), text));
        TRITONSERVER_ErrorDelete(err);
        inference_close(&in);
}

static void test_allocator_fails(void **state) {
        struct place p;

        (void)state;
        make_memory(NULL);
        place_open(&p, "fails", "0");
        memory.fail = "no room for this one";
        assert_fails(p.server, "id", memory.fail);
        assert_fails(p.server, "m", memory.fail);
        memory.fail = NULL;
        memory.fail_start = "not now";
        assert_fails(p.server, "id", memory.fail_start);
        memory.fail_start = NULL;
        infer(p.server, "id", 2);
        assert_int_equal(memory.n_given, memory.n_taken_back);
        place_close(&p);
        end_memory(NULL);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_side_by_side, make_memory, end_memory),
                cmocka_unit_test_setup_teardown(test_one_after_the_other, make_memory, end_memory),
                cmocka_unit_test_setup_teardown(test_stop_in_flight, make_memory, end_memory),
                cmocka_unit_test_setup_teardown(test_stop_waits, make_memory, end_memory),
                cmocka_unit_test(test_allocator),
                cmocka_unit_test(test_allocator_fails),
        };

        if (argc != 2)
                return 2;
        backend_directory = argv[1];
        return cmocka_run_group_tests(tests, NULL, NULL);
}
