/* SPDX-License-Identifier: BSD-3-Clause */
/* The C API of TRITONSERVER_InferenceTrace. */
#include "api/api_types.h"
#include "infer/trace.h"
#include "triton/core/neso.h"

DEFINE_API_TYPE(TRITONSERVER_InferenceTrace, trace)

#define TRACE(argument) trace_from_api(argument)

_Static_assert((int)TRACE_LEVEL_TENSORS == (int)TRITONSERVER_TRACE_LEVEL_TENSORS, "levels differ");
_Static_assert((int)TRACE_REQUEST_END == (int)TRITONSERVER_TRACE_REQUEST_END, "activities differ");
_Static_assert((int)TRACE_CUSTOM_ACTIVITY == (int)TRITONSERVER_TRACE_CUSTOM_ACTIVITY,
               "activities differ");

static struct TRITONSERVER_Error *out_of_memory(void) {
        return error_to_api(error_new(ERR_UNAVAILABLE, "out of memory for a trace"));
}

static struct TRITONSERVER_Error *make_trace(const struct trace_options          *o,
                                             struct TRITONSERVER_InferenceTrace **ret) {
        struct trace *t = trace_new(o);

        if (t == NULL)
                return out_of_memory();
        *ret = trace_to_api(t);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceTraceNew(
        struct TRITONSERVER_InferenceTrace **trace, TRITONSERVER_InferenceTraceLevel level,
        uint64_t parent_id, TRITONSERVER_InferenceTraceActivityFn_t activity_fn,
        TRITONSERVER_InferenceTraceReleaseFn_t release_fn, void *trace_userp) {
        API_NEEDS(trace, activity_fn, release_fn);
        return make_trace(
                &(struct trace_options){
                        .level = (uint32_t)level,
                        .parent_id = parent_id,
                        .on_activity = (trace_activity_fn)(any_fn)activity_fn,
                        .on_release = (trace_release_fn)(any_fn)release_fn,
                        .userp = trace_userp,
                },
                trace);
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceTraceTensorNew(
        struct TRITONSERVER_InferenceTrace **trace, TRITONSERVER_InferenceTraceLevel level,
        uint64_t parent_id, TRITONSERVER_InferenceTraceActivityFn_t activity_fn,
        TRITONSERVER_InferenceTraceTensorActivityFn_t tensor_activity_fn,
        TRITONSERVER_InferenceTraceReleaseFn_t release_fn, void *trace_userp) {
        API_NEEDS(trace, activity_fn);
        if ((level & TRITONSERVER_TRACE_LEVEL_TENSORS) != 0)
                API_NEEDS(tensor_activity_fn);
        API_NEEDS(release_fn);
        return make_trace(
                &(struct trace_options){
                        .level = (uint32_t)level,
                        .parent_id = parent_id,
                        .on_activity = (trace_activity_fn)(any_fn)activity_fn,
                        .on_tensor = (trace_tensor_fn)(any_fn)tensor_activity_fn,
                        .on_release = (trace_release_fn)(any_fn)release_fn,
                        .userp = trace_userp,
                },
                trace);
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceTraceReportActivity(
        struct TRITONSERVER_InferenceTrace *trace, uint64_t timestamp, const char *activity_name) {
        API_NEEDS(trace, activity_name);
        trace_report_custom(TRACE(trace), activity_name, timestamp);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceTraceDelete(
        struct TRITONSERVER_InferenceTrace *trace) {
        return error_to_api(trace_free(TRACE(trace)));
}

API_GETTER(TRITONSERVER_InferenceTraceId, struct TRITONSERVER_InferenceTrace, trace, uint64_t, id,
           TRACE(trace)->id)

API_GETTER(TRITONSERVER_InferenceTraceParentId, struct TRITONSERVER_InferenceTrace, trace, uint64_t,
           parent_id, TRACE(trace)->options.parent_id)

/* "" before the trace was passed with a request. */
static const char *text_of(const char *text) {
        return text != NULL ? text : "";
}

API_GETTER(TRITONSERVER_InferenceTraceModelName, struct TRITONSERVER_InferenceTrace, trace,
           const char *, model_name, text_of(TRACE(trace)->model_name))

API_GETTER(TRITONSERVER_InferenceTraceModelVersion, struct TRITONSERVER_InferenceTrace, trace,
           int64_t, model_version, TRACE(trace)->model_version)

API_GETTER(TRITONSERVER_InferenceTraceRequestId, struct TRITONSERVER_InferenceTrace, trace,
           const char *, request_id, text_of(TRACE(trace)->request_id))

struct TRITONSERVER_Error *TRITONSERVER_InferenceTraceSpawnChildTrace(
        struct TRITONSERVER_InferenceTrace  *trace,
        struct TRITONSERVER_InferenceTrace **child_trace) {
        struct trace *child;

        API_NEEDS(trace, child_trace);
        child = trace_spawn(TRACE(trace));
        if (child == NULL)
                return out_of_memory();
        *child_trace = trace_to_api(child);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_InferenceTraceSetContext(
        struct TRITONSERVER_InferenceTrace *trace, const char *trace_context) {
        API_NEEDS(trace);
        return error_to_api(trace_set_context(TRACE(trace), trace_context));
}

API_GETTER(TRITONSERVER_InferenceTraceContext, struct TRITONSERVER_InferenceTrace, trace,
           const char *, trace_context, TRACE(trace)->context)

API_GETTER(NESO_InferenceTraceCustomActivity, struct TRITONSERVER_InferenceTrace, trace,
           const char *, activity_name, trace_custom_name())
