/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps that a completion starts: a made-up scheduler that passes each request through a line of
 * inner requests to models of fixture_model.h.
 */
#include "suite.h"

#include "base/buf.h"
#include "base/thread.h"
#include "infer/infer_thread.h"
#include "infer/inner_request.h"
#include "infer/model_submit.h"
#include "sched/fixture_model.h"
#include "sched/rate_limiter.h"

#define IN_AND_OUT                                                                                 \
        "input { name: 'X' data_type: TYPE_UINT32 dims: 1 } "                                      \
        "output { name: 'Y' data_type: TYPE_UINT32 dims: 1 } "
#define MODEL "name: 'm' " IN_AND_OUT
#define INLINE(choice)                                                                             \
        "parameters { key: 'inline_execution' value { string_value: '" choice "' } } "
#define LIMITED "instance_group { rate_limiter { resources { name: 'R' count: 1 } } } "
#define LIMIT_US(us) "parameters { key: 'inline_limit_us' value { string_value: '" us "' } } "

#define MAX_STEPS 64

/* ---- a line of steps ------------------------------------------------------------------------- */

struct step {
        struct continuation   base;
        struct line          *line;
        struct fixture_model *model;
        struct inner_request *request;
        struct buf           *output; /* ref */
        pthread_t             thread; /* that it was executed on */
        const void           *frame;
        bool                  was_deferred;
};

struct line {
        struct step steps[MAX_STEPS];
        unsigned    n;
        unsigned    at;
        uint32_t    x;
        uint32_t    y;            /* of the last step */
        void (*before_end)(void); /* in the last completion; may be NULL */
        bool is_of_client;        /* its requests pass for those of clients */
        bool has_ended;           /* guarded by fixture_lock */
};

static void begin_step(struct step *s);

static _Thread_local bool is_starting; /* inside infer_thread_start() of on_end() */

static void on_response(struct inner_request *r, struct response *response, uint32_t flags) {
        struct step *s = r->owner;

        (void)flags;
        s->output = inner_output_buf(response->first_output);
        buf_ref(s->output);
        response_free(response);
        s->frame = s->model->seen.frame;
        s->thread = s->model->seen.thread;
}

static void on_end(struct inner_request *r) {
        struct step *s = r->owner;
        struct line *l = s->line;

        if (++l->at < l->n) {
                struct step *next = &l->steps[l->at];

                is_starting = true;
                infer_thread_start(&next->base, 0);
                is_starting = false;
                return;
        }
        if (l->before_end != NULL)
                l->before_end();
        memcpy(&l->y, s->output->bytes, sizeof(l->y));
        mutex_lock(&fixture_lock);
        l->has_ended = true;
        cond_broadcast(&fixture_changed);
        mutex_unlock(&fixture_lock);
}

/* The output of the previous step is the next input, without a copy. */
static void begin_step(struct step *s) {
        static const struct inner_request_ops ops = { .on_response = on_response,
                                                      .on_end = on_end };
        struct line                          *l = s->line;
        unsigned                              at = (unsigned)(s - l->steps);
        const void *x = at == 0 ? (const void *)&l->x : l->steps[at - 1].output->bytes;

        s->request = inner_request_new(&s->model->fake->model, &ops, s);
        error_free(
                request_add_input(s->request->request, "X", DATA_TYPE_UINT32, (int64_t[]){ 1 }, 1));
        append_bytes(s->request->request, "X", x, sizeof(l->x));
        s->request->request->is_inner = !l->is_of_client;
        error_free(inner_request_submit(s->request));
}

static void on_continue(struct continuation *c) {
        struct step *s = CONTAINER_OF(c, struct step, base);

        s->was_deferred = !is_starting;
        begin_step(s);
}

static void line_init(struct line *l, struct fixture_model *const *models, unsigned n) {
        *l = (struct line){ .n = n, .x = 10 };
        for (unsigned i = 0; i < n; i++)
                l->steps[i] = (struct step){ .base = { .run = on_continue },
                                             .line = l,
                                             .model = models[i] };
}

static void line_begin(struct line *l, struct fixture_model *const *models, unsigned n) {
        line_init(l, models, n);
        begin_step(&l->steps[0]);
}

static void line_end(struct line *l) {
        uint32_t expected = l->x;

        FIXTURE_WAIT_FOR(l->has_ended);
        for (unsigned i = 0; i < l->n; i++)
                expected = 3 * expected + l->steps[i].model->add;
        assert_int_equal(l->y, expected);
        for (unsigned i = 0; i < l->n; i++) {
                inner_request_free(l->steps[i].request);
                buf_unref(l->steps[i].output);
        }
}

static unsigned count_on(const struct line *l, pthread_t thread) {
        unsigned n = 0;

        for (unsigned i = 0; i < l->n; i++)
                n += pthread_equal(l->steps[i].thread, thread) != 0;
        return n;
}

/* Runs the line until all its steps are executed on this thread: an instance's own thread may be awake now
 * and then, and take one. The caller, unless it is that thread, never executes one. */
static void run_until_all_are_on(struct line *l, struct fixture_model *const *models, unsigned n,
                                 const pthread_t *thread) {
        unsigned n_there = 0;

        for (unsigned i = 0; i < 200 && n_there < n; i++) {
                line_begin(l, models, n);
                line_end(l);
                n_there = count_on(l, *thread);
                if (!pthread_equal(*thread, pthread_self()))
                        assert_int_equal(count_on(l, pthread_self()), 0);
        }
        assert_int_equal(n_there, n);
}

/* ---- the tests ------------------------------------------------------------------------------- */

/* All steps are of one model with one instance. Each step finds that the instance was returned. */
static void test_steps_run_on_the_submitting_thread(void **state) {
        struct fixture_model  m;
        struct fixture_model *models[MAX_STEPS];
        struct line          *l = malloc(sizeof(*l));
        pthread_t             here = pthread_self();

        (void)state;
        assert_non_null(l);
        fixture_model_open(&m, "m", MODEL INLINE("always"), NULL);
        for (unsigned i = 0; i < MAX_STEPS; i++)
                models[i] = &m;
        run_until_all_are_on(l, models, MAX_STEPS, &here);
        for (unsigned i = 1; i < MAX_STEPS; i++)
                assert_true(l->steps[i].was_deferred);
        /* The stack is flat: one loop calls every step after the first. */
        for (unsigned i = 2; i < MAX_STEPS; i++)
                assert_ptr_equal(l->steps[i].frame, l->steps[1].frame);
        fixture_model_close(&m);
        free(l);
}

/* Until the average is known, and its thread waits. */
static void settle(struct fixture_model *m) {
        struct line l;

        for (unsigned i = 0; i < 3; i++) {
                line_begin(&l, &m, 1);
                line_end(&l);
        }
}

/* A thread that does not run batches itself leaves the first step to its instance. The instance's
 * thread runs the other steps, without a change of threads. */
static void test_steps_run_on_the_instance_thread(void **state) {
        struct fixture_model  first, others;
        struct fixture_model *models[] = { &first, &others, &others, &others };
        struct line           l;

        (void)state;
        fixture_model_open(&first, "m", MODEL INLINE("never"), NULL);
        fixture_model_open(&others, "m", MODEL INLINE("auto") LIMIT_US("1000000"), NULL);
        settle(&others);
        run_until_all_are_on(&l, models, 4, &first.seen.thread);
        fixture_model_close(&first);
        fixture_model_close(&others);
}

/* A thread that has not agreed to run continuations does not run them: they may call clients, which
 * may submit while they hold a lock that they also take in their callbacks. */
static void test_requests_of_clients_do_not_run_on_the_instance_thread(void **state) {
        struct fixture_model  first, others;
        struct fixture_model *models[] = { &first, &others, &others, &others };
        struct line           l;

        (void)state;
        fixture_model_open(&first, "m", MODEL INLINE("never"), NULL);
        fixture_model_open(&others, "m", MODEL INLINE("auto") LIMIT_US("1000000"), NULL);
        settle(&others);
        for (unsigned i = 0; i < 50; i++) {
                line_init(&l, models, 4);
                l.is_of_client = true;
                begin_step(&l.steps[0]);
                line_end(&l);
                assert_int_equal(count_on(&l, first.seen.thread), 1);
        }
        fixture_model_close(&first);
        fixture_model_close(&others);
}

/* Queued batches run before the steps of other requests. */
static void test_steps_do_not_hold_up_the_queue(void **state) {
        struct fixture_model  first, next;
        struct fixture_model *models[] = { &first, &next };
        struct line           l[3];

        (void)state;
        fixture_model_open(&first, "m", MODEL INLINE("never"), NULL);
        fixture_model_open(&next, "m", MODEL INLINE("auto") LIMIT_US("1000000"), NULL);
        settle(&next);
        mutex_lock(&fixture_lock);
        first.is_held = true;
        first.n_executed = 0;
        mutex_unlock(&fixture_lock);
        line_begin(&l[0], models, 2);
        FIXTURE_WAIT_FOR(first.n_executed == 1);
        line_begin(&l[1], models, 2);
        line_begin(&l[2], models, 2);
        mutex_lock(&fixture_lock);
        first.is_held = false;
        cond_broadcast(&fixture_changed);
        mutex_unlock(&fixture_lock);
        for (unsigned i = 0; i < 3; i++)
                line_end(&l[i]);
        /* Two requests waited when the first one ended, one when the second did. */
        assert_false(pthread_equal(l[0].steps[1].thread, first.seen.thread));
        assert_false(pthread_equal(l[1].steps[1].thread, first.seen.thread));
        fixture_model_close(&first);
        fixture_model_close(&next);
}

/* 80 ms each, 200 ms for one event: the third step does not run here, however fast the machine is. */
static void test_steps_share_the_limit_of_one_event(void **state) {
        struct fixture_model  m;
        struct fixture_model *models[4];
        struct line           l;
        uint64_t              give_up_ns = clock_now_ns() + FIXTURE_PATIENCE_NS;
        unsigned              n_here = 0;

        (void)state;
        fixture_model_open(&m, "m", MODEL INLINE("auto") LIMIT_US("200000"), NULL);
        m.spin_ns = 80 * NS_PER_MS;
        for (unsigned i = 0; i < 4; i++)
                models[i] = &m;
        settle(&m);
        infer_thread_allow_inline(true);
        while (n_here == 0 && clock_now_ns() < give_up_ns) {
                line_begin(&l, models, 4);
                line_end(&l);
                n_here = count_on(&l, pthread_self());
                assert_in_range(n_here, 0, 2);
        }
        assert_in_range(n_here, 1, 2);
        infer_thread_allow_inline(false);
        fixture_model_close(&m);
}

/* ---- instances that leave, or share a resource ----------------------------------------------- */

struct removal {
        struct thread         thread;
        struct fixture_model *model;
        bool                  has_ended; /* guarded by fixture_lock */
};

static void removal_main(void *arg) {
        struct removal   *r = arg;
        struct scheduler *s = r->model->fake->model.scheduler;

        s->ops->remove_executor(s, &r->model->executor);
        mutex_lock(&fixture_lock);
        r->has_ended = true;
        cond_broadcast(&fixture_changed);
        mutex_unlock(&fixture_lock);
}

/* An instance that leaves does not run the next step of its last batch either. */
static void test_a_leaving_instance_takes_no_step(void **state) {
        struct fixture_model  m;
        struct fixture_model *models[] = { &m, &m };
        struct scheduler     *s;
        struct line           l;
        unsigned              n_before_it_left = 0;

        (void)state;
        fixture_model_open(&m, "m", MODEL INLINE("auto") LIMIT_US("1000000"), NULL);
        s = m.fake->model.scheduler;
        settle(&m);
        for (unsigned i = 1; i <= 100 && n_before_it_left != 1; i++) {
                struct removal removal = { .model = &m };

                fixture_hold(&m, true);
                m.n_executed = 0;
                line_begin(&l, models, 2);
                FIXTURE_WAIT_FOR(m.n_executed == 1);
                assert_ok(thread_start(&removal.thread, "removal", removal_main, &removal),
                          "thread");
                fixture_spin(i * NS_PER_MS); /* the instance is to leave by now, most likely */
                fixture_hold(&m, false);
                FIXTURE_WAIT_FOR(removal.has_ended);
                thread_join(&removal.thread);
                n_before_it_left = m.n_executed;
                assert_ok(s->ops->add_executor(s, &m.executor), "add");
                line_end(&l);
        }
        assert_int_equal(n_before_it_left, 1);
        fixture_model_close(&m);
}

static struct fixture_model *second;

static void free_second(void) {
        fixture_hold(second, false);
        fixture_spin(5 * NS_PER_MS); /* it is idle by now, most likely */
}

/* An instance whose thread runs a step elsewhere is borrowed and returned, while another one
 * becomes idle. The next request goes to the instance whose thread waits. */
static void test_an_instance_with_its_thread_away_is_woken_last(void **state) {
        struct fixture_model  m, y, other;
        struct fixture_model *only_m[] = { &m }, *m_then_other[] = { &m, &other };
        struct line           busy[2], away, borrower, last;

        (void)state;
        fixture_model_open(&m, "m", MODEL INLINE("auto") LIMIT_US("1000000"), NULL);
        fixture_model_open(&y, "m", MODEL, NULL);
        fixture_model_open(&other, "m", MODEL INLINE("auto") LIMIT_US("1000000"), NULL);
        settle(&m);
        settle(&other);
        assert_ok(m.fake->model.scheduler->ops->add_executor(m.fake->model.scheduler, &y.executor),
                  "add");
        m.n_executed = other.n_executed = 0;
        fixture_hold(&m, true);
        fixture_hold(&y, true);
        fixture_hold(&other, true);
        line_begin(&busy[0], only_m, 1);
        line_begin(&busy[1], only_m, 1);
        FIXTURE_WAIT_FOR(m.n_executed == 1 && y.n_executed == 1);
        line_begin(&away, m_then_other, 2);
        fixture_hold(&m, false);
        FIXTURE_WAIT_FOR(other.n_executed == 1);
        line_init(&borrower, only_m, 1);
        borrower.before_end = free_second;
        second = &y;
        infer_thread_allow_inline(true);
        begin_step(&borrower.steps[0]);
        infer_thread_allow_inline(false);
        line_end(&borrower);
        line_begin(&last, only_m, 1);
        line_end(&last);
        fixture_hold(&other, false);
        line_end(&busy[0]);
        line_end(&busy[1]);
        line_end(&away);
        fixture_model_close(&m);
        fixture_model_close(&y);
        fixture_model_close(&other);
}

/* A turn ends before the next step asks for one, so that a resource that both need is free. */
static void test_steps_give_back_their_turn_first(void **state) {
        struct rate_limiter  *limiter = rate_limiter_new(NULL, 0);
        struct fixture_model  first, next;
        struct fixture_model *models[] = { &first, &next };
        struct line           l;

        (void)state;
        fixture_model_open_limited(&first, "m", MODEL INLINE("never") LIMITED, NULL, limiter);
        fixture_model_open_limited(&next, "m", MODEL INLINE("auto") LIMIT_US("1000000") LIMITED,
                                   NULL, limiter);
        settle(&next);
        run_until_all_are_on(&l, models, 2, &first.seen.thread);
        fixture_model_close(&first);
        fixture_model_close(&next);
        rate_limiter_free(limiter);
}

static void count_run(struct continuation *c) {
        c->run = NULL;
}

static struct continuation started_later = { .run = count_run };
static bool                has_run_within;

/* A step that is answered at once, for example by a cache, starts the next one outside of an
 * execution. */
static void start_another(struct continuation *c) {
        (void)c;
        infer_thread_start(&started_later, 0);
        has_run_within = started_later.run == NULL;
}

static void test_flat_without_executions(void **state) {
        struct continuation a = { .run = start_another };

        (void)state;
        infer_thread_enter_execution(infer_thread_self(), 0);
        has_run_within = true;
        infer_thread_start(&a, 0);
        assert_true(has_run_within); /* start_another() has not run yet */
        assert_true(infer_thread_leave_execution(infer_thread_self(), 0));
        infer_thread_continue(infer_thread_self(), true);
        assert_false(has_run_within);
        assert_null(started_later.run);
        a.run = count_run;
        infer_thread_start(&a, 0);
        assert_null(a.run); /* the execution has ended */
}

static void test_order_and_nesting(void **state) {
        struct continuation a = { .run = count_run }, b = { .run = count_run };

        (void)state;
        infer_thread_start(&a, 0);
        assert_null(a.run); /* inside no execution */
        a.run = count_run;
        infer_thread_enter_execution(infer_thread_self(), 0);
        infer_thread_start(&a, 0);
        infer_thread_start(&b, 0);
        infer_thread_continue(infer_thread_self(), true); /* still inside the execution */
        assert_non_null(a.run);
        assert_true(infer_thread_leave_execution(infer_thread_self(), 0));
        infer_thread_continue(infer_thread_self(), true);
        assert_null(a.run);
        assert_null(b.run);
        infer_thread_enter_execution(infer_thread_self(), 0);
        assert_false(infer_thread_leave_execution(infer_thread_self(), 0));
}

static bool ran_a_step, ran_a_client;

static void ask_for_limits(struct continuation *c) {
        (void)c;
        ran_a_client = infer_thread_may_run(infer_thread_self(), 1, 1000, false);
        ran_a_step = infer_thread_may_run(infer_thread_self(), 1, 1000, true);
}

/* Steps run within the time limit of one event, and only on a thread that allows it. */
static void test_what_may_run_here(void **state) {
        struct continuation a = { .run = ask_for_limits };

        (void)state;
        assert_false(infer_thread_may_run(infer_thread_self(), 1, 1000, true));
        infer_thread_allow_inline(true);
        assert_true(infer_thread_may_run(infer_thread_self(), 999, 1000, false));
        assert_false(infer_thread_may_run(infer_thread_self(), 1000, 1000, false));
        infer_thread_allow_inline(false);
        for (unsigned runs_steps = 0; runs_steps < 2; runs_steps++)
                for (uint64_t spends_ns = 998; spends_ns <= 999; spends_ns++) {
                        infer_thread_enter_execution(infer_thread_self(), spends_ns);
                        assert_false(infer_thread_may_run(infer_thread_self(), 1, 1000, true));
                        infer_thread_start(&a, 0);
                        assert_true(infer_thread_leave_execution(infer_thread_self(), 0));
                        infer_thread_continue(infer_thread_self(), runs_steps);
                        assert_false(ran_a_client);
                        assert_int_equal(ran_a_step, runs_steps && spends_ns == 998);
                }
        assert_false(infer_thread_may_run(infer_thread_self(), 1, 1000, true));
}

/* Inner requests continue while the scheduler drains. Requests of clients are refused. */
static void test_inner_requests_pass_a_drain(void **state) {
        struct fixture_model  m;
        struct fixture_model *models[] = { &m, &m };
        struct line           l;
        struct request       *outer;

        (void)state;
        fixture_model_open(&m, "m", MODEL, NULL);
        m.fake->model.scheduler->ops->drain(m.fake->model.scheduler);
        outer = fake_request(m.fake);
        add_input(outer, "X", DATA_TYPE_UINT32, 1);
        assert_error(model_submit(outer), ERR_UNAVAILABLE,
                     "[request id: <id_unknown>] Server is stopping, scheduler for model has "
                     "stopped accepting new inference requests");
        request_free(outer);
        line_begin(&l, models, 2);
        line_end(&l);
        fixture_model_close(&m);
}

SUITE(continuations) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_order_and_nesting),
                cmocka_unit_test(test_what_may_run_here),
                cmocka_unit_test(test_steps_run_on_the_submitting_thread),
                cmocka_unit_test(test_steps_run_on_the_instance_thread),
                cmocka_unit_test(test_flat_without_executions),
                cmocka_unit_test(test_requests_of_clients_do_not_run_on_the_instance_thread),
                cmocka_unit_test(test_steps_do_not_hold_up_the_queue),
                cmocka_unit_test(test_steps_share_the_limit_of_one_event),
                cmocka_unit_test(test_a_leaving_instance_takes_no_step),
                cmocka_unit_test(test_an_instance_with_its_thread_away_is_woken_last),
                cmocka_unit_test(test_steps_give_back_their_turn_first),
                cmocka_unit_test(test_inner_requests_pass_a_drain),
        };

        fixture_open();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
