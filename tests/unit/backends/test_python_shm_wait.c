/* SPDX-License-Identifier: BSD-3-Clause */
/* Every order of steps of the three that a waited execution concerns, on the words that they sleep on: the
 * thread in Execute that waits for the result, the receiver, and the stub, which calls another model
 * before it answers. Either thread of the server may read what the stub writes. In no order does the
 * thread in Execute sleep for ever.
 *
 * The steps are those of wait_for_end() and finish() in execution.c, read_messages() and sleep_for() in
 * instance.c, session_sleep() in session.c and shm_wake().
 */
#include "suite.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { CALLS = 2, MESSAGES = CALLS + 1, MAX_WORLDS = 1 << 16 };
enum { EXECUTOR, RECEIVER, NOBODY };

enum reader_step {
        READER_ENTER, /* takes the role, or waits until the other one gives it up */
        READER_WAITS,
        READER_READS,
        READER_TELLS, /* the other one: the execution is done */
        READER_TELLS_AGAIN,
        READER_LEAVES,
        READER_ANNOUNCES, /* that it will sleep */
        READER_LOOKS,
        READER_SLEEPS,
        READER_IS_ASLEEP,
        READER_WAKES,
        READER_HAS_ENDED,
};

enum stub_step { STUB_POSTS, STUB_LOOKS, STUB_CLEARS, STUB_WAKES, STUB_WAITS, STUB_HAS_ENDED };

struct world {
        uint8_t step[2];      /* enum reader_step of the executor and the receiver */
        uint8_t has_word[2];  /* says that it sleeps */
        uint8_t is_asleep[2]; /* in the kernel */
        uint8_t role;         /* who reads */
        uint8_t n_posted, n_read, n_replies, is_done;
        uint8_t stub;
};

static struct world worlds[MAX_WORLDS];
static unsigned     n_worlds, n_stuck;
static bool         finish_wakes;

static void reach(const struct world *w) {
        for (unsigned i = 0; i < n_worlds; i++)
                if (memcmp(&worlds[i], w, sizeof(*w)) == 0)
                        return;
        assert_true(n_worlds < MAX_WORLDS);
        worlds[n_worlds++] = *w;
}

static void broadcast(struct world *w) {
        for (int i = 0; i < 2; i++)
                if (w->step[i] == READER_WAITS)
                        w->step[i] = READER_ENTER;
}

static void read_one(struct world *w, int self) {
        if (w->n_read == w->n_posted) {
                w->step[self] = READER_LEAVES;
        } else if (w->n_read++ < CALLS) {
                w->n_replies++;
        } else {
                w->is_done = true;
                w->step[self] = READER_TELLS;
        }
}

static void wake(struct world *w, int who) {
        w->has_word[who] = false;
        w->is_asleep[who] = false;
}

/* False: it can do nothing. */
static bool step_reader(struct world *w, int self) {
        uint8_t *step = &w->step[self];

        switch (*step) {
        case READER_ENTER:
                if (self == EXECUTOR && w->is_done) {
                        *step = READER_HAS_ENDED;
                        return true;
                }
                if (w->role == NOBODY)
                        w->role = (uint8_t)self;
                *step = w->role == self ? READER_READS : READER_WAITS;
                return true;
        case READER_READS: read_one(w, self); return true;
        case READER_TELLS:
                if (finish_wakes && w->has_word[EXECUTOR])
                        wake(w, EXECUTOR);
                *step = READER_TELLS_AGAIN;
                return true;
        case READER_TELLS_AGAIN:
                broadcast(w);
                *step = READER_READS;
                return true;
        case READER_LEAVES:
                w->role = NOBODY;
                broadcast(w);
                *step = self == EXECUTOR && w->is_done ? READER_HAS_ENDED : READER_ANNOUNCES;
                return true;
        case READER_ANNOUNCES:
                w->has_word[self] = true;
                *step = READER_LOOKS;
                return true;
        case READER_LOOKS:
                *step = w->n_read != w->n_posted || (finish_wakes && self == EXECUTOR && w->is_done)
                                ? READER_WAKES
                                : READER_SLEEPS;
                return true;
        case READER_SLEEPS: /* the kernel compares the word */
                w->is_asleep[self] = w->has_word[self];
                *step = w->has_word[self] ? READER_IS_ASLEEP : READER_WAKES;
                return true;
        case READER_IS_ASLEEP:
                if (w->is_asleep[self])
                        return false;
                *step = READER_WAKES;
                return true;
        case READER_WAKES:
                w->has_word[self] = false;
                *step = READER_ENTER;
                return true;
        default: return false;
        }
}

static bool step_stub(struct world *w) {
        int who = w->n_posted > CALLS ? EXECUTOR : RECEIVER; /* whom the last message is for */

        switch (w->stub) {
        case STUB_POSTS:
                w->n_posted++;
                w->stub = STUB_LOOKS;
                return true;
        case STUB_LOOKS: w->stub = w->has_word[who] ? STUB_CLEARS : STUB_WAITS; return true;
        case STUB_CLEARS:
                w->stub = w->has_word[who] ? STUB_WAKES : STUB_WAITS;
                w->has_word[who] = false;
                return true;
        case STUB_WAKES:
                w->is_asleep[who] = false;
                w->stub = STUB_WAITS;
                return true;
        case STUB_WAITS:
                if (w->n_posted == MESSAGES) {
                        w->stub = STUB_HAS_ENDED;
                        return true;
                }
                if (w->n_replies < w->n_posted)
                        return false;
                w->stub = STUB_POSTS;
                return true;
        default: return false;
        }
}

static void go_on(struct world from) {
        bool can_go_on = false;

        for (int i = 0; i < 3; i++) {
                struct world w = from;

                if (i == 2 ? !step_stub(&w) : !step_reader(&w, i))
                        continue;
                can_go_on = true;
                reach(&w);
        }
        if (!can_go_on && from.step[EXECUTOR] != READER_HAS_ENDED)
                n_stuck++;
}

static void explore(bool with_wake) {
        struct world w;

        memset(&w, 0, sizeof(w));
        w.role = NOBODY;
        n_worlds = n_stuck = 0;
        finish_wakes = with_wake;
        reach(&w);
        for (unsigned i = 0; i < n_worlds; i++)
                go_on(worlds[i]);
        assert_true(n_worlds > 500);
}

static void test_nobody_sleeps_for_ever(void **state) {
        (void)state;
        explore(true);
        assert_int_equal(n_stuck, 0);
}

/* The receiver may read the result that the thread in Execute is about to sleep for. */
static void test_the_receiver_must_tell(void **state) {
        (void)state;
        explore(false);
        assert_true(n_stuck > 0);
}

SUITE(python_shm_wait) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_nobody_sleeps_for_ever),
                                            cmocka_unit_test(test_the_receiver_must_tell) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
