/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/trace.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "infer/buffer_copy.h"
#include "infer/model.h"
#include "infer/request.h"
#include "infer/response.h"
#include "observe/model_stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TIMESTAMP_LEVELS (TRACE_LEVEL_MIN | TRACE_LEVEL_MAX | TRACE_LEVEL_TIMESTAMPS)

static _Atomic uint64_t last_id;

/* Name of the custom activity that this thread is reporting. */
static _Thread_local const char *custom_name;

static struct error *out_of_memory(void) {
        return error_new(ERR_UNAVAILABLE, "out of memory for a trace");
}

static char *try_copy(const char *text) {
        size_t bytes = strlen(text) + 1;
        char  *copy = try_alloc(bytes);

        return copy != NULL ? memcpy(copy, text, bytes) : NULL;
}

/* Replaces *place by a copy of `text`. */
static struct error *keep_text(char **place, const char *text) {
        char *copy = try_copy(text);

        if (copy == NULL)
                return out_of_memory();
        free(*place);
        *place = copy;
        return NULL;
}

struct trace *trace_new(const struct trace_options *o) {
        struct trace *t = try_zalloc(sizeof(*t));

        if (t == NULL)
                return NULL;
        t->options = *o;
        t->id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
        return t;
}

static void free_trace(struct trace *t) {
        trace_unref(t->parent);
        free(t->model_name);
        free(t->request_id);
        free(t->context);
        free(t);
}

struct error *trace_free(struct trace *t) {
        if (t == NULL)
                return NULL;
        if (atomic_load_explicit(&t->n_holders, memory_order_acquire) > 0)
                return error_new(ERR_INVALID_ARG,
                                 "the trace is in use by an inference that has not released it");
        free_trace(t);
        return NULL;
}

/* Takes a reference; false when no inference holds the trace. */
static bool try_hold(struct trace *t) {
        uint32_t n = atomic_load(&t->n_holders);

        while (n > 0)
                if (atomic_compare_exchange_weak(&t->n_holders, &n, n + 1))
                        return true;
        return false;
}

struct trace *trace_spawn(struct trace *t) {
        struct trace_options o = t->options;
        struct trace        *child;

        o.parent_id = t->id;
        child = trace_new(&o);
        if (child == NULL)
                return NULL;
        child->parent = try_hold(t) ? t : NULL;
        if (t->context == NULL)
                return child;
        child->context = try_copy(t->context);
        if (child->context == NULL) {
                free_trace(child);
                return NULL;
        }
        return child;
}

struct error *trace_set_context(struct trace *t, const char *context) {
        if (context != NULL)
                return keep_text(&t->context, context);
        free(t->context);
        t->context = NULL;
        return NULL;
}

struct error *trace_begin(struct trace *t, struct request *req) {
        uint32_t unheld = 0;

        if (!atomic_compare_exchange_strong(&t->n_holders, &unheld, 1))
                return error_new(ERR_INVALID_ARG,
                                 "the trace is in use by an inference that has not released it");
        TRY_OR(keep_text(&t->model_name, req->model->name), atomic_store(&t->n_holders, 0));
        TRY_OR(keep_text(&t->request_id, req->id), atomic_store(&t->n_holders, 0));
        t->model_version = req->model->version;
        req->trace = t;
        return NULL;
}

void trace_refuse(struct request *req) {
        struct trace *t = STEAL(req->trace);

        trace_report(t, TRACE_REQUEST_END, clock_now_ns());
        trace_unref(t);
}

void trace_ref(struct trace *t) {
        atomic_fetch_add_explicit(&t->n_holders, 1, memory_order_relaxed);
}

void trace_unref(struct trace *t) {
        if (t != NULL && atomic_fetch_sub_explicit(&t->n_holders, 1, memory_order_acq_rel) == 1)
                t->options.on_release(t, t->options.userp);
}

void trace_report(struct trace *t, enum trace_activity activity, uint64_t timestamp_ns) {
        if ((t->options.level & TIMESTAMP_LEVELS) != 0)
                t->options.on_activity(t, (int)activity, timestamp_ns, t->options.userp);
}

void trace_report_custom(struct trace *t, const char *name, uint64_t timestamp_ns) {
        const char *outer = custom_name;

        custom_name = name;
        trace_report(t, TRACE_CUSTOM_ACTIVITY, timestamp_ns);
        custom_name = outer;
}

const char *trace_custom_name(void) {
        return custom_name;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static void report_input(struct trace *t, const struct request_input *in,
                         enum trace_activity activity, const void *base) {
        struct buffer_attributes at = { 0 };

        /* What lies on a device is reported as a copy on the host. */
        if (in->first_chunk != NULL && !buffer_is_on_device(&in->first_chunk->attributes))
                at = in->first_chunk->attributes;
        t->options.on_tensor(t, (int)activity, in->name, (int)in->type, base, in->byte_size,
                             in->shape, in->n_dims, (int)at.memory_type, at.memory_id,
                             t->options.userp);
}

static struct error *read_chunks(struct gpus *gpus, const struct request_input *in, char *to) {
        for (const struct input_chunk *c = in->first_chunk; c != NULL; c = c->next) {
                if (c->host_policy != NULL)
                        continue;
                TRY(buffer_read(gpus, &c->attributes, c->base, to, c->attributes.byte_size));
                to += c->attributes.byte_size;
        }
        return NULL;
}

static void log_missing(const struct trace *t, const char *what, const char *name,
                        const struct error *why) {
        log_warn("%s '%s' is missing in trace %llu: %s", what, name, (unsigned long long)t->id,
                 why != NULL ? why->message : "out of memory");
}

/* Reports the concatenation of the chunks without a host policy. */
static void report_gathered(const struct request *req, const struct request_input *in,
                            enum trace_activity activity) {
        char      *all = try_alloc(in->byte_size);
        AUTO_ERROR err = NULL;

        if (all != NULL)
                err = read_chunks(req->model->gpus, in, all);
        if (all != NULL && err == NULL)
                report_input(req->trace, in, activity, all);
        else
                log_missing(req->trace, "input", in->name, err);
        free(all);
}

void trace_report_inputs(const struct request *req, enum trace_activity activity) {
        struct trace *t = req->trace;

        if (!trace_wants_tensors(t))
                return;
        for (const struct request_input *in = req->first_input; in != NULL; in = in->next) {
                if (in->byte_size == 0)
                        report_input(t, in, activity, NULL);
                else if (in->first_chunk->next == NULL &&
                         !buffer_is_on_device(&in->first_chunk->attributes))
                        report_input(t, in, activity, in->first_chunk->base);
                else
                        report_gathered(req, in, activity);
        }
}

static void report_output(struct trace *t, const struct response_output *o, const void *base,
                          const struct buffer_attributes *at) {
        t->options.on_tensor(t, TRACE_TENSOR_BACKEND_OUTPUT, o->name, (int)o->type, base,
                             o->byte_size, o->shape, o->n_dims, (int)at->memory_type, at->memory_id,
                             t->options.userp);
}

/* Reports a copy of an output that lies on a device. */
static void report_device_output(struct trace *t, const struct response_output *o) {
        static const struct buffer_attributes host = { .memory_type = MEMORY_CPU };
        char                                 *copy = try_alloc(o->byte_size);
        AUTO_ERROR                            err = NULL;

        if (copy != NULL)
                err = buffer_read(o->response->source.model->gpus, &o->attributes, o->base, copy,
                                  o->byte_size);
        if (copy != NULL && err == NULL)
                report_output(t, o, copy, &host);
        else
                log_missing(t, "output", o->name, err);
        free(copy);
}

void trace_report_outputs(const struct response *r) {
        struct trace *t = r->source.trace;

        if (!trace_wants_tensors(t))
                return;
        for (const struct response_output *o = r->first_output; o != NULL; o = o->next)
                if (buffer_is_on_device(&o->attributes) && o->base != NULL && o->byte_size > 0)
                        report_device_output(t, o);
                else
                        report_output(t, o, o->base, &o->attributes);
}

#define TRACE_ID_DIGITS 32

/* The context is JSON that the program gave, in which only the trace id of a traceparent is of use:
 * "traceparent":"00-<32 digits>-... . False when there is none. */
static bool find_trace_id(const char *context, char *ret) {
        const char *at = context != NULL ? strstr(context, "\"traceparent\":\"") : NULL;

        if (at == NULL)
                return false;
        at += strlen("\"traceparent\":\"");
        if (strnlen(at, 3) < 3 || at[2] != '-' ||
            strspn(at + 3, "0123456789abcdef") != TRACE_ID_DIGITS)
                return false;
        memcpy(ret, at + 3, TRACE_ID_DIGITS);
        ret[TRACE_ID_DIGITS] = '\0';
        return true;
}

void trace_mark_latency(const struct trace *t, struct model_stats *stats,
                        const struct request_times *times) {
        char id[TRACE_ID_DIGITS + 1];

        if (!find_trace_id(t->context, id))
                snprintf(id, sizeof(id), "%" PRIu64, t->id);
        model_stats_exemplar(stats, times, id);
}
