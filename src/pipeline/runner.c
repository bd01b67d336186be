/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/runner.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "infer/trace.h"
#include "pipeline/chain_metrics.h"
#include "pipeline/client_memory.h"
#include "pipeline/run_private.h"

#include <string.h>

static void drive(struct run *run, bool now);

/* ---- the end of a run ------------------------------------------------------------------------ */

/* After this a cancellation does not find the run. */
static void hide(struct run *run) {
        if (!run->is_reachable)
                return;
        /* A canceller holds this lock from the moment it finds the run until it has left its news there.
         * So after this no canceller still has a pointer to the run, and it can be freed. */
        mutex_lock(&run->runner->lock);
        run->req->queued.run = NULL;
        atomic_store(&run->req->state, REQUEST_EXECUTING);
        mutex_unlock(&run->runner->lock);
}

static void run_free(struct run *run) {
        LIST_FOR_EACH(&run->frames, node) {
                struct frame *f = LIST_ENTRY(node, struct frame, node);

                frame_done(f);
                free(f);
        }
        frame_done(run->first);
        run_memory_give_all(run);
        plan_choice_done(&run->own_choice);
        step_models_unref(run->models);
        run_memory_give(run);
}

static void count_success(const struct run *run, uint64_t now_ns) {
        const struct request *req = run->req;
        struct request_times  t = { .request_start_ns = run->start_ns,
                                    .queue_start_ns = run->start_ns };

        compute_sums_to_times(&run->sums, run->start_ns, &t);
        t.request_end_ns = now_ns;
        if (req->trace != NULL)
                trace_mark_latency(req->trace, req->model->stats, &t);
        model_stats_composed(req->model->stats, &t, MAX(req->batch_size, 1));
        if (req->is_inner && req->sums != NULL)
                compute_sums_add(req->sums, &t);
}

/* `why` is NULL for a success. */
static void count_chain(const struct run *run, const struct error *why, uint64_t now_ns) {
        struct chain_metrics *metrics = run->runner->options.metrics;
        uint64_t              took_ns = now_ns - run->start_ns;

        if (why != NULL)
                chain_metrics_count_failure(metrics, run->failed->failure, took_ns);
        else
                chain_metrics_count_success(metrics, took_ns);
}

/* A chain that begins at its own model has no statistics: the model's are those of its first stage. */
static void count_run(const struct run *run, const struct error *why) {
        uint64_t            now_ns = infer_thread_now(infer_thread_self());
        enum failure_reason reason = FAILURE_OTHER;

        if (run->plan->is_chain) {
                count_chain(run, why, now_ns);
                if (run->runner->options.begins_at_own)
                        return;
                reason = why != NULL && why->code == ERR_CANCELLED ? FAILURE_CANCELED
                                                                   : FAILURE_BACKEND;
        }
        if (why == NULL)
                count_success(run, now_ns);
        else
                model_stats_failure(run->req->model->stats, reason, now_ns - run->start_ns);
}

static struct error *deadlock(const struct run *run) {
        return request_error(run->req, ERR_INVALID_ARG,
                             "unexpected deadlock, at least one output is not set while no more "
                             "ensemble steps can be made");
}

/* *ret is NULL when the run has failed, or when all responses were sent. */
static struct error *last_response(struct run *run, struct response **ret) {
        *ret = NULL;
        if (run->error != NULL)
                return STEAL(run->error);
        if (run->plan->n_streams > 1 || run->plan->is_chain)
                return NULL;
        if (run->first->n_missing > 0)
                return deadlock(run);
        return run_answer_make(run->first, ret);
}

static void send_failure(struct request *req, const struct error *why) {
        struct response_source source = response_source_of(req);

        error_free(response_send_error(&source, why));
}

/* No step is open, and the thread drives the run: no other thread uses it any more. */
static void finish_run(struct run *run) {
        struct request  *req = run->req;
        struct response *response;
        struct error    *err;
        bool             has_sent_final = run->has_sent_final;

        hide(run);
        err = last_response(run, &response);
        count_run(run, err);
        if (err != NULL)
                err = run_error(run, run->failed, err);
        /* Before the response is sent, so that the client's next request finds the memory free. */
        run_free(run);
        if (response != NULL)
                error_free(response_send(response, RESPONSE_FINAL, NULL));
        else if (err != NULL && !has_sent_final)
                send_failure(req, err);
        else if (!has_sent_final)
                error_free(request_send_flags(req, RESPONSE_FINAL));
        error_free(err);
        request_release(req, REQUEST_RELEASE_ALL);
}

/* ---- news ------------------------------------------------------------------------------------ */

/* Leaves news about a step, of which the caller may have changed the lock's fields. Releases the lock.
 * Drives the run if no thread does. `now`: the steps that follow start during the execution that the
 * thread is in. */
static void give_news_and_unlock(struct run *run, bool now) {
        bool is_mine = !run->is_driven;

        /* A thread that finds no driver becomes the driver. So no thread waits for a driver, no news waits for a
         * thread, and the lock is held for a few stores only: never while a step starts, which may execute
         * a model. */
        run->is_driven = true;
        mutex_unlock(&run->lock);
        if (is_mine)
                drive(run, now);
}

static void list_news_locked(struct step_run *s) {
        struct run *run = s->run;

        if (s->is_listed)
                return;
        s->is_listed = true;
        s->next_news = NULL;
        if (run->last_news != NULL)
                run->last_news->next_news = s;
        else
                run->first_news = s;
        run->last_news = s;
}

/* Gives the step to the driver. */
static void give_end(struct step_run *s) {
        struct run *run = s->run;

        mutex_lock(&run->lock);
        s->has_ended = true;
        list_news_locked(s);
        give_news_and_unlock(run, false);
}

/* Of a decoupled step: the steps that read the response start at once. */
static void give_response(struct step_run *s, struct response *response, bool is_final) {
        struct run *run = s->run;

        mutex_lock(&run->lock);
        if (response != NULL) {
                response->next = NULL;
                if (run->last_response != NULL)
                        run->last_response->next = response;
                else
                        run->first_response = response;
                run->last_response = response;
        }
        if (is_final) {
                s->has_sent_final = true;
                list_news_locked(s);
        }
        /* A decoupled model may send responses for minutes within one execution, and may wait in it until
         * the client has read some: the steps that read a response cannot wait for the end of that
         * execution. The last response can, and then the stack stays flat. */
        give_news_and_unlock(run, !is_final);
}

/* ---- one step -------------------------------------------------------------------------------- */

static struct step_limit *limit_of(const struct step_run *s) {
        return &s->run->runner->limits[s->plan->index];
}

static bool has_limit(const struct step_run *s) {
        return s->run->runner->options.max_inflight > 0;
}

static NOINLINE void pass_on(struct step_run *s, struct response *response, uint32_t flags) {
        struct error *err = run_answer_pass_on(s, response, flags);

        if (s->failure == NULL)
                s->failure = err;
        else
                error_free(err);
        response_free(response);
}

static void on_response(struct inner_request *r, struct response *response, uint32_t flags) {
        struct step_run *s = r->owner;

        s->n_responses += response != NULL;
        if (is_decoupled(s->plan))
                give_response(s, response, (flags & RESPONSE_FINAL) != 0);
        else if (s->plan->is_passed_on)
                pass_on(s, response, flags);
        else if (s->answer == NULL)
                s->answer = response;
        else
                response_free(response);
}

static void on_step_end(struct inner_request *r) {
        give_end(r->owner);
}

static const struct inner_request_ops step_ops = { .on_response = on_response,
                                                   .on_end = on_step_end };

static NOINLINE struct error *why_not_begin(const struct run *run) {
        static struct error failed = ERROR_STATIC(ERR_CANCELLED, "another step has failed");
        static struct error cancelled = ERROR_STATIC(ERR_CANCELLED, "");
        static struct error expired = ERROR_STATIC(ERR_UNAVAILABLE, "Request timeout expired");

        if (atomic_load(&run->has_failed))
                return &failed; /* the client gets the other step's error */
        if (request_is_cancelled(run->req))
                return &cancelled;
        /* A step's timeout is in whole microseconds, and 0 is no timeout: less than one is none left. */
        if (run->deadline_ns != CLOCK_NEVER &&
            infer_thread_now(infer_thread_self()) + NS_PER_US > run->deadline_ns)
                return &expired;
        return NULL;
}

static inline struct error *check_may_begin(const struct run *run) {
        if (!atomic_load(&run->has_failed) && !request_is_cancelled(run->req) &&
            run->deadline_ns == CLOCK_NEVER)
                return NULL;
        return why_not_begin(run);
}

/* The line that the log gets if the step waits; NULL: none. It is made before, because the run may be freed
 * when the step waits. */
static char *describe_wait(const struct step_run *s) {
        if (!log_is_verbose(1))
                return NULL;
        return mem_printf("in ensemble '%s', step %u of model '%s' waits: it has %u requests in "
                          "flight (max_inflight_requests)",
                          s->run->req->model->name, s->plan->index, s->plan->model->name,
                          limit_of(s)->max);
}

/* Takes a place of the step's limit. STEP_WAITS: another thread may start the step, end it and free the run
 * by now, unless the caller drives the run. Any other result but STEP_INSIDE is the step's failure. */
static NOINLINE enum step_entry enter_limit(struct step_run *s) {
        AUTO_CHARS      wait = describe_wait(s);
        enum step_entry entry = step_limit_enter(limit_of(s), &s->waiter, s->run->deadline_ns,
                                                 &s->run->is_stopping);

        if (entry == STEP_WAITS && wait != NULL)
                log_verbose(1, "%s", wait);
        if (entry == STEP_INSIDE)
                s->has_slot = true;
        if (entry == STEP_STOPPED)
                s->failure = check_may_begin(s->run);
        if (entry == STEP_OUT_OF_MEMORY)
                s->failure = run_no_memory(s);
        return entry;
}

/* Prepares the step's request, to be submitted. NULL: the step has failed or, with *ret_waits, waits; see
 * enter_limit(). */
static inline struct inner_request *prepare_step(struct step_run *s, bool *ret_waits) {
        enum step_entry entry = STEP_INSIDE;

        *ret_waits = false;
        s->failure = check_may_begin(s->run);
        if (s->failure != NULL)
                return NULL;
        if (has_limit(s) && !s->has_slot)
                entry = enter_limit(s);
        *ret_waits = entry == STEP_WAITS;
        return entry == STEP_INSIDE ? run_request_take(s, &step_ops) : NULL;
}

static void refuse_trace(struct inner_request *inner) {
        if (inner->request->trace != NULL)
                trace_refuse(inner->request);
}

/* True when no result of the step would be used. */
static bool is_in_vain(const struct step_run *s) {
        return request_is_cancelled(s->run->req) ||
               (is_decoupled(s->plan) && atomic_load(&s->run->has_failed));
}

/* ---- steps of a run that other threads may drive meanwhile ------------------------------------ */

static void submit_step(struct step_run *s, struct inner_request *inner) {
        struct error *err;

        /* A driver that cancels sets the flag, then reads `inner`; this thread stores `inner`, then
         * reads the flag. At least one of them sees the other. */
        atomic_store(&s->inner, inner);
        if (is_in_vain(s))
                request_cancel(inner->request);
        err = inner_request_submit(inner);
        if (err == NULL)
                return; /* the run may be freed by now */
        refuse_trace(inner);
        s->failure = err;
        give_end(s);
}

/* The thread does not drive the run. */
static void start_step(struct continuation *c) {
        struct step_run      *s = CONTAINER_OF(c, struct step_run, start);
        bool                  waits;
        struct inner_request *inner = prepare_step(s, &waits);

        if (waits)
                return; /* started later: when there is a place, or when it must not begin any more */
        if (inner != NULL)
                submit_step(s, inner);
        else
                give_end(s);
}

/* The first of the waiting steps, which may belong to another run, gets the place. */
static void give_slot_back(struct step_run *s) {
        struct step_waiter *first;
        struct step_run    *next;

        if (!s->has_slot)
                return;
        s->has_slot = false;
        first = step_limit_leave(limit_of(s));
        if (first == NULL)
                return;
        next = CONTAINER_OF(first, struct step_run, waiter);
        next->has_slot = true;
        next->start = (struct continuation){ .run = start_step };
        infer_thread_start(&next->start, 0);
}

/* Called when the request's deadline passes while the step waits for a place of its limit. */
static void on_expired(struct step_waiter *w) {
        struct step_run *s = CONTAINER_OF(w, struct step_run, waiter);

        s->failure = check_may_begin(s->run);
        give_end(s);
}

/* ---- what the driver does -------------------------------------------------------------------- */

/* Passes a cancellation to the open steps, or the failure of another step to the decoupled ones. Steps
 * that wait for a place end. */
static void cancel_steps(struct run *run, bool only_decoupled);

/* Whether a stage of a chain has given the whole answer. */
static bool ends_chain(const struct step_run *s) {
        const struct parameter *p;

        if (!s->run->runner->options.may_end || s->plan->is_passed_on || s->run->error != NULL ||
            s->failure != NULL || s->n_responses != 1 || s->answer->error != NULL)
                return false;
        p = parameter_list_find(&s->answer->parameters, "chain_end");
        return p != NULL && p->type == PARAMETER_BOOL && p->boolean;
}

static void end_chain(struct step_run *s) {
        struct response *answer = STEAL(s->answer);

        s->failure = run_answer_pass_on(s, answer, RESPONSE_FINAL);
        response_free(answer);
}

static void count_handoff(struct run *run, const struct step_run *s, const struct request *req) {
        uint64_t begin_ns = req->times.request_start_ns;

        if (s->plan->index > 0 && begin_ns > run->step_end_ns)
                chain_metrics_count_handoff(run->plan->steps[s->plan->index - 1].handoff,
                                            begin_ns - run->step_end_ns);
        run->step_end_ns = infer_thread_now(infer_thread_self());
}

/* Takes the end of an open step. */
static void end_step(struct step_run *s) {
        struct run           *run = s->run;
        struct inner_request *inner = atomic_load_explicit(&s->inner, memory_order_relaxed);
        bool                  had_failed = run->error != NULL;
        uint32_t              place = s->plan->place;
        /* The stream of a decoupled step is tied to the client's. */
        bool may_stay = run->keeps_requests && !s->plan->model->is_decoupled;

        give_slot_back(s);
        if (s->moved != NULL)
                run_device_free_moved(s);
        if (inner != NULL && run->plan->is_chain)
                count_handoff(run, s, inner->request);
        if (ends_chain(s))
                end_chain(s);
        run->has_sent_final = run->has_sent_final || s->has_answered;
        run->n_begun--;
        if (s->failure != NULL)
                flow_fail(run, s->plan, STEAL(s->failure));
        flow_end(s); /* may free the step */
        run_request_give(run, place, may_stay, inner);
        if (run->error != NULL && !had_failed)
                cancel_steps(run, true);
}

static void cancel_steps(struct run *run, bool only_decoupled) {
        struct step_run *waited = NULL;

        /* A step that begins to wait after this sees the flag. */
        atomic_store(&run->is_stopping, true);
        LIST_FOR_EACH(&run->open_steps, node) {
                struct step_run      *s = LIST_ENTRY(node, struct step_run, open_node);
                struct inner_request *inner = atomic_load(&s->inner);

                if (has_limit(s) && step_limit_withdraw(limit_of(s), &s->waiter)) {
                        s->next_news = waited;
                        waited = s;
                        continue;
                }
                if (inner == NULL || s->is_cancelled || (only_decoupled && !is_decoupled(s->plan)))
                        continue;
                s->is_cancelled = true;
                request_cancel(inner->request); /* the end of the step is news for this driver */
        }
        /* After the walk, because the end of a step may open, end and free other steps of the list. */
        for (struct step_run *next; waited != NULL; waited = next) {
                next = waited->next_news;
                waited->failure = check_may_begin(run);
                end_step(waited);
        }
}

static void on_cancel(struct run *run) {
        if (run->is_cancelled)
                return;
        run->is_cancelled = true;
        cancel_steps(run, false);
}

/* Lets request_cancel() find a run that the thread drives. A canceller sets the flag, then reads the
 * state: at least one of the two threads sees the other. */
static void make_reachable(struct run *run) {
        if (run->is_reachable)
                return;
        run->is_reachable = true;
        run->req->queued.run = run;
        atomic_store(&run->req->state, REQUEST_PENDING);
        if (request_is_cancelled(run->req))
                on_cancel(run);
}

struct news {
        struct response *responses;
        struct step_run *steps;
        bool             has_cancel, has_room;
};

/* Returns false when there is no news: then the thread does not drive the run any more, and gets the
 * ready steps, which it must start. */
static bool take_news(struct run *run, struct news *ret, struct ready_steps *ret_ready) {
        mutex_lock(&run->lock);
        *ret = (struct news){ run->first_response, run->first_news, run->has_cancel,
                              run->has_room };
        run->first_response = run->last_response = NULL;
        run->first_news = run->last_news = NULL;
        run->has_cancel = run->has_room = false;
        run->is_driven =
                ret->responses != NULL || ret->steps != NULL || ret->has_cancel || ret->has_room;
        if (run->is_driven) {
                mutex_unlock(&run->lock);
                return true;
        }
        /* Taken while the lock is held: as soon as it is free, another thread may drive, and would start these
         * steps as well. They count as begun from here on, so that such a driver does not take the run for
         * one that is alone. */
        *ret_ready = run->ready;
        for (struct continuation *c = ret_ready->first; c != NULL; c = c->next)
                run->n_begun++;
        run->ready = (struct ready_steps){ 0 };
        mutex_unlock(&run->lock);
        return false;
}

static struct step_run *owner_of(const struct response *response) {
        const struct inner_request *inner = response->source.on_response_userp;

        return inner->owner;
}

static void take_responses(struct response *first) {
        for (struct response *r = first, *next; r != NULL; r = next) {
                struct step_run *s = owner_of(r);
                struct run      *run = s->run;
                bool             had_failed = run->error != NULL;

                next = r->next;
                flow_response(s, r);
                if (run->error != NULL && !had_failed)
                        cancel_steps(run, true);
        }
}

/* A step that has ended is not listed again. */
static void take_steps(struct run *run, struct step_run *first) {
        for (struct step_run *s = first, *next; s != NULL; s = next) {
                bool is_final, has_ended;

                mutex_lock(&run->lock);
                next = s->next_news;
                s->is_listed = false;
                is_final = s->has_sent_final;
                s->has_sent_final = false;
                has_ended = s->has_ended;
                mutex_unlock(&run->lock);
                if (is_final)
                        flow_final(s);
                if (has_ended)
                        end_step(s);
        }
}

static void act_on_news(struct run *run, const struct news *news) {
        take_responses(news->responses);
        take_steps(run, news->steps);
        if (news->has_room) {
                run->waits_for_room = false;
                run->n_open--;
                run->n_begun--;
        }
        if (news->has_cancel)
                on_cancel(run);
}

/* ---- the responses of a decoupled ensemble ---------------------------------------------------- */

/* The client has read enough, or has left. */
static void on_room(void *userp) {
        struct run *run = userp;

        mutex_lock(&run->lock);
        run->has_room = true;
        give_news_and_unlock(run, false);
}

/* A slow reader must not hold the thread of a step's model, which others use as well: so the run waits for
 * room, open, without a thread. */
static bool must_wait_for_room(struct run *run) {
        struct response_source source = response_source_of(run->req);

        if (run->waits_for_room)
                return true;
        if (source.ticket != NULL || !response_stream_when_room(source.stream, on_room, run))
                return false;
        run->waits_for_room = true;
        run->n_open++;
        run->n_begun++;
        return true;
}

/* The next frame to send; NULL: none is ready, or the client has no room. */
static struct frame *take_sendable(struct run *run) {
        struct list_node *first = list_first(&run->out_frames);
        struct frame     *f = first != NULL ? LIST_ENTRY(first, struct frame, out_node) : NULL;

        if (f == NULL || (f->n_missing > 0 && !f->is_dead))
                return NULL;
        if (!f->is_dead && must_wait_for_room(run))
                return NULL;
        list_remove(first);
        return f;
}

/* FINAL is sent with the last response if that one is known to be the last. */
static bool is_last(const struct run *run) {
        return run->error == NULL && run->n_flowing == 0 && list_is_empty(&run->out_frames);
}

static void send_frame(struct frame *f) {
        struct run      *run = f->run;
        uint32_t         flags = is_last(run) ? RESPONSE_FINAL : 0;
        struct response *r;
        struct error    *err = run_answer_make(f, &r);

        if (err != NULL) {
                bool had_failed = run->error != NULL;

                flow_fail(run, NULL, err);
                if (!had_failed)
                        cancel_steps(run, true);
                return;
        }
        /* Cannot fail: nothing was sent after FINAL, which is sent once. */
        error_free(response_send(r, flags, NULL));
        run->has_sent_final = run->has_sent_final || flags != 0;
}

/* Sends the frames that are ready, in order. */
static void flush(struct run *run) {
        struct frame *f;

        while ((f = take_sendable(run)) != NULL) {
                if (!f->is_dead)
                        send_frame(f);
                flow_sent(f);
        }
}

/* ---- a run alone ----------------------------------------------------------------------------- */

/* Starts a step of a run that has no other step under way. The thread keeps driving the run, also when
 * the step runs elsewhere on return. */
static void start_alone(struct run *run, struct step_run *s) {
        struct inner_request *inner;
        bool                  waits, has_ended;

        run->n_begun++;
        inner = prepare_step(s, &waits);
        has_ended = inner == NULL && !waits;
        if (inner != NULL) {
                struct error *err;

                atomic_store_explicit(&s->inner, inner, memory_order_relaxed);
                err = inner_request_run(inner, &has_ended);
                if (err != NULL) {
                        refuse_trace(inner);
                        s->failure = err;
                        has_ended = true;
                }
        }
        if (has_ended)
                end_step(s);
        else
                make_reachable(run);
}

static struct step_run *take_ready(struct run *run) {
        struct continuation *first = run->ready.first;

        run->ready.first = first->next;
        if (first->next == NULL)
                run->ready.last = NULL;
        return CONTAINER_OF(first, struct step_run, start);
}

static void on_continue(struct continuation *c) {
        drive(CONTAINER_OF(c, struct run, start), false);
}

static bool join_group(struct run *run, bool is_executing);

/* A step must not start inside the execution that has ended the step before it (infer/infer_thread.h): true
 * when the run continues after it. The run is still driven, by the thread's continuation. */
static bool is_passed_to_continuation(struct run *run) {
        bool is_executing = infer_thread_is_executing(infer_thread_self());

        if (run->plan->is_chain && join_group(run, is_executing))
                return true;
        if (!is_executing)
                return false;
        run->start = (struct continuation){ .run = on_continue };
        infer_thread_start(&run->start, 0);
        return true;
}

/* Starts the ready steps until one is under way elsewhere. Returns false when the thread does not drive
 * the run any more. */
static bool go_alone(struct run *run, bool now) {
        while (run->ready.first != NULL && run->n_begun == 0) {
                if (!now && is_passed_to_continuation(run))
                        return false;
                start_alone(run, take_ready(run));
        }
        return true;
}

/* ---- answers to devices ------------------------------------------------------------------------ */

/* Whether the driver would send an answer now. */
static bool has_answer(struct run *run) {
        LIST_FOR_EACH(&run->out_frames, node) {
                const struct frame *f = LIST_ENTRY(node, struct frame, out_node);

                if (!f->is_dead)
                        return f->n_missing == 0;
        }
        return run->n_open == 0 && run->error == NULL;
}

static void drive_on(struct run *run, bool now, bool may_wait);

static void drive_late(struct work *w) {
        drive_on(CONTAINER_OF(w, struct run, late), false, true);
}

/* An event loop must not wait for the copy of an output to a device. The cache may have answered the last
 * step on this thread, or the thread has learned of its end as the driver. True: another thread drives on. */
static bool is_passed_to_sender(struct run *run) {
        if (!run->req->has_device_outputs || !infer_thread_allows_inline(infer_thread_self()) ||
            !has_answer(run))
                return false;
        run->late = (struct work){ .run = drive_late };
        work_pool_push(run->runner->options.memory->senders, &run->late);
        return true;
}

/* Called by the thread that drives the run. It does not drive the run any more on return. `may_wait`: also
 * for devices. */
static void drive_on(struct run *run, bool now, bool may_wait) {
        bool               has_streams = run->plan->n_streams > 1;
        struct ready_steps ready;
        struct news        news;

        /* Steps before news: as long as the run is alone, a step has mostly ended when its submission returns,
         * and the whole run passes without the lock. With streams, the finished frames are sent first,
         * because that gives the memory back that further responses need. */
        for (;;) {
                if (!has_streams && !go_alone(run, now))
                        return;
                if (!may_wait && is_passed_to_sender(run))
                        return;
                if (has_streams)
                        flush(run);
                if (run->n_open == 0) {
                        finish_run(run);
                        return;
                }
                if (!take_news(run, &news, &ready))
                        break;
                act_on_news(run, &news);
        }
        /* Started after the run was given up: a step may end before its submission returns, and its end must
         * find a run that it can drive. */
        for (struct continuation *c = ready.first; c != NULL; c = c->next)
                c->run = start_step;
        if (ready.first != NULL && now)
                infer_thread_start_now(ready.first);
        else if (ready.first != NULL)
                infer_thread_start(ready.first, 0);
}

static void drive(struct run *run, bool now) {
        drive_on(run, now, false);
}

/* ---- groups: runs of a chain that begin their next stages together ----------------------------- */

/* Runs whose stage ended in the current execution on this thread. Their next stages are submitted
 * together after the execution. The thread drives all of them. */
static _Thread_local struct {
        struct run *first;
        struct run *last;
        bool        is_running; /* the thread is submitting the runs of a group */
} group;

#define MAX_GROUP 64 /* more runs are submitted in several groups */

static void on_group(struct continuation *c);

static struct step_run *next_step(const struct run *run) {
        return CONTAINER_OF(run->ready.first, struct step_run, start);
}

/* Adds a run that is at a later stage than the first to the thread's group, if there is one, or if it begins
 * one. */
static bool join_group(struct run *run, bool is_executing) {
        if (next_step(run)->plan->index == 0 ||
            (!is_executing && group.first == NULL && !group.is_running))
                return false;
        run->next = NULL;
        if (group.first != NULL) {
                group.last->next = run;
                group.last = run;
                return true;
        }
        group.first = group.last = run;
        run->start = (struct continuation){ .run = on_group };
        infer_thread_start(&run->start,
                           0); /* not now: the thread executes, or runs a continuation */
        return true;
}

/* Gives the requests a common number, so that they form one batch again, if that batch is not too large
 * for the model. */
static void mark_kept_batch(const struct model *model, struct inner_request *const *requests,
                            uint32_t n) {
        static _Atomic uint64_t last_kept_batch;
        uint64_t                rows = 0, number;

        for (uint32_t i = 0; i < n; i++)
                rows += MAX(requests[i]->request->batch_size, 1);
        if (rows > model->io->max_batch_size)
                return;
        number = atomic_fetch_add_explicit(&last_kept_batch, 1, memory_order_relaxed) + 1;
        for (uint32_t i = 0; i < n; i++)
                requests[i]->request->kept_batch = number;
}

/* Prepares the ready step of a run, and gives the run up: from now on the step's news may come on any
 * thread. NULL: the step could not begin, and the run has ended and may be freed. */
static struct step_run *prepare_for_group(struct run *run) {
        struct step_run      *s = take_ready(run);
        struct inner_request *inner;
        struct ready_steps    none;
        struct news           news;
        bool                  waits; /* false: the steps of chains have no limit */

        run->n_begun++;
        inner = prepare_step(s, &waits);
        if (inner == NULL) {
                end_step(s);
                drive(run, false);
                return NULL;
        }
        /* Preliminary: the check of the request computes it. */
        inner->request->batch_size = run->req->batch_size;
        atomic_store_explicit(&s->inner, inner, memory_order_relaxed);
        make_reachable(run);
        while (take_news(run, &news, &none))
                act_on_news(run, &news);
        return s;
}

static void refuse_step(struct step_run *s, struct error *why) {
        refuse_trace(atomic_load_explicit(&s->inner, memory_order_relaxed));
        s->failure = why;
        give_end(s);
}

static void submit_together(const struct model *model, struct run *const *runs, uint32_t n,
                            bool keeps_batches) {
        struct step_run      *steps[MAX_GROUP];
        struct inner_request *requests[MAX_GROUP];
        struct error         *errors[MAX_GROUP];
        uint32_t              n_ready = 0;

        for (uint32_t i = 0; i < n; i++) {
                struct step_run *s = prepare_for_group(runs[i]);

                if (s == NULL)
                        continue;
                requests[n_ready] = atomic_load_explicit(&s->inner, memory_order_relaxed);
                steps[n_ready++] = s;
        }
        if (n_ready == 0)
                return; /* the model may be gone */
        if (keeps_batches && n_ready > 1)
                mark_kept_batch(model, requests, n_ready);
        inner_request_submit_all(requests, n_ready, errors);
        for (uint32_t i = 0; i < n_ready; i++)
                if (errors[i] != NULL)
                        refuse_step(steps[i], errors[i]);
}

static bool forms_batches(const struct model *model) {
        return model->config->pb->scheduling_choice_case ==
               INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING;
}

/* Starts the next stages of the first runs of the list that are at the same model of the same chain, at most
 * MAX_GROUP. Returns the rest of the list. */
static struct run *start_group(struct run *first) {
        const struct model *model = next_step(first)->plan->model;
        bool                keeps_batches = first->runner->options.keeps_batches;
        bool                is_batched;
        struct run         *runs[MAX_GROUP];
        struct run         *run = first;
        uint32_t            n = 0;

        for (; run != NULL && n < MAX_GROUP; run = run->next) {
                if (next_step(run)->plan->model != model || run->runner != first->runner)
                        break;
                runs[n++] = run;
        }
        is_batched = n > 1 && forms_batches(model);
        group.is_running = n > 1 || run != NULL;
        if (is_batched)
                submit_together(model, runs, n, keeps_batches);
        /* Without dynamic batching, each request may run on this thread when it is submitted. */
        for (uint32_t i = 0; i < n && !is_batched; i++) {
                start_alone(runs[i], take_ready(runs[i]));
                drive(runs[i], false);
                if (n > 1)
                        infer_thread_forget_time(
                                infer_thread_self()); /* answers may have been sent */
        }
        return run;
}

static void on_group(struct continuation *c) {
        struct run *run = group.first;

        (void)c;
        group.first = group.last = NULL;
        while (run != NULL)
                run = start_group(run);
        group.is_running = false;
}

/* ---- the beginning --------------------------------------------------------------------------- */

/* Chooses all outputs, or those that the request lists. A chain passes the list to its last stage. */
static bool choose_next(struct run *run) {
        run->choice = &run->plan->all;
        if (run->req->n_outputs == 0 || run->plan->is_chain)
                return true;
        run->choice = &run->own_choice;
        return plan_choice_make(run->plan, run->req, &run->own_choice);
}

static struct run *run_new(struct runner *r, struct request *req, struct step_models *models) {
        const struct pipeline_plan *plan = models->plan;
        struct run                 *run = run_memory_take(r, plan);

        if (run == NULL)
                return NULL;
        run->runner = r;
        run->req = req;
        run->models = models;
        run->plan = plan;
        if (!choose_next(run)) {
                run_memory_give(run);
                return NULL;
        }
        run->direct_step = client_memory_is_there(req) ? run->choice->direct_step : PLAN_NONE;
        run->keeps_requests = plan->n_streams == 1 && run->choice == &plan->all &&
                              (!plan->is_chain || req->n_outputs == 0);
        run->mark.correlation = req->correlation;
        run->mark.flags = req->flags;
        run->start_ns = req->times.request_start_ns;
        run->deadline_ns = CLOCK_NEVER;
        if (req->timeout_us > 0 && req->timeout_us < (CLOCK_NEVER - run->start_ns) / NS_PER_US)
                run->deadline_ns = run->start_ns + req->timeout_us * NS_PER_US;
        list_init(&run->open_steps);
        list_init(&run->frames);
        list_init(&run->out_frames);
        run->is_driven = true;
        run->n_paid = STEPS_PAID_AT_FIRST;
        frame_init(run->first, run, 0, NULL);
        return run;
}

static void on_begin(struct continuation *c) {
        struct run *run = CONTAINER_OF(c, struct run, start);

        infer_thread_is_past(infer_thread_self(), run->start_ns);
        drive(run, false);
}

static void on_begin_now(struct continuation *c) {
        drive(CONTAINER_OF(c, struct run, start), true);
}

/* Inside an execution the steps start at once, since its backend may wait for the answer. A step that is
 * a composed model itself runs within the run that it is a step of. */
static void begin_run(struct run *run) {
        struct infer_thread *self = infer_thread_self();

        if (infer_thread_is_executing(self)) {
                run->start = (struct continuation){ .run = on_begin_now };
                infer_thread_start_now(&run->start);
        } else if (run->req->is_inner && infer_thread_is_continuing(self)) {
                on_begin(&run->start);
        } else {
                run->start = (struct continuation){ .run = on_begin };
                infer_thread_start(&run->start, run->start_ns);
        }
}

struct error *runner_submit(struct runner *r, struct request *req, struct step_models *models) {
        const struct pipeline_plan *plan = models->plan;
        struct run                 *run;

        if (!run_memory_charge(r, plan, req))
                return request_error(req, ERR_UNAVAILABLE, BYTE_BUDGET_USED_UP);
        run = run_new(r, req, models);
        if (run == NULL) {
                byte_budget_give(r->options.memory->budget, plan->run_bytes);
                return request_error(req, ERR_UNAVAILABLE, "out of memory");
        }
        if (run->plan->is_chain)
                chain_metrics_count_begin(r->options.metrics);
        atomic_store_explicit(&req->state, REQUEST_EXECUTING, memory_order_relaxed);
        flow_begin(run);
        if (run->plan->n_streams > 1)
                make_reachable(run);
        begin_run(run);
        return NULL;
}

void runner_cancel(struct runner *r, struct request *req) {
        struct run *run;
        bool        is_mine = false;

        mutex_lock(&r->lock);
        run = atomic_load(&req->state) == REQUEST_PENDING ? req->queued.run : NULL;
        if (run != NULL) {
                mutex_lock(&run->lock);
                run->has_cancel = true;
                is_mine = !run->is_driven;
                run->is_driven = true;
                mutex_unlock(&run->lock);
        }
        mutex_unlock(&r->lock);
        if (is_mine)
                drive(run, false);
}

void runner_init(struct runner *r, const struct runner_options *o) {
        *r = (struct runner){ .options = *o };
        r->limits = mem_zalloc((o->n_steps + (size_t)1) * sizeof(*r->limits));
        for (uint32_t i = 0; i < o->n_steps; i++)
                step_limit_init(&r->limits[i], o->max_inflight, o->memory->timers, on_expired);
        mutex_init(&r->lock, LOCK_SEQUENCE);
}

void runner_done(struct runner *r) {
        for (uint32_t i = 0; i < r->options.n_steps; i++)
                step_limit_done(&r->limits[i]);
        run_memory_free_kept(r);
        free(r->limits);
        mutex_done(&r->lock);
}
