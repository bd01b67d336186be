/* SPDX-License-Identifier: BSD-3-Clause */
#include "sequence/sequence.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "config/batching_config.h"
#include "infer/host_inputs.h"
#include "infer/implicit_state.h"
#include "infer/model.h"
#include "infer/model_generations.h"
#include "infer/request.h"
#include "infer/response.h"
#include "infer/scheduler.h"
#include "observe/load_meter.h"
#include "sched/policy.h"
#include "sched/pull_engine.h"
#include "sequence/sequence_batch.h"
#include "sequence/sequence_closing.h"
#include "sequence/sequence_control.h"
#include "sequence/sequence_table.h"

#include <inttypes.h>
#include <stdatomic.h>

struct sequence_scheduler {
        struct scheduler          base;
        struct model             *model;    /* borrowed: the owner */
        struct sequence_controls *controls; /* owned */
        struct sequence_batching  batching;
        struct pull_options       engine; /* of each instance: without executors and policy */
        struct timer              timer;
        struct sequence_counts   *counts; /* borrowed: the model's statistics; may be NULL */
        struct load_source        load; /* the backlog; instances and their queues: the engines' */
        bool                      is_oldest;
        bool                      is_iterative;

        /* TRITONSERVER_DELAY_SCHEDULER: nothing runs before this many requests are there, once. */
        uint64_t    hold_requests;
        uint64_t    hold_backlog;
        atomic_bool is_held; /* written under the lock, read by the engines' policies */

        struct mutex               lock; /* rank LOCK_SEQUENCE; guards everything below */
        struct sequence_table      table;
        struct sequence_instance **instances; /* owned, and each, including unused ones */
        size_t                     n_instances;
        struct cond                emptied; /* a leaving instance may have no sequence any more */
        unsigned                   n_leaving;
        uint64_t                   timer_due_ns;
        bool                       is_draining;
        bool has_retired; /* begins no sequences any more; see infer/model_generations.h */
        bool has_left;    /* the last sequence has ended after has_retired was set */
};

_Static_assert((int)N_SEQUENCE_ENDS == (int)N_SEQUENCE_REASONS, "each reason has a counter");

static struct sequence_scheduler *self_of(struct scheduler *s) {
        return CONTAINER_OF(s, struct sequence_scheduler, base);
}

/* ---- results of an event --------------------------------------------------------------------- */

static void refuse_all(struct sequence_scheduler *s, struct request *first, const struct error *why,
                       enum failure_reason reason) {
        for (struct request *req = first, *next; req != NULL; req = next) {
                next = req->queued.next;
                model_stats_pending(s->model->stats, -1);
                request_refuse(req, why, reason);
        }
}

/* Returns the engine of a request that is with its instance. */
static struct scheduler *engine_of(const struct request *req) {
        const struct sequence_instance *in = req->sequence->slot->place->owner;

        return in->engine;
}

static void submit_to_engine(struct sequence_scheduler *s, struct request *req) {
        struct scheduler *engine = engine_of(req);
        AUTO_ERROR        err = NULL;

        if (atomic_load_explicit(&req->state, memory_order_relaxed) == REQUEST_PENDING)
                model_stats_pending(s->model->stats, -1); /* the engine will count it again */
        err = engine->ops->submit(engine, req);
        if (err != NULL)
                request_refuse(req, err, FAILURE_OTHER);
}

static void close_all(struct sequence_scheduler *s, struct sequence *first);

static void handle_outcome(struct sequence_scheduler *s, struct sequence_outcome *out) {
        static const struct error cancelled = ERROR_STATIC(ERR_CANCELLED, "");
        static const struct error expired =
                ERROR_STATIC(ERR_UNAVAILABLE,
                             "timeout of the corresponding sequence has been expired");

        if (out->cancelled.first != NULL)
                refuse_all(s, out->cancelled.first, &cancelled, FAILURE_CANCELED);
        if (out->expired.first != NULL)
                refuse_all(s, out->expired.first, &expired, FAILURE_REJECTED);
        for (struct request *req = out->ready.first, *next; req != NULL; req = next) {
                next = req->queued.next;
                submit_to_engine(s, req);
        }
        implicit_states_free_list(out->states);
        if (out->closing != NULL)
                close_all(s, out->closing);
}

/* Copies the counts to the metrics. */
static void count_locked(struct sequence_scheduler *s) {
        const struct sequence_table *t = &s->table;
        struct sequence_counts      *c = s->counts;

        if (c == NULL)
                return;
        atomic_store_explicit(&c->n_active, t->n_active, memory_order_relaxed);
        atomic_store_explicit(&c->n_backlog, t->n_backlog, memory_order_relaxed);
        atomic_store_explicit(&c->n_started, t->n_started, memory_order_relaxed);
        for (size_t i = 0; i < N_SEQUENCE_ENDS; i++)
                atomic_store_explicit(&c->n_ended[i], t->n_ended[i], memory_order_relaxed);
}

/* Arms the timer for the next due time. If the timer fires too early, it is armed again. */
static void count_and_unlock(struct sequence_scheduler *s) {
        uint64_t due_ns = sequence_table_next_due(&s->table);

        count_locked(s);
        if (due_ns < s->timer_due_ns) {
                s->timer_due_ns = due_ns;
                timer_arm(s->engine.timers, &s->timer, due_ns);
        }
        if (s->n_leaving > 0)
                cond_broadcast(&s->emptied);
        mutex_unlock(&s->lock);
}

static uint64_t count_live_locked(const struct sequence_scheduler *s) {
        return s->table.n_active + s->table.n_backlog;
}

/* Releases the lock and then handles the results of an event. If no request or sequence is left,
 * the scheduler may be freed during this call. */
static void unlock_and_handle(struct sequence_scheduler *s, struct sequence_outcome *out) {
        bool leaves = s->has_retired && !s->has_left && count_live_locked(s) == 0;

        s->has_left |= leaves;
        count_and_unlock(s);
        handle_outcome(s, out);
        if (leaves)
                model_generations_leave(s->model);
}

/* ---- closing executions ---------------------------------------------------------------------- */

static void end_unseen(struct sequence_scheduler *s, struct sequence *seq,
                       const struct error *why) {
        struct sequence_outcome out;

        log_warn_limited("model '%s': the backend does not see the end of a sequence: %s",
                         s->model->name, why->message);
        sequence_outcome_init(&out);
        mutex_lock(&s->lock);
        sequence_table_give_up_closing(&s->table, seq, &out);
        unlock_and_handle(s, &out);
}

/* The last sequence may end, and the scheduler be freed, during this call. */
static void close_all(struct sequence_scheduler *s, struct sequence *first) {
        for (struct sequence *seq = first, *next; seq != NULL; seq = next) {
                struct request *req;
                AUTO_ERROR      err = sequence_closing_new(s->model, seq, &req);

                next = seq->next_closing;
                if (err != NULL) {
                        end_unseen(s, seq, err);
                        continue;
                }
                mutex_lock(&s->lock);
                sequence_table_begin_closing(&s->table, seq, req);
                mutex_unlock(&s->lock);
                submit_to_engine(s, req);
        }
}

static void on_timer(struct timer *t) {
        struct sequence_scheduler *s = CONTAINER_OF(t, struct sequence_scheduler, timer);
        struct sequence_outcome    out;

        sequence_outcome_init(&out);
        mutex_lock(&s->lock);
        s->timer_due_ns = CLOCK_NEVER;
        sequence_table_expire(&s->table, clock_now_ns(), &out);
        unlock_and_handle(s, &out);
}

/* ---- submit ---------------------------------------------------------------------------------- */

static bool has_id(const struct request *req) {
        return req->correlation.text != NULL ? *req->correlation.text != '\0'
                                             : req->correlation.number != 0;
}

static struct error *check_sequence(const struct sequence_scheduler *s, const struct request *req,
                                    enum sequence_origin *ret) {
        *ret = SEQUENCE_OF_CLIENT;
        if (req->batch_size > 1)
                return error_new(ERR_INVALID_ARG,
                                 "inference request to model '%s' must specify batch-size 1 due to "
                                 "requirements of sequence batcher",
                                 s->model->name);
        if (has_id(req))
                return sequence_controls_check(s->controls, req);
        if (!s->is_iterative)
                return error_new(ERR_INVALID_ARG,
                                 "inference request to model '%s' must specify a non-zero or "
                                 "non-empty correlation ID",
                                 s->model->name);
        *ret = SEQUENCE_OF_REQUEST;
        return NULL;
}

/* Live sequences may continue while the scheduler drains. */
static struct error *check_draining_locked(const struct sequence_scheduler *s,
                                           const struct request *req, enum sequence_origin origin) {
        if (!s->is_draining && !s->has_retired)
                return NULL;
        if (origin == SEQUENCE_OF_CLIENT && (req->flags & REQUEST_SEQUENCE_START) == 0)
                return NULL;
        if (s->has_retired)
                return model_generations_retired();
        if (req->is_inner)
                return NULL;
        return error_new(ERR_UNAVAILABLE, "Server is stopping, scheduler for model has stopped "
                                          "accepting new inference requests");
}

/* Counts a request that is not with its instance yet. request_cancel() writes the flag and then
 * reads the state, so one of the two sees the other. */
static void wait_locked(struct sequence_scheduler *s, struct request *req, uint64_t now_ns,
                        struct sequence_outcome *out) {
        atomic_store(&req->state, REQUEST_PENDING);
        model_stats_pending(s->model->stats, 1);
        if (atomic_load(&req->stream->is_cancelled))
                (void)sequence_table_cancel(&s->table, req, now_ns, out);
}

static COLD char *print_conflict(const struct sequence_scheduler *s, const struct request *req) {
        AUTO_CHARS number = mem_printf("%" PRIu64, req->correlation.number);

        return mem_printf(
                "sequence %s for model '%s' has a conflict. The previous sequence did not "
                "end before this sequence start. Previous sequence will be terminated "
                "early.",
                req->correlation.text != NULL ? req->correlation.text : number, s->model->name);
}

/* When enough requests are there, allows the engines to run them. */
static COLD void stop_holding(struct sequence_scheduler *s) {
        struct scheduler **engines;
        size_t             n;

        mutex_lock(&s->lock);
        if (s->table.n_active_requests < s->hold_requests ||
            s->table.n_backlog_requests < s->hold_backlog || !atomic_load(&s->is_held)) {
                mutex_unlock(&s->lock);
                return;
        }
        atomic_store(&s->is_held, false);
        n = s->n_instances;
        engines = mem_zalloc((n + 1) * sizeof(struct scheduler *));
        for (size_t i = 0; i < n; i++)
                engines[i] = s->instances[i]->engine;
        mutex_unlock(&s->lock);
        for (size_t i = 0; i < n; i++)
                pull_engine_ask_again(engines[i]);
        free(engines);
}

static struct error *sequence_submit(struct scheduler *base, struct request *req) {
        struct sequence_scheduler *s = self_of(base);
        struct model              *model = s->model;
        uint64_t                   now_ns = req->times.request_start_ns;
        enum sequence_origin       origin;
        struct sequence_outcome    out;
        bool                       is_held;
        AUTO_CHARS                 conflict = NULL;

        TRY(check_sequence(s, req, &origin));
        req->times.queue_start_ns = now_ns;
        sequence_outcome_init(&out);
        mutex_lock(&s->lock);
        TRY_OR(check_draining_locked(s, req, origin), mutex_unlock(&s->lock));
        TRY_OR(sequence_table_push(&s->table, req, origin, now_ns, &out), mutex_unlock(&s->lock));
        if (out.has_conflict)
                conflict = print_conflict(s, req);
        if (out.ready.first == NULL)
                wait_locked(s, req, now_ns, &out);
        is_held = atomic_load_explicit(&s->is_held, memory_order_relaxed);
        if (is_held)
                model_ref(model); /* the request may be gone before the scheduler is used again */
        unlock_and_handle(s, &out);
        if (conflict != NULL)
                log_warn_limited("%s", conflict);
        if (is_held) {
                stop_holding(s);
                model_unref(model);
        }
        return NULL;
}

/* ---- cancel and release ---------------------------------------------------------------------- */

static void sequence_cancel(struct scheduler *base, struct request *req) {
        struct sequence_scheduler *s = self_of(base);
        struct sequence_outcome    out;
        struct scheduler          *engine = NULL;

        sequence_outcome_init(&out);
        mutex_lock(&s->lock);
        if (!sequence_table_cancel(&s->table, req, clock_now_ns(), &out) && req->has_sequence &&
            !request_is_null(req)) {
                engine = engine_of(req);
                if (s->is_iterative)
                        sequence_table_end_after(&s->table, req, &out);
        }
        unlock_and_handle(s, &out);
        if (engine != NULL)
                engine->ops->cancel(engine, req);
}

static void end_after(struct sequence_scheduler *s, struct request *req) {
        struct sequence_outcome out;

        sequence_outcome_init(&out);
        mutex_lock(&s->lock);
        sequence_table_end_after(&s->table, req, &out);
        unlock_and_handle(s, &out);
}

/* Submits the request again, without its flags: the backend has seen them. */
static void run_again(struct sequence_scheduler *s, struct request *req) {
        static const struct error cancelled = ERROR_STATIC(ERR_CANCELLED, "");
        struct scheduler         *engine = engine_of(req);
        AUTO_ERROR                err = NULL;

        if (req->sequence->is_closing) { /* it has had its last execution */
                if (!response_stream_has_ended(req->stream))
                        request_fail(req, &cancelled, FAILURE_CANCELED);
                request_release(req, REQUEST_RELEASE_ALL);
                return;
        }
        if (request_is_cancelled(req))
                end_after(s, req);
        req->flags = 0;
        req->runs_cancelled = true;
        if (s->model->gpus != NULL)
                host_inputs_keep(req);
        err = engine->ops->submit(engine, req);
        if (err != NULL) {
                end_after(s, req);
                request_refuse(req, err, FAILURE_OTHER);
        }
}

/* A null request of a slot, or a sample of a warm-up, does not run again: the answer that its backend keeps for a
 * later execution will not come. */
static void end_answer(const struct request *req) {
        if (!response_stream_has_ended(req->stream))
                error_free(request_send_flags(req, RESPONSE_FINAL));
}

static bool sequence_released(struct scheduler *base, struct request *req, uint32_t flags) {
        struct sequence_scheduler *s = self_of(base);
        struct sequence_outcome    out;
        bool                       was_run;

        if (!req->has_sequence || req->sequence == NULL) {
                if ((flags & REQUEST_RELEASE_RESCHEDULE) != 0)
                        end_answer(req);
                return false; /* no sequence waits for the end of this request */
        }
        implicit_states_detach(req); /* the states were attached last */
        sequence_controls_detach(s->controls, req->sequence->slot->room, req);
        if ((flags & REQUEST_RELEASE_RESCHEDULE) != 0) {
                run_again(s, req);
                return true;
        }
        req->runs_cancelled = false;
        was_run = atomic_load_explicit(&req->state, memory_order_relaxed) != REQUEST_PENDING;
        sequence_outcome_init(&out);
        mutex_lock(&s->lock);
        sequence_table_released(&s->table, req, was_run, clock_now_ns(), &out);
        unlock_and_handle(s, &out);
        return false;
}

/* ---- instances ------------------------------------------------------------------------------- */

static struct policy *make_policy(struct sequence_scheduler *s, struct error **ret_error) {
        const Inference__ModelSequenceBatching *pb = s->model->config->pb->sequence_batching;
        struct policy_slots_options slots = { .n_slots = s->table.n_slots, .is_held = &s->is_held };
        struct batching_config      batching;

        if (s->is_oldest) {
                struct policy_dynamic_options rules = {
                        .batching = &batching,
                        .equal_shapes = s->model->needs_equal_shapes,
                        .n_delayed = s->hold_requests,
                };

                *ret_error = batching_config_init(&batching, s->model->config);
                return *ret_error == NULL ? policy_dynamic_new(&rules) : NULL;
        }
        if (pb->strategy_choice_case ==
            INFERENCE__MODEL_SEQUENCE_BATCHING__STRATEGY_CHOICE_DIRECT) {
                uint64_t delay_us = pb->direct->max_queue_delay_microseconds;

                slots.min_utilization = pb->direct->minimum_slot_utilization;
                slots.max_delay_ns =
                        delay_us > CLOCK_NEVER / NS_PER_US ? CLOCK_NEVER : delay_us * NS_PER_US;
        }
        return policy_slots_new(&slots);
}

/* Makes an instance whose engine has no executor yet. */
static struct error *make_instance(struct sequence_scheduler *s, struct sequence_instance **ret) {
        struct pull_options       options = s->engine;
        struct sequence_instance *in;
        struct error             *err = NULL;

        /* an execution costs the same when slots have nothing to run */
        options.batches_at_flush = s->batching.is_by_slot;
        options.policy = make_policy(s, &err);
        TRY(err);
        in = sequence_instance_new(&s->batching);
        TRY_OR(pull_engine_new(&options, &in->engine), sequence_instance_free(in));
        mutex_lock(&s->lock);
        s->instances = mem_realloc(s->instances,
                                   (s->n_instances + 1) * sizeof(struct sequence_instance *));
        s->instances[s->n_instances++] = in;
        mutex_unlock(&s->lock);
        *ret = in;
        return NULL;
}

static struct sequence_instance *find_instance(struct sequence_scheduler *s,
                                               const struct executor     *inner) {
        MUTEX_GUARD(&s->lock);
        for (size_t i = 0; i < s->n_instances; i++)
                if (s->instances[i]->inner == inner)
                        return s->instances[i];
        return NULL;
}

static struct error *sequence_add(struct scheduler *base, struct executor *executor) {
        struct sequence_scheduler *s = self_of(base);
        struct sequence_instance  *in;
        struct sequence_outcome    out;

        if (executor->is_passive)
                return NULL;
        in = find_instance(s, NULL); /* an unused one */
        if (in == NULL)
                TRY(make_instance(s, &in));
        sequence_instance_bind(in, executor);
        TRY_OR(in->engine->ops->add_executor(in->engine, &in->base), in->inner = NULL);
        sequence_outcome_init(&out);
        mutex_lock(&s->lock);
        in->place = sequence_table_add_place(&s->table, in, &out);
        if (s->counts != NULL)
                atomic_fetch_add(&s->counts->n_slots, s->table.n_slots);
        unlock_and_handle(s, &out);
        return NULL;
}

static void sequence_close_executor(struct scheduler *base, const struct executor *executor) {
        struct sequence_scheduler *s = self_of(base);
        struct sequence_instance  *in = find_instance(s, executor);

        if (in == NULL)
                return; /* a passive one */
        MUTEX_GUARD(&s->lock);
        sequence_table_retire_place(&s->table, in->place);
}

/* Waits until the last sequence of the instance has ended: only this instance has its state. */
static void sequence_remove(struct scheduler *base, struct executor *executor) {
        struct sequence_scheduler *s = self_of(base);
        struct sequence_instance  *in = find_instance(s, executor);

        if (in == NULL)
                return;
        mutex_lock(&s->lock);
        s->n_leaving++;
        sequence_table_retire_place(&s->table, in->place);
        while (in->place->n_active > 0)
                cond_wait(&s->emptied, &s->lock);
        sequence_table_remove_place(&s->table, in->place);
        in->place = NULL;
        if (s->counts != NULL)
                atomic_fetch_sub(&s->counts->n_slots, s->table.n_slots);
        s->n_leaving--;
        mutex_unlock(&s->lock);
        in->engine->ops->remove_executor(in->engine, &in->base);
        mutex_lock(&s->lock);
        in->inner = NULL;
        mutex_unlock(&s->lock);
}

/* ---- creation and end ------------------------------------------------------------------------ */

static void sequence_drain(struct scheduler *base) {
        struct sequence_scheduler *s = self_of(base);

        MUTEX_GUARD(&s->lock);
        s->is_draining = true;
}

static bool sequence_knows(struct scheduler *base, const struct request *req) {
        struct sequence_scheduler *s = self_of(base);

        MUTEX_GUARD(&s->lock);
        return sequence_table_knows(&s->table, req);
}

static void sequence_forget(struct scheduler *base, const struct request *req) {
        struct sequence_scheduler *s = self_of(base);
        struct sequence_outcome    out;
        AUTO_CHARS                 conflict = NULL;

        sequence_outcome_init(&out);
        mutex_lock(&s->lock);
        if (sequence_table_forget(&s->table, req, &out))
                conflict = print_conflict(s, req);
        unlock_and_handle(s, &out);
        if (conflict != NULL)
                log_warn_limited("%s", conflict);
}

static void sequence_retire(struct scheduler *base) {
        struct sequence_scheduler *s = self_of(base);
        struct sequence_outcome    out;

        sequence_outcome_init(&out);
        mutex_lock(&s->lock);
        s->has_retired = true;
        unlock_and_handle(s, &out);
}

static void sequence_end_idle(struct scheduler *base) {
        struct sequence_scheduler *s = self_of(base);
        struct sequence_outcome    out;

        sequence_outcome_init(&out);
        mutex_lock(&s->lock);
        s->table.idle_ns = 0;
        sequence_table_expire(&s->table, clock_now_ns(), &out);
        unlock_and_handle(s, &out);
}

static struct sequence_count sequence_count(struct scheduler *base) {
        struct sequence_scheduler *s = self_of(base);

        MUTEX_GUARD(&s->lock);
        return (struct sequence_count){ s->table.n_active, s->table.n_backlog };
}

static size_t sequence_list(struct scheduler *base, struct sequence_cursor *at,
                            struct sequence_row *rows, size_t n_rows) {
        struct sequence_scheduler *s = self_of(base);
        struct sequence_listing    l = { .now_ns = clock_now_ns(), .rows = rows, .cap = n_rows };

        MUTEX_GUARD(&s->lock);
        for (; at->instance < s->n_instances; at->instance++, at->slot = 0) {
                const struct sequence_instance *in = s->instances[at->instance];

                if (in->place != NULL &&
                    !sequence_table_list_place(&l, in->place, in->inner->name, &at->slot))
                        return l.n;
        }
        at->has_ended = sequence_table_list_backlog(&l, &s->table, &at->after_ns);
        return l.n;
}

/* The backlog is in order of arrival. */
static struct load_reading read_backlog(struct load_source *source, uint64_t now_ns) {
        struct sequence_scheduler *s = CONTAINER_OF(source, struct sequence_scheduler, load);
        struct load_reading        r = { .oldest_ns = CLOCK_NEVER };
        struct list_node          *first, *request = NULL;

        (void)now_ns;
        MUTEX_GUARD(&s->lock);
        first = list_first(&s->table.backlog);
        if (first != NULL)
                request = list_first(&LIST_ENTRY(first, struct sequence, node)->waiting);
        if (request != NULL)
                r.oldest_ns =
                        LIST_ENTRY(request, struct request, queued.node)->times.queue_start_ns;
        return r;
}

static void sequence_free(struct scheduler *base) {
        struct sequence_scheduler *s = self_of(base);

        load_source_remove(&s->load);
        timer_cancel(s->engine.timers, &s->timer);
        for (size_t i = 0; i < s->n_instances; i++)
                s->instances[i]->engine->ops->free(s->instances[i]->engine);
        sequence_table_done(&s->table);
        for (size_t i = 0; i < s->n_instances; i++) {
                if (s->instances[i]->place != NULL)
                        sequence_table_remove_place(&s->table, s->instances[i]->place);
                sequence_instance_free(s->instances[i]);
        }
        free(s->instances);
        sequence_controls_free(s->controls);
        cond_done(&s->emptied);
        mutex_done(&s->lock);
        free(s);
}

static const struct scheduler_ops sequence_ops = {
        .submit = sequence_submit,
        .cancel = sequence_cancel,
        .released = sequence_released,
        .add_executor = sequence_add,
        .remove_executor = sequence_remove,
        .drain = sequence_drain,
        .free = sequence_free,
};

static void init_slot(struct sequence_table *t, void *room) {
        struct sequence_scheduler *s = CONTAINER_OF(t, struct sequence_scheduler, table);

        sequence_controls_init_room(s->controls, room);
}

static const struct sequence_ops life_ops = {
        .knows = sequence_knows,
        .forget = sequence_forget,
        .retire = sequence_retire,
        .end_idle = sequence_end_idle,
        .close_executor = sequence_close_executor,
        .count = sequence_count,
        .list = sequence_list,
};

/* `direct`: the size of a batch. `oldest`: as configured. */
static uint32_t count_slots(const Inference__ModelConfig *pb, bool is_oldest) {
        int32_t n = pb->max_batch_size;

        if (is_oldest && pb->sequence_batching->oldest->max_candidate_sequences > 0)
                n = pb->sequence_batching->oldest->max_candidate_sequences;
        return (uint32_t)MAX(n, 1);
}

static bool has_fixed_inputs(const struct model *model) {
        for (uint32_t i = 0; i < model->io->n_inputs; i++)
                if (model->io->inputs[i].is_variable || model->io->inputs[i].is_optional ||
                    model->io->inputs[i].is_shape_tensor)
                        return false;
        return true;
}

static struct error *fill_in(struct sequence_scheduler *s, const struct sequence_options *options) {
        const struct model                     *model = s->model;
        const Inference__ModelSequenceBatching *pb = model->config->pb->sequence_batching;
        uint64_t                                idle_us = pb->max_sequence_idle_microseconds;
        uint64_t                                idle_ns = CLOCK_NEVER;
        uint32_t                                n_slots;

        s->is_oldest = pb->strategy_choice_case ==
                       INFERENCE__MODEL_SEQUENCE_BATCHING__STRATEGY_CHOICE_OLDEST;
        s->is_iterative = pb->iterative_sequence;
        s->base.may_reschedule = pb->iterative_sequence;
        if (idle_us <= CLOCK_NEVER / NS_PER_US)
                idle_ns = idle_us * NS_PER_US;
        n_slots = count_slots(model->config->pb, s->is_oldest);
        /* must be first: sequence_free() frees the table in any case */
        TRY(sequence_table_init(&s->table, n_slots, idle_ns));
        s->hold_requests = options->hold_requests;
        s->hold_backlog = options->hold_backlog;
        atomic_store(&s->is_held, !s->is_oldest && s->hold_requests > 0);
        TRY(sequence_controls_new(model->name, model->config, &s->controls));
        s->table.n_slot_bytes = sequence_controls_room(s->controls);
        s->table.init_slot = init_slot;
        s->batching = (struct sequence_batching){ .model = s->model,
                                                  .controls = s->controls,
                                                  .lock = &s->lock,
                                                  .closes = s->is_iterative,
                                                  .is_by_slot = !s->is_oldest && n_slots > 1,
                                                  .has_fixed_inputs = has_fixed_inputs(model) };
        for (uint32_t i = 0; i < options->engine.n_executors; i++)
                TRY(sequence_add(&s->base, options->engine.executors[i]));
        return NULL;
}

struct error *sequence_new(const struct sequence_options *options, struct scheduler **ret) {
        struct sequence_scheduler *s = mem_zalloc(sizeof(*s));

        s->base.ops = &sequence_ops;
        s->base.sequences = &life_ops;
        s->model = options->engine.model;
        s->engine = options->engine;
        s->engine.executors = NULL; /* they are added one by one */
        s->engine.n_executors = 0;
        s->counts = model_stats_sequences(s->model->stats);
        s->timer_due_ns = CLOCK_NEVER;
        timer_init(&s->timer, on_timer);
        mutex_init(&s->lock, LOCK_SEQUENCE);
        cond_init(&s->emptied);
        TRY_OR(fill_in(s, options), sequence_free(&s->base));
        load_source_add(&s->load, s->model->stats, read_backlog);
        *ret = &s->base;
        return NULL;
}
