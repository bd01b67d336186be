/* SPDX-License-Identifier: BSD-3-Clause */
/* The sums of a queue's lists, and rules that use them in place of the requests. */
#include "suite.h"

#include "base/clock.h"
#include "infer/fake_model.h"
#include "infer/request_prepare.h"
#include "sched/policy.h"
#include "sched/queue_list.h"

#define N 200
#define CONFIG "name: 'm' max_batch_size: 8192 input { name: 'X' data_type: TYPE_INT8 dims: -1 }"

static uint64_t draw(uint64_t *random, uint64_t below) {
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        return (*random >> 11) % below;
}

static struct request *make(struct fake_model *f, int64_t rows, int64_t width) {
        struct request *req = fake_request(f);

        add_input(req, "X", DATA_TYPE_INT8, rows, width);
        assert_ok(request_prepare(req), "prepare");
        return req;
}

/* ---- the sums -------------------------------------------------------------------------------- */

static void check_sums(const struct queue_list *l, bool compares_shapes) {
        struct queue_list     sums = { 0 };
        const struct request *before = NULL;

        LIST_FOR_EACH((struct list *)(uintptr_t)&l->requests, node) {
                const struct request *req = queue_list_entry(node);

                sums.n++;
                sums.n_rows += request_rows(req);
                sums.n_large += request_rows(req) > 1;
                sums.n_kept_batch += request_kept_batch(req) != 0;
                if (before != NULL) {
                        sums.n_differing += compares_shapes && !request_same_shape(before, req);
                        sums.n_inversions +=
                                req->times.queue_start_ns < before->times.queue_start_ns;
                }
                before = req;
        }
        assert_int_equal(l->n, sums.n);
        assert_int_equal(l->n_rows, sums.n_rows);
        assert_int_equal(l->n_large, sums.n_large);
        assert_int_equal(l->n_kept_batch, sums.n_kept_batch);
        assert_int_equal(l->n_differing, sums.n_differing);
        assert_int_equal(l->n_inversions, sums.n_inversions);
}

static void play(struct request *const *requests, bool compares_shapes, uint64_t *random) {
        struct queue_list l;

        queue_list_init(&l);
        for (unsigned i = 0; i < 4000; i++) {
                struct request *req = requests[draw(random, N)];

                if (!list_is_linked(&req->queued.node)) {
                        req->times.queue_start_ns = i + draw(random, 3);
                        req->batch_size = 1 + (draw(random, 4) == 0) * draw(random, 3);
                        queue_list_append(&l, req, compares_shapes);
                } else if (draw(random, 3) == 0 && request_rows(req) > 1) {
                        queue_list_take_rows(&l, req, 1);
                        req->batch_size--;
                } else {
                        queue_list_remove(&l, req);
                }
                check_sums(&l, compares_shapes);
        }
        for (unsigned i = 0; i < N; i++)
                if (list_is_linked(&requests[i]->queued.node))
                        queue_list_remove(&l, requests[i]);
        check_sums(&l, compares_shapes);
        assert_int_equal(l.n, 0);
}

static void test_sums(void **state) {
        struct fake_model *f = fake_model_new(CONFIG);
        struct request    *requests[N];
        uint64_t           random = UINT64_C(0x9e3779b97f4a7c15);

        (void)state;
        for (unsigned i = 0; i < N; i++) {
                requests[i] = make(f, 1, 1 + (i % 5 == 0));
                if (i % 7 == 0) {
                        requests[i]->is_inner = true;
                        requests[i]->kept_batch = i % 3;
                }
        }
        play(requests, true, &random);
        play(requests, false, &random);
        for (unsigned i = 0; i < N; i++)
                request_free(requests[i]);
        fake_model_free(f);
}

/* ---- rules that do not look at each request --------------------------------------------------- */

struct row {
        const char *name;
        uint32_t    preferred[2]; /* none of them is reached */
        uint64_t    n_levels;
        uint64_t    rows; /* of each request */
        bool        equal_shapes;
};

static struct policy *make_policy(const struct row *row) {
        struct batching_config batching = {
                .max_batch_size = 8192,
                .preferred_sizes = calloc(2, sizeof(uint32_t)),
                .n_preferred_sizes = 2,
                .max_queue_delay_ns = NS_PER_S,
                .priority_levels = row->n_levels,
                .default_priority_level = 1,
        };

        assert_non_null(batching.preferred_sizes);
        memcpy(batching.preferred_sizes, row->preferred, sizeof(row->preferred));
        return policy_dynamic_new(&(struct policy_dynamic_options){
                .batching = &batching, .equal_shapes = row->equal_shapes });
}

static void push(struct request_queue *q, struct request *req, uint64_t priority, uint64_t now_ns) {
        req->priority = priority;
        req->times.queue_start_ns = now_ns;
        assert_ok(request_queue_push(q, req, now_ns), "push");
}

/* A request that the rules must not look at: with these values it would end each batch. */
static void spoil(struct request *req, bool is_spoilt) {
        static uint64_t batch_size;
        static uint32_t n_inputs;

        if (is_spoilt) {
                batch_size = req->batch_size;
                n_inputs = req->n_inputs;
        }
        req->batch_size = is_spoilt ? 9000 : batch_size;
        req->n_inputs = is_spoilt ? 77 : n_inputs;
}

static void assert_waits(struct policy *p, struct request_queue *q, uint64_t now_ns,
                         uint64_t until_ns) {
        struct list             idle;
        const struct sched_view view = { .queue = q, .idle = &idle };
        struct dispatch         d;

        list_init(&idle);
        d = p->ops->decide(p, &view, now_ns);
        assert_int_equal(d.verdict, BATCH_WAIT);
        assert_int_equal(d.wait_until_ns, until_ns);
}

/* An arrival, and a departure elsewhere, are decided without a look at the others. */
static void check_row(struct fake_model *f, const struct row *row) {
        struct policy       *p = make_policy(row);
        struct request_queue q;
        struct request      *requests[N];
        uint64_t             last_ns = NS_PER_S + N;

        request_queue_init(&q, p->limits);
        for (unsigned i = 0; i < N; i++) {
                requests[i] = make(f, (int64_t)row->rows, 3);
                if (i < N - 1)
                        push(&q, requests[i], 1 + i % 3, NS_PER_S + i);
        }
        spoil(requests[N / 2], true);
        assert_waits(p, &q, last_ns, 2 * NS_PER_S);
        push(&q, requests[N - 1], 2, last_ns);
        assert_waits(p, &q, last_ns, 2 * NS_PER_S);
        assert_true(request_queue_remove(&q, requests[N / 4]));
        assert_waits(p, &q, last_ns, 2 * NS_PER_S);
        assert_true(request_queue_remove(&q, requests[0]));
        assert_waits(p, &q, last_ns, 2 * NS_PER_S + 1);
        spoil(requests[N / 2], false);
        for (unsigned i = 0; i < N; i++) {
                (void)request_queue_remove(&q, requests[i]);
                request_free(requests[i]);
        }
        request_queue_done(&q);
        policy_free(p);
}

static void test_requests_are_not_looked_at(void **state) {
        static const struct row rows[] = {
                { "one row each", { 8000, 8192 }, 0, 1, false },
                { "several rows", { 8000, 8192 }, 0, 3, false },
                { "equal shapes", { 8000, 8192 }, 0, 1, true },
                { "levels", { 8000, 8192 }, 3, 1, false },
                { "levels, several rows, equal shapes", { 8000, 8192 }, 3, 2, true },
        };
        struct fake_model *f = fake_model_new(CONFIG);

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                check_row(f, &rows[i]);
        fake_model_free(f);
}

/* A batch that cannot grow is not formed again for a request behind it. */
static void test_a_full_batch_stays(void **state) {
        static const struct row row = { "full", { 4, 6 }, 3, 3, false };
        struct fake_model      *f = fake_model_new(CONFIG);
        struct policy          *p = make_policy(&row);
        struct request_queue    q;
        struct request         *requests[6];
        struct list             idle;
        const struct sched_view view = { .queue = &q, .idle = &idle };
        uint64_t                version;

        (void)state;
        list_init(&idle);
        request_queue_init(&q, p->limits);
        for (unsigned i = 0; i < 6; i++)
                requests[i] = make(f, 4000, 1);
        for (unsigned i = 0; i < 3; i++)
                push(&q, requests[i], 2, NS_PER_S + i);
        assert_int_equal(p->ops->decide(p, &view, NS_PER_S).n_requests, 1);
        version = q.version;
        push(&q, requests[3], 2, NS_PER_S);
        push(&q, requests[4], 3, NS_PER_S);
        assert_int_equal(q.version, version);
        push(&q, requests[5], 1, NS_PER_S);
        assert_int_not_equal(q.version, version);
        for (unsigned i = 0; i < 6; i++) {
                (void)request_queue_remove(&q, requests[i]);
                request_free(requests[i]);
        }
        request_queue_done(&q);
        policy_free(p);
        fake_model_free(f);
}

SUITE(queue_list) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sums),
                cmocka_unit_test(test_requests_are_not_looked_at),
                cmocka_unit_test(test_a_full_batch_stays),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
