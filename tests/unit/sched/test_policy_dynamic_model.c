/* SPDX-License-Identifier: BSD-3-Clause */
/* The dynamic batcher against a plain model of its rules, in thousands of random scripts. The model
 * keeps one array, sorts it again for every question, and tries every prefix of it as a batch.
 */
#include "suite.h"

#include "base/clock.h"
#include "infer/fake_model.h"
#include "infer/request_prepare.h"
#include "sched/policy.h"
#include "sched/request_queue.h"

#define N_STORIES 4000
#define N_STEPS 120
#define N_REQUESTS 48
#define N_LEVELS 4

/* A request, as the model sees it. */
struct waiting {
        struct request *req;
        uint64_t        level;
        uint64_t        rows;
        int64_t         width; /* its shape */
        uint64_t        enqueued_ns;
        uint64_t        due_ns;
        uint64_t        order; /* order of arrival; for a delayed request, of its timeout */
        bool            is_delayed;
};

struct story {
        uint64_t               random;
        struct fake_model     *fake;
        struct batching_config policy;
        uint32_t               sizes[3];
        struct level_policy    levels[N_LEVELS];
        struct policy         *rules;
        struct request_queue   queue;
        struct list            idle; /* not used by these rules */
        bool                   equal_shapes;
        bool                   has_inversions; /* some are older than those before them */
        uint64_t               max_rows;       /* of most requests */
        uint64_t               now_ns;
        uint64_t               n_pushes;
        struct request        *requests[N_REQUESTS];
        struct waiting         waiting[N_REQUESTS];
        size_t                 n_waiting;
};

static uint64_t draw(struct story *s, uint64_t below) {
        s->random ^= s->random << 13;
        s->random ^= s->random >> 7;
        s->random ^= s->random << 17;
        return (s->random >> 11) % below;
}

/* ---- the model ------------------------------------------------------------------------------- */

static int compare_waiting(const void *left, const void *right) {
        const struct waiting *a = left, *b = right;

        if (a->level != b->level)
                return a->level < b->level ? -1 : 1;
        if (a->is_delayed != b->is_delayed)
                return a->is_delayed ? 1 : -1;
        return a->order < b->order ? -1 : a->order > b->order;
}

static void sort(struct story *s) {
        qsort(s->waiting, s->n_waiting, sizeof(*s->waiting), compare_waiting);
}

static void forget(struct story *s, size_t at) {
        s->n_waiting--;
        memmove(&s->waiting[at], &s->waiting[at + 1], (s->n_waiting - at) * sizeof(*s->waiting));
}

static const struct queue_policy *policy_of(const struct story *s, uint64_t level) {
        for (size_t i = 0; i < s->policy.n_level_policies; i++)
                if (s->policy.level_policies[i].level == level)
                        return &s->policy.level_policies[i].policy;
        return &s->policy.default_policy;
}

static uint64_t level_of(const struct story *s, uint64_t priority) {
        if (s->policy.priority_levels == 0)
                return 0;
        return priority >= 1 && priority <= s->policy.priority_levels
                       ? priority
                       : s->policy.default_priority_level;
}

static bool is_full(const struct story *s, uint64_t level) {
        uint32_t limit = policy_of(s, level)->max_queue_size;
        uint32_t n = 0;

        for (size_t i = 0; i < s->n_waiting; i++)
                n += s->waiting[i].level == level;
        return limit != 0 && n >= limit;
}

static uint64_t due_of(const struct story *s, uint64_t level, uint64_t timeout_us) {
        const struct queue_policy *p = policy_of(s, level);
        uint64_t                   ns = p->default_timeout_ns;

        if (ns == 0)
                return CLOCK_NEVER;
        if (p->allow_override && timeout_us > 0 && timeout_us * NS_PER_US < ns)
                ns = timeout_us * NS_PER_US;
        return s->now_ns + ns;
}

/* Returns the request whose timeout passed first; n_waiting when there is none. */
static size_t first_expired(const struct story *s) {
        size_t first = s->n_waiting;

        for (size_t i = 0; i < s->n_waiting; i++)
                if (s->waiting[i].due_ns <= s->now_ns &&
                    (first == s->n_waiting || s->waiting[i].due_ns < s->waiting[first].due_ns))
                        first = i;
        return first;
}

static uint64_t rows_of(const struct story *s, size_t n) {
        uint64_t rows = 0;

        for (size_t i = 0; i < n; i++)
                rows += s->waiting[i].rows;
        return rows;
}

/* True when the first n requests, in order, may be one batch. */
static bool may_batch(const struct story *s, size_t n) {
        if (n > 1 && rows_of(s, n) > s->policy.max_batch_size)
                return false;
        for (size_t i = 1; i < n; i++)
                if (s->equal_shapes && s->waiting[i].width != s->waiting[0].width)
                        return false;
        return true;
}

static bool is_preferred(const struct story *s, uint64_t rows) {
        for (size_t i = 0; i < s->policy.n_preferred_sizes; i++)
                if (s->policy.preferred_sizes[i] == rows)
                        return true;
        return false;
}

/* Returns how many of the first n_fitting are a preferred batch; 0: none. */
static size_t preferred_prefix(const struct story *s, size_t n_fitting, uint32_t largest) {
        for (size_t n = n_fitting; n > 0; n--)
                if (is_preferred(s, rows_of(s, n)))
                        return n;
        for (size_t n = 1; n <= n_fitting && n < s->n_waiting; n++)
                if (largest > 0 && rows_of(s, n + 1) > largest)
                        return n;
        return 0;
}

static struct dispatch expected_decision(struct story *s) {
        uint32_t largest = 0;
        size_t   n_fitting = 0, n_preferred;
        uint64_t oldest_ns = CLOCK_NEVER;
        uint64_t delay_ns = s->policy.max_queue_delay_ns;
        bool     is_late;

        sort(s);
        if (s->n_waiting == 0)
                return (struct dispatch){ .verdict = BATCH_NOTHING };
        for (size_t i = 0; i < s->policy.n_preferred_sizes; i++)
                largest = MAX(largest, s->policy.preferred_sizes[i]);
        while (n_fitting < s->n_waiting && may_batch(s, n_fitting + 1))
                n_fitting++;
        for (size_t i = 0; i < n_fitting; i++)
                oldest_ns = MIN(oldest_ns, s->waiting[i].enqueued_ns);
        is_late = delay_ns > 0 && s->now_ns >= oldest_ns + delay_ns;
        n_preferred = preferred_prefix(s, n_fitting, largest);
        if (n_preferred > 0 && !is_late)
                return (struct dispatch){ .verdict = BATCH_RUN,
                                          .n_requests = (uint32_t)n_preferred };
        if (is_late || delay_ns == 0 || n_fitting < s->n_waiting ||
            rows_of(s, n_fitting) >= largest)
                return (struct dispatch){ .verdict = BATCH_RUN, .n_requests = (uint32_t)n_fitting };

        uint64_t until_ns = oldest_ns + delay_ns;

        for (size_t i = 0; i < s->n_waiting; i++)
                until_ns = MIN(until_ns, s->waiting[i].due_ns);
        return (struct dispatch){ .verdict = BATCH_WAIT, .wait_until_ns = until_ns };
}

/* ---- the steps ------------------------------------------------------------------------------- */

static void push(struct story *s) {
        struct request *req = NULL;
        struct waiting  w = { .rows = 1 + draw(s, s->max_rows), .order = s->n_pushes };

        for (size_t i = 0; i < N_REQUESTS && req == NULL; i++)
                if (!list_is_linked(&s->requests[i]->queued.node))
                        req = s->requests[i];
        if (req == NULL)
                return;
        /* Whole microseconds plus a unique number of nanoseconds: no two timeouts are at the same
         * time. */
        s->now_ns = s->now_ns / NS_PER_US * NS_PER_US + s->n_pushes++;
        if (s->max_rows > 1 && draw(s, 20) == 0)
                w.rows = s->policy.max_batch_size + 3;
        req->batch_size = w.rows;
        req->priority = draw(s, N_LEVELS + 2);
        req->timeout_us = draw(s, 3) == 0 ? draw(s, 800) : 0;
        w.enqueued_ns = s->now_ns;
        if (s->has_inversions && draw(s, 8) == 0)
                w.enqueued_ns -= draw(s, 50) * NS_PER_US;
        req->times.queue_start_ns = w.enqueued_ns;
        w.req = req;
        w.width = req->first_input->shape[1];
        w.level = level_of(s, req->priority);
        w.due_ns = due_of(s, w.level, req->timeout_us);

        struct error *err = request_queue_push(&s->queue, req, s->now_ns);

        assert_true((err != NULL) == is_full(s, w.level));
        if (err == NULL)
                s->waiting[s->n_waiting++] = w;
        error_free(err);
}

static void cancel(struct story *s) {
        size_t at = draw(s, N_REQUESTS);

        if (at >= s->n_waiting) {
                struct request *req = s->requests[at];

                if (!list_is_linked(&req->queued.node))
                        assert_false(request_queue_remove(&s->queue, req));
                return;
        }
        assert_true(request_queue_remove(&s->queue, s->waiting[at].req));
        forget(s, at);
}

static void expire(struct story *s) {
        struct request *rejected = request_queue_expire(&s->queue, s->now_ns);
        size_t          at;

        while ((at = first_expired(s)) < s->n_waiting) {
                struct waiting *w = &s->waiting[at];

                if (policy_of(s, w->level)->action == QUEUE_TIMEOUT_DELAY) {
                        w->is_delayed = true;
                        w->order = w->due_ns;
                        w->due_ns = CLOCK_NEVER;
                        continue;
                }
                assert_ptr_equal(rejected, w->req);
                rejected = rejected->queued.next;
                forget(s, at);
        }
        assert_null(rejected);
}

static void take(struct story *s, uint32_t n) {
        struct request *req = request_queue_take(&s->queue, n);

        for (; n > 0; n--, req = req->queued.next) {
                assert_ptr_equal(req, s->waiting[0].req);
                forget(s, 0);
        }
        assert_null(req);
}

static void decide(struct story *s) {
        expire(s);

        const struct sched_view view = { .queue = &s->queue, .idle = &s->idle };
        struct dispatch         want = expected_decision(s);
        struct dispatch         got = s->rules->ops->decide(s->rules, &view, s->now_ns);

        assert_int_equal(got.verdict, want.verdict);
        if (want.verdict == BATCH_WAIT)
                assert_true(got.wait_until_ns == want.wait_until_ns);
        if (want.verdict != BATCH_RUN)
                return;
        assert_int_equal(got.n_requests, want.n_requests);
        if (draw(s, 3) > 0) /* otherwise the question has no effect, as when no instance is idle */
                take(s, got.n_requests);
}

static void check_due(struct story *s) {
        uint64_t due_ns = CLOCK_NEVER;

        for (size_t i = 0; i < s->n_waiting; i++)
                due_ns = MIN(due_ns, s->waiting[i].due_ns);
        assert_true(request_queue_next_due(&s->queue) == due_ns);
        assert_int_equal(s->queue.n_waiting, s->n_waiting);
}

static void step(struct story *s) {
        switch (draw(s, 8)) {
        case 0:
        case 1:
        case 2:
        case 3: push(s); break;
        case 4: cancel(s); break;
        case 5: s->now_ns += draw(s, 300) * NS_PER_US; break;
        case 6: decide(s); break;
        default: expire(s); break;
        }
        check_due(s);
}

/* ---- stories --------------------------------------------------------------------------------- */

static struct queue_policy random_policy(struct story *s) {
        return (struct queue_policy){
                .action = draw(s, 2) ? QUEUE_TIMEOUT_DELAY : QUEUE_TIMEOUT_REJECT,
                .default_timeout_ns = draw(s, 2) ? (100 + draw(s, 900)) * NS_PER_US : 0,
                .allow_override = draw(s, 2),
                .max_queue_size = draw(s, 3) ? 0 : (uint32_t)draw(s, 6),
        };
}

static void random_sizes(struct story *s) {
        uint32_t size = 0;

        while (s->policy.n_preferred_sizes < ARRAY_LEN(s->sizes) &&
               size < s->policy.max_batch_size) {
                size += 1 + (uint32_t)draw(s, s->policy.max_batch_size / 2);
                if (size > s->policy.max_batch_size || draw(s, 4) == 0)
                        break;
                s->sizes[s->policy.n_preferred_sizes++] = size;
        }
        s->policy.preferred_sizes = s->sizes;
}

/* The policy frees these arrays. */
static void *copy_of(const void *array, size_t bytes) {
        void *copy = malloc(bytes);

        assert_non_null(copy);
        return memcpy(copy, array, bytes);
}

static void open_story(struct story *s) {
        s->now_ns = NS_PER_S;
        s->n_pushes = 0;
        s->n_waiting = 0;
        s->equal_shapes = draw(s, 2);
        s->has_inversions = draw(s, 4) == 0;
        s->max_rows = draw(s, 2) ? 1 : 5;
        s->policy = (struct batching_config){
                .max_batch_size = draw(s, 2) ? 8 : 40,
                .max_queue_delay_ns = draw(s, 2) ? (1 + draw(s, 600)) * NS_PER_US : 0,
                .priority_levels = draw(s, 2) ? N_LEVELS : 0,
                .default_priority_level = 1 + draw(s, N_LEVELS),
                .default_policy = random_policy(s),
        };
        random_sizes(s);
        for (uint64_t level = 1; level <= N_LEVELS; level++)
                if (s->policy.priority_levels > 0 && draw(s, 2))
                        s->levels[s->policy.n_level_policies++] =
                                (struct level_policy){ level, random_policy(s) };
        s->policy.level_policies = s->levels;

        struct batching_config copy = s->policy;

        copy.preferred_sizes = copy_of(s->sizes, sizeof(s->sizes));
        copy.level_policies = copy_of(s->levels, sizeof(s->levels));
        s->rules = policy_dynamic_new(&(struct policy_dynamic_options){
                .batching = &copy, .equal_shapes = s->equal_shapes });
        list_init(&s->idle);
        request_queue_init(&s->queue, s->rules->limits);
}

static void close_story(struct story *s) {
        sort(s);
        take(s, (uint32_t)s->n_waiting);
        check_due(s);
        request_queue_done(&s->queue);
        policy_free(s->rules);
}

static void test_random_stories(void **state) {
        struct story *s = calloc(1, sizeof(*s));

        (void)state;
        assert_non_null(s);
        s->random = UINT64_C(0x9e3779b97f4a7c15);
        s->fake = fake_model_new("name: 'm' max_batch_size: 40 "
                                 "input { name: 'X' data_type: TYPE_INT8 dims: -1 }");
        for (size_t i = 0; i < N_REQUESTS; i++) {
                s->requests[i] = fake_request(s->fake);
                add_input(s->requests[i], "X", DATA_TYPE_INT8, 1, i % 12 == 0 ? 2 : 1);
                assert_ok(request_prepare(s->requests[i]), "prepare");
        }
        for (unsigned story = 0; story < N_STORIES; story++) {
                open_story(s);
                for (unsigned i = 0; i < N_STEPS; i++)
                        step(s);
                close_story(s);
        }
        for (size_t i = 0; i < N_REQUESTS; i++)
                request_free(s->requests[i]);
        fake_model_free(s->fake);
        free(s);
}

SUITE(policy_dynamic_model) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_random_stories),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
