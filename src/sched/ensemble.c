/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/ensemble.h"

#include "base/clock.h"
#include "base/mem.h"
#include "sched/client_memory.h"
#include "sched/ensemble_run.h"

static struct ensemble *self_of(struct scheduler *s) {
        return CONTAINER_OF(s, struct ensemble, base);
}

/* ---- the memory of runs ----------------------------------------------------------------------- */

#if IS_SANITIZED
#define MAX_KEPT_RUNS 0
#else
#define MAX_KEPT_RUNS 64 /* each has a few KiB */
#endif

/* A run is larger than the blocks that malloc caches per thread, and requests begin and end all the
 * time. */
static struct ensemble_run *take_memory(struct ensemble *e, size_t n_bytes) {
        struct cached_run *kept = NULL;

        mutex_lock(&e->lock);
        if (e->kept != NULL && e->kept->n_bytes == n_bytes && !mem_may_fail()) {
                kept = e->kept;
                e->kept = kept->next;
                e->n_kept--;
        }
        mutex_unlock(&e->lock);
        if (LIKELY(kept != NULL))
                return (struct ensemble_run *)kept;
        return try_aligned_alloc(ENSEMBLE_INLINE_ALIGNMENT, n_bytes);
}

/* Takes one block that was made for another plan, to be freed: such blocks are never reused. */
static struct cached_run *take_other_locked(struct ensemble *e, size_t n_bytes) {
        struct cached_run *other = e->kept;

        if (other == NULL || other->n_bytes == n_bytes)
                return NULL;
        e->kept = other->next;
        e->n_kept--;
        return other;
}

/* After this a cancellation does not find the run. */
static void give_memory(struct ensemble_run *run) {
        struct ensemble   *e = run->ensemble;
        struct cached_run *kept = (struct cached_run *)run, *other;
        size_t             n_bytes = run->n_bytes;
        bool               is_kept;

        mutex_lock(&e->lock);
        run->req->queued.run = NULL;
        atomic_store(&run->req->state, REQUEST_EXECUTING);
        mutex_done(&run->lock);
        other = take_other_locked(e, n_bytes);
        is_kept = e->n_kept < MAX_KEPT_RUNS;
        if (is_kept) {
                *kept = (struct cached_run){ e->kept, n_bytes };
                e->kept = kept;
                e->n_kept++;
        }
        mutex_unlock(&e->lock);
        free(other);
        if (!is_kept)
                free(run);
}

/* ---- the memory budget ------------------------------------------------------------------------ */

/* Largest charge for responses that a run always has room for. Each decoupled step that reads from another
 * one doubles their number; a configuration with many of them is no reason to refuse every request. */
#define MAX_ROOM_BYTES ((size_t)256 << 10)

/* What the responses take that the decoupled steps have room for even when the budget is used up. */
static size_t room_bytes(const struct ensemble_plan *p) {
        size_t n_frames = 1, n_bytes = 0;

        for (uint32_t stream = p->out_stream; stream != 0;
             stream = p->steps[p->streams[stream].producer].in_stream) {
                n_frames = MIN(n_frames * RESPONSE_STREAM_LEAST, MAX_ROOM_BYTES);
                n_bytes += n_frames * (sizeof(struct response) +
                                       MIN(frame_cost(p, stream) + p->step_bytes, MAX_ROOM_BYTES));
                n_bytes = MIN(n_bytes, MAX_ROOM_BYTES);
        }
        return n_bytes;
}

static size_t run_cost(const struct ensemble_plan *p) {
        return sizeof(struct ensemble_run) + frame_bytes(p, 0) +
               STEPS_PAID_AT_FIRST * p->step_bytes + room_bytes(p);
}

/* False when the budget has no room. A request that belongs to another one always fits: that was admitted,
 * and must be able to end. */
static bool charge_run(const struct ensemble *e, const struct request *req,
                       const struct ensemble_plan *p) {
        struct byte_budget *b = e->memory->budget;

        if (req->is_inner) {
                byte_budget_force(b, p->run_bytes);
                return true;
        }
        if (LIKELY(byte_budget_take(b, p->run_bytes)))
                return true;
        byte_budget_refused(b);
        return false;
}

static size_t charged_bytes(const struct ensemble_run *run) {
        return run->plan->run_bytes +
               (run->n_paid - STEPS_PAID_AT_FIRST) * run->plan->step_bytes;
}

/* ---- the end of a run ------------------------------------------------------------------------ */

static void run_free(struct ensemble_run *run) {
        LIST_FOR_EACH(&run->frames, node) {
                struct frame *f = LIST_ENTRY(node, struct frame, node);

                frame_done(f);
                free(f);
        }
        frame_done(run->first);
        byte_budget_give(run->ensemble->memory->budget, charged_bytes(run));
        plan_choice_done(&run->own_choice);
        step_models_unref(run->models);
        give_memory(run);
}

static void count_success(struct ensemble_run *run) {
        struct request      *req = run->req;
        struct request_times t = { .request_start_ns = req->times.request_start_ns,
                                   .queue_start_ns = req->times.queue_start_ns };
        uint64_t             batch = MAX(req->batch_size, 1);

        compute_sums_to_times(&run->sums, run->start_ns, &t);
        t.request_end_ns = clock_now_ns();
        model_stats_composed(req->model->stats, &t, batch);
        if (req->is_inner && req->sums != NULL)
                compute_sums_add(req->sums, &t);
}

static struct error *deadlock(const struct ensemble_run *run) {
        return request_error(run->req, ERR_INVALID_ARG,
                             "unexpected deadlock, at least one output is not set while no more "
                             "ensemble steps can be made");
}

/* `ret` is NULL when the run has failed, or when everything was sent. */
static struct error *last_response(struct ensemble_run *run, struct response **ret) {
        *ret = NULL;
        if (run->error != NULL)
                return STEAL(run->error);
        if (run->plan->n_streams > 1)
                return NULL;
        if (run->first->n_missing > 0)
                return deadlock(run);
        return output_make(run->first, ret);
}

static void refuse(struct request *req, struct error *why) {
        struct error *err = error_prefix(why, "in ensemble '%s', ", req->model->name);

        request_refuse(req, err, FAILURE_OTHER);
        error_free(err);
}

void run_finish(struct ensemble_run *run) {
        struct request  *req = run->req;
        struct response *response;
        struct error    *err = last_response(run, &response);
        bool             has_sent_final = run->has_sent_final;

        if (err == NULL)
                count_success(run);
        /* Before the response is sent, so that the client's next request finds the memory free. */
        run_free(run);
        if (err != NULL) {
                refuse(req, err);
                return;
        }
        if (response != NULL)
                err = response_send(response, RESPONSE_FINAL, NULL);
        else if (!has_sent_final)
                err = request_send_flags(req, RESPONSE_FINAL);
        error_free(err); /* FINAL was not sent before */
        request_release(req, REQUEST_RELEASE_ALL);
}

void run_fail(struct ensemble_run *run, struct error *err) {
        struct work w = { 0 };

        mutex_lock(&run->lock);
        flow_fail_locked(run, err, &w);
        mutex_unlock(&run->lock);
        if (w.has_failed)
                steps_cancel(run, true);
}

void run_close(struct ensemble_run *run) {
        bool is_last;

        mutex_lock(&run->lock);
        is_last = --run->n_open == 0;
        mutex_unlock(&run->lock);
        if (is_last)
                run_finish(run);
}

/* ---- the beginning --------------------------------------------------------------------------- */

/* Chooses all outputs, or those that the request lists. */
static bool choose(struct ensemble_run *run) {
        run->choice = &run->plan->all;
        if (run->req->n_outputs == 0)
                return true;
        run->choice = &run->own_choice;
        return plan_choice_make(run->plan, run->req, &run->own_choice);
}

static struct ensemble_run *run_new(struct ensemble *e, struct request *req,
                                    struct step_models *models) {
        const struct ensemble_plan *plan = models->plan;
        size_t                      n_bytes = sizeof(struct ensemble_run) + frame_bytes(plan, 0);
        struct ensemble_run        *run = take_memory(e, n_bytes);

        if (run == NULL)
                return NULL;
        run->ensemble = e;
        run->n_bytes = n_bytes;
        run->req = req;
        run->models = models;
        run->plan = plan;
        run->own_choice = (struct plan_choice){ 0 };
        if (!choose(run)) {
                free(run);
                return NULL;
        }
        run->direct_step = client_memory_is_there(req) ? run->choice->direct_step : ENSEMBLE_NONE;
        run->start_ns = req->times.request_start_ns;
        run->deadline_ns = CLOCK_NEVER;
        if (req->timeout_us > 0 && req->timeout_us < (CLOCK_NEVER - run->start_ns) / NS_PER_US)
                run->deadline_ns = run->start_ns + req->timeout_us * NS_PER_US;
        run->sums = (struct compute_sums){ 0 };
        atomic_init(&run->has_failed, false);
        mutex_init(&run->lock, LOCK_QUEUE);
        run->error = NULL;
        run->n_open = 0;
        run->n_paid = STEPS_PAID_AT_FIRST;
        run->n_flowing = 0;
        list_init(&run->open_steps);
        list_init(&run->frames);
        list_init(&run->out_frames);
        run->is_sending = false;
        run->has_sent_final = false;
        run->waits_for_room = false;
        atomic_init(&run->inline_used, 0);
        run->first = (struct frame *)(run + 1);
        frame_init(run->first, run, 0, NULL);
        return run;
}

/* Starts the steps whose inputs are present. Inside an execution they start at once, since its backend
 * may wait for the answer. */
static void run_begin(struct ensemble_run *run) {
        struct request *req = run->req;
        struct work     w = { 0 };

        flow_begin(run, &w);
        req->queued.run = run;
        atomic_store(&req->state,
                     REQUEST_PENDING); /* until the run ends, so that cancel() is called */
        if (w.first != NULL)
                flow_follow(&w, submitter_is_executing(submitter_self()), run->start_ns);
        else
                run_finish(run);
}

static struct error *draining(const struct request *req) {
        return request_error(req, ERR_UNAVAILABLE,
                             "Server is stopping, scheduler for model has stopped accepting new "
                             "inference requests");
}

static struct error *submit(struct scheduler *s, struct request *req) {
        struct ensemble     *e = self_of(s);
        struct step_models  *models;
        struct ensemble_run *run;

        if (UNLIKELY(atomic_load_explicit(&e->is_draining, memory_order_relaxed)) && !req->is_inner)
                return draining(req);
        TRY(step_models_take(e->steps, req, &models));
        if (!charge_run(e, req, models->plan)) {
                step_models_unref(models);
                return request_error(req, ERR_UNAVAILABLE, BYTE_BUDGET_USED_UP);
        }
        run = run_new(e, req, models);
        if (run == NULL) {
                byte_budget_give(e->memory->budget, ((struct ensemble_plan *)models->plan)->run_bytes);
                step_models_unref(models);
                return request_error(req, ERR_UNAVAILABLE, "out of memory");
        }
        req->times.queue_start_ns = req->times.request_start_ns;
        run_begin(run);
        return NULL;
}

/* ---- cancellation ---------------------------------------------------------------------------- */

/* Keeps the run open. NULL when it has ended or is about to end. */
static struct ensemble_run *hold_run(struct ensemble *e, struct request *req) {
        struct ensemble_run *run;
        bool                 is_open = false;

        MUTEX_GUARD(&e->lock);
        run = atomic_load(&req->state) == REQUEST_PENDING ? req->queued.run : NULL;
        if (run == NULL)
                return NULL;
        mutex_lock(&run->lock);
        if (run->n_open > 0) {
                run->n_open++;
                is_open = true;
        }
        mutex_unlock(&run->lock);
        return is_open ? run : NULL;
}

static void cancel(struct scheduler *s, struct request *req) {
        struct ensemble_run *run = hold_run(self_of(s), req);

        if (run == NULL)
                return;
        steps_cancel(run, false);
        run_close(run);
}

static void complete_answer(struct scheduler *s, const struct request *req,
                            struct response *response) {
        struct step_models *models;
        AUTO_ERROR          err = step_models_take(self_of(s)->steps, req, &models);

        if (err != NULL)
                return; /* the steps were unloaded a moment ago */
        output_label_all(req, response, models);
        step_models_unref(models);
}

/* ---- the scheduler --------------------------------------------------------------------------- */

static void drain(struct scheduler *s) {
        atomic_store(&self_of(s)->is_draining, true);
}

static void ensemble_free(struct scheduler *s) {
        struct ensemble *e = self_of(s);

        for (uint32_t i = 0; i < e->n_steps; i++)
                step_limit_done(&e->limits[i]);
        for (struct cached_run *k = e->kept, *next; k != NULL; k = next) {
                next = k->next;
                free(k);
        }
        free(e->limits);
        mutex_done(&e->lock);
        free(e);
}

struct error *ensemble_prepare(const struct model_config *ensemble, struct step_models *models,
                               bool *ret_is_decoupled) {
        struct ensemble_plan *plan;

        TRY(ensemble_plan_new(ensemble->pb, models, &plan));
        plan->run_bytes = run_cost(plan);
        models->plan = plan;
        models->free_plan = ensemble_plan_free;
        *ret_is_decoupled = plan->n_streams > 1;
        return NULL;
}

struct error *ensemble_new(struct model *model, struct step_models_holder *steps,
                           struct step_memory *memory, struct scheduler **ret) {
        static const struct scheduler_ops ops = {
                .submit = submit,
                .cancel = cancel,
                .complete_answer = complete_answer,
                .drain = drain,
                .free = ensemble_free,
        };
        const Inference__ModelEnsembling *config = model->config->pb->ensemble_scheduling;
        struct ensemble                  *e = mem_zalloc(sizeof(*e));

        e->base.ops = &ops;
        e->model = model;
        e->steps = steps;
        e->memory = memory;
        e->n_steps = (uint32_t)config->n_step;
        e->limits = mem_zalloc((config->n_step + 1) *
                               sizeof(*e->limits)); /* read from a file, bounded */
        for (uint32_t i = 0; i < e->n_steps; i++)
                step_limit_init(&e->limits[i], config->max_inflight_requests, memory->timers,
                                step_expire);
        mutex_init(&e->lock, LOCK_SEQUENCE);
        *ret = &e->base;
        return NULL;
}
