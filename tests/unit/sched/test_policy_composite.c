/* SPDX-License-Identifier: BSD-3-Clause */
/* Members that take certain batch sizes, on a clock of the test: which batches are formed, when, and on
 * which member; and random orders of events against a plain model of the rules. The numbers in the
 * names of tests are those of the acceptance checks.
 */
#include "suite.h"

#include "sched/batch_sizes.h"
#include "sched/policy_sim.h"
#include "shortage.h"

#include <limits.h>

#define MODEL "name: 'm' max_batch_size: 16 input { name: 'X' data_type: TYPE_FP32 dims: 1 } "
#define VARIABLE "name: 'm' max_batch_size: 16 input { name: 'X' data_type: TYPE_FP32 dims: -1 } "
#define MAX_MEMBERS 12
#define N_ORDERS 100000

static struct sim_pool pool;

static uint64_t fixed_cost(uint64_t rows) {
        (void)rows;
        return 1000;
}

/* The largest member is slow. */
static uint64_t slow_eight(uint64_t rows) {
        return rows == 8 ? 100000 : 50000;
}

static uint64_t slow_others(uint64_t rows) {
        return rows == 8 ? 20000 : 100000;
}

struct setting {
        const uint32_t (*ranges)[2];
        unsigned           n;
        uint64_t           delay_us;
        enum adaptive_mode mode;
        bool               is_exclusive, may_wait, may_not_split, equal_shapes;
        sim_cost_fn        cost;
};

static const uint32_t three[][2] = { { 1, 1 }, { 4, 4 }, { 8, 8 } };

static struct policy *make_policy(const struct setting *o) {
        struct batching_config batching = { .max_queue_delay_ns = o->delay_us * NS_PER_US };
        struct row_range       ranges[MAX_MEMBERS];
        struct policy         *policy;

        for (unsigned i = 0; i < o->n; i++) {
                ranges[i] = (struct row_range){ o->ranges[i][0], o->ranges[i][1] };
                batching.max_batch_size = MAX(batching.max_batch_size, o->ranges[i][1]);
        }
        assert_ok(policy_composite_new(
                          &(struct policy_composite_options){ .batching = &batching,
                                                              .ranges = ranges,
                                                              .n_ranges = o->n,
                                                              .may_wait = o->may_wait,
                                                              .may_split = !o->may_not_split,
                                                              .is_exclusive = o->is_exclusive,
                                                              .equal_shapes = o->equal_shapes,
                                                              .adaptive = o->mode },
                          &policy),
                  "policy");
        return policy;
}

static void open_sim(struct sim *s, const struct setting *o) {
        sim_open(s, make_policy(o), o->ranges, o->n, o->cost != NULL ? o->cost : fixed_cost);
}

static void arrive(struct sim *s, uint64_t at_us, uint64_t rows) {
        sim_arrives(s, at_us, pool.requests[s->n_requests], rows);
}

/* All requests are queued before the first decision. */
static void queue_all(struct sim *s, const uint64_t *rows, unsigned n) {
        for (unsigned i = 0; i < n; i++) {
                struct request *req = pool.requests[i];

                req->batch_size = rows != NULL ? rows[i] : 1;
                s->requests[s->n_requests++] = req;
                sim_arrive(s, req);
        }
        sim_at(s, 0, SIM_TIMER, 0);
}

/* Returns the executions of requests with these rows, queued at once: "8 on 2, 4 on 1". */
static void check_queued(const struct setting *o, const uint64_t *rows, unsigned n,
                         const char *expected) {
        struct sim s;
        char       got[512] = "";
        size_t     len = 0;

        open_sim(&s, o);
        queue_all(&s, rows, n);
        sim_run(&s);
        for (unsigned i = 0; i < s.n_starts; i++)
                len += (size_t)snprintf(got + len, sizeof(got) - len, "%s%llu on %u",
                                        i > 0 ? ", " : "", (unsigned long long)s.starts[i].rows,
                                        s.starts[i].instance);
        assert_string_equal(got, expected);
        sim_close(&s);
}

#define CHECK_QUEUED(o, expected, ...)                                                             \
        check_queued(o, (const uint64_t[]){ __VA_ARGS__ },                                         \
                     sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t), expected)

static void test_30_thirteen_are_eight_four_and_one(void **state) {
        const struct setting o = { three, 3, .mode = ADAPTIVE_OFF };
        struct sim           s;

        (void)state;
        open_sim(&s, &o);
        queue_all(&s, NULL, 13);
        sim_run(&s);
        assert_starts(&s, "0 r0+8 i2, 0 r8+4 i1, 0 r12+1 i0");
        sim_close(&s);
}

static void test_31_plans(void **state) {
        static const uint32_t eight_of_each[][2] = { { 1, 1 }, { 1, 1 }, { 1, 1 },
                                                     { 4, 4 }, { 4, 4 }, { 8, 8 },
                                                     { 8, 8 }, { 8, 8 }, { 1, 1 } };
        static const struct {
                unsigned    n;
                const char *sizes;
        } rows[] = { { 1, "1" },       { 2, "11" },     { 3, "111" }, { 4, "4" },
                     { 5, "41" },      { 7, "4111" },   { 8, "8" },   { 9, "81" },
                     { 12, "84" },     { 15, "84111" }, { 16, "88" }, { 23, "884111" },
                     { 31, "8884111" } };
        const struct setting o = { eight_of_each, 9, .mode = ADAPTIVE_OFF };

        (void)state;
        for (size_t k = 0; k < ARRAY_LEN(rows); k++) {
                struct sim s;
                char       got[32] = "";

                open_sim(&s, &o);
                queue_all(&s, NULL, rows[k].n);
                sim_run(&s);
                for (unsigned i = 0; i < s.n_starts; i++) {
                        assert_int_equal(s.starts[i].at_us, 0);
                        got[i] = (char)('0' + s.starts[i].rows);
                }
                assert_string_equal(got, rows[k].sizes);
                sim_close(&s);
        }
}

static void test_32_fewest_executions(void **state) {
        static const uint32_t members[][2] = { { 1, 1 }, { 4, 6 }, { 4, 6 }, { 9, 16 } };
        const struct setting  o = { members, 4, .mode = ADAPTIVE_OFF };

        (void)state;
        CHECK_QUEUED(&o, "4 on 1, 4 on 2", 1, 1, 1, 1, 1, 1, 1, 1);
        check_queued(&o, NULL, 24, "16 on 3, 4 on 1, 4 on 2");
}

static void test_37_38_requests_of_several_rows(void **state) {
        static const uint32_t two_fours[][2] = { { 1, 1 }, { 4, 4 }, { 4, 4 }, { 8, 8 } };
        const struct setting  o = { three, 3, .mode = ADAPTIVE_OFF };

        (void)state;
        CHECK_QUEUED(&o, "8 on 2", 3, 5);
        CHECK_QUEUED(&o, "8 on 2", 4, 3, 1);
        CHECK_QUEUED(&o, "1 on 0, 1 on 0, 1 on 0", 3);
        CHECK_QUEUED(&o, "8 on 2", 8);
        CHECK_QUEUED(&o, "4 on 1, 1 on 0", 3, 2); /* the second one is split */

        const struct setting two = { two_fours, 4, .mode = ADAPTIVE_OFF };

        CHECK_QUEUED(&two, "4 on 1, 4 on 2, 1 on 0", 4, 5); /* 4, and 5 in parts */
}

static void test_37_without_splitting(void **state) {
        static const uint32_t members[][2] = { { 1, 1 }, { 3, 3 }, { 4, 4 } };
        const struct setting  o = { members, 3, .mode = ADAPTIVE_OFF, .may_not_split = true };
        struct policy        *policy = make_policy(&o);
        struct error         *err;
        unsigned              n = 0;

        (void)state;
        /* The plan for 6 is 3,3, but the first request has 4 rows. */
        CHECK_QUEUED(&o, "4 on 2, 1 on 0, 1 on 0", 4, 1, 1);
        for (unsigned rows = 1; rows <= 4; rows++) {
                pool.requests[0]->batch_size = rows;
                if (rows == 2)
                        assert_error(policy->ops->admit(policy, pool.requests[0]), ERR_INVALID_ARG,
                                     "[request id: <id_unknown>] batch size 2 not supported; "
                                     "allowed: 1,3-4");
                else
                        assert_ok(policy->ops->admit(policy, pool.requests[0]), "admitted");
        }
        pool.requests[0]->batch_size = 2;
        do {
                mem_fail_once(++n);
                err = policy->ops->admit(policy, pool.requests[0]);
        } while (expect_or_shortage(err, ERR_INVALID_ARG,
                                    "[request id: <id_unknown>] batch size 2 not supported; "
                                    "allowed: 1,3-4"));
        policy_free(policy);
}

static void test_34_some_may_wait(void **state) {
        static const uint32_t members[][2] = { { 4, 4 }, { 8, 8 } };
        const struct setting  o = { members, 2, .mode = ADAPTIVE_OFF, .may_wait = true };
        struct sim            s;

        (void)state;
        open_sim(&s, &o);
        queue_all(&s, NULL, 13);
        arrive(&s, 5000, 1);
        arrive(&s, 6000, 1);
        arrive(&s, 7000, 1);
        sim_run(&s);
        assert_starts(&s, "0 r0+8 i1, 0 r8+4 i0, 7000 r12+4 i0");
        sim_close(&s);
}

/* When the model ends, waiting rows run at once, and rows that no member takes are refused. */
static void test_drained(void **state) {
        static const uint32_t large[][2] = { { 4, 4 }, { 8, 8 } };
        const struct setting  late = { three, 3, .delay_us = 10000, .mode = ADAPTIVE_OFF };
        const struct setting  waits = { large, 2, .mode = ADAPTIVE_OFF, .may_wait = true };
        struct sim            s;

        (void)state;
        open_sim(&s, &late);
        queue_all(&s, NULL, 5);
        sim_at(&s, 700, SIM_DRAIN, 0);
        sim_run(&s);
        assert_starts(&s, "700 r0+4 i1, 700 r4+1 i0");
        assert_int_equal(s.reasons[0], DISPATCH_DRAIN);
        assert_int_equal(s.n_refused, 0);
        sim_close(&s);

        open_sim(&s, &waits);
        queue_all(&s, NULL, 13);
        sim_at(&s, 700, SIM_DRAIN, 0);
        sim_run(&s);
        assert_starts(&s, "0 r0+8 i1, 0 r8+4 i0");
        assert_int_equal(s.n_refused, 1);
        sim_close(&s);
}

/* The planned member is busy. Rows that are due run at once on another one; other rows run later. */
static void test_40_a_busy_member(void **state) {
        struct setting o = { three, 3, .mode = ADAPTIVE_OFF, .cost = slow_eight };
        struct sim     s;

        (void)state;
        open_sim(&s, &o);
        queue_all(&s, NULL, 8);
        for (unsigned i = 0; i < 8; i++)
                arrive(&s, 1000, 1);
        sim_run(&s);
        /* The first of the second eight runs alone at once, since no other request is there. */
        assert_int_equal(s.starts[0].rows, 8);
        assert_int_equal(s.starts[1].rows, 1);
        assert_int_equal(s.starts[2].rows, 4);
        sim_close(&s);

        open_sim(&s, &o);
        queue_all(&s, NULL, 16); /* eight more are there at once */
        sim_run(&s);
        assert_int_equal(s.starts[1].rows, 4);
        assert_int_equal(s.starts[2].rows, 1);
        assert_int_equal(s.starts[1].at_us, 0);
        assert_int_equal(s.starts[2].at_us, 0);
        sim_close(&s);

        o.delay_us = 50000;
        o.cost = fixed_cost;
        open_sim(&s, &o);
        queue_all(&s, NULL, 8);
        for (unsigned i = 0; i < 8; i++)
                arrive(&s, 500, 1);
        sim_run(&s);
        assert_starts(&s, "0 r0+8 i2, 1000 r8+8 i2"); /* late: one batch, which had waited */
        sim_close(&s);
}

static void test_41_a_batch_grows_until_a_member_takes_it(void **state) {
        const struct setting o = { three, 3, .mode = ADAPTIVE_OFF, .cost = slow_others };
        struct sim           s;

        (void)state;
        open_sim(&s, &o);
        queue_all(&s, NULL, 13); /* all three members are busy */
        for (unsigned i = 0; i < 8; i++)
                arrive(&s, 1000 * (1 + i), 1);
        sim_run(&s);
        assert_starts(&s, "0 r0+8 i2, 0 r8+4 i1, 0 r12+1 i0, 20000 r13+8 i2");
        sim_close(&s);
}

static void test_42_exclusive_members(void **state) {
        static const uint32_t two_of_each[][2] = { { 1, 1 }, { 4, 4 }, { 8, 8 },
                                                   { 1, 1 }, { 4, 4 }, { 8, 8 } };
        struct setting        o = { three, 3, .mode = ADAPTIVE_OFF, .is_exclusive = true };
        struct sim            s;

        (void)state;
        open_sim(&s, &o);
        queue_all(&s, NULL, 13);
        sim_run(&s);
        assert_starts(&s, "0 r0+8 i2, 1000 r8+4 i1, 2000 r12+1 i0");
        sim_close(&s);

        o.ranges = two_of_each;
        o.n = 6;
        open_sim(&s, &o);
        queue_all(&s, NULL, 13);
        sim_run(&s);
        assert_starts(&s, "0 r0+8 i2, 0 r8+4 i4, 1000 r12+1 i0");
        sim_close(&s);
}

/* Eight requests with two shapes, alternating. */
static void run_two_shapes(const struct setting *o, struct sim *s) {
        struct fake_model *fake = fake_model_new(VARIABLE);
        struct request    *requests[8];

        open_sim(s, o);
        for (unsigned i = 0; i < 8; i++) {
                requests[i] = fake_request(fake);
                add_zeroed_input(requests[i], "X", DATA_TYPE_FP32,
                                 (int64_t[]){ 1, i % 2 == 0 ? 3 : 5 }, 2);
                assert_ok(request_prepare(requests[i]), "prepare");
                s->requests[s->n_requests++] = requests[i];
                sim_arrive(s, requests[i]);
        }
        sim_at(s, 0, SIM_TIMER, 0);
        sim_run(s);
        sim_close(s);
        for (unsigned i = 0; i < 8; i++)
                request_free(requests[i]);
        fake_model_free(fake);
}

static void test_39_shapes_are_not_mixed(void **state) {
        static const uint32_t two_fours[][2] = { { 1, 1 }, { 4, 4 }, { 4, 4 }, { 8, 8 } };
        const struct setting  one = { three, 3, .mode = ADAPTIVE_OFF, .equal_shapes = true };
        const struct setting  two = { two_fours, 4, .mode = ADAPTIVE_OFF, .equal_shapes = true };
        struct sim            s;

        (void)state;
        run_two_shapes(&two, &s);
        assert_int_equal(s.n_starts, 2);
        for (unsigned k = 0; k < 2; k++) {
                assert_int_equal(s.starts[k].rows, 4);
                for (unsigned i = 0; i < 4; i++)
                        assert_int_equal(s.starts[k].all[i], 2 * i + k);
        }
        /* The only member for four is busy. A request of the other shape runs alone at once. */
        run_two_shapes(&one, &s);
        assert_int_equal(s.starts[0].rows, 4);
        for (unsigned i = 0; i < 4; i++)
                assert_int_equal(s.starts[0].all[i], 2 * i);
        assert_int_equal(s.starts[1].rows, 1);
        assert_int_equal(s.starts[1].all[0], 1);
}

/* Members of one row have no reason to wait. */
static void test_49_members_of_one_row(void **state) {
        static const uint32_t ones[][2] = { { 1, 1 }, { 1, 1 } };

        (void)state;
        for (int mode = ADAPTIVE_OFF; mode <= ADAPTIVE_FLOW; mode++) {
                const struct setting o = { ones, 2, .delay_us = 10000,
                                           .mode = (enum adaptive_mode)mode };
                struct sim           s;

                open_sim(&s, &o);
                arrive(&s, 0, 1);
                arrive(&s, 100, 1);
                arrive(&s, 200, 1);
                sim_run(&s);
                assert_starts(&s, "0 r0+1 i0, 100 r1+1 i1, 1000 r2+1 i0");
                sim_close(&s);
        }
}

static void test_a_lone_request_flows(void **state) {
        const struct setting o = { three, 3, .delay_us = 10000, .mode = ADAPTIVE_FLOW };
        struct sim           s;

        (void)state;
        open_sim(&s, &o);
        arrive(&s, 0, 1);
        arrive(&s, 3000, 1);
        sim_run(&s);
        assert_starts(&s, "0 r0+1 i0, 3000 r1+1 i0");
        sim_close(&s);
}

/* The second client's request would run alone anyway, so the first does not wait for it. */
static void test_flow_does_not_wait_for_rows_that_change_nothing(void **state) {
        const struct setting o = { three, 3, .delay_us = 10000, .mode = ADAPTIVE_FLOW };
        struct sim           s;

        (void)state;
        open_sim(&s, &o);
        arrive(&s, 0, 1);
        arrive(&s, 100, 1); /* two clients */
        sim_run(&s);
        assert_starts(&s, "0 r0+1 i0, 1000 r1+1 i0");
        sim_close(&s);

        open_sim(&s, &o);
        /* four clients: three more requests make a batch of four */
        for (unsigned i = 0; i < 4; i++)
                arrive(&s, i * 100, 1);
        arrive(&s, 1200, 1);
        sim_run(&s);
        assert_starts(&s, "0 r0+1 i0, 1200 r1+4 i1");
        sim_close(&s);
}

/* ---- random orders of events ----------------------------------------------------------------- */

/* The rules again, for requests of one row; the model tries each size. */
struct rules {
        const struct setting *o;
        uint64_t              ends_us[MAX_MEMBERS]; /* 0: free */
        uint64_t              rows[MAX_MEMBERS];
        uint64_t              freed_us[MAX_MEMBERS];
        uint64_t              freed_order[MAX_MEMBERS];
        uint64_t              order;
        uint64_t              waiting_us[SIM_MAX_REQUESTS];
        unsigned              numbers[SIM_MAX_REQUESTS];
        unsigned              n_waiting;
        uint64_t              believed;
        uint64_t              average_ns;
        /* number of executions; UINT_MAX: they cannot be served */
        unsigned         fewest[SIM_MAX_REQUESTS + 1];
        struct sim_start starts[SIM_MAX_STARTS];
        unsigned         n_starts;
};

static unsigned rules_largest(const struct rules *m) {
        unsigned largest = 0;

        for (unsigned i = 0; i < m->o->n; i++)
                largest = MAX(largest, m->o->ranges[i][1]);
        return largest;
}

static bool rules_has_size(const struct rules *m, unsigned size) {
        for (unsigned i = 0; i < m->o->n; i++)
                if (size >= m->o->ranges[i][0] && size <= m->o->ranges[i][1])
                        return true;
        return false;
}

static void rules_count(struct rules *m) {
        for (unsigned n = 0; n <= SIM_MAX_REQUESTS; n++) {
                m->fewest[n] = n == 0 ? 0 : UINT_MAX;
                for (unsigned size = 1; size <= n; size++)
                        if (rules_has_size(m, size) && m->fewest[n - size] != UINT_MAX)
                                m->fewest[n] = MIN(m->fewest[n], m->fewest[n - size] + 1);
        }
}

static unsigned rules_plan_of(const struct rules *m, uint64_t n) {
        if (n >= rules_largest(m))
                return rules_largest(m);
        for (unsigned size = (unsigned)n; size > 0; size--)
                if (rules_has_size(m, size) && m->fewest[n - size] + 1 == m->fewest[n])
                        return size;
        return 0;
}

static unsigned rules_plan(const struct rules *m) {
        return rules_plan_of(m, m->n_waiting);
}

static uint32_t rules_virtual(const struct rules *m, unsigned i) {
        return sim_virtual_index(m->o->ranges, i);
}

static int rules_member(const struct rules *m, unsigned size) {
        int best = -1;

        for (unsigned i = 0; i < m->o->n; i++) {
                bool is_free = m->ends_us[i] == 0 && size >= m->o->ranges[i][0] &&
                               size <= m->o->ranges[i][1];

                for (unsigned k = 0; k < m->o->n && m->o->is_exclusive; k++)
                        is_free = is_free && (m->ends_us[k] == 0 ||
                                              rules_virtual(m, k) != rules_virtual(m, i));
                if (is_free && (best < 0 || m->o->ranges[i][1] < m->o->ranges[best][1] ||
                                (m->o->ranges[i][1] == m->o->ranges[best][1] &&
                                 m->freed_order[i] > m->freed_order[best])))
                        best = (int)i;
        }
        return best;
}

static uint64_t rules_running(const struct rules *m) {
        uint64_t rows = 0;

        for (unsigned i = 0; i < m->o->n; i++)
                rows += m->ends_us[i] != 0 ? m->rows[i] : 0;
        return rows;
}

static void rules_start(struct rules *m, unsigned member, unsigned size, uint64_t now_us) {
        m->starts[m->n_starts++] =
                (struct sim_start){ now_us, member, size, m->numbers[0], size, { 0 } };
        m->ends_us[member] = now_us + m->o->cost(size);
        m->rows[member] = size;
        m->n_waiting -= size;
        memmove(m->waiting_us, m->waiting_us + size, m->n_waiting * sizeof(*m->waiting_us));
        memmove(m->numbers, m->numbers + size, m->n_waiting * sizeof(*m->numbers));
}

/* True when adaptive batching lets the batch run on that member; otherwise sets the time until
 * which it waits. */
static bool rules_early(struct rules *m, int member, uint64_t now_us, uint64_t *ret_until_us) {
        uint64_t running = rules_running(m), patience_ns, from_us;

        *ret_until_us = UINT64_MAX;
        if (member < 0 || m->o->delay_us == 0)
                return false;
        if (m->o->mode == ADAPTIVE_IDLE)
                return m->n_waiting == 1 && running == 0;
        if (m->o->mode != ADAPTIVE_FLOW)
                return false;
        if (m->n_waiting >= rules_largest(m) || m->n_waiting + running >= m->believed ||
            rules_plan_of(m, MIN(m->believed - running, rules_largest(m))) == rules_plan(m))
                return true;
        patience_ns = MIN(m->o->delay_us * NS_PER_US, m->average_ns);
        from_us = MAX(m->waiting_us[0], m->freed_us[member]);
        if (now_us * NS_PER_US >= from_us * NS_PER_US + patience_ns) {
                m->believed = m->n_waiting + running;
                return true;
        }
        *ret_until_us = from_us + (patience_ns + NS_PER_US - 1) / NS_PER_US;
        return false;
}

/* Runs one batch if there is one. */
static bool rules_step(struct rules *m, uint64_t now_us, uint64_t *ret_until_us) {
        unsigned size = rules_plan(m);
        int      member = rules_member(m, size);
        bool     is_due = now_us >= m->waiting_us[0] + m->o->delay_us;
        bool     is_full = m->n_waiting >= rules_largest(m) && member >= 0;
        bool     is_early = !is_full && rules_early(m, member, now_us, ret_until_us);

        if (!is_full && !is_due && !is_early) {
                *ret_until_us = MIN(*ret_until_us, m->waiting_us[0] + m->o->delay_us);
                return false;
        }
        *ret_until_us = UINT64_MAX;
        for (unsigned s = MIN(m->n_waiting, rules_largest(m)); member < 0 && s > 0; s--) {
                member = rules_member(m, s);
                size = s;
        }
        if (member < 0)
                return false;
        rules_start(m, (unsigned)member, size, now_us);
        return true;
}

static uint64_t rules_react(struct rules *m, uint64_t now_us) {
        uint64_t until_us = UINT64_MAX;
        bool     is_anyone_free = true;

        while (m->n_waiting > 0 && is_anyone_free) {
                is_anyone_free = false;
                for (unsigned i = 0; i < m->o->n; i++)
                        is_anyone_free |= m->ends_us[i] == 0;
                if (is_anyone_free && !rules_step(m, now_us, &until_us))
                        return until_us;
        }
        return UINT64_MAX;
}

static void rules_end(struct rules *m, unsigned member) {
        uint64_t took_ns = m->o->cost(m->rows[member]) * NS_PER_US;

        m->freed_us[member] = m->ends_us[member];
        m->freed_order[member] = ++m->order;
        m->ends_us[member] = 0;
        m->average_ns =
                m->average_ns == 0 ? took_ns : m->average_ns - m->average_ns / 4 + took_ns / 4;
}

static void rules_run(struct rules *m, const uint64_t *arrivals_us, unsigned n) {
        uint64_t until_us = UINT64_MAX;
        unsigned next = 0;

        for (;;) {
                uint64_t now_us = next < n ? MIN(arrivals_us[next], until_us) : until_us;
                int      ending = -1;

                for (unsigned i = 0; i < m->o->n; i++)
                        if (m->ends_us[i] != 0)
                                now_us = MIN(now_us, m->ends_us[i]);
                if (now_us == UINT64_MAX)
                        return;
                for (unsigned i = 0; i < m->o->n && ending < 0; i++)
                        if (m->ends_us[i] == now_us)
                                ending = (int)i;
                if (ending >= 0) {
                        rules_end(m, (unsigned)ending);
                } else if (next < n && arrivals_us[next] == now_us) {
                        m->waiting_us[m->n_waiting] = now_us;
                        m->numbers[m->n_waiting++] = next++;
                        m->believed = MAX(m->believed, m->n_waiting + rules_running(m));
                }
                until_us = rules_react(m, now_us);
        }
}

static uint64_t draw(uint64_t *state, uint64_t below) {
        *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return (*state >> 33) % below;
}

static uint64_t odd_cost(uint64_t rows) {
        return 331 + 64 * rows;
}

/* Groups of one to three members each. One of the groups takes a single row. */
static unsigned draw_members(uint64_t *random, uint32_t (*ranges)[2]) {
        unsigned n_groups = 1 + (unsigned)draw(random, 3), n = 0;

        for (unsigned g = 0; g < n_groups; g++) {
                uint32_t from = g == 0 ? 1 : 2 + (uint32_t)draw(random, 8);
                uint32_t to = from + (draw(random, 2) == 0 ? (uint32_t)draw(random, 4) : 0);
                unsigned count = 1 + (unsigned)draw(random, 3);

                while (count-- > 0) {
                        ranges[n][0] = from;
                        ranges[n++][1] = to;
                }
        }
        return n;
}

static unsigned draw_arrivals(uint64_t *random, uint64_t *arrivals_us) {
        uint64_t gap_us = 1 + draw(random, 3) * 300;
        uint64_t at_us = 0;
        unsigned n = 1 + (unsigned)draw(random, 20);

        for (unsigned i = 0; i < n; i++) {
                at_us += 1 + draw(random, gap_us + (draw(random, 6) == 0 ? 900 : 10));
                arrivals_us[i] = at_us;
        }
        return n;
}

/* Two events at the same time: the model and the policy may order them differently. */
static bool is_ambiguous(const struct rules *m, const uint64_t *arrivals_us, unsigned n) {
        for (unsigned i = 0; i < m->n_starts; i++) {
                uint64_t end_us = m->starts[i].at_us + m->o->cost(m->starts[i].rows);

                for (unsigned k = 0; k < n; k++)
                        if (arrivals_us[k] == end_us)
                                return true;
                for (unsigned k = 0; k < i; k++)
                        if (m->starts[k].at_us + m->o->cost(m->starts[k].rows) == end_us)
                                return true;
        }
        return false;
}

static bool is_same_start(const struct sim_start *a, const struct sim_start *b) {
        return a->at_us == b->at_us && a->instance == b->instance && a->rows == b->rows &&
               a->first == b->first && a->n == b->n;
}

static bool check_order(unsigned number, uint64_t *random) {
        static struct sim s;
        uint32_t          ranges[MAX_MEMBERS][2];
        uint64_t          arrivals_us[SIM_MAX_REQUESTS];
        unsigned          n = draw_arrivals(random, arrivals_us);
        struct setting    o = { .ranges = (const uint32_t(*)[2])ranges,
                                .n = draw_members(random, ranges),
                                .delay_us = draw(random, 3) == 0 ? 0 : 300 + 100 * draw(random, 20),
                                .mode = (enum adaptive_mode)draw(random, 3),
                                .is_exclusive = draw(random, 3) == 0,
                                .cost = draw(random, 2) == 0 ? fixed_cost : odd_cost };
        struct rules      m = { .o = &o };

        for (unsigned i = 0; i < o.n; i++)
                m.freed_order[i] = o.n - i;
        m.order = o.n;
        rules_count(&m);
        rules_run(&m, arrivals_us, n);
        if (is_ambiguous(&m, arrivals_us, n))
                return false;
        open_sim(&s, &o);
        for (unsigned i = 0; i < n; i++)
                arrive(&s, arrivals_us[i], 1);
        sim_run(&s);
        for (unsigned i = 0; i < MIN(s.n_starts, m.n_starts); i++)
                if (!is_same_start(&s.starts[i], &m.starts[i]))
                        fail_msg("order %u, start %u: at %llu us %llu rows on %u, expected at %llu "
                                 "%llu on %u",
                                 number, i, (unsigned long long)s.starts[i].at_us,
                                 (unsigned long long)s.starts[i].rows, s.starts[i].instance,
                                 (unsigned long long)m.starts[i].at_us,
                                 (unsigned long long)m.starts[i].rows, m.starts[i].instance);
        assert_int_equal(s.n_starts, m.n_starts);
        sim_close(&s);
        return true;
}

static void test_random_orders(void **state) {
        uint64_t random = 11;
        unsigned n_checked = 0;

        (void)state;
        for (unsigned i = 0; n_checked < N_ORDERS; i++)
                n_checked += check_order(i, &random);
}

SUITE(policy_composite) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_30_thirteen_are_eight_four_and_one),
                cmocka_unit_test(test_31_plans),
                cmocka_unit_test(test_32_fewest_executions),
                cmocka_unit_test(test_37_38_requests_of_several_rows),
                cmocka_unit_test(test_37_without_splitting),
                cmocka_unit_test(test_34_some_may_wait),
                cmocka_unit_test(test_drained),
                cmocka_unit_test(test_40_a_busy_member),
                cmocka_unit_test(test_41_a_batch_grows_until_a_member_takes_it),
                cmocka_unit_test(test_42_exclusive_members),
                cmocka_unit_test(test_39_shapes_are_not_mixed),
                cmocka_unit_test(test_49_members_of_one_row),
                cmocka_unit_test(test_a_lone_request_flows),
                cmocka_unit_test(test_flow_does_not_wait_for_rows_that_change_nothing),
                cmocka_unit_test(test_random_orders),
        };
        int result;

        sim_pool_open(&pool, MODEL);
        result = cmocka_run_group_tests(tests, NULL, NULL);
        sim_pool_close(&pool);
        return result;
}
