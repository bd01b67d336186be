/* SPDX-License-Identifier: BSD-3-Clause */
/* Sequences from many threads, with cancellations, idle times and instances that come and go: each
 * request is answered and released once, and those of one sequence run in order, on one instance.
 */
#include "suite.h"

#include "infer/implicit_state.h"
#include "sched/scheduler_fixture.h"

#include <pthread.h>
#include <stdatomic.h>

#define X "input { name: 'X' data_type: TYPE_FP32 dims: 1 } "
#define CONTROLS                                                                                   \
        "control_input { name: 'S' control { kind: CONTROL_SEQUENCE_START "                        \
        "int32_false_true: [ 0, 1 ] } } control_input { name: 'C' control { kind: "                \
        "CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } } "
#define STATE "state { input_name: 'N' output_name: 'M' data_type: TYPE_UINT32 dims: 1 } "
#define SEQUENCES(batch, more)                                                                     \
        "name: 'm' max_batch_size: " #batch " " X                                                  \
        "sequence_batching { max_sequence_idle_microseconds: 400 " CONTROLS STATE more "} "
#define INLINE(choice)                                                                             \
        "parameters { key: 'inline_execution' value { string_value: '" choice "' } } "

#define N_SUBMITTERS 4
#define N_EACH 500
#define N_IDS 6
#define N_AT_ONCE 20
#define MIN_CHANGES 8

/* One sequence, from START to END. */
struct life {
        int      executor; /* -1: none yet; guarded by the fixture's lock, as `last` */
        unsigned last;     /* number of the request that ran last */
};

struct item {
        struct ticket ticket;
        struct life  *life;
        unsigned      number;
};

struct infer_thread {
        struct thread   thread;
        struct fixture *fixture;
        unsigned        number;
        struct item     items[N_EACH];
        struct life     lives[N_EACH + N_IDS];
        struct life    *current[N_IDS]; /* NULL: START is needed */
        unsigned        n_lives;
        unsigned        n_refused;
        bool            is_stuck;
};

static unsigned n_wrong; /* guarded by the fixture's lock */

/* The state is the number of the request that ran last. */
static void check_state(struct request *req, unsigned last, unsigned next) {
        const struct request_input *in = request_find_input(req, "N");
        struct implicit_state      *state;
        unsigned                    found;
        void                       *bytes;

        memcpy(&found, in->only_chunk.base, sizeof(found));
        n_wrong += found != last || in->byte_size != sizeof(found);
        error_free(implicit_state_new(req, "M", DATA_TYPE_UINT32, in->shape, in->n_dims, &state));
        error_free(implicit_state_buffer(state, sizeof(next), &(enum memory_type){ MEMORY_CPU },
                                         &(int64_t){ 0 }, &bytes));
        memcpy(bytes, &next, sizeof(next));
        error_free(implicit_state_update(state));
}

static void check_batch(struct fake_executor *e, struct request **requests, uint32_t n) {
        int at = (int)(e - e->fixture->executors);

        for (uint32_t i = 0; i < n; i++) {
                const struct request_input *corrid = request_find_input(requests[i], "C");
                struct item                *item;
                uint64_t                    id;

                n_wrong += corrid == NULL || requests[i]->n_inputs != 4;
                memcpy(&id, corrid->only_chunk.base, sizeof(id));
                if (request_is_null(requests[i])) {
                        n_wrong += id != 0;
                        check_state(requests[i], 0, 99);
                        continue;
                }
                item = CONTAINER_OF(requests[i]->on_release_userp, struct item, ticket);
                n_wrong += id != requests[i]->correlation.number;
                n_wrong += item->life->executor != -1 && item->life->executor != at;
                n_wrong += item->number <= item->life->last;
                check_state(requests[i], item->life->last, item->number);
                item->life->executor = at;
                item->life->last = item->number;
        }
}

static bool wait_released(struct infer_thread *s, struct ticket *t) {
        s->is_stuck |= !ticket_wait_released(t);
        return !s->is_stuck;
}

static void choose_life(struct infer_thread *s, struct item *item, unsigned k, unsigned i) {
        item->ticket.req->flags = 0;
        if (s->current[k] == NULL) {
                s->current[k] = &s->lives[s->n_lives++];
                s->current[k]->executor = -1;
                item->ticket.req->flags |= REQUEST_SEQUENCE_START;
        }
        item->life = s->current[k];
        item->number = i + 1;
        if (i % 11 == 10) {
                item->ticket.req->flags |= REQUEST_SEQUENCE_END;
                s->current[k] = NULL;
        }
}

static void submit_one(struct infer_thread *s, unsigned i) {
        struct item  *item = &s->items[i];
        unsigned      k = (i * 7 + i / 5) % N_IDS;
        struct error *err;

        item->ticket.req->correlation.number = 1 + s->number * N_IDS + k;
        item->ticket.req->timeout_us = i % 5 == 0 ? 300 : 0;
        choose_life(s, item, k, i);
        err = ticket_try_submit(&item->ticket);
        if (err != NULL) { /* the sequence was idle for too long, cancelled, or timed out */
                s->n_refused++;
                s->current[k] = NULL;
                error_free(err);
                mutex_lock(&s->fixture->lock);
                item->ticket.n_finals = item->ticket.n_responses = item->ticket.n_releases = 1;
                mutex_unlock(&s->fixture->lock);
        }
        if (i % 13 == 12)
                /* this request, or one shortly before */
                request_cancel(s->items[i - i % 3].ticket.req);
}

static void infer_thread_main(void *arg) {
        struct infer_thread *s = arg;

        for (unsigned i = 0; i < N_EACH; i++) {
                submit_one(s, i);
                if (i >= N_AT_ONCE && !wait_released(s, &s->items[i - N_AT_ONCE].ticket))
                        return;
        }
        for (unsigned i = 0; i < N_EACH; i++)
                if (!wait_released(s, &s->items[i].ticket))
                        return;
}

struct changer {
        struct thread   thread;
        struct fixture *fixture;
        atomic_bool     is_ending;
        unsigned        n_changes;
        bool            has_failed;
};

static void changer_main(void *arg) {
        struct changer   *c = arg;
        struct scheduler *s = c->fixture->scheduler;
        bool              is_there[FIXTURE_MAX_EXECUTORS] = { true, true, true, true };

        while (!atomic_load(&c->is_ending) || c->n_changes < MIN_CHANGES) {
                unsigned         at = 1 + c->n_changes % (c->fixture->n_executors - 1);
                struct executor *e = &c->fixture->executors[at].base;
                struct error    *err = NULL;

                if (is_there[at])
                        s->ops->remove_executor(s, e);
                else
                        err = s->ops->add_executor(s, e);
                c->has_failed |= err != NULL;
                error_free(err);
                is_there[at] = !is_there[at];
                c->n_changes++;
        }
}

static void end_submitter(struct infer_thread *s, unsigned *n_executed) {
        assert_false(s->is_stuck);
        for (unsigned i = 0; i < N_EACH; i++) {
                struct ticket *t = &s->items[i].ticket;

                assert_int_equal(t->n_finals, 1);
                assert_int_equal(t->n_responses, 1);
                assert_int_equal(t->n_releases, 1);
                assert_int_equal(t->req->n_inputs, 1);
                *n_executed += t->n_executions;
                request_free(t->req);
        }
        free(s);
}

static void run(const char *config, unsigned n_executors, bool changes) {
        struct fixture      *fixture = fixture_open(config, n_executors, true);
        struct infer_thread *submitters[N_SUBMITTERS];
        struct changer       changer = { .fixture = fixture };
        unsigned             n_executed = 0;

        n_wrong = 0;
        fixture->before_batch = check_batch;
        for (unsigned i = 0; i < N_SUBMITTERS; i++) {
                submitters[i] = calloc(1, sizeof(struct infer_thread));
                assert_non_null(submitters[i]);
                submitters[i]->fixture = fixture;
                submitters[i]->number = i;
                for (unsigned k = 0; k < N_EACH; k++)
                        ticket_init(&submitters[i]->items[k].ticket, fixture, "s");
        }
        if (changes)
                assert_ok(thread_start(&changer.thread, "changer", changer_main, &changer),
                          "thread");
        for (unsigned i = 0; i < N_SUBMITTERS; i++)
                assert_ok(thread_start(&submitters[i]->thread, "submitter", infer_thread_main,
                                       submitters[i]),
                          "thread");
        for (unsigned i = 0; i < N_SUBMITTERS; i++)
                thread_join(&submitters[i]->thread);
        if (changes) {
                atomic_store(&changer.is_ending, true);
                thread_join(&changer.thread);
                assert_false(changer.has_failed);
        }
        for (unsigned i = 0; i < N_SUBMITTERS; i++)
                end_submitter(submitters[i], &n_executed);
        assert_int_equal(n_wrong, 0);
        assert_in_range(n_executed, N_EACH / 10, N_SUBMITTERS * N_EACH);
        fixture_close(fixture);
}

static void test_direct(void **state) {
        (void)state;
        run(SEQUENCES(1, "") INLINE("never"), 3, false);
        run(SEQUENCES(4, "") INLINE("always"), 2, false);
        run(SEQUENCES(4, "direct { max_queue_delay_microseconds: 200 "
                         "minimum_slot_utilization: 0.5 } "),
            2, false);
}

static void test_oldest(void **state) {
        (void)state;
        run(SEQUENCES(4, "oldest { max_candidate_sequences: 8 } "), 2, false);
        run(SEQUENCES(4, "oldest { max_candidate_sequences: 5 preferred_batch_size: [ 3 ] "
                         "max_queue_delay_microseconds: 100 preserve_ordering: true } ")
                    INLINE("never"),
            3, false);
}

static void test_changing_instances(void **state) {
        (void)state;
        run(SEQUENCES(2, "") INLINE("always"), 3, true);
        run(SEQUENCES(4, "oldest { max_candidate_sequences: 6 } "), 4, true);
}

SUITE(sequence_stress) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_direct),
                cmocka_unit_test(test_oldest),
                cmocka_unit_test(test_changing_instances),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
