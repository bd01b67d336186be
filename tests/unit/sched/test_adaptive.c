/* SPDX-License-Identifier: BSD-3-Clause */
/* Adaptive batching of the dynamic batcher on a clock of the test: its documented rows, clients in
 * closed loops, random arrivals, and random orders of events against a plain model of its rules. The
 * numbers in the names of tests are those of the acceptance checks.
 */
#include "suite.h"

#include "sched/policy_sim.h"

#include <math.h>

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

/* A multiple of 4, so that the moving averages of both stay exact for a while and round in the same
 * way. */
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

static void test_48_a_lone_request(void **state) {
        (void)state;
        CHECK(ADAPTIVE_OFF, "10000 r0+1 i0", 0);
        CHECK(ADAPTIVE_IDLE, "0 r0+1 i0", 0);
        CHECK(ADAPTIVE_FLOW, "0 r0+1 i0", 0);
        CHECK(ADAPTIVE_FLOW, "0 r0+1 i0, 300 r1+1 i0, 600 r2+1 i0", 0, 300, 600);
}

static void test_51_a_burst_of_three(void **state) {
        (void)state;
        CHECK(ADAPTIVE_OFF, "10000 r0+3 i0", 0, 0, 0);
        CHECK(ADAPTIVE_IDLE, "0 r0+1 i0, 10000 r1+2 i0", 0, 0, 0);
        /* Three rows were seen at once. The third is awaited, but does not come. */
        CHECK(ADAPTIVE_FLOW, "0 r0+1 i0, 500 r1+2 i0", 0, 0, 0);
}

static void test_a_full_batch_waits_for_nobody(void **state) {
        (void)state;
        CHECK(ADAPTIVE_OFF, "5 r0+4 i0, 10006 r4+1 i0", 0, 1, 2, 5, 6);
        CHECK(ADAPTIVE_FLOW, "0 r0+1 i0, 250 r1+4 i0, 750 r5+1 i0", 0, 1, 2, 3, 4, 5);
}

/* Two clients, one of which goes. The other waits for it once, for one execution. */
static void test_46_who_has_gone_is_waited_for_once(void **state) {
        (void)state;
        CHECK(ADAPTIVE_FLOW,
              "0 r0+1 i0, "   /* only one row was ever seen */
              "500 r1+1 i0, " /* two rows were seen; the first client does not come */
              "800 r2+1 i0, " /* from now on one row is enough */
              "1100 r3+1 i0, "
              "1400 r4+1 i0",
              0, 10, 800, 1100, 1400);
}

/* No request waits longer than one execution after its arrival, or longer than the queue delay. */
static void test_no_longer_than_the_delay(void **state) {
        struct sim s;

        (void)state;
        open_sim(&s, ADAPTIVE_FLOW, 100, 1, constant_cost);
        arrive(&s, 0);
        arrive(&s, 10);
        arrive(&s, 400); /* two rows were seen: it waits for 100 us */
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

static void test_50_without_a_delay_nothing_waits(void **state) {
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
/* When the model ends, a batch that waits for more rows runs at once. */
static void test_drained(void **state) {
        struct sim s;

        (void)state;
        for (int mode = ADAPTIVE_OFF; mode <= ADAPTIVE_IDLE; mode++) {
                open_sim(&s, (enum adaptive_mode)mode, DELAY_US, 1, constant_cost);
                arrive(&s, 0);
                arrive(&s, 10);
                arrive(&s, 20);
                sim_at(&s, 1000, SIM_DRAIN, 0);
                sim_at(&s, 2000, SIM_DRAIN, 0); /* may be called twice */
                /* a request of the server itself, for a model that is composed of this one */
                arrive(&s, 3000);
                sim_run(&s);
                assert_starts(&s, mode == ADAPTIVE_OFF ? "1000 r0+3 i0, 3000 r3+1 i0"
                                                       : "0 r0+1 i0, 1000 r1+2 i0, 3000 r3+1 i0");
                assert_int_equal(s.reasons[s.n_starts - 2], DISPATCH_DRAIN);
                assert_int_equal(s.reasons[s.n_starts - 1],
                                 mode == ADAPTIVE_OFF ? DISPATCH_DRAIN : DISPATCH_IDLE);
                sim_close(&s);
        }
}

/* ---- loads ----------------------------------------------------------------------------------- */

#define MAX_ANSWERS 4096

/* Clients that send again some time after each answer. */
struct load {
        enum adaptive_mode mode;
        unsigned           n_clients;
        /* a client thinks for think_us, and up to spread_us more */
        uint64_t think_us, spread_us;
        unsigned n_answers; /* number of all requests */
        /* clients that continue after half of the requests; 0: all */
        unsigned n_stay;
};

struct load_result {
        uint64_t latency_us[MAX_ANSWERS]; /* latencies, in the order of the answers */
        uint64_t waited_us[MAX_ANSWERS];  /* time of each before its execution */
        unsigned n;
        unsigned n_executions, n_full;
        unsigned n_together; /* number of answers when the last client that goes got its answer */
        uint64_t end_us;
};

static uint64_t draw(uint64_t *seed, uint64_t below) {
        *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return below > 0 ? (*seed >> 33) % below : 0;
}

static void note_answer(struct load_result *r, uint64_t sent_us, uint64_t start_us) {
        r->waited_us[r->n] = start_us - sent_us;
        r->latency_us[r->n++] = start_us + EXECUTION_US - sent_us;
        r->end_us = start_us + EXECUTION_US;
}

static void run_load(const struct load *o, struct load_result *r) {
        uint64_t   sent_us[SIM_MAX_REQUESTS], seed = 1;
        struct sim s;

        *r = (struct load_result){ .n = 0 };
        assert_in_range(o->n_clients, 1, SIM_MAX_REQUESTS);
        assert_in_range(o->n_answers + o->n_clients, 1, MAX_ANSWERS);
        open_sim(&s, o->mode, DELAY_US, 1, constant_cost);
        for (unsigned i = 0; i < o->n_clients; i++) {
                sent_us[i] = i * 3;
                arrive(&s, sent_us[i]);
        }
        while (sim_step(&s)) {
                for (unsigned k = 0; k < s.n_starts; k++) {
                        const struct sim_start *start = &s.starts[k];

                        r->n_executions++;
                        r->n_full += s.reasons[k] == DISPATCH_FULL;
                        for (unsigned i = 0; i < start->n; i++) {
                                unsigned client = start->all[i];

                                note_answer(r, sent_us[client], start->at_us);
                                if (client >= o->n_stay)
                                        r->n_together = r->n;
                                if (r->n >= o->n_answers ||
                                    (o->n_stay > 0 && r->n >= o->n_answers / 2 &&
                                     client >= o->n_stay))
                                        continue;
                                sent_us[client] =
                                        r->end_us + o->think_us + draw(&seed, o->spread_us);
                                sim_at(&s, sent_us[client], SIM_ARRIVAL, client);
                        }
                }
                s.n_starts = 0;
        }
        sim_close(&s);
}

static double mean_ms(const struct load_result *r) {
        uint64_t sum = 0;

        for (unsigned i = 0; i < r->n; i++)
                sum += r->latency_us[i];
        return (double)sum / r->n / 1000;
}

static double mean_rows(const struct load_result *r) {
        return (double)r->n / r->n_executions;
}

static double per_ms(const struct load_result *r) {
        return (double)r->n * 1000 / (double)r->end_us;
}

static int compare(const void *a, const void *b) {
        const uint64_t *x = a, *y = b;

        return *x < *y ? -1 : *x > *y;
}

/* Sorts them. */
static double p99_ms(struct load_result *r) {
        qsort(r->latency_us, r->n, sizeof(*r->latency_us), compare);
        return (double)r->latency_us[r->n * 99 / 100] / 1000;
}

/* Check 45: clients that send again 40 to 60 us after each answer. */
static void test_45_closed_loops(void **state) {
        static const double rows[] = { 0, 0.99, 1.9, 2.9, 3.8 };
        struct load_result  r;

        (void)state;
        for (unsigned n = 1; n <= 4; n++) {
                run_load(&(struct load){ ADAPTIVE_FLOW, n, 40, 20, 2000, 0 }, &r);
                assert_true(mean_ms(&r) < 0.3);
                assert_true(mean_rows(&r) >= rows[n]);
                run_load(&(struct load){ ADAPTIVE_OFF, n, 40, 20, 2000, 0 }, &r);
                if (n < MAX_ROWS)
                        assert_true(mean_ms(&r) >= 10 && mean_ms(&r) < 10.5);
                else
                        assert_true(mean_ms(&r) < 0.3);
        }
}

/* Check 46: no warm-up and no trial runs; a client that has gone is awaited once. */
static void test_46_lone_requests(void **state) {
        struct load_result r;
        unsigned           n_waited = 0;

        (void)state;
        run_load(&(struct load){ ADAPTIVE_FLOW, 1, 40, 20, 1000, 0 }, &r);
        assert_int_equal(r.n, 1000);
        for (unsigned i = 0; i < r.n; i++)
                assert_int_equal(r.latency_us[i], EXECUTION_US);

        run_load(&(struct load){ ADAPTIVE_FLOW, 4, 40, 20, 1000, 1 }, &r);
        assert_in_range(r.n_together, 500, 510);
        assert_int_equal(r.n, 1000);
        for (unsigned i = r.n_together; i < r.n; i++) {
                n_waited += r.waited_us[i] > 0;
                assert_true(r.waited_us[i] <= EXECUTION_US);
        }
        assert_true(n_waited <= 1);
}

/* Check 47: never slower than the better of the two other modes, and no long tail. */
static void test_47_against_the_others(void **state) {
        static const unsigned clients[] = { 1, 2, 3, 4, 5, 6, 10, 16 };
        struct load_result    r;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(clients); i++) {
                double rate[3];

                for (int mode = ADAPTIVE_OFF; mode <= ADAPTIVE_FLOW; mode++) {
                        run_load(&(struct load){ (enum adaptive_mode)mode, clients[i], 0, 0, 3000,
                                                 0 },
                                 &r);
                        rate[mode] = per_ms(&r);
                }
                assert_true(rate[ADAPTIVE_FLOW] >= 0.95 * rate[ADAPTIVE_OFF]);
                assert_true(rate[ADAPTIVE_FLOW] >= 0.95 * rate[ADAPTIVE_IDLE]);
                run_load(&(struct load){ ADAPTIVE_FLOW, clients[i], 1000, 0, 3000, 0 }, &r);
                assert_true(p99_ms(&r) < 4 * EXECUTION_US / 1000.0);
                run_load(&(struct load){ ADAPTIVE_FLOW, clients[i], 800, 400, 3000, 0 }, &r);
                assert_true(p99_ms(&r) < 4 * EXECUTION_US / 1000.0);
        }
        run_load(&(struct load){ ADAPTIVE_FLOW, 32, 40, 20, 4000, 0 }, &r);
        assert_true(r.n_full > 0.95 * r.n_executions);
}

/* ---- open loops ------------------------------------------------------------------------------ */

static uint64_t slow_cost(uint64_t rows) {
        (void)rows;
        return 800;
}

/* Arrivals at random times, 0.5 per millisecond. Returns the 99th percentile of the latency in ms. */
static double run_poisson(enum adaptive_mode mode) {
        static uint64_t latency_us[MAX_ANSWERS];
        uint64_t        sent_us[SIM_MAX_REQUESTS], at_us = 0, seed = 7;
        bool            is_used[SIM_MAX_REQUESTS] = { false };
        unsigned        n = 0;
        struct sim      s;

        open_sim(&s, mode, DELAY_US, 1, slow_cost);
        for (unsigned i = 0; i < SIM_MAX_REQUESTS; i++)
                s.requests[s.n_requests++] = pool.requests[i];
        while (n < MAX_ANSWERS - SIM_MAX_REQUESTS) {
                unsigned free_one = 0;
                double   u = (1.0 + (double)draw(&seed, 1000000)) / 1000001;

                while (is_used[free_one])
                        assert_true(++free_one < SIM_MAX_REQUESTS);
                at_us += (uint64_t)(-log(u) * 2000);
                sent_us[free_one] = at_us;
                is_used[free_one] = true;
                pool.requests[free_one]->batch_size = 1;
                sim_at(&s, at_us, SIM_ARRIVAL, free_one);
                /* Runs all events up to that time. */
                while (s.n_events > 0 && s.now_us < at_us)
                        assert_true(sim_step(&s));
                for (unsigned k = 0; k < s.n_starts; k++)
                        for (unsigned i = 0; i < s.starts[k].n; i++) {
                                unsigned one = s.starts[k].all[i];

                                latency_us[n++] = s.starts[k].at_us + 800 - sent_us[one];
                                is_used[one] = false;
                        }
                s.n_starts = 0;
        }
        sim_run(&s);
        sim_close(&s);
        qsort(latency_us, n, sizeof(*latency_us), compare);
        return (double)latency_us[n * 99 / 100] / 1000;
}

/* Check 51, its second half; test_51_a_burst_of_three() is the first. */
static void test_51_random_arrivals(void **state) {
        double off = run_poisson(ADAPTIVE_OFF), flow = run_poisson(ADAPTIVE_FLOW);

        (void)state;
        assert_true(off > 10 && off < 12);
        assert_true(flow < 5);
}

/* ---- batches of one -------------------------------------------------------------------------- */

/* Check 49: a model that cannot batch has no use for a delay. */
static void test_49_batches_of_one(void **state) {
        (void)state;
        for (int mode = ADAPTIVE_OFF; mode <= ADAPTIVE_FLOW; mode++) {
                struct batching_config batching = { .max_batch_size = 1,
                                                    .max_queue_delay_ns = DELAY_US * NS_PER_US };
                struct sim             s;

                batching.preferred_sizes = calloc(1, sizeof(*batching.preferred_sizes));
                assert_non_null(batching.preferred_sizes);
                batching.preferred_sizes[0] = 1;
                batching.n_preferred_sizes = 1;
                sim_open(&s,
                         policy_dynamic_new(&(struct policy_dynamic_options){
                                 .batching = &batching, .adaptive = (enum adaptive_mode)mode }),
                         all_sizes, 1, constant_cost);
                arrive(&s, 0);
                arrive(&s, 100);
                arrive(&s, 3000);
                sim_run(&s);
                assert_starts(&s, "0 r0+1 i0, 250 r1+1 i0, 3000 r2+1 i0");
                sim_close(&s);
        }
}

/* ---- random orders of events ----------------------------------------------------------------- */

/* The rules again, for requests of one row: an array of waiting requests and an array of members. */
struct rules {
        enum adaptive_mode mode;
        uint64_t           delay_us;
        sim_cost_fn        cost;
        unsigned           n_members;
        uint64_t           ends_us[SIM_MAX_INSTANCES]; /* 0: free */
        uint64_t           rows[SIM_MAX_INSTANCES];
        uint64_t           freed_us[SIM_MAX_INSTANCES];
        uint64_t freed_order[SIM_MAX_INSTANCES]; /* the member that became free last runs first */
        uint64_t order;
        uint64_t waiting_us[SIM_MAX_REQUESTS];
        unsigned numbers[SIM_MAX_REQUESTS];
        unsigned n_waiting;
        uint64_t believed; /* number of clients */
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

/* True when the waiting requests must run on that member now. Otherwise *ret_until_us is the latest
 * time. */
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

/* Decides at one time, after the caller has applied the arrivals and ends of that time in their
 * order. */
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

/* Arrivals are at odd times. Ends and wake-up times are at even microseconds, so that no two
 * coincide. */
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

/* Ascending and unique, so that the order is that of the test and not of the simulation. */
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

/* An end and an arrival must not be at the same time: the model and the policy may order them
 * differently. */
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
        enum adaptive_mode       mode = ADAPTIVE_UNSET;

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
                cmocka_unit_test(test_48_a_lone_request),
                cmocka_unit_test(test_51_a_burst_of_three),
                cmocka_unit_test(test_a_full_batch_waits_for_nobody),
                cmocka_unit_test(test_46_who_has_gone_is_waited_for_once),
                cmocka_unit_test(test_no_longer_than_the_delay),
                cmocka_unit_test(test_50_without_a_delay_nothing_waits),
                cmocka_unit_test(test_drained),
                cmocka_unit_test(test_45_closed_loops),
                cmocka_unit_test(test_46_lone_requests),
                cmocka_unit_test(test_47_against_the_others),
                cmocka_unit_test(test_51_random_arrivals),
                cmocka_unit_test(test_49_batches_of_one),
                cmocka_unit_test(test_random_orders),
        };
        int result;

        sim_pool_open(&pool, MODEL);
        result = cmocka_run_group_tests(tests, NULL, NULL);
        sim_pool_close(&pool);
        return result;
}
