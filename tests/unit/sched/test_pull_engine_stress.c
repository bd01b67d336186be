/* SPDX-License-Identifier: BSD-3-Clause */
/* Many submitters, several instances, timeouts and cancellations at any time, with each policy: every
 * request is answered exactly once and released exactly once.
 *
 * Some tests add instances that come and go, a rate limiter whose resource does not suffice for all
 * instances, completions that submit another request, or a policy of the test that waits and chooses
 * instances and sizes at random.
 */
#include "suite.h"

#include "config/batching_config.h"
#include "infer/infer_thread.h"
#include "sched/instance.h"
#include "sched/policy.h"
#include "sched/pull_engine.h"
#include "sched/rate_limiter.h"
#include "sched/request_queue.h"
#include "sched/sched_options.h"
#include "sched/scheduler_fixture.h"
#include "sched_plugin/policy_plugin.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#define X "input { name: 'X' data_type: TYPE_FP32 dims: 1 } "
#define DEFAULT "name: 'm' max_batch_size: 8 " X
#define INLINE(choice)                                                                             \
        "parameters { key: 'inline_execution' value { string_value: '" choice "' } } "

#define N_SUBMITTERS 4
#define N_EACH 600
#define N_LATER 200 /* in pairs: two requests that follow one of the others */
#define N_ENTRIES (N_EACH + N_LATER)
#define N_AT_ONCE 24
#define MIN_CHANGES 8 /* reached even when the machine is busy */

enum { STEADY = 0, CHANGING = 1, LIMITED = 2, CONTINUING = 4 };

/* A request. Its completion submits the next one of its list. */
struct entry {
        struct ticket       ticket;
        struct continuation start;
        struct entry       *next; /* NULL: the last one, which is the usual case */
};

struct infer_thread {
        struct thread   thread;
        struct fixture *fixture;
        /* N_EACH that the thread submits, then N_LATER that completions submit */
        struct entry *entries;
        bool          allows_inline;
        bool          defers_wakes;
        bool          is_stuck;
};

static bool wait_released(struct infer_thread *s, struct ticket *t) {
        if (s->defers_wakes)
                infer_thread_flush_wakes();
        s->is_stuck |= !ticket_wait_released(t);
        return !s->is_stuck;
}

/* submit() refused it: the caller owns it, no answer comes, and its list ends. */
static void end_refused(struct entry *e) {
        struct fixture *fixture = e->ticket.fixture;

        mutex_lock(&fixture->lock);
        for (; e != NULL; e = e->next) {
                e->ticket.n_finals = e->ticket.n_responses = e->ticket.n_releases = 1;
                e->ticket.has_error = true;
        }
        cond_broadcast(&fixture->changed);
        mutex_unlock(&fixture->lock);
}

static void submit(struct entry *e) {
        struct error *err = ticket_try_submit(&e->ticket);

        if (err != NULL)
                end_refused(e);
        error_free(err);
}

static void start_next(struct continuation *c) {
        submit(CONTAINER_OF(c, struct entry, start));
}

static void submit_next(struct ticket *t) {
        struct entry *next = CONTAINER_OF(t, struct entry, ticket)->next;

        infer_thread_start(&next->start, 0);
}

static void infer_thread_main(void *arg) {
        struct infer_thread *s = arg;

        infer_thread_allow_inline(s->allows_inline);
        if (s->defers_wakes)
                infer_thread_flush_wakes(); /* keeps the promise to flush */
        for (unsigned i = 0; i < N_EACH; i++) {
                if (i % 29 == 0)
                        request_cancel(s->entries[i].ticket.req);
                submit(&s->entries[i]);
                if (i % 7 == 0) /* this request, or one shortly before */
                        request_cancel(s->entries[i - i % 3].ticket.req);
                if (i >= N_AT_ONCE && !wait_released(s, &s->entries[i - N_AT_ONCE].ticket))
                        return;
        }
        for (unsigned i = 0; i < N_ENTRIES; i++)
                if (!wait_released(s, &s->entries[i].ticket))
                        return;
}

static void chain(struct entry *e, struct entry *next) {
        e->next = next;
        e->ticket.after_response = submit_next;
        next->start.run = start_next;
        next->ticket.req->is_inner = true;
        next->ticket.req->outer = NULL;
}

static void infer_thread_open(struct infer_thread *s, struct fixture *fixture, unsigned number,
                              unsigned how) {
        *s = (struct infer_thread){ .fixture = fixture,
                                    .allows_inline = number % 2 == 0,
                                    .defers_wakes = number % 4 >= 2 };
        s->entries = calloc(N_ENTRIES, sizeof(*s->entries));
        assert_non_null(s->entries);
        for (unsigned i = 0; i < N_ENTRIES; i++) {
                struct ticket *t = &s->entries[i].ticket;

                ticket_init(t, fixture, "s");
                t->req->priority = i % 4;
                t->req->timeout_us = i % 3 == 0 ? 1 + i % 200 : 0;
                t->req->batch_size = 1 + i % 5;
        }
        for (unsigned i = 0; i < N_LATER; i += 2) {
                struct entry *later = &s->entries[N_EACH + i];

                if ((how & CONTINUING) != 0) {
                        chain(&s->entries[i * (N_EACH / N_LATER)], later);
                        chain(later, later + 1);
                } else {
                        end_refused(later);
                        end_refused(later + 1);
                }
        }
}

static unsigned count_executed(const struct infer_thread *s) {
        unsigned n = 0;

        for (unsigned i = 0; i < N_ENTRIES; i++) {
                const struct ticket *t = &s->entries[i].ticket;

                assert_int_equal(t->n_finals, 1);
                assert_int_equal(t->n_responses, 1);
                assert_int_equal(t->n_releases, 1);
                assert_in_range(t->n_executions, 0, 1);
                assert_true(t->n_executions == 0 || !t->has_error);
                n += t->n_executions;
        }
        return n;
}

static void infer_thread_done(struct infer_thread *s) {
        for (unsigned i = 0; i < N_ENTRIES; i++)
                request_free(s->entries[i].ticket.req);
        free(s->entries);
}

/* Instances come and go while requests are submitted. The first one stays. */
struct changer {
        struct thread   thread;
        struct fixture *fixture;
        atomic_bool     is_ending;
        unsigned        n_changes;
        unsigned        n_late; /* executions that began or ran after the removal had returned */
        bool            has_failed;
};

static void remove_one(struct changer *c, struct fake_executor *e) {
        struct scheduler *s = c->fixture->scheduler;
        unsigned          n_started;

        s->ops->remove_executor(s, &e->base);
        mutex_lock(&c->fixture->lock);
        c->n_late += e->is_running;
        n_started = e->n_started;
        mutex_unlock(&c->fixture->lock);
        /* The other instances get some of the work. */
        mutex_lock(&c->fixture->lock);
        cond_wait_until(&c->fixture->changed, &c->fixture->lock, clock_now_ns() + NS_PER_MS);
        c->n_late += e->n_started != n_started;
        mutex_unlock(&c->fixture->lock);
}

static void changer_main(void *arg) {
        struct changer   *c = arg;
        struct fixture   *fixture = c->fixture;
        struct scheduler *s = fixture->scheduler;
        bool              is_there[FIXTURE_MAX_EXECUTORS];

        for (unsigned i = 0; i < fixture->n_executors; i++)
                is_there[i] = true;
        while (!atomic_load(&c->is_ending) || c->n_changes < MIN_CHANGES) {
                unsigned              at = 1 + c->n_changes % (fixture->n_executors - 1);
                struct fake_executor *e = &fixture->executors[at];

                if (is_there[at]) {
                        remove_one(c, e);
                } else {
                        struct error *err = s->ops->add_executor(s, &e->base);

                        c->has_failed |= err != NULL;
                        error_free(err);
                }
                is_there[at] = !is_there[at];
                c->n_changes++;
        }
}

static void start_changer(struct changer *c, struct fixture *fixture) {
        *c = (struct changer){ .fixture = fixture };
        assert_ok(thread_start(&c->thread, "changer", changer_main, c), "thread");
}

static void end_changer(struct changer *c) {
        atomic_store(&c->is_ending, true);
        thread_join(&c->thread);
        assert_false(c->has_failed);
        assert_int_equal(c->n_late, 0);
}

static void run_made(fixture_make_fn make, const char *config, unsigned n_executors, unsigned how) {
        struct rate_supply   supply = { "R", 2, -1 };
        struct rate_limiter *limiter = (how & LIMITED) != 0 ? rate_limiter_new(&supply, 1) : NULL;
        struct fixture      *fixture = fixture_open_made(config, n_executors, true, limiter, make);
        struct infer_thread  submitters[N_SUBMITTERS];
        struct changer       changer;
        unsigned             n_executed = 0;

        for (unsigned i = 0; i < N_SUBMITTERS; i++)
                infer_thread_open(&submitters[i], fixture, i, how);
        if ((how & CHANGING) != 0)
                start_changer(&changer, fixture);
        for (unsigned i = 0; i < N_SUBMITTERS; i++)
                assert_ok(thread_start(&submitters[i].thread, "submitter", infer_thread_main,
                                       &submitters[i]),
                          "thread");
        for (unsigned i = 0; i < N_SUBMITTERS; i++)
                thread_join(&submitters[i].thread);
        if ((how & CHANGING) != 0)
                end_changer(&changer);
        for (unsigned i = 0; i < N_SUBMITTERS; i++) {
                assert_false(submitters[i].is_stuck);
                n_executed += count_executed(&submitters[i]);
                infer_thread_done(&submitters[i]);
        }
        assert_in_range(n_executed, 1, N_SUBMITTERS * N_ENTRIES);
        fixture_close(fixture);
        rate_limiter_free(limiter);
}

static void run(const char *config, unsigned n_executors, unsigned how) {
        run_made(sched_new, config, n_executors, how);
}

static void test_default(void **state) {
        (void)state;
        run(DEFAULT INLINE("never"), 3, STEADY);
        run(DEFAULT INLINE("always"), 3, STEADY);
        run(DEFAULT, 2, STEADY);
}

#define POLICIES                                                                                   \
        "priority_levels: 3 default_priority_level: 2 "                                            \
        "default_queue_policy { default_timeout_microseconds: 300 allow_timeout_override: true "   \
        "                       max_queue_size: 30 } "                                             \
        "priority_queue_policy { key: 3 value { timeout_action: DELAY "                            \
        "                                       default_timeout_microseconds: 100 } } "

#define BUSY                                                                                       \
        "dynamic_batching { preferred_batch_size: [3, 6] max_queue_delay_microseconds: "           \
        "200 " POLICIES "} "

static void test_dynamic(void **state) {
        (void)state;
        run(DEFAULT BUSY INLINE("never"), 3, STEADY);
        run(DEFAULT BUSY INLINE("always"), 3, STEADY);
        run(DEFAULT BUSY, 1, STEADY);
}

static void test_preserve_ordering(void **state) {
        (void)state;
        run(DEFAULT "dynamic_batching { preserve_ordering: true " POLICIES "}" INLINE("always"), 3,
            STEADY);
        run(DEFAULT "dynamic_batching { preserve_ordering: true }" INLINE("never"), 3, STEADY);
}

static void test_instances_come_and_go(void **state) {
        (void)state;
        run(DEFAULT INLINE("never"), 4, CHANGING);
        run(DEFAULT INLINE("always"), 4, CHANGING);
        run(DEFAULT BUSY INLINE("never"), 3, CHANGING);
        run(DEFAULT BUSY INLINE("always"), 2, CHANGING);
        run(DEFAULT "dynamic_batching { preserve_ordering: true }" INLINE("never"), 3, CHANGING);
}

#define GROUP "instance_group { rate_limiter { resources { name: 'R' count: 1 } } } "
#define GROUPS GROUP GROUP GROUP GROUP

static void test_rate_limiter(void **state) {
        (void)state;
        run(DEFAULT GROUPS INLINE("never"), 4, LIMITED);
        run(DEFAULT GROUPS INLINE("always"), 4, LIMITED | CHANGING);
        run(DEFAULT BUSY GROUPS, 4, LIMITED | CHANGING);
}

static void test_continuations(void **state) {
        (void)state;
        run(DEFAULT, 2, CONTINUING);
        run(DEFAULT INLINE("always"), 3, CONTINUING | CHANGING);
        run(DEFAULT BUSY INLINE("never"), 3, CONTINUING);
        run(DEFAULT BUSY INLINE("always"), 3, CONTINUING | CHANGING);
        run(DEFAULT BUSY GROUPS, 4, CONTINUING | CHANGING | LIMITED);
        run(DEFAULT "dynamic_batching { preserve_ordering: true } " GROUPS INLINE("always"), 3,
            CONTINUING | LIMITED);
}

/* ---- a policy that decides at random --------------------------------------------------------- */

struct random_policy {
        struct policy          base;
        struct batching_config limits;
        uint64_t               state;
};

static uint64_t draw(struct random_policy *r, uint64_t n) {
        r->state = r->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return (r->state >> 33) % n;
}

static struct instance *draw_idle(struct random_policy *r, const struct sched_view *view) {
        uint64_t n = 0;

        LIST_FOR_EACH(view->idle, node)
                n++;
        if (n == 0)
                return NULL;
        n = draw(r, n);
        LIST_FOR_EACH(view->idle, node)
                if (n-- == 0)
                        return LIST_ENTRY(node, struct instance, idle_node);
        return NULL;
}

static struct dispatch decide_at_random(struct policy *p, const struct sched_view *view,
                                        uint64_t now_ns) {
        struct random_policy *r = CONTAINER_OF(p, struct random_policy, base);
        uint64_t              n_waiting = view->queue->n_waiting;

        if (n_waiting == 0)
                return (struct dispatch){ .verdict = BATCH_NOTHING };
        if (draw(r, 4) == 0)
                return (struct dispatch){ .verdict = BATCH_WAIT,
                                          .wait_until_ns = now_ns + draw(r, 200 * NS_PER_US) };
        return (struct dispatch){ .verdict = BATCH_RUN,
                                  .on = draw_idle(r, view),
                                  .n_requests = 1 + (uint32_t)draw(r, MIN(n_waiting, 8)) };
}

static void free_random(struct policy *p) {
        struct random_policy *r = CONTAINER_OF(p, struct random_policy, base);

        batching_config_done(&r->limits);
        free(r);
}

static struct error *make_random(const struct sched_setup *setup, struct scheduler **ret) {
        static const struct policy_ops ops = { .decide = decide_at_random, .free = free_random };
        struct random_policy          *r = calloc(1, sizeof(*r));
        struct pull_options            options = { .policy = &r->base };

        assert_non_null(r);
        assert_ok(batching_config_init(&r->limits, setup->model->config), "limits");
        r->base = (struct policy){ .ops = &ops, .limits = &r->limits };
        assert_ok(sched_options_read(setup, &options), "options");
        return pull_engine_new(&options, ret);
}

static void test_random_policy(void **state) {
        (void)state;
        run_made(make_random, DEFAULT BUSY INLINE("never"), 3, STEADY);
        run_made(make_random, DEFAULT BUSY INLINE("always"), 3, CHANGING);
        run_made(make_random, DEFAULT BUSY, 4, CONTINUING);
        run_made(make_random, DEFAULT BUSY INLINE("always"), 4, CONTINUING | CHANGING);
        run_made(make_random, DEFAULT BUSY GROUPS INLINE("never"), 4, LIMITED | CHANGING);
        run_made(make_random, DEFAULT BUSY GROUPS INLINE("always"), 4,
                 LIMITED | CHANGING | CONTINUING);
}

/* ---- a plug-in that decides at random -------------------------------------------------------- */

#define PLUGIN_MAX_WAITING (N_SUBMITTERS * N_ENTRIES)

/* Called under the engine's lock. */
struct random_plugin {
        sched_host           *host;
        const sched_host_ops *ops;
        sched_item            waiting[PLUGIN_MAX_WAITING];
        uint32_t              n_waiting;
        sched_member          members[FIXTURE_MAX_EXECUTORS];
        bool                  is_busy[FIXTURE_MAX_EXECUTORS];
        uint32_t              n_members;
        uint64_t              state;
        unsigned              n_wrong; /* correct calls that were refused */
};

static uint32_t choose(struct random_plugin *p, uint32_t n) {
        p->state = p->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return (uint32_t)(p->state >> 33) % n;
}

static void take_out(struct random_plugin *p, uint32_t at) {
        p->waiting[at] = p->waiting[--p->n_waiting];
}

static void run_some(struct random_plugin *p, uint32_t member) {
        uint64_t ids[8];
        uint32_t n = 0, rows = 0, wanted = 1 + choose(p, 8);

        while (n < wanted && p->n_waiting > 0) {
                uint32_t at = choose(p, p->n_waiting);

                if (rows + p->waiting[at].rows > p->members[member].hi)
                        break;
                rows += p->waiting[at].rows;
                ids[n++] = p->waiting[at].id;
                take_out(p, at);
        }
        if (n == 0)
                return;
        p->n_wrong += p->ops->dispatch(p->host, member, ids, n) != 0;
        p->n_wrong += p->ops->dispatch(p->host, member, ids, n) == 0;
        p->is_busy[member] = true;
}

/* Waits occasionally, with a timer. */
static void act(struct random_plugin *p) {
        if (p->n_waiting > 0 && choose(p, 16) == 0) {
                p->n_wrong += p->ops->reject(p->host, p->waiting[0].id, 4, "at random") != 0;
                take_out(p, 0);
        }
        for (uint32_t i = 0; i < p->n_members; i++)
                if (!p->is_busy[i] && choose(p, 4) != 0)
                        run_some(p, i);
        p->ops->set_timer(p->host,
                          p->n_waiting > 0 ? p->ops->now_ns(p->host) + 100 * NS_PER_US : 0);
}

static int random_init(void **st, sched_host *host, const sched_host_ops *ops,
                       const char *config_json, const sched_member *members, uint32_t n_members,
                       uint32_t max_batch) {
        struct random_plugin *p = calloc(1, sizeof(*p));

        (void)config_json;
        (void)max_batch;
        if (p == NULL)
                return ENOMEM;
        p->host = host;
        p->ops = ops;
        p->n_members = n_members;
        for (uint32_t i = 0; i < n_members; i++) {
                p->members[i] = members[i];
                p->is_busy[i] = members[i].is_busy != 0;
        }
        *st = p;
        return 0;
}

static void random_enqueue(void *st, const sched_item *items, uint32_t n) {
        struct random_plugin *p = st;

        for (uint32_t i = 0; i < n; i++)
                p->waiting[p->n_waiting++] = items[i];
        act(p);
}

static void random_free(void *st, uint32_t member) {
        struct random_plugin *p = st;

        p->n_wrong += !p->is_busy[member];
        p->is_busy[member] = false;
        act(p);
}

static void random_timer(void *st) {
        act(st);
}

static void random_cancel(void *st, uint64_t id) {
        struct random_plugin *p = st;
        uint32_t              at = 0;

        while (at < p->n_waiting && p->waiting[at].id != id)
                at++;
        if (at < p->n_waiting)
                take_out(p, at);
        else
                p->n_wrong++;
}

static void random_drain(void *st) {
        act(st);
}

static atomic_uint n_wrong_calls;

static void random_fini(void *st) {
        atomic_fetch_add(&n_wrong_calls, ((struct random_plugin *)st)->n_wrong);
        free(st);
}

static struct error *make_plugin(const struct sched_setup *setup, struct scheduler **ret) {
        static const sched_vtbl      functions = { random_init,  random_enqueue, random_free,
                                                   random_timer, random_cancel,  random_drain,
                                                   random_fini };
        const struct plugin_init     init = { .config_json = "{}", .max_batch = 8 };
        struct batching_config       batching;
        struct policy_plugin_options o = { .model = setup->model,
                                           .executors = setup->executors,
                                           .n_executors = setup->n_executors,
                                           .batching = &batching,
                                           .builtin = policy_single_new(),
                                           .functions = &functions,
                                           .init = &init };
        struct pull_options          options = { 0 };

        for (uint32_t i = 0; i < setup->n_executors; i++)
                setup->executors[i]->max_rows = 8;
        assert_ok(batching_config_init(&batching, setup->model->config), "limits");
        assert_ok(policy_plugin_new(&o, &options.policy), "plug-in");
        assert_ok(sched_options_read(setup, &options), "options");
        return pull_engine_new(&options, ret);
}

static void test_plugin(void **state) {
        (void)state;
        run_made(make_plugin, DEFAULT BUSY INLINE("never"), 3, STEADY);
        run_made(make_plugin, DEFAULT BUSY INLINE("always"), 3, CHANGING);
        run_made(make_plugin, DEFAULT INLINE("never"), 4, CHANGING);
        run_made(make_plugin, DEFAULT BUSY, 4, CONTINUING);
        run_made(make_plugin, DEFAULT BUSY INLINE("always"), 4, CONTINUING | CHANGING);
        assert_int_equal(atomic_load(&n_wrong_calls), 0);
}

SUITE(pull_engine_stress) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_default),
                cmocka_unit_test(test_dynamic),
                cmocka_unit_test(test_preserve_ordering),
                cmocka_unit_test(test_instances_come_and_go),
                cmocka_unit_test(test_rate_limiter),
                cmocka_unit_test(test_continuations),
                cmocka_unit_test(test_random_policy),
                cmocka_unit_test(test_plugin),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
