/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/grpc_trace.h"

#include "base/clock.h"
#include "control/service.h"
#include "trace/tracer.h"

static void on_sent(struct grpc_call *call) {
        struct trace_record *r = STEAL(call->trace);

        trace_record_point(r, TRACE_POINT_GRPC_SEND_START, call->send_start_ns);
        trace_record_point(r, TRACE_POINT_GRPC_SEND_END, clock_now_ns());
        trace_record_unref(r);
}

void grpc_trace_attach(struct grpc_call *call, struct trace_record *r) {
        char text[TRACEPARENT_CHARS + 1];

        if (!r)
                return;
        call->trace = r;
        call->on_sent = on_sent;
        if (tracer_answer_header(r, text))
                grpc_call_add_initial(call, STR_LIT("traceparent"), str_of(text));
}

/* Apart, so that a request that is not traced does not pay for its frame. */
static NOINLINE struct trace_record *start(const struct grpc_call       *call,
                                           const struct grpc_trace_read *read) {
        struct trace_record *r;

        r = tracer_start(call->service->tracer,
                         &(struct trace_request){
                                 .model = read->model,
                                 .traceparent = grpc_call_metadata(call, "traceparent"),
                                 .tracestate = grpc_call_metadata(call, "tracestate"),
                         });
        if (!r)
                return NULL;
        trace_record_point(r, TRACE_POINT_GRPC_WAITREAD_START, read->start_ns);
        trace_record_point(r, TRACE_POINT_GRPC_WAITREAD_END, read->end_ns);
        return r;
}

struct trace_record *grpc_trace_begin(const struct grpc_call       *call,
                                      const struct grpc_trace_read *read) {
        return UNLIKELY(tracer_is_on(call->service->tracer)) ? start(call, read) : NULL;
}

struct trace_record *grpc_trace_start(struct grpc_call *call, const struct grpc_trace_read *read) {
        struct trace_record *r = grpc_trace_begin(call, read);

        if (UNLIKELY(r != NULL) && !call->method->is_client_stream)
                grpc_trace_attach(call, r);
        return r;
}
