/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/rpc_inference.h"

#include "base/clock.h"
#include "call/infer_response.h"
#include "call/service.h"
#include "core_api/core_error.h"
#include "core_api/model_version.h"
#include "net/loop.h"
#include "trace/tracer.h"
#include "triton/core/neso.h"
#include "triton/core/tritonserver.h"

#include <inttypes.h>
#include <stdio.h>

/* Fits an int64_t in decimal. */
#define VERSION_BYTES 24

void rpc_inference_init(struct rpc_inference *i, struct grpc_call *grpc, struct arena *arena,
                        void *owner, infer_call_fn on_done) {
        struct infer_call_options options = {
                .core = grpc->service->infer,
                .mailbox = grpc_call_mailbox(grpc),
                .pool = grpc_call_buf_pool(grpc),
                .on_done = on_done,
                .owner = owner,
        };

        i->grpc = grpc;
        i->arena = arena;
        i->bytes = NULL;
        i->version = -1;
        i->verdict = ACCESS_GRANTED;
        i->is_decoupled = false;
        i->wire = (struct infer_wire){ .model_name = "", .model_version = "" };
        infer_request_init(&i->wire.request);
        infer_call_init(&i->call, &options);
}

void rpc_inference_done(struct rpc_inference *i) {
        infer_call_done(&i->call);
        infer_wire_done(&i->wire);
        buf_unref(STEAL(i->bytes));
}

/* ---- the request ---- */

static struct error *find_model(struct rpc_inference *i) {
        TRY(infer_call_open(&i->call, i->wire.model_name, i->version));
        return core_error_take(NESO_InferenceRequestIsDecoupled(i->call.request, &i->is_decoupled));
}

/* An exiting server refuses requests for various reasons; the client gets one message for all. */
static struct error *report_exit(const struct rpc_inference *i, struct error *err) {
        bool          is_live;
        struct error *exiting;

        if (err == NULL || err->code != ERR_UNAVAILABLE)
                return err;
        exiting = core_error_take(TRITONSERVER_ServerIsLive(i->grpc->core, &is_live));
        if (exiting == NULL)
                return err;
        error_free(exiting);
        error_free(err);
        return error_new_text(ERR_UNAVAILABLE, "GRPC server is shutting down and has stopped "
                                               "accepting new requests.");
}

static struct error *check_access(struct rpc_inference *i) {
        const char *text;

        i->verdict =
                access_check_model(&i->grpc->access, str_of(i->wire.model_name), i->arena, &text);
        return i->verdict == ACCESS_GRANTED ? NULL : error_new_text(ERR_UNAVAILABLE, text);
}

struct error *rpc_inference_read(struct rpc_inference *i, struct str message, struct buf *owner) {
        struct infer_source source = {
                .message = message,
                .arena = i->arena,
                .pool = grpc_call_buf_pool(i->grpc),
        };

        if (owner != NULL)
                buf_ref(owner);
        i->bytes = owner;
        i->call.options.message_bytes = message.len;
        TRY(infer_decode(&source, &i->wire));
        TRY(check_access(i));
        TRY(model_version_read(str_of(i->wire.model_version), &i->version));
        return report_exit(i, find_model(i));
}

static struct error *forward_metadata(struct rpc_inference *i) {
        const struct header_forward *f = &i->grpc->service->infer->header_forward;
        const struct grpc_call      *grpc = i->grpc;

        if (!f->has_pattern)
                return NULL;
        for (size_t k = 0; k < grpc->n_metadata; k++)
                if (!access_hides_field(&grpc->access, grpc->metadata[k].name))
                        TRY(header_forward_add(f, grpc->metadata[k].name, grpc->metadata[k].value,
                                               i->arena, &i->wire.request));
        return NULL;
}

static struct error *fill_call(struct rpc_inference *i) {
        struct infer_request *q = &i->wire.request;

        TRY(STEAL(i->wire.parameter_fault));
        TRY(forward_metadata(i));
        TRY(infer_request_add_key_name(q, i->arena, access_key_name(&i->grpc->access)));
        TRY(STEAL(i->wire.tensor_fault));
        TRY(infer_call_find_regions(&i->call, q, i->arena));
        return infer_call_fill(&i->call, q);
}

struct error *rpc_inference_fill(struct rpc_inference *i) {
        return report_exit(i, fill_call(i));
}

/* ---- the response ---- */

/* Prints quickly a version of one digit, as nearly all are: this runs for each answer. */
static void print_version(int64_t version, char ret[VERSION_BYTES]) {
        if (version >= 0 && version < 10) {
                ret[0] = (char)('0' + version);
                ret[1] = '\0';
                return;
        }
        snprintf(ret, VERSION_BYTES, "%" PRId64, version);
}

static struct error *encode_answer(const struct rpc_inference            *i,
                                   struct TRITONSERVER_InferenceResponse *response,
                                   const struct rpc_inference_framing    *framing,
                                   struct infer_response *r, struct arena *arena,
                                   struct infer_answer_parts *ret) {
        struct infer_answer_memory memory = { arena, grpc_call_buf_pool(i->grpc) };
        char                       version[VERSION_BYTES];
        struct infer_classes       classes;
        struct error              *err;

        infer_classes_init(&classes);
        err = infer_classes_replace(&classes, i->grpc->core, response, r, arena);
        print_version(r->model_version, version);
        if (err == NULL)
                err = infer_encode(
                        &(struct infer_answer){
                                .model_name = r->model_name,
                                .model_version = version,
                                .id = r->id,
                                .parameters = r->parameters,
                                .outputs = r->outputs,
                                .n_parameters = r->n_parameters,
                                .n_outputs = r->n_outputs,
                                .is_streamed = framing->is_streamed,
                                .has_final = framing->is_streamed,
                                .is_final = framing->is_final,
                        },
                        &memory, ret);
        infer_classes_done(&classes);
        return err;
}

/* True when encoding takes too long for the loop. Only classes and compression take long, since no tensor
 * becomes JSON. */
static bool is_long(const struct rpc_inference *i, const struct infer_response *r) {
        return infer_response_work(r) > LOOP_MAX_WORK_BYTES ||
               (grpc_call_wants_packing(i->grpc) && infer_response_bytes(r) > LOOP_MAX_WORK_BYTES);
}

static struct error *read_response(const struct rpc_inference            *i,
                                   struct TRITONSERVER_InferenceResponse *response,
                                   struct arena *arena, struct infer_response *ret) {
        TRY(infer_call_check_regions(&i->call));
        return infer_response_read(response, &i->wire.request, arena, ret);
}

struct error *rpc_inference_encode(const struct rpc_inference            *i,
                                   struct TRITONSERVER_InferenceResponse *response,
                                   const struct rpc_inference_framing *framing, struct arena *arena,
                                   struct infer_answer_parts *ret, bool *ret_is_long) {
        struct infer_response r;

        *ret_is_long = false;
        TRY(read_response(i, response, arena, &r));
        if (is_long(i, &r)) {
                *ret_is_long = true;
                return NULL;
        }
        return encode_answer(i, response, framing, &r, arena, ret);
}

struct error *rpc_inference_encode_long(const struct rpc_inference            *i,
                                        struct TRITONSERVER_InferenceResponse *response,
                                        const struct rpc_inference_framing    *framing,
                                        struct arena *arena, struct infer_answer_parts *ret) {
        struct infer_response r;
        struct grpc_part      packed;

        TRY(read_response(i, response, arena, &r));
        TRY(encode_answer(i, response, framing, &r, arena, ret));
        if (grpc_call_pack(i->grpc, ret->parts, ret->n_parts, &packed)) {
                ret->parts[0] = packed;
                ret->n_parts = 1;
                ret->is_packed = true;
        }
        return NULL;
}

bool rpc_inference_is_long(struct str message) {
        return message.len > LOOP_MAX_WORK_BYTES &&
               infer_message_work(message) > LOOP_MAX_WORK_BYTES;
}

bool rpc_inference_is_short(struct str message) {
        return infer_message_work(message) <= LOOP_SHORT_WORK_BYTES;
}

bool rpc_inference_has_long_tensors(const struct rpc_inference *i) {
        return infer_call_is_long(&i->call, &i->wire.request, LOOP_MAX_WORK_BYTES);
}

/* ---- traces ---- */

static void on_sent(struct grpc_call *call) {
        struct trace_record *r = STEAL(call->trace);

        trace_record_point(r, TRACE_POINT_GRPC_SEND_START, call->send_start_ns);
        trace_record_point(r, TRACE_POINT_GRPC_SEND_END, clock_now_ns());
        trace_record_unref(r);
}

void rpc_inference_attach_trace(struct grpc_call *call, struct trace_record *r) {
        char text[TRACEPARENT_CHARS + 1];

        if (r == NULL)
                return;
        call->trace = r;
        call->on_sent = on_sent;
        if (tracer_answer_header(r, text))
                grpc_call_add_initial(call, STR_LIT("traceparent"), str_of(text));
}

/* A function of its own, so that requests without a trace do not pay for its stack frame. */
static NOINLINE struct trace_record *start_trace(const struct grpc_call                *call,
                                                 const struct rpc_inference_read_times *read) {
        struct trace_record *r;

        r = tracer_start(call->service->tracer,
                         &(struct trace_request){
                                 .model = read->model,
                                 .traceparent = grpc_call_metadata(call, "traceparent"),
                                 .tracestate = grpc_call_metadata(call, "tracestate"),
                         });
        if (r == NULL)
                return NULL;
        trace_record_point(r, TRACE_POINT_GRPC_WAITREAD_START, read->start_ns);
        trace_record_point(r, TRACE_POINT_GRPC_WAITREAD_END, read->end_ns);
        return r;
}

struct trace_record *rpc_inference_create_trace(const struct grpc_call                *call,
                                                const struct rpc_inference_read_times *read) {
        return tracer_is_on(call->service->tracer) ? start_trace(call, read) : NULL;
}

struct trace_record *rpc_inference_start_trace(struct grpc_call                      *call,
                                               const struct rpc_inference_read_times *read) {
        struct trace_record *r = rpc_inference_create_trace(call, read);

        if (r != NULL && !call->method->is_client_stream)
                rpc_inference_attach_trace(call, r);
        return r;
}
