/* SPDX-License-Identifier: BSD-3-Clause */
/* Every order of steps of the server, a stub and a crash is tried on the word of a slot: an execution
 * is run at most once, and once exactly unless its stub died with it.
 *
 * The server offers executions one after the other through one slot, takes each back or waits for its
 * end, and offers those that it took back again, to the same stub or after a crash to another. The stub
 * goes through the entries of its ring in order: it claims, runs, answers.
 */
#include "suite.h"

#include "python/shm_slot.h"

enum { EXECUTIONS = 3, MAX_ENTRIES = 8, MAX_TAKEN_BACK = 3 };

struct world {
        _Atomic uint64_t word;
        uint32_t         generation; /* of the next offer */
        int              offered;    /* execution in the slot; -1: none */
        uint32_t         offered_generation;

        uint32_t entries[MAX_ENTRIES]; /* of the ring: generations */
        int      owner[MAX_ENTRIES];   /* the execution that an entry was written for */
        int      n_entries, next_entry;
        int      claimed; /* entry that the stub runs; -1: none */
        bool     is_dead; /* the stub; until the server has looked */

        int next;  /* execution that was not offered yet */
        int again; /* execution that was taken back; -1: none */
        int n_runs[EXECUTIONS], n_answers[EXECUTIONS], n_failures[EXECUTIONS];
        int n_taken_back, n_crashes;
};

static unsigned long n_worlds, n_complete;

static void explore(const struct world *from);

static void check(const struct world *w) {
        for (int i = 0; i < EXECUTIONS; i++) {
                assert_true(w->n_runs[i] <= 1);
                assert_true(w->n_answers[i] + w->n_failures[i] <= 1);
                assert_true(w->n_answers[i] <= w->n_runs[i]);
        }
}

static void step_offer(struct world w) {
        int execution = w.again >= 0 ? w.again : w.next;

        if (w.offered >= 0 || w.is_dead || execution >= EXECUTIONS || w.n_entries == MAX_ENTRIES)
                return;
        if (w.again >= 0)
                w.again = -1;
        else
                w.next++;
        w.offered = execution;
        w.offered_generation = w.generation++;
        shm_slot_offer(&w.word, w.offered_generation);
        w.owner[w.n_entries] = execution;
        w.entries[w.n_entries++] = w.offered_generation;
        explore(&w);
}

static void step_take_back(struct world w) {
        if (w.offered < 0 || w.is_dead || w.n_taken_back == MAX_TAKEN_BACK)
                return;
        w.n_taken_back++;
        if (shm_slot_take_back(&w.word, w.offered_generation)) {
                w.again = w.offered;
                w.offered = -1;
        }
        explore(&w);
}

static void step_claim(struct world w) {
        if (w.is_dead || w.claimed >= 0 || w.next_entry == w.n_entries)
                return;
        if (shm_slot_claim(&w.word, w.entries[w.next_entry]))
                w.claimed = w.next_entry;
        w.next_entry++;
        explore(&w);
}

/* Runs what was claimed; the answer is a step of its own for a crash in between. */
static void step_run(struct world w) {
        if (w.is_dead || w.claimed < 0 || w.n_runs[w.owner[w.claimed]] > 0)
                return;
        w.n_runs[w.owner[w.claimed]]++;
        explore(&w);
}

static void step_answer(struct world w) {
        if (w.is_dead || w.claimed < 0 || w.n_runs[w.owner[w.claimed]] == 0)
                return;
        assert_int_equal(w.owner[w.claimed], w.offered);
        w.n_answers[w.offered]++;
        shm_slot_finish(&w.word, w.offered_generation);
        w.offered = w.claimed = -1;
        explore(&w);
}

static void step_die(struct world w) {
        if (w.is_dead || w.n_crashes == 2)
                return;
        w.n_crashes++;
        w.is_dead = true;
        explore(&w);
}

/* The server has seen the end: what was not begun is offered to a new stub with an empty ring. */
static void step_recover(struct world w) {
        if (!w.is_dead)
                return;
        if (w.offered >= 0) {
                if (shm_slot_take_back(&w.word, w.offered_generation)) {
                        assert_int_equal(w.n_runs[w.offered], 0);
                        w.again = w.offered;
                } else {
                        w.n_failures[w.offered]++;
                }
                w.offered = -1;
        }
        w.is_dead = false;
        w.n_entries = w.next_entry = 0;
        w.claimed = -1;
        explore(&w);
}

static bool is_complete(const struct world *w) {
        if (w->is_dead || w->offered >= 0 || w->again >= 0 || w->next < EXECUTIONS)
                return false;
        for (int i = 0; i < EXECUTIONS; i++)
                assert_int_equal(w->n_answers[i] + w->n_failures[i], 1);
        return true;
}

static void explore(const struct world *w) {
        n_worlds++;
        check(w);
        if (is_complete(w)) {
                n_complete++;
                return;
        }
        step_offer(*w);
        step_take_back(*w);
        step_claim(*w);
        step_run(*w);
        step_answer(*w);
        step_die(*w);
        step_recover(*w);
}

static void test_every_order(void **state) {
        struct world w = { .offered = -1, .again = -1, .claimed = -1 };

        (void)state;
        explore(&w);
        assert_true(n_worlds > 1000);
        assert_true(n_complete > 100);
}

SUITE(python_shm_slot) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_every_order) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
