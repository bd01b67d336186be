/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace/trace_record.h"

#include "base/clock.h"
#include "base/mem.h"
#include "core_api/core_error.h"
#include "trace/trace_settings.h"
#include "triton/core/neso.h"
#include "triton/core/tritonserver.h"

#include <stdio.h>
#include <string.h>

/* Limit of points in time of one record: a stream of responses has no end. */
#define MAX_EVENTS 65536

static const char *const point_names[] = {
        [TRACE_POINT_HTTP_RECV_START] = "HTTP_RECV_START",
        [TRACE_POINT_HTTP_RECV_END] = "HTTP_RECV_END",
        [TRACE_POINT_HTTP_SEND_START] = "HTTP_SEND_START",
        [TRACE_POINT_HTTP_SEND_END] = "HTTP_SEND_END",
        [TRACE_POINT_GRPC_WAITREAD_START] = "GRPC_WAITREAD_START",
        [TRACE_POINT_GRPC_WAITREAD_END] = "GRPC_WAITREAD_END",
        [TRACE_POINT_GRPC_SEND_START] = "GRPC_SEND_START",
        [TRACE_POINT_GRPC_SEND_END] = "GRPC_SEND_END",
        [TRACE_POINT_INFER_RESPONSE_COMPLETE] = "INFER_RESPONSE_COMPLETE",
};

/* ---- recording ------------------------------------------------------------------------------- */

static const char *keep_text(struct trace_record *r, const char *text) {
        const char *copy = arena_try_str(&r->arena, str_of(text));

        return copy != NULL ? copy : "";
}

static void add_event_locked(struct trace_record *r, const struct trace_event *event) {
        struct trace_event *e =
                r->n_events < MAX_EVENTS ? arena_try_alloc(&r->arena, sizeof(*e)) : NULL;

        if (e == NULL)
                return;
        *e = *event;
        if (r->last_event != NULL)
                r->last_event->next = e;
        else
                r->first_event = e;
        r->last_event = e;
        r->n_events++;
}

static struct trace_inference *add_inference_locked(struct trace_record                *r,
                                                    struct TRITONSERVER_InferenceTrace *core,
                                                    uint64_t                            id) {
        struct trace_inference *i = arena_try_alloc(&r->arena, sizeof(*i));
        const char             *model = "", *request_id = "";

        if (i == NULL)
                return NULL;
        *i = (struct trace_inference){ .id = id };
        core_error_drop(TRITONSERVER_InferenceTraceParentId(core, &i->parent_id));
        core_error_drop(TRITONSERVER_InferenceTraceModelName(core, &model));
        core_error_drop(TRITONSERVER_InferenceTraceModelVersion(core, &i->model_version));
        core_error_drop(TRITONSERVER_InferenceTraceRequestId(core, &request_id));
        i->model_name = keep_text(r, model);
        i->request_id = keep_text(r, request_id);
        if (r->last_inference != NULL)
                r->last_inference->next = i;
        else
                r->first_inference = i;
        r->last_inference = i;
        r->n_inferences++;
        return i;
}

static struct trace_inference *find_inference_locked(struct trace_record                *r,
                                                     struct TRITONSERVER_InferenceTrace *core) {
        uint64_t id = 0;

        core_error_drop(TRITONSERVER_InferenceTraceId(core, &id));
        for (struct trace_inference *i = r->first_inference; i != NULL; i = i->next)
                if (i->id == id)
                        return i;
        return add_inference_locked(r, core, id);
}

static void on_activity(struct TRITONSERVER_InferenceTrace *core,
                        TRITONSERVER_InferenceTraceActivity activity, uint64_t at_ns, void *userp) {
        struct trace_record *r = userp;
        struct trace_event   e = { .activity = (int)activity, .at_ns = at_ns };
        const char          *custom = NULL;

        MUTEX_GUARD(&r->lock);
        e.inference = find_inference_locked(r, core);
        if (e.inference == NULL)
                return;
        e.name = TRITONSERVER_InferenceTraceActivityString(activity);
        if (activity == TRITONSERVER_TRACE_CUSTOM_ACTIVITY)
                core_error_drop(NESO_InferenceTraceCustomActivity(core, &custom));
        if (custom != NULL)
                e.name = keep_text(r, custom);
        add_event_locked(r, &e);
}

static const void *try_keep(struct trace_record *r, const void *from, size_t n) {
        void *copy = arena_try_alloc(&r->arena, n > 0 ? n : 1);

        return copy != NULL && n > 0 ? memcpy(copy, from, n) : copy;
}

static void add_tensor_locked(struct trace_record *r, const struct trace_tensor *tensor) {
        struct trace_tensor *t = arena_try_alloc(&r->arena, sizeof(*t));

        if (t == NULL || tensor->inference == NULL)
                return;
        *t = *tensor;
        t->name = keep_text(r, tensor->name);
        t->shape = try_keep(r, tensor->shape, tensor->n_dims * sizeof(*tensor->shape));
        if (t->shape == NULL)
                t->n_dims = 0;
        t->bytes = tensor->bytes != NULL ? try_keep(r, tensor->bytes, tensor->n_bytes) : NULL;
        if (t->bytes != NULL)
                r->n_bytes += t->n_bytes;
        if (r->last_tensor != NULL)
                r->last_tensor->next = t;
        else
                r->first_tensor = t;
        r->last_tensor = t;
}

/* The parameters are those of the callback of the C API. */
static void on_tensor(struct TRITONSERVER_InferenceTrace *core,
                      TRITONSERVER_InferenceTraceActivity activity, const char *name,
                      TRITONSERVER_DataType type, const void *base, size_t n_bytes,
                      const int64_t *shape, uint64_t n_dims, TRITONSERVER_MemoryType memory_type,
                      int64_t memory_id, void *userp) {
        struct trace_record *r = userp;

        (void)memory_id;
        MUTEX_GUARD(&r->lock);
        add_tensor_locked(r,
                          &(struct trace_tensor){
                                  .inference = find_inference_locked(r, core),
                                  .activity = TRITONSERVER_InferenceTraceActivityString(activity),
                                  .name = name,
                                  .type = (int)type,
                                  .shape = shape,
                                  .n_dims = n_dims,
                                  /* The server cannot read GPU memory. */
                                  .bytes = memory_type == TRITONSERVER_MEMORY_GPU ? NULL : base,
                                  .n_bytes = n_bytes,
                          });
}

/* Also called for child traces. A child holds its parent, so the trace of the record is released
 * last. */
static void on_release(struct TRITONSERVER_InferenceTrace *core, void *userp) {
        struct trace_record *r = userp;
        bool                 is_last = core == r->core;

        core_error_drop(TRITONSERVER_InferenceTraceDelete(core));
        if (is_last)
                trace_record_unref(r);
}

void trace_record_point(struct trace_record *r, enum trace_point point, uint64_t at_ns) {
        if (r == NULL || (r->source->values.level & TRITONSERVER_TRACE_LEVEL_TIMESTAMPS) == 0)
                return;

        MUTEX_GUARD(&r->lock);
        add_event_locked(r, &(struct trace_event){
                                    .activity = -1, .name = point_names[point], .at_ns = at_ns });
}

/* ---- the life of a record -------------------------------------------------------------------- */

/* Continues the client's trace, or begins a new one. */
static void set_context(struct trace_record *r, const struct trace_record_options *o) {
        r->has_context = true;
        r->wall_offset_ns = (int64_t)(clock_wall_ns() - clock_now_ns());
        if (o->parent != NULL) {
                r->has_parent = true;
                r->context = *o->parent;
                memcpy(r->parent_span_id, o->parent->span_id, sizeof(r->parent_span_id));
                if (o->tracestate.len <= TRACE_RECORD_MAX_TRACESTATE)
                        r->tracestate = arena_str(&r->arena, o->tracestate);
        } else {
                traceparent_new_id(r->context.trace_id, sizeof(r->context.trace_id));
        }
        r->context.flags = TRACEPARENT_SAMPLED;
        traceparent_new_id(r->context.span_id, sizeof(r->context.span_id));
}

/* Gives the core the headers as a JSON object, for backends that pass them on. */
static struct error *give_core_context(const struct trace_record *r) {
        char id[TRACEPARENT_CHARS + 1];
        char json[2 * TRACE_RECORD_MAX_TRACESTATE + 128];

        if (!r->has_context)
                return NULL;
        traceparent_print(&r->context, id);
        /* No escapes are needed: a tracestate with a quote or a backslash was not kept. */
        if (*r->tracestate != '\0')
                snprintf(json, sizeof(json), "{\"traceparent\":\"%s\",\"tracestate\":\"%s\"}", id,
                         r->tracestate);
        else
                snprintf(json, sizeof(json), "{\"traceparent\":\"%s\"}", id);
        return core_error_take(TRITONSERVER_InferenceTraceSetContext(r->core, json));
}

static struct error *make_core(struct trace_record *r) {
        uint32_t level = r->source->values.level;

        if (r->has_context) /* spans cannot hold tensors */
                level &= (uint32_t)~TRITONSERVER_TRACE_LEVEL_TENSORS;
        TRY(core_error_take(
                TRITONSERVER_InferenceTraceTensorNew(&r->core,
                                                     (TRITONSERVER_InferenceTraceLevel)level, 0,
                                                     on_activity, on_tensor, on_release, r)));
        return give_core_context(r);
}

struct error *trace_record_new(const struct trace_record_options *o, struct trace_record **ret) {
        struct trace_record *r = try_alloc(sizeof(*r));
        struct error        *err;

        if (r == NULL)
                return error_new_text(ERR_UNAVAILABLE, "out of memory for a trace");
        memset(r, 0, offsetof(struct trace_record, first_memory));
        arena_init(&r->arena, r->first_memory, sizeof(r->first_memory), TRACE_RECORD_MAX_BYTES);
        mutex_init(&r->lock, LOCK_LEAF);
        ref_init(&r->ref);
        ref_get(&r->ref); /* the core's */
        r->source = o->source;
        r->on_complete = o->on_complete;
        r->owner = o->owner;
        r->tracestate = "";
        if (o->has_context)
                set_context(r, o);
        err = make_core(r);
        if (err != NULL) {
                if (r->core != NULL)
                        core_error_drop(TRITONSERVER_InferenceTraceDelete(r->core));
                r->source = NULL; /* the caller still owns it */
                trace_record_free(r);
                return err;
        }
        *ret = r;
        return NULL;
}

void trace_record_free(struct trace_record *r) {
        if (r == NULL)
                return;
        trace_source_unref(r->source);
        mutex_done(&r->lock);
        arena_done(&r->arena);
        free(r);
}

struct TRITONSERVER_InferenceTrace *trace_record_core(const struct trace_record *r) {
        return r->core;
}

void trace_record_abandon(struct trace_record *r) {
        if (r != NULL)
                on_release(r->core, r);
}

void trace_record_unref(struct trace_record *r) {
        if (r != NULL && ref_put(&r->ref))
                r->on_complete(r, r->owner);
}
