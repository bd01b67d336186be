/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace/tracer.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "core_api/core_error.h"
#include "trace/otlp_export.h"
#include "trace/trace_file.h"
#include "trace/trace_writer.h"
#include "triton/core/neso.h"

/* Limits of the queue in front of a file. They bound the memory while the disk is slower than the
 * requests. */
#define FILE_MAX_SPANS 65536
#define MAX_WAITING_BYTES (size_t)(256u << 20)
/* Time for the rest of the records at the end. Only a receiver needs it; a file is written without
 * pause. */
#define STOP_NS (5 * NS_PER_S)

struct tracer {
        struct TRITONSERVER_Server       *core; /* borrowed */
        struct trace_settings             settings;
        struct trace_writer              *writer; /* owned; NULL when nothing can be traced */
        struct TRITONSERVER_MetricFamily *family;
        struct TRITONSERVER_Metric       *dropped;
};

static void on_drop(void *owner, uint64_t n) {
        struct tracer *t = owner;

        if (t->dropped != NULL)
                core_error_drop(TRITONSERVER_MetricIncrement(t->dropped, (double)n));
}

static void on_complete(struct trace_record *r, void *owner) {
        struct tracer *t = owner;

        trace_writer_push(t->writer, r);
}

/* ---- start and end --------------------------------------------------------------------------- */

static struct error *make_metric(struct tracer *t) {
        TRY(core_error_take(TRITONSERVER_MetricFamilyNew(
                &t->family, TRITONSERVER_METRIC_KIND_COUNTER, "neso_traces_dropped_total",
                "Traces of requests that were lost: the file or the receiver was too slow or "
                "failed")));
        return core_error_take(TRITONSERVER_MetricNew(&t->dropped, t->family, NULL, 0));
}

static struct error *make_sink(const struct trace_config *c, struct trace_writer_options *o) {
        const struct otlp_export_options options = { c->url, c->resources, c->n_resources };

        if (c->mode == TRACE_MODE_OPENTELEMETRY) {
                o->max_spans = c->bsp_max_queue_size;
                o->batch_spans = c->bsp_max_export_batch_size;
                o->delay_ns = (uint64_t)c->bsp_schedule_delay_ms * NS_PER_MS;
                return otlp_export_new(&options, &o->sink);
        }
        o->max_spans = FILE_MAX_SPANS;
        o->batch_spans = FILE_MAX_SPANS;
        o->sink = trace_file_new(c->file, TRACE_FILE_MAX_FILES);
        return NULL;
}

static bool can_trace(const struct trace_config *c) {
        return c->mode == TRACE_MODE_OPENTELEMETRY || *c->file != '\0';
}

struct error *tracer_check(const struct trace_config *config) {
        TRY(trace_settings_check(config));
        if (!can_trace(config))
                return NULL;
        return config->mode == TRACE_MODE_OPENTELEMETRY ? otlp_export_check()
                                                        : trace_file_check(config->file);
}

static struct error *start_writer(struct tracer *t) {
        const struct trace_config  *c = &t->settings.config;
        struct trace_writer_options o = {
                .max_bytes = MAX_WAITING_BYTES, .stop_ns = STOP_NS, .on_drop = on_drop, .owner = t
        };

        if (!can_trace(c))
                return NULL;
        TRY(make_metric(t));
        TRY(make_sink(c, &o));
        return trace_writer_start(&o, &t->writer);
}

struct error *tracer_new(const struct trace_config *config, struct TRITONSERVER_Server *core,
                         struct tracer **ret) {
        struct tracer *t = mem_zalloc(sizeof(*t));

        t->core = core;
        TRY_OR(trace_settings_init(&t->settings, config), tracer_free(t));
        TRY_OR(start_writer(t), tracer_free(t));
        *ret = t;
        return NULL;
}

void tracer_free(struct tracer *t) {
        if (t == NULL)
                return;
        trace_writer_stop(t->writer);
        if (t->dropped != NULL)
                core_error_drop(TRITONSERVER_MetricDelete(t->dropped));
        if (t->family != NULL)
                core_error_drop(TRITONSERVER_MetricFamilyDelete(t->family));
        trace_settings_done(&t->settings);
        free(t);
}

void tracer_flush(struct tracer *t) {
        if (t != NULL && t->writer != NULL)
                trace_writer_flush(t->writer);
}

/* ---- requests -------------------------------------------------------------------------------- */

bool tracer_is_on(const struct tracer *t) {
        return t != NULL && atomic_load_explicit(&t->settings.is_on, memory_order_relaxed);
}

static enum trace_choice choose_by_parent(const struct traceparent *parent) {
        if (parent == NULL)
                return TRACE_BY_RATE;
        return (parent->flags & TRACEPARENT_SAMPLED) != 0 ? TRACE_ALWAYS : TRACE_NEVER;
}

/* The text is copied into JSON and headers without escapes: only visible ASCII without quotes and
 * backslashes. */
static bool can_pass_on(struct str s) {
        for (size_t i = 0; i < s.len; i++)
                if (s.ptr[i] < ' ' || s.ptr[i] > '~' || s.ptr[i] == '"' || s.ptr[i] == '\\')
                        return false;
        return true;
}

struct trace_record *tracer_start(struct tracer *t, const struct trace_request *q) {
        struct trace_record_options o = { .on_complete = on_complete, .owner = t };
        struct traceparent          parent;
        struct trace_record        *r;
        struct error               *err;

        if (!tracer_is_on(t))
                return NULL;
        o.has_context = t->settings.config.mode == TRACE_MODE_OPENTELEMETRY;
        if (o.has_context && q->traceparent.ptr != NULL &&
            traceparent_read(q->traceparent, &parent)) {
                o.parent = &parent;
                if (can_pass_on(q->tracestate))
                        o.tracestate = q->tracestate;
        }
        o.source = trace_settings_sample(&t->settings, q->model, choose_by_parent(o.parent));
        if (o.source == NULL)
                return NULL;
        err = trace_record_new(&o, &r);
        if (err == NULL)
                return r;
        log_error("a request is not traced: %s", err->message);
        error_free(err);
        on_drop(t, 1);
        atomic_fetch_add(&o.source->n_dropped, 1);
        trace_source_unref(o.source);
        trace_writer_wake(t->writer);
        return NULL;
}

bool tracer_answer_header(const struct trace_record *r, char out[TRACEPARENT_CHARS + 1]) {
        if (r == NULL || !r->has_context)
                return false;
        traceparent_print(&r->context, out);
        return true;
}

/* ---- settings -------------------------------------------------------------------------------- */

struct error *tracer_check_model(struct TRITONSERVER_Server *core, const char *model) {
        bool is_ready = false;

        if (model == NULL)
                return NULL;
        TRY(core_error_take(TRITONSERVER_ServerModelIsReady(core, model, -1, &is_ready)));
        if (is_ready)
                return NULL;
        return error_new(ERR_INVALID_ARG, "Request for unknown model : %s", model);
}

/* A server that exits counts as one with all models. */
static bool is_loaded(void *owner, const char *model) {
        struct tracer *t = owner;
        bool           is_ready = true, asks_backends;

        core_error_drop(NESO_ServerReadiness(t->core, model, -1, &is_ready, &asks_backends));
        return is_ready;
}

struct error *tracer_change(struct tracer *t, const char *model,
                            const struct trace_change *change) {
        if (model != NULL && trace_settings_are_many(&t->settings))
                trace_settings_forget(&t->settings, is_loaded, t);
        TRY(trace_settings_change(&t->settings, model, change));
        if (t->writer != NULL)
                trace_writer_wake(t->writer); /* the replaced source may be complete now */
        return NULL;
}

size_t tracer_report(struct tracer *t, const char *model, struct arena *arena,
                     struct trace_report_row rows[TRACE_REPORT_MAX_ROWS]) {
        return trace_settings_report(&t->settings, model, arena, rows);
}
