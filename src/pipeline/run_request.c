/* SPDX-License-Identifier: BSD-3-Clause */
/* The inner request of a step: its inputs, its outputs, and the properties of the outer request. */
#include "base/clock.h"
#include "infer/buffer_copy.h"
#include "infer/step_request.h"
#include "infer/trace.h"
#include "pipeline/run_private.h"

#include <string.h>

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

/* ---- inputs ---------------------------------------------------------------------------------- */

static struct error *add_bytes(struct step_run *s, struct request *req, struct request_input *to,
                               const void *base, const struct buffer_attributes *attributes,
                               const char *host_policy) {
        struct buffer_attributes brought;

        if (!buffer_is_on_device(attributes))
                return request_input_append(req, to, base, attributes, host_policy);
        brought = *attributes;
        TRY(run_device_bring(s, &base, &brought));
        return request_input_append(req, to, base, &brought, host_policy);
}

static struct error *add_chunks(struct step_run *s, struct request *req, struct request_input *to,
                                const struct request_input *from) {
        for (const struct input_chunk *c = from->first_chunk; c != NULL; c = c->next)
                TRY(add_bytes(s, req, to, c->base, &c->attributes, c->host_policy));
        return NULL;
}

static struct error *add_output_bytes(struct step_run *s, struct request *req,
                                      struct request_input         *to,
                                      const struct response_output *from) {
        struct buffer_attributes attributes = from->attributes;

        if (!from->has_buffer)
                return NULL;
        attributes.byte_size = from->byte_size;
        return add_bytes(s, req, to, from->base, &attributes, NULL);
}

static struct error *missing_output(const struct step_run *s, uint32_t tensor) {
        const struct pipeline_plan *plan = s->run->plan;
        const struct plan_step     *from = &plan->steps[plan->tensors[tensor].writer];

        for (uint32_t i = 0; i < from->n_outputs; i++)
                if (from->outputs[i].tensor == tensor)
                        return error_new(ERR_INTERNAL, "the stage before has not given output '%s'",
                                         from->outputs[i].io->name);
        return NULL;
}

/* The first stage of a chain is the request's own model, or has the same tensors: it gets the shape
 * that the client gave. */
static inline struct shape_form shape_of(const struct step_run *s, const struct value *v) {
        if (v->kind == VALUE_OUTPUT)
                return (struct shape_form){ v->output->shape, v->output->n_dims };
        if (s->run->plan->is_chain)
                return (struct shape_form){ v->input->given_shape, v->input->n_given_dims };
        return (struct shape_form){ v->input->shape, v->input->n_dims };
}

static COLD struct error *wrong_batch(const struct response_output *o) {
        return error_new(ERR_INVALID_ARG,
                         "output '%s' has a batch of %lld, and the next stage takes no batches",
                         o->name, o->n_dims > 0 ? (long long)o->shape[0] : 0);
}

static struct error *add_input(struct step_run *s, struct request *req,
                               const struct plan_link *link, const struct value *v) {
        const struct model_io *io = link->io;
        bool                   is_output = v->kind == VALUE_OUTPUT;
        struct shape_form      shape = shape_of(s, v);
        enum tensor_bridge     bridge = link->bridge;
        struct bridged_shape   bridged;
        struct request_input  *to;

        if (bridge == BRIDGE_BY_SHAPE)
                bridge = tensor_bridge_choose((struct shape_form){ io->dims, io->n_dims },
                                              req->model->io->max_batch_size > 0, v->batch_size,
                                              shape);
        if (link->bridge == BRIDGE_DROP_ONE && (shape.n_dims == 0 || shape.dims[0] != 1))
                return wrong_batch(v->output);
        tensor_bridge_apply(bridge, shape, &bridged);
        TRY(request_add_known_input(req, io, is_output ? v->output->type : v->input->type,
                                    bridged.dims, bridged.n_dims, &to));
        return is_output ? add_output_bytes(s, req, to, v->output)
                         : add_chunks(s, req, to, v->input);
}

static struct error *add_inputs(struct step_run *s, struct request *req) {
        const struct plan_step *step = s->plan;

        for (uint32_t i = 0; i < step->n_inputs; i++) {
                const struct value *v = link_value(s->frame, &step->inputs[i]);

                if (v->kind == VALUE_INPUT || v->kind == VALUE_OUTPUT)
                        TRY(add_input(s, req, &step->inputs[i], v));
                else if (s->run->plan->is_chain && step->index > 0)
                        return missing_output(s, step->inputs[i].tensor);
        }
        return NULL;
}

/* ---- outputs --------------------------------------------------------------------------------- */

/* The client gets what the last stage of a chain answers: so it is asked for what the client asks. */
static struct error *add_outputs_of_client(const struct step_run *s, struct request *req) {
        for (const struct requested_output *o = s->run->req->first_output; o != NULL; o = o->next)
                TRY(request_add_output(req, o->name));
        return NULL;
}

/* Requests the outputs that a later step or the client reads. A request that lists none gets all. */
static struct error *add_outputs(const struct step_run *s, struct request *req) {
        const struct plan_step *step = s->plan;
        const bool             *is_used = s->run->choice->is_used;
        uint32_t                n = 0;

        if (step->is_passed_on)
                return add_outputs_of_client(s, req);
        if (s->run->runner->options.may_end)
                return NULL; /* a response that ends the chain early must have all outputs */
        for (uint32_t i = 0; i < step->n_outputs; i++)
                n += is_used[step->outputs[i].tensor];
        for (uint32_t i = 0; n < step->model->io->n_outputs && i < step->n_outputs; i++)
                if (is_used[step->outputs[i].tensor])
                        TRY(request_add_output(req, step->outputs[i].io->name));
        return NULL;
}

/* Whether another decoupled step reads the step's responses, or what is made of them. */
static bool feeds_decoupled(const struct step_run *s) {
        const struct pipeline_plan *plan = s->run->plan;

        for (uint32_t i = 0; i < plan->n_steps; i++)
                if (s->run->choice->has_step[i] && is_decoupled(&plan->steps[i]) &&
                    plan->steps[i].in_stream == s->plan->out_stream)
                        return true;
        return false;
}

static uint32_t max_unused(const struct step_run *s) {
        uint32_t max_inflight = s->run->runner->options.max_inflight;

        if (max_inflight > 0)
                return max_inflight;
        if (feeds_decoupled(s))
                return MAX_UNUSED_OF_FEEDER;
        return s->plan->in_stream > 0 ? MAX_UNUSED_OF_FED : MAX_UNUSED_RESPONSES;
}

static struct error *limit_responses(const struct step_run *s, struct request *req) {
        struct response_limits limits = { .max_bytes = MAX_UNUSED_BYTES,
                                          .max_wait_ns = MAX_WAIT_NS,
                                          .share = s->run->req->model->responses,
                                          .is_paid = true };

        if (s->plan->is_passed_on && s->plan->model->is_decoupled)
                return response_stream_follow(req->stream, s->run->req->stream) ? NULL
                                                                                : run_no_memory(s);
        if (!is_decoupled(s->plan))
                return NULL;
        limits.beside_bytes = (uint32_t)frame_cost(s->run->plan, s->plan->out_stream);
        limits.max_responses = max_unused(s);
        if (s->plan->in_stream > 0)
                limits.max_bytes = MAX_UNUSED_BYTES_OF_FED;
        return request_limit_responses(req, &limits);
}

/* ---- properties ------------------------------------------------------------------------------ */

/* A step has the sequence of the first response that it reads, else that of the outer request. */
static inline const struct sequence_mark *find_mark(const struct step_run *s) {
        for (uint32_t i = 0; i < s->plan->n_inputs; i++) {
                const struct value *v = link_value(s->frame, &s->plan->inputs[i]);

                if (v->mark != NULL)
                        return v->mark;
        }
        return &s->run->mark;
}

/* Copies the text if it belongs to a response: that may be freed before the inner request. */
static struct error *set_correlation(const struct step_run *s, struct request *req) {
        req->correlation = s->mark->correlation;
        req->flags = s->mark->flags;
        if (req->correlation.text == NULL || req->correlation.text == s->run->req->correlation.text)
                return NULL;
        return request_set_correlation_text(req, s->mark->correlation.text);
}

/* 0: no deadline. */
static uint64_t time_left_us(const struct run *run) {
        uint64_t now_ns;

        if (run->deadline_ns == CLOCK_NEVER)
                return 0;
        now_ns = infer_thread_now(infer_thread_self());
        return now_ns + NS_PER_US < run->deadline_ns ? (run->deadline_ns - now_ns) / NS_PER_US : 1;
}

/* What the step's request has of the outer one, which it borrows from. */
static inline void set_properties(struct step_run *s, struct request *req) {
        const struct request *outer = s->run->req;

        req->id = outer->id;
        req->parameters = outer->parameters;
        req->priority = outer->priority;
        req->timeout_us = time_left_us(s->run);
        req->is_uncacheable = outer->is_uncacheable;
        if (outer->has_device_outputs) /* the last step, or the answer, is written there */
                req->has_device_outputs = true;
        req->outer = outer;
        req->allocator = run_allocator_of(s);
}

static struct error *fill_request(struct step_run *s, struct request *req) {
        TRY(add_inputs(s, req));
        TRY(add_outputs(s, req));
        TRY(limit_responses(s, req));
        req->steps = s->plan->nested;
        req->sums = &s->sums;
        req->allocator_userp = s;
        return NULL;
}

/* ---- requests that are used again ------------------------------------------------------------ */

/* A tensor that a step reads. */
struct tensor_bytes {
        enum data_type                  type;
        uint32_t                        n_dims;
        const int64_t                  *dims;
        const void                     *base;
        const struct buffer_attributes *attributes;
};

/* Returns where the step reads bytes that are on a device, and sets their attributes. NULL: it is left to the
 * request that is made from the beginning. */
static NOINLINE const void *bring_again(struct step_run *s, const void *base,
                                        const struct buffer_attributes *attributes,
                                        struct buffer_attributes       *ret) {
        AUTO_ERROR err = NULL;

        *ret = *attributes;
        err = run_device_bring(s, &base, ret);
        return err == NULL ? base : NULL;
}

/* False: the value has no bytes, or not in one piece for all host policies. */
static inline bool find_bytes(const struct step_run *s, const struct value *v,
                              struct tensor_bytes *ret) {
        struct shape_form         shape;
        const struct input_chunk *chunk;

        if (v->kind == VALUE_OUTPUT) {
                const struct response_output *o = v->output;

                *ret = (struct tensor_bytes){ o->type, o->n_dims, o->shape, o->base,
                                              &o->attributes };
                return o->has_buffer;
        }
        if (v->kind != VALUE_INPUT)
                return false;
        shape = shape_of(s, v);
        chunk = v->input->first_chunk;
        if (v->input->n_chunks != 1 || chunk->host_policy != NULL)
                return false;
        *ret = (struct tensor_bytes){ v->input->type, (uint32_t)shape.n_dims, shape.dims,
                                      chunk->base, &chunk->attributes };
        return true;
}

/* False also for a tensor whose shape must be bridged. */
static inline bool replace_input(struct step_run *s, struct request *req, struct request_input *in,
                                 const struct value *v) {
        struct tensor_bytes t;

        if (!find_bytes(s, v, &t) || (v->batch_size != 0) != (req->model->io->max_batch_size > 0))
                return false;
        if (buffer_is_on_device(t.attributes)) {
                t.base = bring_again(s, t.base, t.attributes, &in->only_chunk.attributes);
                t.attributes = &in->only_chunk.attributes;
                if (t.base == NULL)
                        return false;
        }
        return request_replace_input(req, in, t.type, t.dims, t.n_dims, t.base, t.attributes);
}

static bool refill(struct step_run *s, struct request *req) {
        const struct plan_step *step = s->plan;
        const struct plan_link *link = step->inputs, *end = link + step->n_inputs;
        struct request_input   *in = req->first_input;

        if (req->n_inputs != step->n_inputs || !request_renew(req, step->model))
                return false;
        for (; link < end; link++, in = in->next)
                if (!replace_input(s, req, in, link_value(s->frame, link)))
                        return false;
        return true;
}

/* ---- the request of a step ------------------------------------------------------------------- */

/* If memory is short, the step is not traced. */
static void begin_trace(const struct step_run *s, struct request *req) {
        struct trace *child = trace_spawn(s->run->req->trace);
        AUTO_ERROR    err = NULL;

        if (child == NULL)
                return;
        err = trace_begin(child, req);
        if (err != NULL)
                error_free(trace_free(child));
}

/* The step's request of an earlier run, if it can be used again. */
static struct inner_request *take_kept(struct step_run *s) {
        struct inner_request **kept = &s->run->kept[s->plan->place];
        struct inner_request  *inner;

        if (!s->run->keeps_requests || *kept == NULL)
                return NULL;
        inner = STEAL(*kept);
        if (refill(s, inner->request))
                return inner;
        inner_request_free(inner);
        return NULL;
}

void run_request_give(struct run *run, uint32_t place, bool may_stay, struct inner_request *inner) {
        if (may_stay && inner != NULL && request_may_stay(inner->request))
                run->kept[place] = inner;
        else
                inner_request_free(inner);
}

/* The run's models hold the model. */
static NOINLINE struct inner_request *new_request(struct step_run                *s,
                                                  const struct inner_request_ops *ops) {
        struct inner_request *inner = inner_request_new_borrowing(s->plan->model, ops, s);

        s->failure = inner == NULL ? run_no_memory(s) : fill_request(s, inner->request);
        if (s->failure == NULL)
                return inner;
        inner_request_free(inner);
        return NULL;
}

struct inner_request *run_request_take(struct step_run *s, const struct inner_request_ops *ops) {
        struct inner_request *inner = take_kept(s);

        if (inner == NULL)
                inner = new_request(s, ops);
        if (inner == NULL)
                return NULL;
        set_properties(s, inner->request);
        s->mark = find_mark(s);
        if (s->plan->has_sequence) {
                s->failure = set_correlation(s, inner->request);
                if (s->failure != NULL) {
                        inner_request_free(inner);
                        return NULL;
                }
        }
        if (s->run->req->trace != NULL)
                begin_trace(s, inner->request);
        return inner;
}
