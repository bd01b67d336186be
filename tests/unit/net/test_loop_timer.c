/* SPDX-License-Identifier: BSD-3-Clause */
/* Timers and deferred tasks of a loop. Each test is a script that runs on the loop's thread; the test's
 * own thread waits for its end. */
#include "suite.h"

#include "base/clock.h"
#include "base/compiler.h"
#include "base/lock.h"
#include "base/mem.h"
#include "net/loop.h"
#include "net/loop_timer.h"
#include "net/uv_types.h"

#define MAX_FIRED 1024
#define N_MANY 300
#define N_GREEDY 10 /* rounds of a timer that arms itself */

struct script;
typedef void (*script_fn)(struct script *s);

struct numbered {
        struct loop_timer timer;
        struct script    *script;
        int               number;
        uint64_t          wanted_ns;
};

struct noted {
        struct loop_task task;
        struct script   *script;
        int              number;
        int              n_again;
};

struct script {
        struct loop_group *loops;
        struct loop       *loop;
        struct mail        mail;
        script_fn          begin;
        uint64_t        begin_ns; /* what arm() counts from: a busy machine may stop the script */
        struct numbered timers[N_MANY];
        struct noted    tasks[4];

        /* Written on the loop, read when it is over. */
        int      fired[MAX_FIRED]; /* numbers, in order */
        size_t   n_fired;
        size_t   n_wanted;
        bool     is_early, was_elsewhere;
        uint64_t late_ns; /* the worst */

        struct mutex lock;
        struct cond  changed;
        bool         is_over;
};

static void end(struct script *s) {
        MUTEX_GUARD(&s->lock);

        s->is_over = true;
        cond_signal(&s->changed);
}

static void note(struct script *s, int number) {
        if (!loop_is_current(s->loop))
                s->was_elsewhere = true;
        if (s->n_fired < MAX_FIRED)
                s->fired[s->n_fired++] = number;
        if (s->n_fired == s->n_wanted && !s->is_over)
                end(s);
}

static void on_time(struct loop_timer *t) {
        struct numbered *n = CONTAINER_OF(t, struct numbered, timer);
        uint64_t         now_ns = clock_now_ns();

        if (now_ns < n->wanted_ns)
                n->script->is_early = true;
        else
                n->script->late_ns = MAX(n->script->late_ns, now_ns - n->wanted_ns);
        note(n->script, n->number);
}

static void arm(struct script *s, int number, uint64_t in_us) {
        struct numbered *n = &s->timers[number];

        n->wanted_ns = s->begin_ns + in_us * NS_PER_US;
        if (!loop_timer_arm(s->loop, &n->timer, n->wanted_ns))
                s->is_early = true;
}

static void on_mail(struct mail *m) {
        struct script *s = CONTAINER_OF(m, struct script, mail);

        s->begin_ns = clock_now_ns();
        s->begin(s);
}

/* Runs it on a loop until `n_wanted` have fired; the script may say another number. */
static struct script *play(script_fn begin, size_t n_wanted) {
        struct script *s = mem_zalloc(sizeof(*s));

        mutex_init(&s->lock, LOCK_LEAF);
        cond_init(&s->changed);
        s->begin = begin;
        s->n_wanted = n_wanted;
        s->mail.deliver = on_mail;
        for (int i = 0; i < N_MANY; i++) {
                s->timers[i] = (struct numbered){ .script = s, .number = i };
                loop_timer_init(&s->timers[i].timer, on_time);
        }
        assert_null(loop_group_new("test", 1, &s->loops));
        s->loop = loop_group_get(s->loops, 0);
        mailbox_post(loop_mailbox(s->loop), &s->mail);
        mutex_lock(&s->lock);
        while (!s->is_over)
                cond_wait(&s->changed, &s->lock);
        mutex_unlock(&s->lock);
        loop_group_free(s->loops);
        assert_int_equal(s->n_fired, s->n_wanted);
        assert_false(s->is_early);
        assert_false(s->was_elsewhere);
        return s;
}

static void script_free(struct script *s) {
        cond_done(&s->changed);
        mutex_done(&s->lock);
        free(s);
}

static void arm_three(struct script *s) {
        arm(s, 0, 30000);
        arm(s, 1, 10000);
        arm(s, 2, 20000);
}

static void test_soonest_first(void **state) {
        struct script *s = play(arm_three, 3);

        (void)state;
        assert_int_equal(s->fired[0], 1);
        assert_int_equal(s->fired[1], 2);
        assert_int_equal(s->fired[2], 0);
        for (int i = 0; i < 3; i++)
                assert_false(loop_timer_is_armed(&s->timers[i].timer));
        script_free(s);
}

/* One of several is enough: the machine may be busy. */
static void test_on_time(void **state) {
        uint64_t best_ns = UINT64_MAX;

        (void)state;
        for (int i = 0; i < 40 && best_ns >= 5 * NS_PER_MS; i++) {
                struct script *s = play(arm_three, 3);

                best_ns = MIN(best_ns, s->late_ns);
                script_free(s);
        }
        assert_true(best_ns < 5 * NS_PER_MS);
}

static void arm_past(struct script *s) {
        s->timers[0].wanted_ns = 1;
        if (!loop_timer_arm(s->loop, &s->timers[0].timer, 1))
                s->is_early = true;
}

static void test_past(void **state) {
        (void)state;
        script_free(play(arm_past, 1));
}

/* Cancelled ones do not fire, moved ones once, where they were moved to. */
static void arm_and_change(struct script *s) {
        arm(s, 0, 5000);
        arm(s, 1, 5000);
        arm(s, 2, 5000);
        arm(s, 3, 15000);
        loop_timer_cancel(&s->timers[0].timer);
        loop_timer_cancel(&s->timers[0].timer); /* as often as one likes */
        arm(s, 1, 10000);
        if (!loop_timer_arm(s->loop, &s->timers[2].timer, CLOCK_NEVER))
                s->is_early = true;
}

static void test_cancelled_and_moved(void **state) {
        struct script *s = play(arm_and_change, 2);

        (void)state;
        assert_int_equal(s->fired[0], 1);
        assert_int_equal(s->fired[1], 3);
        script_free(s);
}

static void on_time_cancel_next(struct loop_timer *t) {
        struct numbered *n = CONTAINER_OF(t, struct numbered, timer);

        loop_timer_cancel(&n->script->timers[1].timer);
        on_time(t);
}

/* Both are due at the same moment: the first takes the second back. */
static void arm_rivals(struct script *s) {
        s->timers[0].timer.fire = on_time_cancel_next;
        s->timers[0].wanted_ns = s->timers[1].wanted_ns = 1;
        if (!loop_timer_arm(s->loop, &s->timers[0].timer, 1) ||
            !loop_timer_arm(s->loop, &s->timers[1].timer, 2))
                s->is_early = true;
        arm(s, 2, 5000);
}

static void test_cancelled_by_another(void **state) {
        struct script *s = play(arm_rivals, 2);

        (void)state;
        assert_int_equal(s->fired[0], 0);
        assert_int_equal(s->fired[1], 2);
        script_free(s);
}

/* Armed for the past from its own callback, again and again: each round of the loop has it once,
 * and others get their turn. The task is noted after each round. */
static void on_time_again(struct loop_timer *t) {
        struct numbered *n = CONTAINER_OF(t, struct numbered, timer);
        struct script   *s = n->script;

        note(s, 0);
        loop_defer(s->loop, LOOP_HANDLE, &s->tasks[0].task);
        if (!loop_timer_arm(s->loop, t, 1))
                s->is_early = true;
        if (s->n_fired == 2 * N_GREEDY + 1)
                arm(s, 1, 0);
}

static void on_round_end(struct loop_task *c) {
        struct noted *n = CONTAINER_OF(c, struct noted, task);

        if (n->script->n_fired < n->script->n_wanted)
                note(n->script, n->number);
}

static void on_time_enough(struct loop_timer *t) {
        struct numbered *n = CONTAINER_OF(t, struct numbered, timer);

        n->script->n_wanted = n->script->n_fired + 1;
        loop_timer_cancel(&n->script->timers[0].timer);
        on_time(t);
}

static void arm_greedy(struct script *s) {
        s->tasks[0] = (struct noted){ { .run = on_round_end }, s, 100, 0 };
        s->timers[0].timer.fire = on_time_again;
        s->timers[1].timer.fire = on_time_enough;
        arm(s, 0, 0);
}

static void test_armed_again_at_once(void **state) {
        struct script *s = play(arm_greedy, MAX_FIRED);

        (void)state;
        /* The last round has both timers, or the second alone. */
        assert_in_range(s->n_fired, 2 * N_GREEDY + 3, 2 * N_GREEDY + 4);
        for (int i = 0; i <= 2 * N_GREEDY; i++)
                assert_int_equal(s->fired[i], i % 2 == 0 ? 0 : 100);
        assert_int_equal(s->fired[s->n_fired - 1], 1);
        script_free(s);
}

/* In any order, a third cancelled: the rest fires in order. */
static void arm_many(struct script *s) {
        for (int i = 0; i < N_MANY; i++)
                arm(s, i, (uint64_t)(i * 7919 % N_MANY) * 50);
        for (int i = 0; i < N_MANY; i += 3)
                loop_timer_cancel(&s->timers[i].timer);
}

static void test_many(void **state) {
        struct script *s = play(arm_many, N_MANY - N_MANY / 3);

        (void)state;
        for (size_t i = 1; i < s->n_fired; i++)
                assert_true(s->timers[s->fired[i - 1]].wanted_ns <=
                            s->timers[s->fired[i]].wanted_ns);
        script_free(s);
}

/* ---- deferred tasks ---- */

static void on_task(struct loop_task *c) {
        struct noted *n = CONTAINER_OF(c, struct noted, task);

        if (n->n_again-- > 0)
                loop_defer(n->script->loop, LOOP_HANDLE, c);
        note(n->script, n->number);
}

static struct script *waiting_script; /* one loop at a time has it */

static void on_wait(void) {
        if (waiting_script != NULL && waiting_script->n_fired > 0 && !waiting_script->is_over)
                note(waiting_script, 100);
}

static void another(void) {
}

/* A task that is deferred twice runs once; a task that defers itself runs again in the same round; the
 * waker runs after the tasks of one phase and before those of the other, and again after these. */
static void defer(struct script *s) {
        for (int i = 0; i < 4; i++)
                s->tasks[i] = (struct noted){ { .run = on_task }, s, i, i == 1 };
        loop_defer(s->loop, LOOP_WRITE, &s->tasks[3].task);
        waiting_script = s;
        if (!loop_set_waker(on_wait) || !loop_set_waker(on_wait) || loop_set_waker(another))
                s->is_early = true;
        loop_defer(s->loop, LOOP_HANDLE, &s->tasks[2].task);
        loop_defer(s->loop, LOOP_HANDLE, &s->tasks[0].task);
        loop_defer(s->loop, LOOP_HANDLE, &s->tasks[1].task);
        loop_defer(s->loop, LOOP_HANDLE, &s->tasks[2].task);
}

static void test_phases(void **state) {
        static const int wanted[] = { 2, 0, 1, 1, 100, 3, 100 };
        struct script   *s;

        (void)state;
        assert_false(loop_set_waker(on_wait)); /* no loop's thread */
        s = play(defer, ARRAY_LEN(wanted));
        waiting_script = NULL;
        for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
                assert_int_equal(s->fired[i], wanted[i]);
        script_free(s);
}

#define SLICE_BYTES ((size_t)2 << 20)
#define N_SLICES 5

static void on_wait_discarding(void) {
        if (waiting_script != NULL && !waiting_script->is_over)
                note(waiting_script, (int)(waiting_script->loop->discarded_bytes / SLICE_BYTES));
}

static void discard(struct script *s) {
        void *block = try_map(N_SLICES * SLICE_BYTES);

        waiting_script = s;
        if (block == NULL || !loop_set_waker(on_wait_discarding))
                s->is_early = true;
        mem_unmap_large(block, N_SLICES * SLICE_BYTES);
}

/* A loop with nothing else to do frees one slice in each round, after the waker. If it slept before the
 * last slice, the test would not end. */
static void test_large_block(void **state) {
        struct script *s;

        (void)state;
        s = play(discard, N_SLICES);
        waiting_script = NULL;
        assert_false(s->is_early);
        for (int i = 0; i < N_SLICES; i++)
                assert_int_equal(s->fired[i], N_SLICES - i);
        script_free(s);
}

SUITE(loop_timer) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_soonest_first),
                cmocka_unit_test(test_on_time),
                cmocka_unit_test(test_past),
                cmocka_unit_test(test_cancelled_and_moved),
                cmocka_unit_test(test_cancelled_by_another),
                cmocka_unit_test(test_armed_again_at_once),
                cmocka_unit_test(test_many),
                cmocka_unit_test(test_phases),
                cmocka_unit_test(test_large_block),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
