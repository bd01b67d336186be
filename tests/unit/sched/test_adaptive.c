/* SPDX-License-Identifier: BSD-3-Clause */
/* Adaptive batching of the dynamic batcher on a clock of the test: its documented rows, closed loops of
 * clients, and random orders of events against a plain model of its rules.
 */
#include "suite.h"

#include "sched/policy_sim.h"

#define MODEL "name: 'm' max_batch_size: 4 input { name: 'X' data_type: TYPE_FP32 dims: 1 } "
#define MAX_ROWS 4
#define DELAY_US 10000
#define EXECUTION_US 250
#define N_ORDERS 100000

static struct sim_pool pool;

static const uint32_t all_sizes[SIM_MAX_INSTANCES][2] = {
        { 1, MAX_ROWS }, { 1, MAX_ROWS }, { 1, MAX_ROWS }, { 1, MAX_ROWS }
};

static uint64_t constant_cost(uint64_t rows) {
        (void)rows;
        return EXECUTION_US;
}

/* A multiple of 4: moving averages stay exact for a while, and are rounded alike. */
static uint64_t linear_cost(uint64_t rows) {
        return 100 + 64 * rows;
}

static struct policy *make_policy(enum adaptive_mode mode, uint64_t delay_us) {
        struct batching_config batching = { .max_batch_size = MAX_ROWS,
                                            .max_queue_delay_ns = delay_us * NS_PER_US };

        batching.preferred_sizes = calloc(1, sizeof(*batching.preferred_sizes));
        assert_non_null(batching.preferred_sizes);
        batching.preferred_sizes[0] = MAX_ROWS; /* as the configuration is normalised */
        batching.n_preferred_sizes = 1;
        return policy_dynamic_new(
                &(struct policy_dynamic_options){ .batching = &batching, .adaptive = mode });
}

static void open_sim(struct sim *s, enum adaptive_mode mode, uint64_t delay_us,
                     unsigned n_instances, sim_cost_fn cost) {
        sim_open(s, make_policy(mode, delay_us), all_sizes, n_instances, cost);
}

static void arrive(struct sim *s, uint64_t at_us) {
        sim_arrives(s, at_us, pool.requests[s->n_requests], 1);
}

static void check(enum adaptive_mode mode, const uint64_t *arrivals_us, unsigned n,
                  const char *expected) {
        struct sim s;

        open_sim(&s, mode, DELAY_US, 1, constant_cost);
        for (unsigned i = 0; i < n; i++)
                arrive(&s, arrivals_us[i]);
        sim_run(&s);
        assert_starts(&s, expected);
        sim_close(&s);
}

#define CHECK(mode, expected, ...)                                                                 \
        check(mode, (const uint64_t[]){ __VA_ARGS__ },                                             \
              sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t), expected)

static void test_a_lone_request(void **state) {
        (void)state;
        CHECK(ADAPTIVE_OFF, "10000 r0+1 i0", 0);
        CHECK(ADAPTIVE_IDLE, "0 r0+1 i0", 0);
        CHECK(ADAPTIVE_FLOW, "0 r0+1 i0", 0);
        CHECK(ADAPTIVE_FLOW, "0 r0+1 i0, 300 r1+1 i0, 600 r2+1 i0", 0, 300, 600);
}

static void test_a_burst_of_three(void **state) {
        (void)state;
        CHECK(ADAPTIVE_OFF, "10000 r0+3 i0", 0, 0, 0);
        CHECK(ADAPTIVE_IDLE, "0 r0+1 i0, 10000 r1+2 i0", 0, 0, 0);
        /* Three were seen at once: the third is waited for, and does not come. */
        CHECK(ADAPTIVE_FLOW, "0 r0+1 i0, 500 r1+2 i0", 0, 0, 0);
}

static void test_a_full_batch_waits_for_nobody(void **state) {
        (void)state;
        CHECK(ADAPTIVE_OFF, "5 r0+4 i0, 10006 r4+1 i0", 0, 1, 2, 5, 6);
        CHECK(ADAPTIVE_FLOW, "0 r0+1 i0, 250 r1+4 i0, 750 r5+1 i0", 0, 1, 2, 3, 4, 5);
}

/* Two clients, one of which goes: the other waits for it once, for one execution. */
static void test_who_has_gone_is_waited_for_once(void **state) {
        (void)state;
        CHECK(ADAPTIVE_FLOW,
              "0 r0+1 i0, "   /* nobody else was ever seen */
              "500 r1+1 i0, " /* two were; the first does not come */
              "800 r2+1 i0, " /* from now on one is enough */
              "1100 r3+1 i0, "
              "1400 r4+1 i0",
              0, 10, 800, 1100, 1400);
}

/* Nobody waits longer than one execution after it came, nor than the queue delay. */
static void test_no_longer_than_the_delay(void **state) {
        struct sim s;

        (void)state;
        open_sim(&s, ADAPTIVE_FLOW, 100, 1, constant_cost);
        arrive(&s, 0);
        arrive(&s, 10);
        arrive(&s, 400); /* two were seen: it waits for 100 us */
        sim_run(&s);
        assert_starts(&s, "0 r0+1 i0, 250 r1+1 i0, 500 r2+1 i0");
        sim_close(&s);
        open_sim(&s, ADAPTIVE_FLOW, 100, 1, constant_cost);
        arrive(&s, 0);
        arrive(&s, 200);
        arrive(&s, 700);
        sim_run(&s);
        assert_starts(&s, "0 r0+1 i0, 300 r1+1 i0, 800 r2+1 i0");
        sim_close(&s);
}

static void test_without_a_delay_nothing_waits(void **state) {
        (void)state;
        for (int mode = ADAPTIVE_OFF; mode <= ADAPTIVE_FLOW; mode++) {
                struct sim s;

                open_sim(&s, (enum adaptive_mode)mode, 0, 1, constant_cost);
                for (unsigned i = 0; i < 4; i++)
                        arrive(&s, i * 10);
                sim_run(&s);
                assert_starts(&s, "0 r0+1 i0, 250 r1+3 i0");
                sim_close(&s);
        }
}
/* Once the model ends, what waits for others runs at once. */
static void test_drained(void **state) {
        struct sim s;

        (void)state;
        for (int mode = ADAPTIVE_OFF; mode <= ADAPTIVE_IDLE; mode++) {
                open_sim(&s, (enum adaptive_mode)mode, DELAY_US, 1, constant_cost);
                arrive(&s, 0);
                arrive(&s, 10);
                arrive(&s, 20);
                sim_at(&s, 1000, SIM_DRAIN, 0);
                sim_at(&s, 2000, SIM_DRAIN, 0); /* it may come twice */
                arrive(&s, 3000);               /* of a model that is made of this one */
                sim_run(&s);
                assert_starts(&s, mode == ADAPTIVE_OFF ? "1000 r0+3 i0, 3000 r3+1 i0"
                                                       : "0 r0+1 i0, 1000 r1+2 i0, 3000 r3+1 i0");
                assert_int_equal(s.reasons[s.n_starts - 2], DISPATCH_DRAIN);
                assert_int_equal(s.reasons[s.n_starts - 1],
                                 mode == ADAPTIVE_OFF ? DISPATCH_DRAIN : DISPATCH_IDLE);
                sim_close(&s);
        }
}

/* ---- closed loops ---------------------------------------------------------------------------- */

struct loop_result {
        uint64_t mean_us;
        uint64_t worst_us;
        double   mean_rows;
};

/* Clients that send again 40 to 60 us after each answer; rounds of executions. */
static struct loop_result run_loop(enum adaptive_mode mode, unsigned n_clients) {
        struct loop_result r = { 0 };
        uint64_t           sent_us[16], total_us = 0;
        unsigned           n_done = 0, n_started = 0;
        struct sim         s;

        open_sim(&s, mode, DELAY_US, 1, constant_cost);
        for (unsigned i = 0; i < n_clients; i++) {
                sent_us[i] = i * 3;
                arrive(&s, sent_us[i]);
        }
        for (unsigned round = 0; round < 100; round++) {
                const struct sim_start *start = &s.starts[0];

                s.n_starts = 0;
                while (s.n_starts == 0)
                        assert_true(sim_step(&s));
                n_started += (unsigned)start->rows;
                /* When the batch ends, its clients come again. */
                for (unsigned i = 0; i < start->n; i++) {
                        unsigned client = start->all[i];
                        uint64_t end_us = start->at_us + EXECUTION_US;
                        uint64_t latency_us = end_us - sent_us[client];

                        total_us += latency_us;
                        r.worst_us = MAX(r.worst_us, latency_us);
                        n_done++;
                        sent_us[client] = end_us + 40 + client * 20 / n_clients;
                        sim_at(&s, sent_us[client], SIM_ARRIVAL, client);
                }
        }
        sim_run(&s);
        r.mean_us = total_us / n_done;
        r.mean_rows = n_started / 100.0;
        sim_close(&s);
        return r;
}

static void test_closed_loops(void **state) {
        (void)state;
        for (unsigned n = 1; n <= 4; n++) {
                struct loop_result off = run_loop(ADAPTIVE_OFF, n);
                struct loop_result flow = run_loop(ADAPTIVE_FLOW, n);

                assert_in_range(flow.mean_us, EXECUTION_US, 300);
                assert_true(flow.mean_rows > n - 0.1);
                assert_in_range(flow.worst_us, EXECUTION_US, 2 * EXECUTION_US + 60);
                if (n < MAX_ROWS)
                        assert_in_range(off.mean_us, DELAY_US, DELAY_US + 2 * EXECUTION_US);
                else
                        assert_in_range(off.mean_us, EXECUTION_US, 300);
        }
}

/* ---- random orders of events ----------------------------------------------------------------- */

/* The rules once more, for requests of one row: an array of waiting requests and of members. */
struct rules {
        enum adaptive_mode mode;
        uint64_t           delay_us;
        sim_cost_fn        cost;
        unsigned           n_members;
        uint64_t           ends_us[SIM_MAX_INSTANCES]; /* 0: free */
        uint64_t           rows[SIM_MAX_INSTANCES];
        uint64_t           freed_us[SIM_MAX_INSTANCES];
        uint64_t freed_order[SIM_MAX_INSTANCES]; /* the last one to become free runs first */
        uint64_t order;
        uint64_t waiting_us[SIM_MAX_REQUESTS];
        unsigned numbers[SIM_MAX_REQUESTS];
        unsigned n_waiting;
        uint64_t believed; /* clients */
        uint64_t average_ns;
        struct sim_start starts[SIM_MAX_STARTS];
        unsigned         n_starts;
};

static uint64_t model_running(const struct rules *m) {
        uint64_t rows = 0;

        for (unsigned i = 0; i < m->n_members; i++)
                rows += m->ends_us[i] != 0 ? m->rows[i] : 0;
        return rows;
}

static int model_free_member(const struct rules *m) {
        int best = -1;

        for (unsigned i = 0; i < m->n_members; i++)
                if (m->ends_us[i] == 0 && (best < 0 || m->freed_order[i] > m->freed_order[best]))
                        best = (int)i;
        return best;
}

/* Must what is there run now on that member? Otherwise *ret_until_us is when it must at the latest. */
static bool model_must_run(struct rules *m, unsigned member, uint64_t now_us,
                           uint64_t *ret_until_us) {
        uint64_t running = model_running(m);
        uint64_t oldest_us = m->waiting_us[0];

        *ret_until_us = oldest_us + m->delay_us;
        if (m->n_waiting >= MAX_ROWS)
                return true;
        if (m->mode == ADAPTIVE_IDLE && m->n_waiting == 1 && running == 0)
                return true;
        if (m->mode != ADAPTIVE_FLOW)
                return now_us >= *ret_until_us;
        if (m->n_waiting + running >= MIN(m->believed, running + MAX_ROWS))
                return true;

        uint64_t patience_ns = MIN(m->delay_us * NS_PER_US, m->average_ns);
        uint64_t from_us = oldest_us > m->freed_us[member] ? oldest_us : m->freed_us[member];

        if (now_us * NS_PER_US >= from_us * NS_PER_US + patience_ns) {
                m->believed = m->n_waiting + running;
                return true;
        }
        *ret_until_us = MIN(*ret_until_us, from_us + (patience_ns + NS_PER_US - 1) / NS_PER_US);
        return now_us >= *ret_until_us;
}

static void model_start(struct rules *m, unsigned member, uint64_t now_us) {
        unsigned n = MIN(m->n_waiting, (unsigned)MAX_ROWS);

        m->starts[m->n_starts++] = (struct sim_start){ now_us, member, n, m->numbers[0], n, { 0 } };
        m->ends_us[member] = now_us + m->cost(n);
        m->rows[member] = n;
        for (unsigned i = n; i < m->n_waiting; i++) {
                m->waiting_us[i - n] = m->waiting_us[i];
                m->numbers[i - n] = m->numbers[i];
        }
        m->n_waiting -= n;
}

/* One moment: its arrivals and ends in the order of the story are the caller's; this is what follows. */
static uint64_t model_react(struct rules *m, uint64_t now_us) {
        uint64_t until_us = UINT64_MAX;
        int      member;

        while (m->n_waiting > 0 && (member = model_free_member(m)) >= 0) {
                if (!model_must_run(m, (unsigned)member, now_us, &until_us))
                        return until_us;
                model_start(m, (unsigned)member, now_us);
        }
        return UINT64_MAX;
}

static void model_end(struct rules *m, unsigned member) {
        uint64_t took_ns = m->cost(m->rows[member]) * NS_PER_US;

        m->freed_us[member] = m->ends_us[member];
        m->freed_order[member] = ++m->order;
        m->ends_us[member] = 0;
        m->average_ns =
                m->average_ns == 0 ? took_ns : m->average_ns - m->average_ns / 4 + took_ns / 4;
}

/* Moments are told apart by odd arrivals: ends and times to wait for fall on even microseconds. */
static void model_run(struct rules *m, const uint64_t *arrivals_us, unsigned n) {
        uint64_t until_us = UINT64_MAX;
        unsigned next = 0;

        for (;;) {
                uint64_t now_us = next < n ? MIN(arrivals_us[next], until_us) : until_us;

                for (unsigned i = 0; i < m->n_members; i++)
                        if (m->ends_us[i] != 0)
                                now_us = MIN(now_us, m->ends_us[i]);
                if (now_us == UINT64_MAX)
                        return;

                int ending = -1;

                for (unsigned i = 0; i < m->n_members && ending < 0; i++)
                        if (m->ends_us[i] == now_us)
                                ending = (int)i;
                if (ending >= 0) {
                        model_end(m, (unsigned)ending);
                } else if (next < n && arrivals_us[next] == now_us) {
                        m->waiting_us[m->n_waiting] = now_us;
                        m->numbers[m->n_waiting++] = next++;
                        m->believed = MAX(m->believed, m->n_waiting + model_running(m));
                }
                until_us = model_react(m, now_us);
        }
}

static uint64_t draw(uint64_t *state, uint64_t below) {
        *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return (*state >> 33) % below;
}

/* Ascending, none twice, so that the order is the story's and not the simulation's. */
static unsigned draw_arrivals(uint64_t *random, uint64_t *arrivals_us) {
        uint64_t gap_us = 1 + draw(random, 3) * 150;
        uint64_t at_us = 0;
        unsigned n = 1 + (unsigned)draw(random, 14);

        for (unsigned i = 0; i < n; i++) {
                at_us += 1 + draw(random, gap_us + (draw(random, 6) == 0 ? 600 : 10));
                arrivals_us[i] = at_us;
        }
        return n;
}

static bool is_same_start(const struct sim_start *a, const struct sim_start *b) {
        return a->at_us == b->at_us && a->instance == b->instance && a->rows == b->rows &&
               a->first == b->first && a->n == b->n;
}

/* An end of one moment may not be an arrival of the same: who comes first would be told differently. */
static bool is_ambiguous(const struct rules *m, const uint64_t *arrivals_us, unsigned n) {
        for (unsigned i = 0; i < m->n_starts; i++) {
                uint64_t end_us = m->starts[i].at_us + m->cost(m->starts[i].rows);

                for (unsigned k = 0; k < n; k++)
                        if (arrivals_us[k] == end_us)
                                return true;
                for (unsigned k = 0; k < i; k++)
                        if (m->starts[k].at_us + m->cost(m->starts[k].rows) == end_us)
                                return true;
        }
        return false;
}

static bool check_order(unsigned number, enum adaptive_mode mode, uint64_t *random) {
        static struct sim s;
        uint64_t          arrivals_us[SIM_MAX_REQUESTS];
        unsigned          n = draw_arrivals(random, arrivals_us);
        struct rules      m = { .mode = mode,
                                .delay_us = 300 + 100 * draw(random, 20),
                                .cost = draw(random, 2) == 0 ? constant_cost : linear_cost,
                                .n_members = 1 + (unsigned)draw(random, 3) };

        for (unsigned i = 0; i < m.n_members; i++)
                m.freed_order[i] = m.n_members - i;
        m.order = m.n_members;
        model_run(&m, arrivals_us, n);
        if (is_ambiguous(&m, arrivals_us, n))
                return false;
        open_sim(&s, mode, m.delay_us, m.n_members, m.cost);
        for (unsigned i = 0; i < n; i++)
                arrive(&s, arrivals_us[i]);
        sim_run(&s);
        for (unsigned i = 0; i < MIN(s.n_starts, m.n_starts); i++)
                if (!is_same_start(&s.starts[i], &m.starts[i]))
                        fail_msg("order %u, start %u: at %llu us %llu rows, expected at %llu %llu",
                                 number, i, (unsigned long long)s.starts[i].at_us,
                                 (unsigned long long)s.starts[i].rows,
                                 (unsigned long long)m.starts[i].at_us,
                                 (unsigned long long)m.starts[i].rows);
        assert_int_equal(s.n_starts, m.n_starts);
        sim_close(&s);
        return true;
}

static void test_random_orders(void **state) {
        uint64_t random = 7;
        unsigned n_checked = 0;

        (void)state;
        for (unsigned i = 0; n_checked < N_ORDERS; i++)
                n_checked += check_order(i, (enum adaptive_mode)(i % 3), &random);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void test_names(void **state) {
        static const char *const wrong[] = { "", "Off", "on", "flow ", "unsaid" };
        enum adaptive_mode       mode = ADAPTIVE_UNSAID;

        (void)state;
        assert_true(adaptive_mode_read("off", &mode));
        assert_int_equal(mode, ADAPTIVE_OFF);
        assert_true(adaptive_mode_read("idle", &mode));
        assert_int_equal(mode, ADAPTIVE_IDLE);
        assert_true(adaptive_mode_read("flow", &mode));
        assert_int_equal(mode, ADAPTIVE_FLOW);
        for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
                assert_false(adaptive_mode_read(wrong[i], &mode));
        assert_int_equal(mode, ADAPTIVE_FLOW);
}

SUITE(adaptive) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_a_lone_request),
                cmocka_unit_test(test_a_burst_of_three),
                cmocka_unit_test(test_a_full_batch_waits_for_nobody),
                cmocka_unit_test(test_who_has_gone_is_waited_for_once),
                cmocka_unit_test(test_no_longer_than_the_delay),
                cmocka_unit_test(test_without_a_delay_nothing_waits),
                cmocka_unit_test(test_drained),
                cmocka_unit_test(test_closed_loops),
                cmocka_unit_test(test_random_orders),
        };
        int result;

        sim_pool_open(&pool, MODEL);
        result = cmocka_run_group_tests(tests, NULL, NULL);
        sim_pool_close(&pool);
        return result;
}
