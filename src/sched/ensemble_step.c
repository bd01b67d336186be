/* SPDX-License-Identifier: BSD-3-Clause */
/* One step of a run: its inner request, from the inputs to the end. */
#include "base/clock.h"
#include "infer/request_plan.h"
#include "infer/trace.h"
#include "sched/ensemble_run.h"

/* A decoupled step waits while later steps and the client have not consumed so much of what it sent.
 * max_inflight_requests replaces the number of responses. */
#define MAX_UNUSED_RESPONSES 1024
#define MAX_UNUSED_BYTES (UINT64_C(64) << 20)
/* The same for a step whose every response begins a request to another decoupled step, and for each of
 * those requests: so that one run has not the product of two limits. */
#define MAX_UNUSED_OF_FEEDER 8
#define MAX_UNUSED_OF_FED 32
#define MAX_UNUSED_BYTES_OF_FED (MAX_UNUSED_BYTES / MAX_UNUSED_OF_FEEDER)
/* The reference waits as long for a step. Steps that wait for each other in a circle continue after
 * it. */
#define MAX_WAIT_NS (300 * NS_PER_S)

/* ---- the end --------------------------------------------------------------------------------- */

static struct step_limit *limit_of(const struct step_run *s) {
        return &s->run->ensemble->limits[s->plan->index];
}

/* The next waiting step may belong to another run. */
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
        next->start.next = NULL;
        submitter_start(&next->start, 0);
}

/* Closes the step and releases the lock. The run may be freed afterwards. */
static void close_and_unlock(struct step_run *s) {
        struct ensemble_run  *run = s->run;
        struct inner_request *inner = atomic_load_explicit(&s->inner, memory_order_relaxed);
        struct work           w = { 0 };
        bool                  has_streams = run->plan->n_streams > 1, is_closed, is_last = false;

        flow_end_locked(s, &w);
        /* Responses may use memory of the run, and frames are sent from it: they come before the close. */
        is_closed = w.responses == NULL && !has_streams && !w.has_failed;
        if (is_closed)
                is_last = --run->n_open == 0;
        mutex_unlock(&run->lock);
        if (UNLIKELY(w.has_failed))
                steps_cancel(run, true);
        inner_request_free(inner);
        if (is_last)
                run_finish(run);
        else
                flow_follow(&w, false, 0);
        if (is_closed)
                return;
        output_flush(run);
        run_close(run);
}

/* If a thread is cancelling the step, that thread closes it. */
static void step_close(struct step_run *s) {
        give_slot_back(s);
        mutex_lock(&s->run->lock);
        if (LIKELY(s->n_cancelling == 0)) {
                close_and_unlock(s);
                return;
        }
        s->is_over = true;
        mutex_unlock(&s->run->lock);
}

static void end_cancelling(struct step_run *s) {
        struct mutex *lock = &s->run->lock;

        mutex_lock(lock);
        if (--s->n_cancelling == 0 && s->is_over)
                close_and_unlock(s);
        else
                mutex_unlock(lock);
}

static void on_end(struct inner_request *r) {
        step_close(r->owner);
}

/* Takes a response of a decoupled step; the steps that read it start at once. */
static void take_at_once(struct step_run *s, struct response *response, bool is_final) {
        struct ensemble_run *run = s->run;
        struct work          w = { 0 };

        mutex_lock(&run->lock);
        if (response != NULL)
                flow_response_locked(s, response, &w);
        if (is_final)
                flow_final_locked(s);
        mutex_unlock(&run->lock);
        if (w.has_failed)
                steps_cancel(run, true);
        flow_follow(&w, !is_final, 0);
        output_flush(run);
}

static void on_response(struct inner_request *r, struct response *response, uint32_t flags) {
        struct step_run *s = r->owner;

        s->n_responses += response != NULL;
        if (UNLIKELY(is_decoupled(s->plan)))
                take_at_once(s, response, (flags & RESPONSE_FINAL) != 0);
        else if (s->answer == NULL)
                s->answer = response;
        else
                response_free(response);
}

/* ---- the request ----------------------------------------------------------------------------- */

static struct error *out_of_memory(const struct step_run *s) {
        return error_new(ERR_UNAVAILABLE, "out of memory for a request to model '%s'",
                         s->plan->model->name);
}

static struct error *add_chunks(struct request *req, struct request_input *to,
                                const struct request_input *from) {
        for (const struct input_chunk *c = from->first_chunk; c != NULL; c = c->next)
                TRY(request_input_append(req, to, c->base, &c->attributes, c->host_policy));
        return NULL;
}

static struct error *add_output_bytes(struct request *req, struct request_input *to,
                                      const struct response_output *from) {
        struct buffer_attributes attributes = from->attributes;

        if (!from->has_buffer)
                return NULL;
        attributes.byte_size = from->byte_size;
        return request_input_append(req, to, from->base, &attributes, NULL);
}

static struct error *add_input(struct request *req, const struct model_io *io,
                               const struct value *v) {
        bool                  is_output = v->kind == VALUE_OUTPUT;
        const int64_t        *dims = is_output ? v->output->shape : v->input->shape;
        uint32_t              n_dims = is_output ? v->output->n_dims : v->input->n_dims;
        struct bridged_shape  shape;
        struct request_input *in;

        bridge_shape(io->dims, io->n_dims, req->model->io->max_batch_size > 0, v->batch_size, dims,
                     n_dims, &shape);
        TRY(request_add_known_input(req, io, is_output ? v->output->type : v->input->type,
                                    shape.dims, shape.n_dims, &in));
        return is_output ? add_output_bytes(req, in, v->output) : add_chunks(req, in, v->input);
}

/* The first input that comes from a step determines the sequence. */
static struct error *add_inputs(struct step_run *s, struct request *req) {
        const struct ensemble_step *step = s->plan->step;
        bool                        is_marked = false;

        for (uint32_t i = 0; i < step->n_inputs; i++) {
                const struct value *v = frame_value(s->frame, step->inputs[i].tensor);

                if (v->kind == VALUE_INPUT || v->kind == VALUE_OUTPUT)
                        TRY(add_input(req, s->plan->inputs[i], v));
                if (v->mark == NULL || is_marked)
                        continue;
                is_marked = true;
                s->given.correlation = v->mark->correlation;
                s->given.flags = v->mark->flags;
        }
        return NULL;
}

/* Requests the outputs that a later step or the client reads. A request that lists none gets all. */
static struct error *add_outputs(const struct step_run *s, struct request *req) {
        const struct ensemble_step *step = s->plan->step;
        const bool                 *is_used = s->run->choice->is_used;
        uint32_t                    n = 0;

        for (uint32_t i = 0; i < step->n_outputs; i++)
                n += is_used[step->outputs[i].tensor];
        for (uint32_t i = 0; n < s->plan->model->io->n_outputs && i < step->n_outputs; i++)
                if (is_used[step->outputs[i].tensor])
                        TRY(request_add_output(req, s->plan->outputs[i]->name));
        return NULL;
}

/* Copies the text if it belongs to a response: that may be freed before the inner request. */
static struct error *set_correlation(struct step_run *s, struct request *req) {
        req->correlation = s->given.correlation;
        req->flags = s->given.flags;
        if (req->correlation.text == NULL || req->correlation.text == s->run->req->correlation.text)
                return NULL;
        TRY(request_set_correlation_text(req, s->given.correlation.text));
        s->given.correlation.text = req->correlation.text;
        return NULL;
}

/* Whether another decoupled step reads the step's responses, or what is made of them. */
static bool feeds_decoupled(const struct step_run *s) {
        const struct ensemble_plan *plan = s->run->plan;

        for (uint32_t i = 0; i < s->run->ensemble->n_steps; i++)
                if (s->run->choice->has_step[i] && is_decoupled(&plan->steps[i]) &&
                    plan->steps[i].in_stream == s->plan->out_stream)
                        return true;
        return false;
}

static uint32_t max_unused(const struct step_run *s) {
        if (limit_of(s)->max > 0)
                return limit_of(s)->max;
        if (feeds_decoupled(s))
                return MAX_UNUSED_OF_FEEDER;
        return s->plan->in_stream > 0 ? MAX_UNUSED_OF_FED : MAX_UNUSED_RESPONSES;
}

static struct error *limit_responses(const struct step_run *s, struct request *req) {
        struct response_limits limits = { .max_bytes = MAX_UNUSED_BYTES,
                                          .max_wait_ns = MAX_WAIT_NS,
                                          .share = s->run->ensemble->model->responses,
                                          .is_paid = true };

        if (!is_decoupled(s->plan))
                return NULL;
        limits.beside_bytes = (uint32_t)frame_cost(s->run->plan, s->plan->out_stream);
        limits.max_responses = max_unused(s);
        if (s->plan->in_stream > 0)
                limits.max_bytes = MAX_UNUSED_BYTES_OF_FED;
        return request_limit_responses(req, &limits);
}

/* 0: no deadline. */
static uint64_t time_left_us(const struct ensemble_run *run) {
        uint64_t now_ns;

        if (run->deadline_ns == CLOCK_NEVER)
                return 0;
        now_ns = clock_now_ns();
        return now_ns + NS_PER_US < run->deadline_ns ? (run->deadline_ns - now_ns) / NS_PER_US : 1;
}

/* Fills in the step's request. It borrows from the outer request, which outlives it. */
static struct error *fill(struct step_run *s, struct request *req) {
        struct ensemble_run  *run = s->run;
        const struct request *outer = run->req;

        s->given =
                (struct sequence_mark){ .correlation = outer->correlation, .flags = outer->flags };
        TRY(add_inputs(s, req));
        TRY(add_outputs(s, req));
        TRY(set_correlation(s, req));
        TRY(limit_responses(s, req));
        req->id = outer->id;
        req->parameters = outer->parameters;
        req->priority = outer->priority;
        req->timeout_us = time_left_us(run);
        req->is_uncacheable = outer->is_uncacheable;
        req->steps = run->models->nested[s->plan->index];
        req->sums = &s->sums;
        req->allocator = &ensemble_allocator;
        req->allocator_userp = s;
        return NULL;
}

/* If memory is short, the step is not traced. */
static void begin_trace(const struct step_run *s, struct request *req) {
        struct trace *parent = s->run->req->trace;
        struct trace *child = parent != NULL ? trace_spawn(parent) : NULL;
        AUTO_ERROR    err = NULL;

        if (child == NULL)
                return;
        err = trace_begin(child, req);
        if (err != NULL)
                error_free(trace_free(child));
}

/* True when no result of the step would be used. */
static bool is_in_vain(const struct step_run *s) {
        return request_is_cancelled(s->run->req) ||
               (is_decoupled(s->plan) && atomic_load(&s->run->has_failed));
}

static void submit(struct step_run *s, struct inner_request *inner) {
        struct error *err;

        if (UNLIKELY(s->run->req->trace != NULL))
                begin_trace(s, inner->request);
        /* A canceller sets the flag, then reads `inner`; this thread stores `inner`, then reads the flag. At
         * least one of them sees the other. */
        atomic_store(&s->inner, inner);
        if (UNLIKELY(is_in_vain(s)))
                request_cancel(inner->request);
        err = inner_request_submit(inner);
        if (LIKELY(err == NULL))
                return; /* the run may be freed by now */
        if (inner->request->trace != NULL)
                trace_refuse(inner->request);
        run_fail(s->run, err);
        step_close(s);
}

static struct error *begin(struct step_run *s) {
        static const struct inner_request_ops ops = { .on_response = on_response,
                                                      .on_end = on_end };
        struct inner_request                 *inner;
        struct error                         *err;

        inner = inner_request_new_borrowing(s->plan->model, &ops, s); /* the run's models hold it */
        if (inner == NULL)
                return out_of_memory(s);
        err = fill(s, inner->request);
        if (err == NULL)
                submit(s, inner);
        else
                inner_request_free(inner);
        return err;
}

/* ---- the beginning --------------------------------------------------------------------------- */

static struct error *check_may_begin(const struct ensemble_run *run) {
        static struct error failed = ERROR_STATIC(ERR_CANCELLED, "another step has failed");
        static struct error cancelled = ERROR_STATIC(ERR_CANCELLED, "");
        static struct error expired = ERROR_STATIC(ERR_UNAVAILABLE, "Request timeout expired");

        if (atomic_load(&run->has_failed))
                return &failed; /* the client gets the other step's error */
        if (UNLIKELY(request_is_cancelled(run->req)))
                return &cancelled;
        if (run->deadline_ns != CLOCK_NEVER && clock_now_ns() + NS_PER_US > run->deadline_ns)
                return &expired;
        return NULL;
}

/* A thread that fails or cancels the run looks for waiting steps under the lock: either it finds this one
 * in the queue, or check_may_begin() sees the failure here. */
static struct error *enter_limit(struct step_run *s, bool *ret_waits) {
        struct ensemble_run *run = s->run;
        enum step_entry      entry;
        MUTEX_GUARD(&run->lock);

        TRY(check_may_begin(run));
        entry = step_limit_enter(limit_of(s), &s->waiter, run->deadline_ns);
        if (entry == STEP_OUT_OF_MEMORY)
                return out_of_memory(s);
        *ret_waits = entry == STEP_WAITS;
        if (entry == STEP_INSIDE)
                s->has_slot = true;
        return NULL;
}

void step_start(struct continuation *c) {
        struct step_run     *s = CONTAINER_OF(c, struct step_run, start);
        struct ensemble_run *run = s->run;
        struct error        *err;
        bool                 waits = false;

        if (limit_of(s)->max > 0 && !s->has_slot)
                err = enter_limit(s, &waits);
        else
                err = check_may_begin(run);
        if (waits)
                return; /* started later: when there is a place, or when the step must not begin any more */
        if (err == NULL)
                err = begin(s);
        if (err == NULL)
                return;
        run_fail(run, err);
        step_close(s);
}

void step_expire(struct step_waiter *w) {
        struct step_run *s = CONTAINER_OF(w, struct step_run, waiter);

        s->start.next = NULL;
        submitter_start(&s->start, 0); /* which finds that it must not begin */
}

/* ---- cancellation ---------------------------------------------------------------------------- */

void steps_cancel(struct ensemble_run *run, bool only_decoupled) {
        struct step_run *held = NULL, *waited = NULL;

        mutex_lock(&run->lock);
        LIST_FOR_EACH(&run->open_steps, node) {
                struct step_run *s = LIST_ENTRY(node, struct step_run, open_node);

                if (step_limit_withdraw(limit_of(s), &s->waiter)) {
                        s->next_cancelled = waited;
                        waited = s;
                        continue;
                }
                if (s->is_cancelled || (only_decoupled && !is_decoupled(s->plan)))
                        continue;
                if (atomic_load(&s->inner) != NULL && !s->is_over) {
                        s->is_cancelled = true;
                        s->n_cancelling++;
                        s->next_cancelled = held;
                        held = s;
                }
        }
        mutex_unlock(&run->lock);
        for (struct step_run *s = held, *next; s != NULL; s = next) {
                next = s->next_cancelled;
                request_cancel(atomic_load(&s->inner)->request);
                end_cancelling(s);
        }
        for (struct step_run *s = waited, *next; s != NULL; s = next) {
                next = s->next_cancelled;
                s->start.next = NULL;
                submitter_start(&s->start, 0); /* as in step_expire() */
        }
}
