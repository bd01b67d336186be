/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/chain.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "config/labels.h"
#include "infer/inner_request.h"
#include "infer/model.h"
#include "infer/request.h"
#include "infer/request_check.h"
#include "infer/request_plan.h"
#include "infer/response.h"
#include "infer/response_allocator.h"
#include "infer/scheduler.h"
#include "infer/submitter.h"
#include "infer/trace.h"
#include "sched/chain_metrics.h"
#include "sched/chain_plan.h"
#include "sched/client_memory.h"
#include "sched/step_memory.h"
#include "sched/step_models.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

struct chain {
        struct scheduler     base;
        struct chain_options options;
        _Atomic bool         is_draining;
};

/* As a buf has: a cache line, and the widest vector that backends read. */
#define SMALL_ALIGNMENT 64
#define HALF_BYTES 256

/* The memory that the stages of one run write their outputs to.
 *
 * Small outputs are in the run itself. Their memory has two halves, because a stage reads from one
 * half while it writes to the other. Large outputs are reference-counted buffers of a pool
 * (step_memory.h). The last stage writes into the client's memory (client_memory.h), unless it is
 * decoupled.
 *
 * The small memory earns its room in `make bench` (chains): 64-byte buffers from malloc() cost a
 * fast stage a tenth of its time.
 *
 * Threads.  A backend may ask for the outputs of one stage on several threads, until the stage's
 * last response. A response that it does not send may outlive the run.
 */
struct stage_memory {
        const struct request *outer;        /* borrowed: the client's request */
        struct step_memory   *large;        /* borrowed: the server's */
        bool                  is_direct;    /* the current stage writes into the client's memory */
        unsigned              half;         /* 0 or 1: the half that the current stage writes to */
        _Atomic size_t        n_bytes_used; /* of that half */
        char                 *small;        /* both halves, in `room`, aligned */
        char                  room[2 * HALF_BYTES + SMALL_ALIGNMENT];
};

/* The state of one request in the chain; in the request's arena. */
struct chain_run {
        struct continuation             base;
        struct chain                   *chain;
        struct request                 *outer;
        struct step_models             *models;    /* ref */
        const struct chain_plan        *plan;      /* borrowed: the snapshot's */
        uint32_t                        at;        /* index of the current stage */
        _Atomic uint32_t                n_holders; /* the run, and threads that cancel it */
        _Atomic(struct inner_request *) inner;     /* of the current or the previous stage */
        struct request                 *ended;     /* owned list: inner requests that have ended */
        struct response                *input;     /* owned; of the previous stage */
        struct response                *output;    /* owned; of the current stage */
        struct error                   *error;     /* owned; the first one */
        bool                            has_answered; /* FINAL was sent to the client */
        uint64_t                        deadline_ns;
        uint64_t                        ended_ns; /* when the previous stage ended */
        struct chain_run               *next;     /* in `deferred` */
        struct compute_sums             sums;     /* of the stages */
        struct stage_memory             memory;
};

static struct chain *self_of(struct scheduler *s) {
        return CONTAINER_OF(s, struct chain, base);
}

/* True when the request runs the first model only, not the chain. */
static bool is_for_model_alone(const struct chain *c, const struct request *req) {
        return c->options.own != NULL && !request_runs_chain(req);
}

static const char *chain_name(const struct chain_run *run) {
        return run->chain->options.model->name;
}

/* Prefixes an error with the current stage. A cancellation is returned unchanged. Takes `why`. */
static struct error *prefix_error(const struct chain_run *run, struct error *why) {
        if (why->code == ERR_CANCELLED)
                return why;
        return error_prefix(why, "in chain '%s' stage '%s' (%u/%u): ", chain_name(run),
                            run->plan->stages[run->at].model->name, run->at + 1, run->plan->n);
}

/* ---- memory for the outputs of stages -------------------------------------------------------- */

static void stage_memory_init(struct stage_memory *m, const struct request *outer,
                              struct step_memory *large) {
        m->outer = outer;
        m->large = large;
        m->is_direct = false;
        m->half = 0;
        atomic_init(&m->n_bytes_used, 0);
        m->small = (char *)(((uintptr_t)m->room + SMALL_ALIGNMENT - 1) &
                            ~(uintptr_t)(SMALL_ALIGNMENT - 1));
}

static void stage_memory_begin(struct stage_memory *m, bool is_last) {
        m->half ^= 1;
        atomic_store_explicit(&m->n_bytes_used, 0, memory_order_relaxed);
        m->is_direct = is_last && client_memory_is_there(m->outer);
}

static void *take_small(struct stage_memory *m, size_t bytes) {
        size_t room, at;

        if (bytes > HALF_BYTES)
                return NULL;
        room = (bytes + SMALL_ALIGNMENT - 1) & ~(size_t)(SMALL_ALIGNMENT - 1);
        at = atomic_fetch_add_explicit(&m->n_bytes_used, room, memory_order_relaxed);
        return at + room <= HALF_BYTES ? m->small + m->half * HALF_BYTES + at : NULL;
}

/* The signature of allocator_redirect_fn. */
static bool redirect(void *userp, const char *output, struct memory_origin *ret) {
        const struct stage_memory *m = userp;

        if (m->is_direct)
                *ret = client_memory_of(m->outer, output);
        return m->is_direct;
}

/* The signature of allocator_alloc_fn. */
static struct error *allocate_output(struct response_allocator *allocator, const char *output,
                                     size_t byte_size, enum memory_type type, int64_t id,
                                     void *userp, void **buffer, void **buffer_userp,
                                     enum memory_type *actual_type, int64_t *actual_id) {
        struct stage_memory *m = userp;
        struct buf          *b;

        (void)allocator;
        (void)type;
        (void)id;
        *buffer = *buffer_userp = NULL;
        *actual_type = MEMORY_CPU;
        *actual_id = 0;
        if (byte_size == 0 || (*buffer = take_small(m, byte_size)) != NULL)
                return NULL;
        b = step_memory_get(m->large, byte_size);
        if (b == NULL)
                return step_memory_shortage(m->large, output, byte_size);
        *buffer = b->bytes;
        *buffer_userp = b;
        return NULL;
}

static const struct response_allocator stage_allocator = { .alloc = allocate_output,
                                                           .release = inner_output_release,
                                                           .redirect = redirect };

/* ---- the end --------------------------------------------------------------------------------- */

static void count_end(struct chain_run *run) {
        struct chain *c = run->chain;
        uint64_t      start_ns = run->outer->times.request_start_ns;
        uint64_t      now_ns = clock_now_ns();

        if (run->error != NULL)
                chain_metrics_count_failure(c->options.metrics, run->plan->stages[run->at].failure,
                                            now_ns - start_ns);
        else
                chain_metrics_count_success(c->options.metrics, now_ns - start_ns);
        if (c->options.own != NULL)
                return; /* the first stage counts in the statistics of the model */
        if (run->error != NULL) {
                model_stats_failure(c->options.model->stats,
                                    run->error->code == ERR_CANCELLED ? FAILURE_CANCELED
                                                                      : FAILURE_BACKEND,
                                    now_ns - start_ns);
                return;
        }

        struct request_times t = { .request_start_ns = start_ns, .queue_start_ns = start_ns };

        compute_sums_to_times(&run->sums, start_ns, &t);
        t.request_end_ns = now_ns;
        model_stats_composed(c->options.model->stats, &t, MAX(run->outer->batch_size, 1));
        if (run->outer->is_inner && run->outer->sums != NULL)
                compute_sums_add(run->outer->sums, &t);
}

static void send_failure(struct chain_run *run) {
        struct response *response;
        struct error    *err = response_new_at_once(run->outer, &response);

        if (err == NULL)
                err = response_send(response, RESPONSE_FINAL, run->error);
        else
                error_free(request_send_flags(run->outer, RESPONSE_FINAL));
        error_free(err);
}

/* Called by the last holder: no thread can cancel the run any more. */
static void release(struct chain_run *run) {
        struct request     *outer = run->outer;
        struct step_models *models = run->models;
        struct byte_budget *budget = run->chain->options.memory->budget;
        size_t              n_bytes = run->plan->run_bytes;

        for (struct request *req = run->ended, *next; req != NULL; req = next) {
                next = req->queued.next;
                request_free(req);
        }
        error_free(run->error);
        byte_budget_give(budget, n_bytes);
        request_release(outer, REQUEST_RELEASE_ALL); /* frees the run */
        step_models_unref(models);
}

static void unhold_run(struct chain_run *run) {
        if (atomic_fetch_sub(&run->n_holders, 1) == 1)
                release(run);
}

static void end_run(struct chain_run *run) {
        count_end(run);
        response_free(run->input);
        response_free(run->output);
        run->input = run->output = NULL;
        if (!run->has_answered)
                send_failure(run);
        unhold_run(run);
}

/* Ends the run with the error of the current stage. Takes `why`. */
static void fail(struct chain_run *run, struct error *why) {
        if (run->error == NULL)
                run->error = prefix_error(run, why);
        else
                error_free(why);
        end_run(run);
}

/* ---- the response ---------------------------------------------------------------------------- */

/* The labels of classes are those of the model that computed the output. */
static struct error *take_labels(const struct response_output *from, struct response_output *to) {
        struct labels *labels =
                from->labels != NULL ? from->labels : from->response->source.model->labels;
        const char *name = from->labels != NULL ? from->labels_name : from->name;

        if (labels == NULL || labels_count(labels, name) == 0)
                return NULL;
        name = arena_try_str(&to->response->arena, str_of(name));
        if (name == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory for a response");
        response_set_labels(to, labels, name);
        return NULL;
}

static struct error *add_output(struct response_output *from, struct response *to) {
        const char             *name = arena_try_str(&to->arena, str_of(from->name));
        enum memory_type        type = MEMORY_CPU;
        int64_t                 id = 0;
        struct response_output *o;
        int64_t                *shape;
        void                   *bytes;
        struct error           *err = NULL;

        TRY(response_add_client_output(to, name, from->type, from->n_dims, &o, &shape));
        memcpy(shape, from->shape, from->n_dims * sizeof(*shape));
        TRY(take_labels(from, o));
        if (client_memory_hand_over(o, from, &err))
                return err;
        TRY(response_output_buffer(o, from->byte_size, &type, &id, &bytes));
        if (type != MEMORY_CPU && type != MEMORY_CPU_PINNED)
                return error_new(ERR_UNSUPPORTED, "output '%s' is wanted in the memory of a GPU",
                                 from->name);
        if (from->byte_size > 0)
                memcpy(bytes, from->base, from->byte_size);
        return NULL;
}

static struct error *fill_response(struct response *from, struct response *to) {
        for (struct response_output *o = from->first_output; o != NULL; o = o->next)
                TRY(add_output(o, to));
        for (const struct parameter *p = from->parameters.first; p != NULL; p = p->next)
                TRY(response_add_parameter(to, p));
        return NULL;
}

/* Sends a response of the last stage to the client. Borrows it; NULL: sends the flags alone. */
static void answer(struct chain_run *run, struct response *from, uint32_t flags) {
        struct response *to;
        struct error    *err = NULL;

        if (from == NULL) {
                error_free(request_send_flags(run->outer, flags));
                run->has_answered = (flags & RESPONSE_FINAL) != 0;
                return;
        }
        err = response_new(run->outer, &to);
        if (err == NULL) {
                err = from->error != NULL ? error_copy(from->error) : fill_response(from, to);
                if (err != NULL)
                        err = prefix_error(run, err);
                error_free(response_send(to, flags, err));
                run->has_answered = (flags & RESPONSE_FINAL) != 0;
        }
        if (run->error == NULL)
                run->error = err;
        else
                error_free(err);
}

/* ---- one stage ------------------------------------------------------------------------------- */

static bool is_last(const struct chain_run *run) {
        return run->at + 1 == run->plan->n;
}

static void on_response(struct inner_request *r, struct response *response, uint32_t flags) {
        struct chain_run *run = r->owner;

        if (is_last(run)) {
                answer(run, response, flags);
                response_free(response);
                return;
        }
        if (response != NULL && run->output == NULL && run->error == NULL) {
                run->output = response;
                if (response->error != NULL)
                        run->error = prefix_error(run, error_copy(response->error));
                return;
        }
        if (response != NULL && run->error == NULL)
                run->error =
                        prefix_error(run, error_new_text(ERR_INTERNAL, "more than one response"));
        response_free(response);
}

static bool asks_to_end(const struct response *r) {
        const struct parameter *p = parameter_list_find(&r->parameters, "chain_end");

        return p != NULL && p->type == PARAMETER_BOOL && p->boolean;
}

static void hand_off(struct chain_run *run);

/* Counts the time from the end of the previous stage to the submission of this one. */
static void count_handoff(const struct chain_run *run, const struct request *req) {
        uint64_t begin_ns = req->times.request_start_ns;

        if (run->at > 0 && begin_ns > run->ended_ns)
                chain_metrics_count_handoff(run->plan->stages[run->at - 1].handoff,
                                            begin_ns - run->ended_ns);
}

static void on_end(struct inner_request *r) {
        struct chain_run *run = r->owner;

        count_handoff(run, r->request);
        r->request->queued.next = run->ended;
        run->ended = r->request;
        response_free(STEAL(run->input));
        if (is_last(run) || run->error != NULL) {
                end_run(run);
        } else if (run->output == NULL) {
                fail(run, error_new_text(ERR_INTERNAL, "no response"));
        } else if (run->chain->options.may_end && asks_to_end(run->output)) {
                answer(run, run->output, RESPONSE_FINAL);
                end_run(run);
        } else {
                run->input = STEAL(run->output);
                run->ended_ns = clock_now_ns();
                hand_off(run);
        }
}

/* The first stage reads the request's inputs in place. */
static struct error *take_outer_inputs(const struct chain_run *run, struct request *req) {
        for (const struct request_input *in = run->outer->first_input; in != NULL; in = in->next) {
                TRY(request_add_input(req, in->name, in->type, in->given_shape, in->n_given_dims));
                for (const struct input_chunk *c = in->first_chunk; c != NULL; c = c->next)
                        TRY(request_append_bytes(req, in->name, c->base, &c->attributes,
                                                 c->host_policy));
        }
        return NULL;
}

/* `ret_dims` has room for one dim more than the output has. */
static struct error *bridge_shape(const struct response_output *o, enum chain_bridge how,
                                  int64_t *ret_dims, uint32_t *ret_n) {
        const int64_t *from = o->shape;
        uint32_t       n = o->n_dims;

        *ret_n = n;
        if (how == CHAIN_DROP_ONE) {
                if (n == 0 || from[0] != 1)
                        return error_new(
                                ERR_INVALID_ARG,
                                "output '%s' has a batch of %lld, and the next stage takes "
                                "no batches",
                                o->name, n > 0 ? (long long)from[0] : 0);
                memcpy(ret_dims, from + 1, (n - 1) * sizeof(*ret_dims));
                *ret_n = n - 1;
        } else if (how == CHAIN_ADD_ONE) {
                ret_dims[0] = 1;
                memcpy(ret_dims + 1, from, n * sizeof(*ret_dims));
                *ret_n = n + 1;
        } else {
                memcpy(ret_dims, from, n * sizeof(*ret_dims));
        }
        return NULL;
}

/* The stage reads the outputs of the previous stage in place. */
static struct error *take_stage_outputs(const struct chain_run *run, struct request *req) {
        const struct planned_stage *before = &run->plan->stages[run->at - 1];
        const struct model_io_set  *io = req->model->io;
        int64_t                     dims[REQUEST_MAX_DIMS + 1];
        uint32_t                    n_dims;

        for (uint32_t i = 0; i < before->edge->n_inputs; i++) {
                const struct chain_link      *link = &before->edge->inputs[i];
                const struct response_output *o;
                struct request_input         *in;

                if (!link->is_linked)
                        continue;
                o = response_find_output(run->input, before->model->io->outputs[link->output].name);
                if (o == NULL)
                        return error_new(ERR_INTERNAL, "the stage before has not given output '%s'",
                                         before->model->io->outputs[link->output].name);
                TRY(bridge_shape(o, link->bridge, dims, &n_dims));
                TRY(request_add_known_input(req, &io->inputs[i], o->type, dims, n_dims, &in));
                if (o->byte_size > 0)
                        TRY(request_input_append(req, in, o->base, &o->attributes, NULL));
        }
        return NULL;
}

static struct error *ask_for_outputs(const struct chain_run *run, struct request *req) {
        const struct planned_stage *s = &run->plan->stages[run->at];

        if (is_last(run)) {
                for (const struct requested_output *o = run->outer->first_output; o != NULL;
                     o = o->next)
                        TRY(request_add_output(req, o->name));
                return NULL;
        }
        /* A response that ends the chain early must have all outputs. */
        for (uint32_t i = 0; i < s->n_outputs && !run->chain->options.may_end; i++)
                TRY(request_add_output(req, s->outputs[i]));
        return NULL;
}

/* Each stage has the properties of the client's request. */
static struct error *take_properties(const struct chain_run *run, struct request *req) {
        const struct request *outer = run->outer;

        req->priority = outer->priority;
        if (run->deadline_ns != CLOCK_NEVER) {
                uint64_t now_ns = clock_now_ns();

                if (now_ns >= run->deadline_ns)
                        return error_new_text(ERR_UNAVAILABLE, "Request timeout expired");
                req->timeout_us = (run->deadline_ns - now_ns + NS_PER_US - 1) / NS_PER_US;
        }
        if (req->model->config->pb->scheduling_choice_case ==
            INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING) {
                req->flags = outer->flags;
                if (outer->correlation.text != NULL)
                        TRY(request_set_correlation_text(req, outer->correlation.text));
                else
                        req->correlation.number = outer->correlation.number;
        }
        /* Borrowed: they outlive the stage. */
        req->id = outer->id;
        req->parameters = outer->parameters;
        req->is_uncacheable = outer->is_uncacheable;
        return NULL;
}

static struct error *begin_trace(const struct chain_run *run, struct request *req) {
        struct trace *child;
        struct error *err;

        if (LIKELY(run->outer->trace == NULL))
                return NULL;
        child = trace_spawn(run->outer->trace);
        if (child == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory for a trace");
        err = trace_begin(child, req);
        if (err != NULL)
                error_free(trace_free(child));
        return err;
}

static struct error *fill_request(struct chain_run *run, struct inner_request *r) {
        struct request *req = r->request;

        req->sums = &run->sums;
        stage_memory_begin(&run->memory, is_last(run) && !req->model->is_decoupled);
        req->allocator = &stage_allocator;
        req->allocator_userp = &run->memory;
        req->steps = run->at > 0 || run->chain->options.own == NULL
                             ? run->models->nested[run->at - (run->chain->options.own != NULL)]
                             : NULL;
        TRY(take_properties(run, req));
        TRY(run->at == 0 ? take_outer_inputs(run, req) : take_stage_outputs(run, req));
        TRY(ask_for_outputs(run, req));
        if (req->model->is_decoupled && !response_stream_follow(req->stream, run->outer->stream))
                return error_new(ERR_UNAVAILABLE, "out of memory");
        return begin_trace(run, req);
}

/* Returns the inner request of the current stage, to be submitted; NULL when the run has ended. */
static struct inner_request *make_stage(struct chain_run *run) {
        static const struct inner_request_ops ops = { .on_response = on_response,
                                                      .on_end = on_end };
        struct model                         *model = run->plan->stages[run->at].model;
        struct inner_request                 *r;
        struct error                         *err;

        if (request_is_cancelled(run->outer)) {
                fail(run, error_new_text(ERR_CANCELLED, ""));
                return NULL;
        }
        r = inner_request_new_borrowing(model, &ops, run);
        err = r != NULL ? fill_request(run, r) : error_new(ERR_UNAVAILABLE, "out of memory");
        if (err != NULL) {
                inner_request_free(r);
                fail(run, err);
                return NULL;
        }
        /* Sequentially consistent, like the cancellation flag: either cancel() sees this request or
         * the check below sees the flag. */
        atomic_store(&run->inner, r);
        if (request_is_cancelled(run->outer))
                request_cancel(r->request);
        return r;
}

/* Ends a run whose stage was not submitted. Takes `why`. */
static void refuse_stage(struct chain_run *run, struct inner_request *r, struct error *why) {
        if (r->request->trace != NULL)
                trace_refuse(r->request);
        r->request->queued.next = run->ended;
        run->ended = r->request; /* a thread that cancels may still read it */
        fail(run, why);
}

static void submit_stage(struct chain_run *run) {
        struct inner_request *r = make_stage(run);
        struct error         *err;

        if (r == NULL)
                return;
        err = inner_request_submit(r);
        if (err != NULL)
                refuse_stage(run, r, err);
}

/* ---- from stage to stage --------------------------------------------------------------------- */

/* Runs whose stage ended in the current execution on this thread. Their next stages are submitted
 * together after the execution. */
static _Thread_local struct {
        struct chain_run *first;
        struct chain_run *last;
} deferred;

#define MAX_GROUP 64 /* more runs are submitted in several groups */

/* Gives the requests a common group number, so that they form one batch again, if that batch is not
 * too large for the model. */
static void mark_group(const struct model *model, struct inner_request *const *requests,
                       uint32_t n) {
        static _Atomic uint64_t last_group;
        uint64_t                rows = 0, group;

        for (uint32_t i = 0; i < n; i++)
                rows += MAX(requests[i]->request->batch_size, 1);
        if (rows > model->io->max_batch_size)
                return;
        group = atomic_fetch_add_explicit(&last_group, 1, memory_order_relaxed) + 1;
        for (uint32_t i = 0; i < n; i++)
                requests[i]->request->group = group;
}

/* Submits together the first runs of the list that are at the same model of the same chain, at most
 * MAX_GROUP. Returns the rest of the list. */
static struct chain_run *submit_group(struct chain_run *first) {
        const struct model   *model = first->plan->stages[first->at].model;
        const struct chain   *chain = first->chain;
        struct chain_run     *runs[MAX_GROUP];
        struct inner_request *requests[MAX_GROUP];
        struct error         *errors[MAX_GROUP];
        struct chain_run     *run = first, *next;
        uint32_t              n = 0;

        for (; run != NULL && n < MAX_GROUP; run = next) {
                if (run->plan->stages[run->at].model != model || run->chain != chain)
                        break;
                next = run->next;
                /* A run that ends here may be freed, and with the last one the model and the
                 * chain. */
                requests[n] = make_stage(run);
                if (requests[n] == NULL)
                        continue;
                /* Preliminary: the check of the request computes it. */
                requests[n]->request->batch_size = run->outer->batch_size;
                runs[n++] = run;
        }
        if (n == 0)
                return run;
        /* Without dynamic batching, each request may run on this thread when it is submitted. */
        if (model->config->pb->scheduling_choice_case ==
            INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING) {
                if (chain->options.keeps_batches && n > 1)
                        mark_group(model, requests, n);
                inner_request_submit_all(requests, n, errors);
        } else {
                for (uint32_t i = 0; i < n; i++)
                        errors[i] = inner_request_submit(requests[i]);
        }
        for (uint32_t i = 0; i < n; i++)
                if (errors[i] != NULL)
                        refuse_stage(runs[i], requests[i], errors[i]);
        return run;
}

static void submit_deferred(struct continuation *c) {
        struct chain_run *run = deferred.first;

        (void)c;
        deferred.first = deferred.last = NULL;
        while (run != NULL)
                run = submit_group(run);
}

static void hand_off(struct chain_run *run) {
        run->at++;
        run->next = NULL;
        if (deferred.first != NULL) {
                deferred.last->next = run;
                deferred.last = run;
                return;
        }
        run->base.run = submit_deferred;
        if (submitter_defer(&run->base)) {
                deferred.first = deferred.last = run;
                return;
        }
        submit_stage(run);
}

/* ---- the scheduler --------------------------------------------------------------------------- */

static struct error *check_outputs(const struct chain *c, const struct chain_plan *plan,
                                   const struct request *req) {
        const struct model_io_set *io = plan->stages[plan->n - 1].model->io;
        uint32_t                   at = 0;

        if (c->options.own == NULL)
                return NULL; /* checked against the chain's own configuration */
        for (const struct requested_output *o = req->first_output; o != NULL; o = o->next, at++)
                if (model_io_find_output(io, str_of(o->name), at) == NULL)
                        return error_new(ERR_INVALID_ARG,
                                         "unexpected inference output '%s' for model '%s', whose "
                                         "chain ends with model '%s'",
                                         o->name, req->model->name,
                                         plan->stages[plan->n - 1].model->name);
        return NULL;
}

static struct error *check_request(const struct chain *c, const struct chain_plan *plan,
                                   const struct request *req) {
        TRY(check_outputs(c, plan, req));
        if (plan->max_batch == 0 || req->batch_size <= plan->max_batch)
                return NULL;
        return request_error(req, ERR_INVALID_ARG,
                             "inference request batch-size must be <= %u for stage '%s' of chain "
                             "'%s'",
                             plan->max_batch, plan->stages[plan->narrowest].model->name,
                             req->model->name);
}

/* Charges the memory budget for the requests to all stages, which the run keeps until it ends. A request
 * that belongs to another one always fits: that was admitted, and must be able to end. */
static struct error *charge_run(const struct chain *c, const struct chain_plan *plan,
                                const struct request *req) {
        struct byte_budget *b = c->options.memory->budget;

        if (req->is_inner) {
                byte_budget_force(b, plan->run_bytes);
        } else if (!byte_budget_take(b, plan->run_bytes)) {
                byte_budget_refused(b);
                return request_error(req, ERR_UNAVAILABLE, BYTE_BUDGET_USED_UP);
        }
        return NULL;
}

static struct error *make_run(const struct chain *c, struct request *req,
                              const struct chain_plan *plan, struct chain_run **ret) {
        struct chain_run *run;

        TRY(check_request(c, plan, req));
        run = arena_try_alloc(&req->arena, sizeof(*run));
        if (run == NULL)
                return request_error(req, ERR_UNAVAILABLE, "out of memory");
        TRY(charge_run(c, plan, req));
        *ret = run;
        return NULL;
}

static struct error *begin(struct chain *c, struct request *req, struct step_models *models) {
        struct chain_run *run;

        TRY(make_run(c, req, models->plan, &run));
        memset(run, 0, offsetof(struct chain_run, memory));
        run->chain = c;
        run->outer = req;
        run->models = models;
        run->plan = models->plan;
        run->deadline_ns = CLOCK_NEVER;
        atomic_init(&run->n_holders, 1);
        stage_memory_init(&run->memory, req, c->options.memory);
        if (req->timeout_us > 0 &&
            req->timeout_us < (CLOCK_NEVER - req->times.request_start_ns) / NS_PER_US)
                run->deadline_ns = req->times.request_start_ns + req->timeout_us * NS_PER_US;
        req->queued.run = run; /* for cancel(), while the request is PENDING */
        chain_metrics_count_begin(c->options.metrics);
        atomic_store(&req->state, REQUEST_PENDING);
        submit_stage(run);
        return NULL;
}

static struct error *submit(struct scheduler *s, struct request *req) {
        struct chain       *c = self_of(s);
        struct step_models *models;
        struct error       *err;

        if (is_for_model_alone(c, req))
                return c->options.own->ops->submit(c->options.own, req);
        if (atomic_load_explicit(&c->is_draining, memory_order_relaxed) && !req->is_inner)
                return request_error(
                        req, ERR_UNAVAILABLE,
                        "Server is stopping, scheduler for model has stopped accepting "
                        "new inference requests");
        TRY(step_models_take(c->options.holder, req, &models));
        err = begin(c, req, models);
        if (err != NULL)
                step_models_unref(models);
        return err;
}

static void submit_all(struct scheduler *s, struct request *const *requests, uint32_t n,
                       struct error **ret_errors) {
        struct scheduler *own = self_of(s)->options.own;

        if (own != NULL && own->ops->submit_all != NULL) {
                /* submit_all() gets inner requests only; these do not run the chain. */
                own->ops->submit_all(own, requests, n, ret_errors);
                return;
        }
        for (uint32_t i = 0; i < n; i++)
                ret_errors[i] = submit(s, requests[i]);
}

static bool hold_run(struct chain_run *run) {
        uint32_t n = atomic_load(&run->n_holders);

        while (n > 0)
                if (atomic_compare_exchange_weak(&run->n_holders, &n, n + 1))
                        return true;
        return false;
}

static void cancel(struct scheduler *s, struct request *req) {
        struct chain         *c = self_of(s);
        struct chain_run     *run;
        struct inner_request *r;

        if (is_for_model_alone(c, req)) {
                c->options.own->ops->cancel(c->options.own, req);
                return;
        }
        run = req->queued.run;
        if (!hold_run(run))
                return;
        r = atomic_load(&run->inner);
        if (r != NULL)
                request_cancel(r->request);
        unhold_run(run);
}

static bool released(struct scheduler *s, struct request *req, uint32_t flags) {
        struct chain     *c = self_of(s);
        struct scheduler *own = c->options.own;

        return is_for_model_alone(c, req) && own->ops->released != NULL &&
               own->ops->released(own, req, flags);
}

static struct error *add_executor(struct scheduler *s, struct executor *e) {
        struct scheduler *own = self_of(s)->options.own;

        return own != NULL ? own->ops->add_executor(own, e) : NULL;
}

static void remove_executor(struct scheduler *s, struct executor *e) {
        struct scheduler *own = self_of(s)->options.own;

        if (own != NULL)
                own->ops->remove_executor(own, e);
}

static void drain(struct scheduler *s) {
        struct chain *c = self_of(s);

        atomic_store(&c->is_draining, true);
        if (c->options.own != NULL)
                c->options.own->ops->drain(c->options.own);
}

static void retire(struct scheduler *s) {
        struct scheduler *own = self_of(s)->options.own;

        if (own != NULL && own->ops->retire != NULL)
                own->ops->retire(own);
}

static void free_chain(struct scheduler *s) {
        struct chain *c = self_of(s);

        if (c->options.own != NULL)
                c->options.own->ops->free(c->options.own);
        free(c);
}

struct scheduler *chain_new(const struct chain_options *o) {
        static const struct scheduler_ops ops = {
                .submit = submit,
                .submit_all = submit_all,
                .cancel = cancel,
                .released = released,
                .add_executor = add_executor,
                .remove_executor = remove_executor,
                .drain = drain,
                .retire = retire,
                .free = free_chain,
        };
        struct chain *c = mem_zalloc(sizeof(*c));

        c->base.ops = &ops;
        if (o->own != NULL) {
                c->base.order = o->own->order;
                c->base.may_reschedule = o->own->may_reschedule;
        }
        c->options = *o;
        return &c->base;
}
