/* SPDX-License-Identifier: BSD-3-Clause */
/* Many responses to a request: after its release, from several threads, over each other. */
#include "suite.h"

#include "base/lock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "infer/fake_model.h"
#include "infer/response_factory.h"

#define CONFIG                                                                                     \
        "name: 'm' model_transaction_policy { decoupled: true } "                                  \
        "output { name: 'Y' data_type: TYPE_FP32 dims: 1 } "
#define AFTER_FINAL(id) "[request id: " id "] model 'm' sent a response after the final one"

/* What a front end was told of one request. */
struct notes {
        struct mutex lock; /* rank LOCK_SERVER; guards all below */
        unsigned     n_responses, n_flags, n_finals, n_releases;
        char         ids[64]; /* the first letter of each response's id */
};

static struct fake_model *fake;

static void on_response(struct response *r, uint32_t flags, void *userp) {
        struct notes *n = userp;

        mutex_lock(&n->lock);
        if (r != NULL && n->n_responses < sizeof(n->ids) - 1)
                n->ids[n->n_responses] = r->source.id[0];
        n->n_responses += r != NULL;
        n->n_flags += r == NULL;
        n->n_finals += (flags & RESPONSE_FINAL) != 0;
        mutex_unlock(&n->lock);
        response_free(r);
}

static void on_release(struct request *req, uint32_t flags, void *userp) {
        struct notes *n = userp;

        (void)req, (void)flags;
        n->n_releases++;
}

static struct request *request_for(struct notes *n, const char *id) {
        struct request *req = fake_request(fake);

        *n = (struct notes){ 0 };
        mutex_init(&n->lock, LOCK_SERVER);
        assert_ok(request_set_id(req, id), id);
        req->on_response = on_response;
        req->on_response_userp = n;
        req->on_release = on_release;
        req->on_release_userp = n;
        atomic_fetch_add(&fake->model.n_in_flight, 1); /* as a submission does */
        return req;
}

static struct response_factory *factory_for(struct request *req) {
        struct response_factory *f = NULL;

        assert_ok(response_factory_new(req, &f), "factory");
        return f;
}

static struct error *send(struct response_factory *f, uint32_t flags) {
        struct response *r = NULL;

        TRY(response_factory_respond(f, &r));
        return response_send(r, flags, NULL);
}

static uint64_t n_in_flight(void) {
        return atomic_load(&fake->model.n_in_flight);
}

static int setup(void **state) {
        (void)state;
        fake = fake_model_new(CONFIG);
        return 0;
}

static int teardown(void **state) {
        (void)state;
        assert_int_equal(n_in_flight(), 0);
        fake_model_free(fake); /* which nobody may hold */
        return 0;
}

static void test_outlives_its_request(void **state) {
        struct notes             n;
        struct request          *req = request_for(&n, "x");
        struct response_factory *f = factory_for(req);

        (void)state;
        assert_int_equal(n_in_flight(), 2);
        assert_ok(send(f, 0), "before the release");
        request_release(req, REQUEST_RELEASE_ALL);
        assert_int_equal(n.n_releases, 1);
        assert_int_equal(n_in_flight(), 1);
        assert_ok(send(f, 0), "after the release");
        request_free(req);
        assert_ok(send(f, 0), "after the request");
        assert_int_equal(n.n_finals, 0);
        assert_ok(response_factory_send_flags(f, RESPONSE_FINAL), "the end");
        assert_string_equal(n.ids, "xxx");
        assert_int_equal(n.n_flags, 1);
        assert_int_equal(n.n_finals, 1);
        response_factory_free(f);
        response_factory_free(NULL);
}

/* 0, 1, 3 and 1000 responses; the end with the last one or alone. */
static void test_any_number(void **state) {
        static const unsigned counts[] = { 0, 1, 3, 1000 };

        (void)state;
        for (size_t i = 0; i < 2 * ARRAY_LEN(counts); i++) {
                unsigned                 count = counts[i / 2];
                bool                     ends_alone = i % 2 == 0 || count == 0;
                struct notes             n;
                struct request          *req = request_for(&n, "x");
                struct response_factory *f = factory_for(req);

                request_release(req, REQUEST_RELEASE_ALL);
                for (unsigned k = 1; k <= count; k++)
                        assert_ok(send(f, !ends_alone && k == count ? RESPONSE_FINAL : 0), "send");
                if (ends_alone)
                        assert_ok(response_factory_send_flags(f, RESPONSE_FINAL), "flags");
                assert_int_equal(n.n_responses, count);
                assert_int_equal(n.n_finals, 1);
                assert_int_equal(n.n_flags, ends_alone);
                response_factory_free(f);
                request_free(req);
        }
}

static void test_nothing_after_final(void **state) {
        struct notes             n;
        struct request          *req = request_for(&n, "x");
        struct response_factory *f = factory_for(req);
        struct response_factory *other = factory_for(req);
        struct response         *early = NULL;
        struct response         *of_request = NULL;

        (void)state;
        assert_ok(response_factory_respond(f, &early), "early");
        assert_ok(response_new(req, &of_request), "of the request");
        assert_ok(send(f, RESPONSE_FINAL), "final");
        assert_error(send(f, 0), ERR_INVALID_ARG, AFTER_FINAL("x"));
        assert_error(send(other, RESPONSE_FINAL), ERR_INVALID_ARG, AFTER_FINAL("x"));
        assert_error(response_send(early, 0, NULL), ERR_INVALID_ARG, AFTER_FINAL("x"));
        assert_error(response_send(of_request, RESPONSE_FINAL, NULL), ERR_INVALID_ARG,
                     AFTER_FINAL("x"));
        assert_error(response_factory_send_flags(f, 0), ERR_INVALID_ARG, AFTER_FINAL("x"));
        assert_error(response_factory_send_flags(other, RESPONSE_FINAL), ERR_INVALID_ARG,
                     AFTER_FINAL("x"));
        assert_int_equal(n.n_responses, 1);
        assert_int_equal(n.n_finals, 1);
        request_release(req, REQUEST_RELEASE_ALL);
        request_free(req);
        assert_error(send(f, 0), ERR_INVALID_ARG, AFTER_FINAL("x")); /* its front end is gone */
        response_factory_free(f);
        response_factory_free(other);
}

static unsigned n_allocator_calls;

static struct error *count_start(struct response_allocator *allocator, void *userp) {
        (void)allocator, (void)userp;
        n_allocator_calls++;
        return NULL;
}

static struct error *count_alloc(struct response_allocator *allocator, const char *tensor,
                                 size_t byte_size, enum memory_type type, int64_t id, void *userp,
                                 void **buffer, void **buffer_userp, enum memory_type *actual_type,
                                 int64_t *actual_id) {
        static char bytes[4];

        (void)allocator, (void)tensor, (void)type, (void)id, (void)userp;
        assert_true(byte_size <= sizeof(bytes));
        *buffer = bytes;
        *buffer_userp = NULL;
        *actual_type = MEMORY_CPU;
        *actual_id = 0;
        n_allocator_calls++;
        return NULL;
}

static struct error *ask_for_memory(struct response *r) {
        enum memory_type        type = MEMORY_CPU;
        int64_t                 id = 0;
        struct response_output *o;
        void                   *bytes;

        assert_ok(response_add_output(r, "Y", DATA_TYPE_FP32, (int64_t[]){ 1 }, 1, &o), "output");
        return response_output_buffer(o, 4, &type, &id, &bytes);
}

/* The front end's memory may be gone, and its allocator with it. */
static void test_no_memory_after_final(void **state) {
        static const struct response_allocator allocator = { .alloc = count_alloc,
                                                             .start = count_start };
        struct notes                           n;
        struct request                        *req = request_for(&n, "x");
        struct response_factory               *f;
        struct response                       *early, *late;

        (void)state;
        req->allocator = &allocator;
        f = factory_for(req);
        n_allocator_calls = 0;
        assert_ok(response_factory_respond(f, &early), "early");
        assert_int_equal(n_allocator_calls, 1);
        assert_ok(send(f, RESPONSE_FINAL), "final");
        assert_int_equal(n_allocator_calls, 2);
        request_release(req, REQUEST_RELEASE_ALL);
        request_free(req);
        assert_ok(response_factory_respond(f, &late), "late");
        assert_error(ask_for_memory(early), ERR_INVALID_ARG, AFTER_FINAL("x"));
        assert_error(ask_for_memory(late), ERR_INVALID_ARG, AFTER_FINAL("x"));
        assert_int_equal(n_allocator_calls, 2);
        response_free(early);
        assert_error(response_send(late, 0, NULL), ERR_INVALID_ARG, AFTER_FINAL("x"));
        response_factory_free(f);
}

static void test_freed_without_final(void **state) {
        struct notes    n;
        struct request *req = request_for(&n, "");

        (void)state;
        response_factory_free(factory_for(req));
        assert_int_equal(n.n_finals, 0); /* the backend may still end it through the request */
        assert_ok(request_send_flags(req, RESPONSE_FINAL), "end");
        assert_int_equal(n.n_finals, 1);
        assert_error(request_send_flags(req, 0), ERR_INVALID_ARG, AFTER_FINAL("<id_unknown>"));
        request_release(req, REQUEST_RELEASE_ALL);
        request_free(req);
}

static void test_cancel_after_the_release(void **state) {
        struct notes             n;
        struct request          *req = request_for(&n, "x");
        struct response_factory *f = factory_for(req);

        (void)state;
        request_release(req, REQUEST_RELEASE_ALL);
        assert_false(response_factory_is_cancelled(f));
        request_cancel(req);
        assert_true(response_factory_is_cancelled(f));
        request_free(req);
        assert_true(response_factory_is_cancelled(f));
        assert_ok(response_factory_send_flags(f, RESPONSE_FINAL), "end");
        response_factory_free(f);
}

/* The front end uses a request again while the last inference still answers: they do not touch. */
static void test_request_used_again(void **state) {
        struct notes             n;
        struct request          *req = request_for(&n, "a");
        struct response_factory *first = factory_for(req);
        struct response_factory *second, *third;

        (void)state;
        request_release(req, REQUEST_RELEASE_ALL);
        assert_ok(request_renew_stream(req), "renew");
        assert_ok(request_set_id(req, "b"), "id");
        atomic_fetch_add(&fake->model.n_in_flight, 1);
        second = factory_for(req);
        request_cancel(req);
        assert_false(response_factory_is_cancelled(first));
        assert_true(response_factory_is_cancelled(second));
        assert_ok(send(second, RESPONSE_FINAL), "second");
        assert_ok(send(first, 0), "first");
        request_release(req, REQUEST_RELEASE_ALL);
        assert_ok(request_renew_stream(req), "renew again");
        third = factory_for(req);
        response_factory_free(third);
        response_factory_free(second);
        assert_ok(request_renew_stream(req), "renew in place");
        request_free(req);
        assert_ok(send(first, RESPONSE_FINAL), "first");
        assert_string_equal(n.ids, "baa");
        response_factory_free(first);
}

static void test_short_memory(void **state) {
        struct notes             n;
        struct request          *req = request_for(&n, "x");
        struct response_factory *f = NULL;
        struct response         *r = NULL;

        (void)state;
        mem_fail_after(1);
        assert_out_of_memory(response_factory_new(req, &f));
        mem_fail_after(0);
        assert_int_equal(n_in_flight(), 1);
        f = factory_for(req);
        mem_fail_after(1);
        assert_out_of_memory(response_factory_respond(f, &r));
        mem_fail_after(0);
        response_factory_free(f);
        request_release(req, REQUEST_RELEASE_ALL);
        request_free(req);
}

/* ---- several threads answer several requests ---- */

#define N_REQUESTS 8
#define N_THREADS 4
#define N_EACH 500

static struct {
        struct notes             notes[N_REQUESTS];
        struct response_factory *factories[N_REQUESTS];
        _Atomic unsigned         n_left[N_REQUESTS];
        _Atomic unsigned         n_failed;
} crowd;

/* Each thread goes round the requests in an order of its own; the last one ends a request. */
static void answer_all(void *arg) {
        unsigned start = (unsigned)(uintptr_t)arg;

        for (unsigned k = 0; k < N_REQUESTS * N_EACH; k++) {
                unsigned      at = (start + k * (2 * start + 1)) % N_REQUESTS;
                struct error *err = send(crowd.factories[at], 0);

                if (err == NULL && atomic_fetch_sub(&crowd.n_left[at], 1) == 1) {
                        err = response_factory_send_flags(crowd.factories[at], RESPONSE_FINAL);
                        response_factory_free(crowd.factories[at]);
                }
                crowd.n_failed += err != NULL;
                error_free(err);
        }
}

static void test_threads(void **state) {
        struct thread threads[N_THREADS] = { 0 };

        (void)state;
        atomic_init(&crowd.n_failed, 0);
        for (unsigned i = 0; i < N_REQUESTS; i++) {
                struct request *req = request_for(&crowd.notes[i], "x");

                crowd.factories[i] = factory_for(req);
                atomic_init(&crowd.n_left[i], N_THREADS * N_EACH);
                request_release(req, REQUEST_RELEASE_ALL);
                request_free(req);
        }
        for (unsigned i = 0; i < N_THREADS; i++)
                assert_ok(thread_start(&threads[i], "answers", answer_all, (void *)(uintptr_t)i),
                          "thread");
        for (unsigned i = 0; i < N_THREADS; i++)
                thread_join(&threads[i]);
        assert_int_equal(crowd.n_failed, 0);
        for (unsigned i = 0; i < N_REQUESTS; i++) {
                assert_int_equal(crowd.notes[i].n_responses, N_THREADS * N_EACH);
                assert_int_equal(crowd.notes[i].n_finals, 1);
        }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

SUITE(response_factory) {
        const struct CMUnitTest tests[] = {
                TEST(test_outlives_its_request),
                TEST(test_any_number),
                TEST(test_nothing_after_final),
                TEST(test_no_memory_after_final),
                TEST(test_freed_without_final),
                TEST(test_cancel_after_the_release),
                TEST(test_request_used_again),
                TEST(test_short_memory),
                TEST(test_threads),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
