/* SPDX-License-Identifier: BSD-3-Clause */
/* Random events of sequences, applied to the scheduler's parts (the table of sequences, and an engine's
 * queue and policy for each instance) and to a model of them, which has only arrays and searches all of
 * them. After each event both must agree: which requests may run, which are given up, which batch runs
 * on which instance, in which slots, and with which flags.
 *
 * The clock belongs to the test.
 */
#include "suite.h"

#include "base/clock.h"
#include "config/batching_config.h"
#include "infer/fake_model.h"
#include "infer/request_prepare.h"
#include "sched/policy.h"
#include "sched/request_queue.h"
#include "sequence/sequence_table.h"

#include <stdio.h>

#define N_REQUESTS 160
#define N_IDS 24
#define MAX_INSTANCES 6
#define IDLE_NS 5000
#define MAX_SEQUENCES N_REQUESTS
#define NONE (-1)

#if IS_SANITIZED
#define N_EVENTS 60000
#else
#define N_EVENTS 1000000
#endif

struct layout {
        const char *name;
        const char *config; /* policy of the strategy oldest; NULL: direct */
        unsigned    n_instances;
        unsigned    n_slots;
        unsigned    max_batch;
        float       utilization;
        uint64_t    delay_ns;
};

/* ---- the model ------------------------------------------------------------------------------- */

struct model_request {
        int      id;    /* 0: a sequence of its own */
        unsigned flags; /* flags as given */
        uint64_t start_ns;
        uint64_t due_ns;
        int      sequence; /* NONE: unused */
};

struct model_sequence {
        bool     is_used;
        int      id; /* 0: unknown, or never */
        bool     is_last;
        bool     is_cancelled;
        bool     is_own;
        int      instance; /* NONE: in the backlog */
        int      slot;
        int      running;
        int      waiting[N_REQUESTS];
        int      n_waiting;
        uint64_t age;      /* number of its first event: its place in the backlog */
        uint64_t idle_age; /* number of the event that made it idle; 0: not idle */
        uint64_t touched_ns;
};

struct model_instance {
        bool is_there;
        bool is_leaving;
        bool is_running;
        int  queue[N_REQUESTS]; /* ready, in order of arrival */
        int  n_queue;
        int  batch[N_REQUESTS]; /* by place: the running batch */
        int  n_batch;
};

struct lists {
        int ready[N_REQUESTS], n_ready;
        int cancelled[N_REQUESTS], n_cancelled;
        int expired[N_REQUESTS], n_expired;
};

struct story {
        const struct layout  *layout;
        uint64_t              random;
        uint64_t              now_ns;
        uint64_t              n_events;
        struct model_request  m_requests[N_REQUESTS];
        struct model_sequence m_sequences[MAX_SEQUENCES];
        struct model_instance m_instances[MAX_INSTANCES];
        unsigned              n_orders; /* number of instances made so far */
        uint64_t              n_ended[N_SEQUENCE_ENDS];

        struct fake_model     *fake;
        struct sequence_table  table;
        struct request        *requests[N_REQUESTS];
        struct sequence_place *places[MAX_INSTANCES];
        struct request_queue   queues[MAX_INSTANCES];
        struct policy         *policies[MAX_INSTANCES];
        struct batching_config no_limits;
        atomic_bool            is_held;
        uint64_t               n_batches, n_nulls, n_refused;
};

static int add_sequence(struct story *s) {
        for (int i = 0; i < MAX_SEQUENCES; i++)
                if (!s->m_sequences[i].is_used)
                        return i;
        fail_msg("too many sequences");
        return NONE;
}

static bool is_taken(const struct story *s, int instance, int slot) {
        for (int i = 0; i < MAX_SEQUENCES; i++)
                if (s->m_sequences[i].is_used && s->m_sequences[i].instance == instance &&
                    s->m_sequences[i].slot == slot)
                        return true;
        return false;
}

/* Instances are in order of age, so their index in the array is that of their creation. */
static bool find_slot(const struct story *s, int *ret_instance, int *ret_slot) {
        for (int slot = 0; slot < (int)s->layout->n_slots; slot++) {
                int      best = NONE;
                unsigned best_order = 0;

                for (int i = 0; i < MAX_INSTANCES; i++) {
                        unsigned order;

                        if (!s->m_instances[i].is_there || s->m_instances[i].is_leaving ||
                            is_taken(s, i, slot))
                                continue;
                        order = s->places[i]->order;
                        if (best == NONE || order < best_order) {
                                best = i;
                                best_order = order;
                        }
                }
                if (best != NONE) {
                        *ret_instance = best;
                        *ret_slot = slot;
                        return true;
                }
        }
        return false;
}

static void model_start_next(struct story *s, struct model_sequence *q, struct lists *out) {
        struct model_instance *in = &s->m_instances[q->instance];

        q->running = q->waiting[0];
        memmove(q->waiting, q->waiting + 1, (size_t)--q->n_waiting * sizeof(int));
        in->queue[in->n_queue++] = q->running;
        out->ready[out->n_ready++] = q->running;
}

static void model_fill(struct story *s, struct lists *out) {
        int instance, slot;

        while (find_slot(s, &instance, &slot)) {
                struct model_sequence *first = NULL;

                for (int i = 0; i < MAX_SEQUENCES; i++) {
                        struct model_sequence *q = &s->m_sequences[i];

                        if (q->is_used && q->instance == NONE &&
                            (first == NULL || q->age < first->age))
                                first = q;
                }
                if (first == NULL)
                        return;
                first->instance = instance;
                first->slot = slot;
                model_start_next(s, first, out);
        }
}

static void model_end(struct story *s, struct model_sequence *q, enum sequence_end why,
                      struct lists *out) {
        s->n_ended[why]++;
        q->is_used = false;
        model_fill(s, out);
}

static struct model_sequence *model_find(struct story *s, int id) {
        for (int i = 0; i < MAX_SEQUENCES; i++)
                if (s->m_sequences[i].is_used && s->m_sequences[i].id == id)
                        return &s->m_sequences[i];
        return NULL;
}

/* Returns false when START is missing. */
static bool model_push(struct story *s, int r, struct lists *out, bool *ret_conflict) {
        struct model_request  *req = &s->m_requests[r];
        struct model_sequence *q = req->id != 0 ? model_find(s, req->id) : NULL;
        bool                   is_start = (req->flags & REQUEST_SEQUENCE_START) != 0;

        if (req->id != 0 && q == NULL && !is_start)
                return false;
        *ret_conflict = q != NULL && is_start;
        if (q == NULL) {
                q = &s->m_sequences[add_sequence(s)];
                *q = (struct model_sequence){ .is_used = true,
                                              .id = req->id,
                                              .is_last = req->id == 0,
                                              .is_own = req->id == 0,
                                              .instance = NONE,
                                              .running = NONE,
                                              .age = s->n_events };
                if (!find_slot(s, &q->instance, &q->slot))
                        q->instance = NONE;
        }
        req->sequence = (int)(q - s->m_sequences);
        q->idle_age = 0;
        q->waiting[q->n_waiting++] = r;
        if (q->instance != NONE && q->running == NONE)
                model_start_next(s, q, out);
        if ((req->flags & REQUEST_SEQUENCE_END) != 0) {
                q->id = 0;
                q->is_last = true;
        }
        return true;
}

static void model_give_up(struct story *s, struct model_sequence *q, int from, int *list, int *n) {
        for (int i = from; i < q->n_waiting; i++) {
                list[(*n)++] = q->waiting[i];
                s->m_requests[q->waiting[i]].sequence = NONE;
        }
        q->n_waiting = from;
}

static void model_released(struct story *s, int r, bool was_run, struct lists *out) {
        struct model_sequence *q = &s->m_sequences[s->m_requests[r].sequence];

        s->m_requests[r].sequence = NONE;
        q->running = NONE;
        if (!was_run) {
                model_give_up(s, q, 0, out->cancelled, &out->n_cancelled);
                q->id = 0;
                q->is_last = q->is_cancelled = true;
        }
        if (q->n_waiting > 0) {
                model_start_next(s, q, out);
        } else if (q->is_last) {
                model_end(s, q, q->is_cancelled ? SEQUENCE_ENDED_CANCELLED : SEQUENCE_ENDED_BY_END,
                          out);
        } else {
                q->idle_age = s->n_events;
                q->touched_ns = s->now_ns;
        }
}

static bool model_cancel(struct story *s, int r, struct lists *out) {
        struct model_sequence *q = &s->m_sequences[s->m_requests[r].sequence];
        int                    at = 0;

        if (q->running == r)
                return false;
        while (q->waiting[at] != r)
                at++;
        model_give_up(s, q, at, out->cancelled, &out->n_cancelled);
        q->id = 0;
        q->is_last = q->is_cancelled = true;
        if (q->running == NONE && q->n_waiting == 0)
                model_end(s, q, SEQUENCE_ENDED_CANCELLED, out);
        return true;
}

static bool has_timed_out(const struct story *s, const struct model_sequence *q) {
        if (!q->is_used || q->instance != NONE)
                return false;
        for (int i = 0; i < q->n_waiting; i++)
                if (s->m_requests[q->waiting[i]].due_ns <= s->now_ns)
                        return true;
        return false;
}

static void model_expire(struct story *s, struct lists *out) {
        for (int i = 0; i < MAX_SEQUENCES; i++) {
                struct model_sequence *q = &s->m_sequences[i];

                if (!has_timed_out(s, q))
                        continue;
                model_give_up(s, q, 0, out->expired, &out->n_expired);
                model_end(s, q, SEQUENCE_ENDED_TIMEOUT, out);
        }
        for (;;) {
                struct model_sequence *first = NULL;

                for (int i = 0; i < MAX_SEQUENCES; i++) {
                        struct model_sequence *q = &s->m_sequences[i];

                        if (q->is_used && q->idle_age > 0 && q->touched_ns + IDLE_NS <= s->now_ns &&
                            (first == NULL || q->idle_age < first->idle_age))
                                first = q;
                }
                if (first == NULL)
                        return;
                model_end(s, first, SEQUENCE_ENDED_IDLE, out);
        }
}

/* Returns how many requests of the queue run now; 0: none. */
static int model_decide(const struct story *s, const struct model_instance *in) {
        const struct layout *l = s->layout;
        uint64_t             oldest_ns = CLOCK_NEVER;
        int                  n = in->n_queue;

        for (int i = 0; i < n; i++)
                oldest_ns = MIN(oldest_ns, s->m_requests[in->queue[i]].start_ns);
        if (n == 0)
                return 0;
        if (l->config == NULL) {
                bool is_enough = (float)n / (float)l->n_slots >= l->utilization;

                return l->delay_ns == 0 || is_enough || s->now_ns >= oldest_ns + l->delay_ns ? n
                                                                                             : 0;
        }
        n = MIN(n, (int)l->max_batch);
        oldest_ns = CLOCK_NEVER; /* oldest of those that fit */
        for (int i = 0; i < n; i++)
                oldest_ns = MIN(oldest_ns, s->m_requests[in->queue[i]].start_ns);
        if (n == (int)l->max_batch || in->n_queue > n || l->delay_ns == 0 ||
            s->now_ns >= oldest_ns + l->delay_ns)
                return n;
        return 0;
}

/* ---- both ------------------------------------------------------------------------------------ */

static uint64_t rnd(struct story *s, uint64_t below) {
        s->random ^= s->random << 13;
        s->random ^= s->random >> 7;
        s->random ^= s->random << 17;
        return s->random % below;
}

static int index_of(const struct request *req) {
        return atoi(req->id + 1);
}

static void compare(struct story *s, const struct request *first, int *list, int n, bool is_ordered,
                    const char *what) {
        int at = 0;

        for (const struct request *req = first; req != NULL; req = req->queued.next, at++) {
                int i = at;

                if (!is_ordered)
                        for (i = 0; i < n && list[i] != index_of(req); i++)
                                continue;
                if (at >= n || i >= n || list[i] != index_of(req))
                        fail_msg("%s, event %llu: %s has %s at %d of %d", s->layout->name,
                                 (unsigned long long)s->n_events, what, req->id, at, n);
        }
        if (at != n)
                fail_msg("%s, event %llu: %s has %d of %d", s->layout->name,
                         (unsigned long long)s->n_events, what, at, n);
}

static void run_batches(struct story *s);

/* Handles the results of an event, for both sides. Requests that are ready go to their instances. */
static void follow(struct story *s, const struct sequence_outcome *out, struct lists *expected) {
        compare(s, out->ready.first, expected->ready, expected->n_ready, true, "ready");
        compare(s, out->cancelled.first, expected->cancelled, expected->n_cancelled, true,
                "cancelled");
        compare(s, out->expired.first, expected->expired, expected->n_expired, false, "expired");
        for (struct request *req = out->ready.first, *next; req != NULL; req = next) {
                struct model_sequence *q = &s->m_sequences[s->m_requests[index_of(req)].sequence];
                struct sequence_slot  *slot = req->sequence->slot;

                next = req->queued.next;
                assert_ptr_equal(slot->place, s->places[q->instance]);
                assert_int_equal(slot->number, q->slot);
                assert_null(request_queue_push(&s->queues[q->instance], req, s->now_ns));
        }
        assert_memory_equal(s->table.n_ended, s->n_ended, sizeof(s->n_ended));
        run_batches(s);
}

static unsigned flags_of(const struct story *s, int r) {
        return s->m_requests[r].flags | (s->m_requests[r].id == 0 ? REQUEST_SEQUENCE_START : 0u);
}

static void run_batch(struct story *s, int i, uint32_t n) {
        struct model_instance *in = &s->m_instances[i];
        struct request        *req = request_queue_take(&s->queues[i], n);
        int                    top = 0;

        for (int k = 0; k < (int)n; k++, req = req->queued.next) {
                int r = in->queue[k];

                assert_int_equal(index_of(req), r);
                assert_int_equal(req->flags, flags_of(s, r));
                in->batch[k] = r;
        }
        assert_null(req);
        for (int k = 0; k < MAX_SEQUENCES; k++)
                if (s->m_sequences[k].is_used && s->m_sequences[k].instance == i)
                        top = MAX(top, s->m_sequences[k].slot + 1);
        assert_int_equal(s->places[i]->n_top, top);
        s->n_batches++;
        s->n_nulls += (uint64_t)top - n;
        in->n_batch = (int)n;
        in->n_queue -= (int)n;
        memmove(in->queue, in->queue + n, (size_t)in->n_queue * sizeof(int));
        in->is_running = true;
}

static void run_batches(struct story *s) {
        for (int i = 0; i < MAX_INSTANCES; i++) {
                struct model_instance *in = &s->m_instances[i];
                struct list            idle;
                struct sched_view      view = { .queue = &s->queues[i], .idle = &idle };
                struct dispatch        d;

                if (!in->is_there || in->is_running)
                        continue;
                list_init(&idle);
                d = s->policies[i]->ops->decide(s->policies[i], &view, s->now_ns);
                assert_int_equal(d.verdict == BATCH_RUN ? d.n_requests : 0, model_decide(s, in));
                if (d.verdict == BATCH_RUN)
                        run_batch(s, i, d.n_requests);
        }
}

static int free_request(struct story *s) {
        int first = (int)rnd(s, N_REQUESTS);

        for (int i = 0; i < N_REQUESTS; i++)
                if (s->m_requests[(first + i) % N_REQUESTS].sequence == NONE)
                        return (first + i) % N_REQUESTS;
        return NONE;
}

static void event_push(struct story *s) {
        int                     r = free_request(s);
        struct lists            expected = { 0 };
        struct sequence_outcome out;
        struct request         *req;
        bool                    conflict = false, is_taken_by_model;
        struct error           *err;

        if (r == NONE)
                return;
        req = s->requests[r];
        s->m_requests[r] = (struct model_request){
                .id = rnd(s, 12) == 0 ? 0 : 1 + (int)rnd(s, N_IDS),
                .start_ns = s->now_ns,
                .due_ns = CLOCK_NEVER,
                .sequence = NONE,
        };
        if (rnd(s, 3) == 0)
                s->m_requests[r].flags |= REQUEST_SEQUENCE_START;
        if (rnd(s, 4) == 0)
                s->m_requests[r].flags |= REQUEST_SEQUENCE_END;
        req->flags = s->m_requests[r].flags;
        req->correlation = (struct correlation_id){ .number = (uint64_t)s->m_requests[r].id };
        req->timeout_us = rnd(s, 3) == 0 ? 1 + rnd(s, 8) : 0;
        if (req->timeout_us > 0)
                s->m_requests[r].due_ns = s->now_ns + req->timeout_us * NS_PER_US;
        req->times.request_start_ns = req->times.queue_start_ns = s->now_ns;

        sequence_outcome_init(&out);
        err = sequence_table_push(&s->table, req,
                                  s->m_requests[r].id == 0 ? SEQUENCE_OF_REQUEST
                                                           : SEQUENCE_OF_CLIENT,
                                  s->now_ns, &out);
        is_taken_by_model = model_push(s, r, &expected, &conflict);
        assert_int_equal(err == NULL, is_taken_by_model);
        assert_int_equal(out.has_conflict, conflict);
        s->n_refused += err != NULL;
        error_free(err);
        follow(s, &out, &expected);
}

/* An instance ends its batch. Its requests are released in any order. */
static void event_complete(struct story *s) {
        int                    i = (int)rnd(s, MAX_INSTANCES);
        struct model_instance *in = &s->m_instances[i];

        if (!in->is_there || !in->is_running)
                return;
        while (in->n_batch > 0) {
                int                     at = (int)rnd(s, (uint64_t)in->n_batch);
                int                     r = in->batch[at];
                struct lists            expected = { 0 };
                struct sequence_outcome out;

                in->batch[at] = in->batch[--in->n_batch];
                sequence_outcome_init(&out);
                s->n_events++; /* the order in which their sequences become idle */
                sequence_table_released(&s->table, s->requests[r], true, s->now_ns, &out);
                model_released(s, r, true, &expected);
                assert_int_equal(s->requests[r]->flags, s->m_requests[r].flags);
                assert_int_equal(s->requests[r]->correlation.number, s->m_requests[r].id);
                follow(s, &out, &expected);
        }
        in->is_running = false;
        run_batches(s);
}

static bool is_in_engine(struct story *s, int r, int *ret_at) {
        struct model_instance *in =
                &s->m_instances[s->m_sequences[s->m_requests[r].sequence].instance];

        for (int i = 0; i < in->n_queue; i++)
                if (in->queue[i] == r) {
                        *ret_at = i;
                        return true;
                }
        return false;
}

static void event_cancel(struct story *s) {
        int                     r = (int)rnd(s, N_REQUESTS), at;
        struct request         *req = s->requests[r];
        struct lists            expected = { 0 };
        struct sequence_outcome out;
        bool                    is_here;

        if (s->m_requests[r].sequence == NONE)
                return;
        sequence_outcome_init(&out);
        is_here = sequence_table_cancel(&s->table, req, s->now_ns, &out);
        assert_int_equal(is_here, model_cancel(s, r, &expected));
        if (!is_here && is_in_engine(s, r, &at)) {
                int                    i = s->m_sequences[s->m_requests[r].sequence].instance;
                struct model_instance *in = &s->m_instances[i];

                assert_true(request_queue_remove(&s->queues[i], req));
                in->n_queue--;
                memmove(in->queue + at, in->queue + at + 1,
                        (size_t)(in->n_queue - at) * sizeof(int));
                sequence_table_released(&s->table, req, false, s->now_ns, &out);
                model_released(s, r, false, &expected);
        }
        follow(s, &out, &expected);
}

static void event_time(struct story *s) {
        struct lists            expected = { 0 };
        struct sequence_outcome out;
        uint64_t                due_ns = sequence_table_next_due(&s->table);

        s->now_ns += rnd(s, 10) == 0 ? rnd(s, 8000) : rnd(s, 400);
        if (rnd(s, 8) == 0 && due_ns != CLOCK_NEVER && due_ns > s->now_ns)
                s->now_ns = due_ns; /* exactly at that time */
        sequence_outcome_init(&out);
        sequence_table_expire(&s->table, s->now_ns, &out);
        model_expire(s, &expected);
        follow(s, &out, &expected);
}

static struct policy *make_policy(struct story *s) {
        struct batching_config batching;

        if (s->layout->config == NULL)
                return policy_slots_new(&(struct policy_slots_options){
                        .n_slots = s->layout->n_slots,
                        .min_utilization = s->layout->utilization,
                        .max_delay_ns = s->layout->delay_ns,
                        .is_held = &s->is_held,
                });
        assert_ok(batching_config_init(&batching, s->fake->model.config), "policy");
        assert_int_equal(batching.max_queue_delay_ns, s->layout->delay_ns);
        return policy_dynamic_new(&(struct policy_dynamic_options){ .batching = &batching });
}

static void add_instance(struct story *s, int i) {
        struct lists            expected = { 0 };
        struct sequence_outcome out;

        s->policies[i] = make_policy(s);
        request_queue_init(&s->queues[i], s->policies[i]->limits);
        sequence_outcome_init(&out);
        s->places[i] = sequence_table_add_place(&s->table, NULL, &out);
        s->m_instances[i] = (struct model_instance){ .is_there = true };
        model_fill(s, &expected);
        follow(s, &out, &expected);
}

static void remove_instance(struct story *s, int i) {
        sequence_table_remove_place(&s->table, s->places[i]);
        request_queue_done(&s->queues[i]);
        policy_free(s->policies[i]);
        s->places[i] = NULL;
        s->m_instances[i].is_there = false;
}

/* An instance is added, leaves, or has left. One instance that takes sequences always remains. */
static void event_instance(struct story *s) {
        int i = (int)rnd(s, MAX_INSTANCES), n_there = 0;

        for (int k = 0; k < MAX_INSTANCES; k++)
                n_there += s->m_instances[k].is_there && !s->m_instances[k].is_leaving;
        if (!s->m_instances[i].is_there) {
                if (n_there <= (int)s->layout->n_instances)
                        add_instance(s, i);
        } else if (s->m_instances[i].is_leaving) {
                if (s->places[i]->n_active == 0 && !s->m_instances[i].is_running)
                        remove_instance(s, i);
        } else if (n_there > 1) {
                s->m_instances[i].is_leaving = true;
                sequence_table_retire_place(&s->table, s->places[i]);
        }
}

static void play_events(struct story *s) {
        while (s->n_events < N_EVENTS) {
                uint64_t kind = rnd(s, 100);

                s->n_events++;
                if (kind < 45)
                        event_push(s);
                else if (kind < 75)
                        event_complete(s);
                else if (kind < 80)
                        event_cancel(s);
                else if (kind < 99)
                        event_time(s);
                else
                        event_instance(s);
        }
}

/* Ends everything: batches first, then idle sequences. */
static void finish(struct story *s) {
        for (int i = 0; i < 100000; i++) {
                s->n_events++;
                event_complete(s);
                event_time(s);
        }
        assert_int_equal(s->table.n_active, 0);
        assert_int_equal(s->table.n_backlog, 0);
        assert_int_equal(s->table.n_active_requests, 0);
        assert_int_equal(s->table.n_backlog_requests, 0);
        assert_int_equal(s->table.ids.n, 0);
}

static void run(const struct layout *l) {
        struct story *s = calloc(1, sizeof(*s));
        char          config[512], id[16];

        assert_non_null(s);
        s->layout = l;
        s->random = 88172645463325252u;
        s->now_ns = NS_PER_S;
        snprintf(config, sizeof(config), "name: 'm' max_batch_size: %u sequence_batching { %s }",
                 l->max_batch, l->config != NULL ? l->config : "");
        s->fake = fake_model_new(config);
        assert_ok(sequence_table_init(&s->table, l->n_slots, IDLE_NS), "table");
        for (int i = 0; i < N_REQUESTS; i++) {
                s->requests[i] = fake_request(s->fake);
                snprintf(id, sizeof(id), "r%d", i);
                assert_ok(request_set_id(s->requests[i], id), id);
                s->requests[i]->batch_size = 1;
                s->m_requests[i].sequence = NONE;
        }
        for (int i = 0; i < (int)l->n_instances; i++)
                add_instance(s, i);
        play_events(s);
        finish(s);
        for (unsigned i = 0; i < N_SEQUENCE_ENDS; i++)
                assert_true(s->n_ended[i] > N_EVENTS / 10000); /* each of these has occurred */
        assert_true(s->n_batches > N_EVENTS / 50 && s->n_refused > N_EVENTS / 50);
        if (l->n_slots > 1)
                assert_true(s->n_nulls > N_EVENTS / 1000);
        sequence_table_done(&s->table);
        for (int i = 0; i < MAX_INSTANCES; i++)
                if (s->places[i] != NULL)
                        remove_instance(s, i);
        for (int i = 0; i < N_REQUESTS; i++)
                request_free(s->requests[i]);
        fake_model_free(s->fake);
        free(s);
}

static const struct layout layouts[] = {
        { "direct, 4 instances without batching", NULL, 4, 1, 0, 0, 0 },
        { "direct, 1x4", NULL, 1, 4, 4, 0, 0 },
        { "direct, 2x2, utilisation 0.5", NULL, 2, 2, 2, 0.5f, 700 },
        { "direct, 2x4, utilisation 1", NULL, 2, 4, 4, 1, 900 },
        { "oldest, 4x1", "oldest { }", 4, 1, 1, 0, 0 },
        { "oldest, 1x4", "oldest { max_candidate_sequences: 8 }", 1, 8, 4, 0, 0 },
        { "oldest, 2x2, delay",
          "oldest { max_candidate_sequences: 3 max_queue_delay_microseconds: 1 }", 2, 3, 2, 0,
          1000 },
};

static void test_stories(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(layouts); i++)
                run(&layouts[i]);
}

SUITE(sequence_table_model) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_stories),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
