/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that reads the responses of a decoupled model: the public headers and
 * libtritonserver.so, nothing else.
 *
 *   test_decoupled <directory of backends>
 *
 * The model "square" answers a number with that many responses, from a thread of the request's.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "triton/core/neso.h"

#include "api_assert.h"
#include "model_place.h"

static const char config_text[] =
        "name: \"square\"\n"
        "backend: \"square\"\n"
        "model_transaction_policy { decoupled: true }\n"
        "input { name: \"IN\" data_type: TYPE_INT32 dims: 1 }\n"
        "output { name: \"OUT\" data_type: TYPE_INT32 dims: 1 }\n";

static const char *backend_directory;

static struct model_place                     place;
static struct TRITONSERVER_Server            *server;
static struct TRITONSERVER_ResponseAllocator *allocator;

/* One request and what its callbacks saw; guarded by the lock. */
struct reader {
        struct TRITONSERVER_InferenceRequest  *request;
        int32_t                                number;
        bool                                   keeps; /* responses, in `kept` */
        pthread_mutex_t                        lock;
        pthread_cond_t                         changed;
        unsigned                               n_responses, n_failed, n_finals, n_releases;
        struct TRITONSERVER_InferenceResponse *kept[16];
};

static struct TRITONSERVER_Error *allocate(struct TRITONSERVER_ResponseAllocator *a,
                                           const char *tensor, size_t byte_size,
                                           TRITONSERVER_MemoryType type, int64_t id, void *userp,
                                           void **buffer, void **buffer_userp,
                                           TRITONSERVER_MemoryType *actual_type,
                                           int64_t                 *actual_id) {
        (void)a, (void)tensor, (void)type, (void)id, (void)userp;
        *buffer = malloc(byte_size);
        *buffer_userp = NULL;
        *actual_type = TRITONSERVER_MEMORY_CPU;
        *actual_id = 0;
        return NULL;
}

static struct TRITONSERVER_Error *give_back(struct TRITONSERVER_ResponseAllocator *a, void *buffer,
                                            void *buffer_userp, size_t byte_size,
                                            TRITONSERVER_MemoryType type, int64_t id) {
        (void)a, (void)buffer_userp, (void)byte_size, (void)type, (void)id;
        free(buffer);
        return NULL;
}

/* Whether it says the number that was asked for. */
static bool is_right(struct TRITONSERVER_InferenceResponse *response, int32_t number) {
        const char                *name;
        TRITONSERVER_DataType      type;
        const int64_t             *shape;
        uint64_t                   n_dims;
        const void                *base;
        size_t                     byte_size;
        TRITONSERVER_MemoryType    memory_type;
        int64_t                    memory_id;
        void                      *userp;
        struct TRITONSERVER_Error *err = TRITONSERVER_InferenceResponseError(response);

        if (!err)
                err = TRITONSERVER_InferenceResponseOutput(response, 0, &name, &type, &shape,
                                                           &n_dims, &base, &byte_size,
                                                           &memory_type, &memory_id, &userp);
        if (err) {
                TRITONSERVER_ErrorDelete(err);
                return false;
        }
        return strcmp(name, "OUT") == 0 && byte_size == sizeof(number) &&
               memcmp(base, &number, sizeof(number)) == 0;
}

static void on_response(struct TRITONSERVER_InferenceResponse *response, const uint32_t flags,
                        void *userp) {
        struct reader *r = userp;

        pthread_mutex_lock(&r->lock);
        if (response) {
                r->n_failed += !is_right(response, r->number);
                if (r->keeps && r->n_responses < 16)
                        r->kept[r->n_responses] = response;
                else
                        TRITONSERVER_InferenceResponseDelete(response);
                r->n_responses++;
        }
        r->n_finals += (flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0;
        pthread_cond_signal(&r->changed);
        pthread_mutex_unlock(&r->lock);
}

static void on_release(struct TRITONSERVER_InferenceRequest *request, const uint32_t flags,
                       void *userp) {
        struct reader *r = userp;

        (void)request, (void)flags;
        pthread_mutex_lock(&r->lock);
        r->n_releases++;
        pthread_cond_signal(&r->changed);
        pthread_mutex_unlock(&r->lock);
}

static int start_server(void **state) {
        struct TRITONSERVER_ServerOptions *options;

        (void)state;
        model_place_open(&place);
        model_place_add_model(&place, "square", config_text, NULL);
        assert_ok(TRITONSERVER_ServerOptionsNew(&options));
        assert_ok(TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, place.root));
        assert_ok(TRITONSERVER_ServerOptionsSetBackendDirectory(options, backend_directory));
        assert_ok(TRITONSERVER_ServerOptionsSetLogInfo(options, false));
        assert_ok(TRITONSERVER_ServerNew(&server, options));
        assert_ok(TRITONSERVER_ServerOptionsDelete(options));
        assert_ok(TRITONSERVER_ResponseAllocatorNew(&allocator, allocate, give_back, NULL));
        return 0;
}

static int stop_server(void **state) {
        (void)state;
        assert_ok(TRITONSERVER_ServerDelete(server));
        assert_ok(TRITONSERVER_ResponseAllocatorDelete(allocator));
        model_place_close(&place);
        return 0;
}

static void set_callbacks(struct reader *r) {
        assert_ok(TRITONSERVER_InferenceRequestSetReleaseCallback(r->request, on_release, r));
        assert_ok(TRITONSERVER_InferenceRequestSetResponseCallback(r->request, allocator, NULL,
                                                                   on_response, r));
}

static void open_reader(struct reader *r, int32_t number) {
        const int64_t one = 1;

        *r = (struct reader){ .number = number };
        pthread_mutex_init(&r->lock, NULL);
        pthread_cond_init(&r->changed, NULL);
        assert_ok(TRITONSERVER_InferenceRequestNew(&r->request, server, "square", -1));
        assert_ok(TRITONSERVER_InferenceRequestAddInput(r->request, "IN", TRITONSERVER_TYPE_INT32,
                                                        &one, 1));
        assert_ok(TRITONSERVER_InferenceRequestAppendInputData(r->request, "IN", &r->number,
                                                               sizeof(r->number),
                                                               TRITONSERVER_MEMORY_CPU, 0));
        set_callbacks(r);
}

static void start(struct reader *r) {
        assert_ok(TRITONSERVER_ServerInferAsync(server, r->request, NULL));
}

/* Until so much of it has come. The test's own time limit ends what never comes. */
static void await(struct reader *r, unsigned n_responses, unsigned n_finals) {
        pthread_mutex_lock(&r->lock);
        while (r->n_responses < n_responses || r->n_finals < n_finals || r->n_releases < n_finals)
                pthread_cond_wait(&r->changed, &r->lock);
        pthread_mutex_unlock(&r->lock);
}

static void close_reader(struct reader *r) {
        assert_int_equal(r->n_failed, 0);
        assert_int_equal(r->n_finals, r->n_releases);
        assert_ok(TRITONSERVER_InferenceRequestDelete(r->request));
        pthread_cond_destroy(&r->changed);
        pthread_mutex_destroy(&r->lock);
}

static void test_any_number(void **state) {
        static const int32_t numbers[] = { 0, 1, 3, 1000 };
        struct reader        readers[4];

        (void)state;
        for (int i = 0; i < 4; i++) /* over each other */
                open_reader(&readers[i], numbers[i]);
        for (int i = 0; i < 4; i++)
                start(&readers[i]);
        for (int i = 0; i < 4; i++) {
                await(&readers[i], 0, 1);
                assert_int_equal(readers[i].n_responses, numbers[i]);
                close_reader(&readers[i]);
        }
}

static void test_request_used_again(void **state) {
        struct reader r;

        (void)state;
        open_reader(&r, 5);
        for (unsigned n = 1; n <= 3; n++) {
                start(&r);
                await(&r, 5 * n, n);
        }
        assert_int_equal(r.n_responses, 15);
        close_reader(&r);
}

/* The backend makes three, and the next one when one of them is deleted. */
static void test_limit(void **state) {
        struct reader r;

        (void)state;
        open_reader(&r, 10);
        r.keeps = true;
        assert_ok(NESO_InferenceRequestLimitResponses(r.request, 3, UINT64_MAX));
        start(&r);
        for (unsigned n = 3; n < 10; n++) {
                await(&r, n, 0);
                pthread_mutex_lock(&r.lock);
                assert_int_equal(r.n_responses, n);
                pthread_mutex_unlock(&r.lock);
                assert_ok(TRITONSERVER_InferenceResponseDelete(r.kept[n - 3]));
        }
        await(&r, 10, 1);
        for (unsigned n = 7; n < 10; n++)
                assert_ok(TRITONSERVER_InferenceResponseDelete(r.kept[n]));
        close_reader(&r);
}

/* The backend waits for room; a cancellation after the release ends that, and the responses. */
static void test_cancel(void **state) {
        struct reader r;

        (void)state;
        open_reader(&r, INT32_MAX);
        r.keeps = true;
        assert_ok(NESO_InferenceRequestLimitResponses(r.request, UINT32_MAX, 1));
        start(&r);
        await(&r, 1, 0);
        assert_ok(TRITONSERVER_InferenceRequestCancel(r.request));
        await(&r, 1, 1);
        assert_in_range(r.n_responses, 1, 2); /* the one it was about to make */
        for (unsigned n = 0; n < r.n_responses; n++)
                assert_ok(TRITONSERVER_InferenceResponseDelete(r.kept[n]));
        close_reader(&r);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_any_number),
                cmocka_unit_test(test_request_used_again),
                cmocka_unit_test(test_limit),
                cmocka_unit_test(test_cancel),
        };

        if (argc != 2) {
                fprintf(stderr, "usage: %s <directory of backends>\n", argv[0]);
                return 2;
        }
        backend_directory = argv[1];
        return cmocka_run_group_tests(tests, start_server, stop_server);
}
