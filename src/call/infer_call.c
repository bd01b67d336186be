/* SPDX-License-Identifier: BSD-3-Clause */
#include "call/infer_call.h"

#include "base/clock.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "core_api/core_error.h"
#include "net/loop.h"
#include "shm/shared_memory.h"
#include "shm/shm_region.h"
#include "trace/trace_record.h"
#include "triton/core/neso.h"
#include "triton/core/tritonserver.h"

#include <assert.h>
#include <string.h>

/* The events that a started call waits for. */
enum { PENDING_FINAL = 1, PENDING_RELEASE = 1, PENDING_RETURN = 1 };

void infer_call_response_free(struct infer_call_response *r) {
        if (r == NULL)
                return;
        core_error_drop(TRITONSERVER_InferenceResponseDelete(r->response));
        free(r);
}

static void free_responses(struct infer_call_response *r) {
        while (r != NULL) {
                struct infer_call_response *next = r->next;

                infer_call_response_free(r);
                r = next;
        }
}

struct infer_call_response *infer_call_keep_response(struct infer_call *c) {
        return STEAL(c->current);
}

/* Moves the responses that have arrived to the end of those that are due. */
static void take_arrived(struct infer_call *c) {
        struct infer_call_response *newest = atomic_exchange(&c->arrived, NULL), *last = newest;
        struct infer_call_response *oldest = NULL;

        while (newest != NULL) {
                struct infer_call_response *next = newest->next;

                newest->next = oldest;
                oldest = newest;
                newest = next;
        }
        if (oldest == NULL)
                return;
        if (c->first_due != NULL)
                c->last_due->next = oldest;
        else
                c->first_due = oldest;
        c->last_due = last;
}

/* Responses of a call that a loop delivers between two looks at the clock, and so at least in a round. */
#define RESPONSES_AT_ONCE 8

/* Streams: delivers the responses that have come since the last time, oldest first, while the round has
 * time. False when some are left. */
static bool deliver_responses(struct infer_call *c) {
        unsigned n = 0;

        take_arrived(c);
        while (c->first_due != NULL) {
                if (n++ == RESPONSES_AT_ONCE) {
                        if (loop_is_late(clock_now_ns()))
                                return false;
                        n = 1;
                }
                c->current = c->first_due;
                c->first_due = c->current->next;
                c->is_final_response = c->current->is_final;
                c->options.on_response(c, c->current->response);
                infer_call_response_free(STEAL(c->current));
        }
        return true;
}

static void post_responses(struct infer_call *c);

static void on_response_mail(struct mail *m) {
        struct infer_call *c = CONTAINER_OF(m, struct infer_call, response_mail);

        /* First, so that a response that arrives from here on posts the mail again. */
        atomic_store(&c->is_response_mail_posted, false);
        if (c->options.on_response == NULL)
                c->options.on_early(c);
        else if (!deliver_responses(c))
                post_responses(c);
        else if (c->has_ended)
                c->options.on_done(c);
}

/* With responses left over, or a mail of responses that comes again for them, that mail ends the call. */
static void finish_call(struct infer_call *c) {
        if (c->options.on_response != NULL &&
            (!deliver_responses(c) || atomic_load(&c->is_response_mail_posted))) {
                c->has_ended = true;
                post_responses(c);
                return;
        }
        c->options.on_done(c);
}

/* Prefetches the connection of the next call: a whole execution lies between two answers of a
 * connection, so its data is no longer in the CPU cache. */
static void prefetch_next(const struct mail *next) {
        const struct infer_call *c = CONTAINER_OF(next, struct infer_call, done_mail);

        for (size_t at = 0; at < c->options.cold.len; at += CACHE_LINE_BYTES)
                __builtin_prefetch(c->options.cold.ptr + at, 1);
}

static void on_done_mail(struct mail *m) {
        if (m->next != NULL && m->next->deliver == on_done_mail)
                prefetch_next(m->next);
        finish_call(CONTAINER_OF(m, struct infer_call, done_mail));
}

static void wake_mailbox(void *mailbox) {
        mailbox_wake(mailbox);
}

/* While a backend answers a batch, the wake-up of the loop is deferred until after the last
 * answer. */
static void post_mail(struct infer_call *c, struct mail *m) {
        struct mailbox *box = c->options.mailbox; /* `c` must not be used once the mail is posted */
        bool            is_deferred = false;

        if (!mailbox_post_without_wake(box, m))
                return;
        core_error_drop(NESO_ThreadAfterResponses(wake_mailbox, box, &is_deferred));
        if (!is_deferred)
                mailbox_wake(box);
}

/* One of the events, on any thread. The last one posts the call to the loop. Mails are delivered in
 * the order of posting, so this mail does not overtake a mail of responses. */
static void drop_pending(struct infer_call *c) {
        if (atomic_fetch_sub(&c->n_pending, 1) == 1)
                post_mail(c, &c->done_mail);
}

static void post_responses(struct infer_call *c) {
        if (!atomic_exchange(&c->is_response_mail_posted, true))
                post_mail(c, &c->response_mail);
}

static void push_response(struct infer_call *c, struct TRITONSERVER_InferenceResponse *response,
                          bool is_final) {
        struct infer_call_response *r = mem_alloc(sizeof(*r));

        r->response = response;
        r->is_final = is_final;
        r->next = atomic_load(&c->arrived);
        while (!atomic_compare_exchange_weak(&c->arrived, &r->next, r))
                ;
        post_responses(c);
}

static void keep_unary(struct infer_call *c, struct TRITONSERVER_InferenceResponse *response,
                       bool is_final) {
        c->unary = response;
        if (!is_final && c->options.on_early)
                post_responses(c);
}

static void on_response(struct TRITONSERVER_InferenceResponse *response, const uint32_t flags,
                        void *userp) {
        struct infer_call *c = userp;
        bool               is_final = (flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0;
        bool               is_first;

        /* This callback may run at the same time as that of the final response. The call must not
         * end before this callback has. */
        if (!is_final)
                atomic_fetch_add(&c->n_pending, 1);
        else if (c->trace != NULL)
                trace_record_point(c->trace, TRACE_POINT_INFER_RESPONSE_COMPLETE, clock_now_ns());
        if (response != NULL) {
                is_first = atomic_fetch_add(&c->n_responses, 1) == 0;
                if (c->options.on_response != NULL)
                        push_response(c, response, is_final);
                else if (is_first)
                        keep_unary(c, response, is_final);
                else
                        core_error_drop(TRITONSERVER_InferenceResponseDelete(response));
        }
        drop_pending(c);
}

static void on_release(struct TRITONSERVER_InferenceRequest *request, const uint32_t flags,
                       void *userp) {
        (void)request; /* c->request; deleted with the call, so that cancel() may come later */
        if (flags & TRITONSERVER_REQUEST_RELEASE_ALL)
                drop_pending(userp);
}

static void init_events(struct infer_call *c) {
        c->unary = NULL;
        c->trace = NULL;
        c->is_final_response = false;
        c->current = NULL;
        atomic_init(&c->n_pending, PENDING_FINAL + PENDING_RELEASE + PENDING_RETURN);
        atomic_init(&c->n_responses, 0);
        atomic_init(&c->arrived, NULL);
        c->first_due = c->last_due = NULL;
        c->has_ended = false;
        atomic_init(&c->is_response_mail_posted, false);
        atomic_init(&c->inline_used, 0);
}

void infer_call_init(struct infer_call *c, const struct infer_call_options *options) {
        c->options = *options;
        c->request = NULL;
        c->pass = (struct admission_pass){ 0 };
        c->regions = NULL;
        c->targets = NULL;
        c->n_regions = c->n_targets = 0;
        c->has_gpu_targets = false;
        c->is_started = false;
        c->response_mail = (struct mail){ .deliver = on_response_mail };
        c->done_mail = (struct mail){ .deliver = on_done_mail };
        init_events(c);
}

static void drop_responses(struct infer_call *c) {
        if (c->options.on_response != NULL) {
                free_responses(atomic_exchange(&c->arrived, NULL));
                free_responses(STEAL(c->first_due));
        }
        if (c->unary != NULL)
                core_error_drop(TRITONSERVER_InferenceResponseDelete(c->unary));
}

void infer_call_done(struct infer_call *c) {
        drop_responses(c);
        if (c->request != NULL)
                core_error_drop(TRITONSERVER_InferenceRequestDelete(c->request));
        c->unary = NULL;
        c->request = NULL;
        admission_leave(&c->pass);
        for (size_t i = 0; i < c->n_regions; i++)
                shm_region_unref_later(c->regions[i]);
        c->n_regions = c->n_targets = 0;
}

struct error *infer_call_open(struct infer_call *c, const char *model, int64_t version) {
        TRY(core_error_take(TRITONSERVER_InferenceRequestNew(&c->request, c->options.core->server,
                                                             model, version)));
        TRY(admission_enter(c->options.core->admission, model, c->options.message_bytes, &c->pass));
        TRY(core_error_take(
                TRITONSERVER_InferenceRequestSetReleaseCallback(c->request, on_release, c)));
        return core_error_take(TRITONSERVER_InferenceRequestSetResponseCallback(
                c->request, c->options.core->allocator, c, on_response, c));
}

static void wake_instances(void) {
        core_error_drop(NESO_ThreadWakeInstances());
}

/* Registers this thread with the core, once. Inline execution is safe here: nothing is locked while
 * a call starts, and the callbacks only count and post. Requests that one round of a loop submits
 * may be executed together, so the loop wakes instances at the end of the round. */
static void register_thread(void) {
        static _Thread_local bool is_known;

        if (is_known)
                return;
        is_known = true;
        core_error_drop(NESO_ThreadAllowInlineExecution(true));
        if (loop_set_waker(wake_instances))
                wake_instances();
}

/* With a limit the backend waits for a slow reader. */
static struct error *limit_responses(struct infer_call *c) {
        const struct infer_call_limits *limits = &c->options.limits;

        if (c->options.on_response == NULL || limits->max_responses == 0)
                return NULL;
        return core_error_take(NESO_InferenceRequestLimitResponses(c->request,
                                                                   limits->max_responses,
                                                                   limits->max_bytes));
}

struct error *infer_call_submit(struct infer_call *c, struct trace_record *trace) {
        struct TRITONSERVER_InferenceTrace *core_trace =
                trace != NULL ? trace_record_core(trace) : NULL;

        TRY_OR(limit_responses(c), trace_record_abandon(trace));
        c->trace = trace;
        c->is_started = true;
        return core_error_take(
                TRITONSERVER_ServerInferAsync(c->options.core->server, c->request, core_trace));
}

void infer_call_submitted(struct infer_call *c) {
        if (atomic_fetch_sub(&c->n_pending, 1) != 1)
                return;
        /* All other events have come already. A mail of responses that was posted must come
         * first. */
        if (atomic_load(&c->is_response_mail_posted))
                post_mail(c, &c->done_mail);
        else
                finish_call(c);
}

struct error *infer_call_take_back(struct infer_call *c, const struct loop_work *w,
                                   struct error *err, bool client_has_gone) {
        if (w->is_cancelled)
                return error_new_text(ERR_CANCELLED, "the client has gone");
        if (err != NULL)
                return err;
        if (client_has_gone)
                infer_call_cancel(c);
        infer_call_submitted(c);
        return NULL;
}

struct error *infer_call_start(struct infer_call *c, struct trace_record *trace) {
        register_thread();
        TRY(infer_call_submit(c, trace));
        infer_call_submitted(c);
        return NULL;
}

void infer_call_cancel(struct infer_call *c) {
        if (c->is_started && c->request != NULL)
                core_error_drop(TRITONSERVER_InferenceRequestCancel(c->request));
}

struct TRITONSERVER_InferenceResponse *infer_call_first_response(struct infer_call *c,
                                                                 uint32_t          *ret_n) {
        *ret_n = atomic_load(&c->n_responses);
        return c->unary;
}

struct error *infer_call_get_response(struct infer_call                      *c,
                                      struct TRITONSERVER_InferenceResponse **ret) {
        uint32_t n = atomic_load(&c->n_responses);

        if (n != 1)
                return error_new(ERR_INTERNAL, "expected a single response, got %u", n);
        *ret = c->unary;
        return NULL;
}

/* ---- tensors in shared memory ---- */

/* The default limit of a gRPC message. */
#define MAX_COPIED_BYTES ((size_t)1 << 30)

static bool waits_for_device(const struct infer_call *c, const struct infer_request *q) {
        struct shared_memory *m = c->options.core->shared_memory;

        if (!shared_memory_has_gpus(m))
                return false;
        for (uint32_t i = 0; i < q->n_inputs; i++) {
                const struct infer_input *in = &q->inputs[i];

                if (in->datatype == TRITONSERVER_TYPE_BYTES && in->shared_memory.region != NULL &&
                    shared_memory_has_cuda(m, in->shared_memory.region))
                        return true;
        }
        return false;
}

bool infer_call_is_long(const struct infer_call *c, const struct infer_request *q,
                        size_t max_work) {
        return max_work < SIZE_MAX && (infer_request_work(q) > max_work || waits_for_device(c, q));
}

/* *ret_gpu is NULL when the memory is the host's. */
static struct error *find_place(struct infer_call *c, const struct infer_shared_memory *asked,
                                char **ret, const struct cuda_region **ret_gpu) {
        struct shm_region *r;

        TRY(shared_memory_take(c->options.core->shared_memory, asked->region, &r));
        c->regions[c->n_regions++] = r;
        *ret_gpu = r->kind == SHARED_MEMORY_CUDA ? &r->cuda : NULL;
        return shm_region_find(r, asked->offset, asked->byte_size, ret);
}

/* Copies the input: each element of BYTES starts with its length. The core checks the lengths, and
 * the backend relies on that check. */
static struct error *copy_input(struct infer_call *c, struct infer_input *in) {
        struct buf *copy;

        if (in->bytes.len > MAX_COPIED_BYTES)
                return error_new(ERR_INVALID_ARG,
                                 "BYTES input '%s' in shared memory has %zu bytes, at most %zu are "
                                 "allowed",
                                 in->name, in->bytes.len, MAX_COPIED_BYTES);
        copy = buf_new(c->options.pool, in->bytes.len);
        if (copy == NULL)
                return infer_no_memory();
        in->converted = copy;
        if (in->gpu != NULL && in->bytes.len > 0)
                TRY(cuda_region_read(in->gpu, in->bytes.ptr, in->bytes.len, copy->bytes));
        else if (in->gpu == NULL)
                memcpy(copy->bytes, in->bytes.ptr, in->bytes.len);
        in->bytes.ptr = copy->bytes;
        in->gpu = NULL;
        return NULL;
}

static struct error *place_input(struct infer_call *c, struct infer_input *in) {
        char *memory;

        if (in->shared_memory.region == NULL)
                return NULL;
        TRY(find_place(c, &in->shared_memory, &memory, &in->gpu));
        in->bytes = str_range(memory, (size_t)in->shared_memory.byte_size);
        return in->datatype == TRITONSERVER_TYPE_BYTES ? copy_input(c, in) : NULL;
}

static struct error *place_output(struct infer_call *c, const struct infer_requested_output *out) {
        const struct cuda_region *gpu;
        char                     *memory;

        if (out->shared_memory.region == NULL)
                return NULL;
        TRY(find_place(c, &out->shared_memory, &memory, &gpu));
        c->targets[c->n_targets++] = (struct infer_call_target){
                .output = out->name,
                .memory = memory,
                .bytes = (size_t)out->shared_memory.byte_size,
                .gpu = gpu,
        };
        c->has_gpu_targets |= gpu != NULL;
        return NULL;
}

static size_t count_inputs(const struct infer_request *q) {
        size_t n = 0;

        for (uint32_t i = 0; i < q->n_inputs; i++)
                n += q->inputs[i].shared_memory.region != NULL;
        return n;
}

static size_t count_outputs(const struct infer_request *q) {
        size_t n = 0;

        for (uint32_t i = 0; i < q->n_outputs; i++)
                n += q->outputs[i].shared_memory.region != NULL;
        return n;
}

struct error *infer_call_find_regions(struct infer_call *c, struct infer_request *q,
                                      struct arena *arena) {
        size_t n_inputs = count_inputs(q), n_outputs = count_outputs(q);

        if (n_inputs + n_outputs == 0)
                return NULL;
        c->regions = arena_try_alloc(arena, (n_inputs + n_outputs) * sizeof(*c->regions));
        c->targets = arena_try_alloc(arena, MAX(n_outputs, 1) * sizeof(*c->targets));
        if (c->regions == NULL || c->targets == NULL)
                return infer_no_memory();
        for (uint32_t i = 0; i < q->n_inputs; i++)
                TRY(place_input(c, &q->inputs[i]));
        for (uint32_t i = 0; i < q->n_outputs; i++)
                TRY(place_output(c, &q->outputs[i]));
        return NULL;
}

struct error *infer_call_check_regions(const struct infer_call *c) {
        for (size_t i = 0; i < c->n_regions; i++)
                TRY(shm_region_check_intact(c->regions[i]));
        return NULL;
}

/* ---- the request of the C API ---- */

/* The C API needs a name for the only input of a raw request. */
static const char raw_input_name[] = "raw_input";

static struct error *set_sequence(struct TRITONSERVER_InferenceRequest *r,
                                  const struct infer_request           *q) {
        if (q->sequence_name != NULL)
                TRY(core_error_take(
                        TRITONSERVER_InferenceRequestSetCorrelationIdString(r, q->sequence_name)));
        else if (q->sequence_id != 0)
                TRY(core_error_take(
                        TRITONSERVER_InferenceRequestSetCorrelationId(r, q->sequence_id)));
        if (q->flags != 0)
                TRY(core_error_take(TRITONSERVER_InferenceRequestSetFlags(r, q->flags)));
        return NULL;
}

static struct error *set_schedule(struct TRITONSERVER_InferenceRequest *r,
                                  const struct infer_request           *q) {
        if (q->priority != 0)
                TRY(core_error_take(
                        TRITONSERVER_InferenceRequestSetPriorityUInt64(r, q->priority)));
        if (q->timeout_us != 0)
                TRY(core_error_take(
                        TRITONSERVER_InferenceRequestSetTimeoutMicroseconds(r, q->timeout_us)));
        return NULL;
}

static struct error *set_parameter(struct TRITONSERVER_InferenceRequest *r,
                                   const struct infer_parameter         *p) {
        switch (p->type) {
        case TRITONSERVER_PARAMETER_STRING:
                return core_error_take(
                        TRITONSERVER_InferenceRequestSetStringParameter(r, p->name, p->value.text));
        case TRITONSERVER_PARAMETER_INT:
                return core_error_take(
                        TRITONSERVER_InferenceRequestSetIntParameter(r, p->name, p->value.integer));
        case TRITONSERVER_PARAMETER_BOOL:
                return core_error_take(
                        TRITONSERVER_InferenceRequestSetBoolParameter(r, p->name,
                                                                      p->value.boolean));
        case TRITONSERVER_PARAMETER_DOUBLE:
                return core_error_take(
                        TRITONSERVER_InferenceRequestSetDoubleParameter(r, p->name, p->value.real));
        default:
                return error_new(ERR_INTERNAL, "parameter '%s' has a type that cannot be forwarded",
                                 p->name);
        }
}

static struct error *append_bytes(struct TRITONSERVER_InferenceRequest *r, const char *name,
                                  struct str bytes) {
        if (bytes.len == 0)
                return NULL;
        return core_error_take(
                TRITONSERVER_InferenceRequestAppendInputData(r, name, bytes.ptr, bytes.len,
                                                             TRITONSERVER_MEMORY_CPU, 0));
}

static struct error *describe_gpu_bytes(struct TRITONSERVER_BufferAttributes *a,
                                        const struct cuda_region *gpu, size_t bytes) {
        TRY(core_error_take(
                TRITONSERVER_BufferAttributesSetMemoryType(a, TRITONSERVER_MEMORY_GPU)));
        TRY(core_error_take(TRITONSERVER_BufferAttributesSetMemoryTypeId(a, gpu->device)));
        TRY(core_error_take(TRITONSERVER_BufferAttributesSetByteSize(a, bytes)));
        return core_error_take(
                TRITONSERVER_BufferAttributesSetCudaIpcHandle(a, (void *)gpu->handle));
}

/* The handle is passed on, too: a backend in a process of its own opens the memory with it. */
static struct error *append_gpu_bytes(struct TRITONSERVER_InferenceRequest *r,
                                      const struct infer_input             *in) {
        struct TRITONSERVER_BufferAttributes *a;
        struct error                         *err;

        if (in->bytes.len == 0)
                return NULL;
        TRY(core_error_take(TRITONSERVER_BufferAttributesNew(&a)));
        err = describe_gpu_bytes(a, in->gpu, in->bytes.len);
        if (err == NULL)
                err = core_error_take(
                        TRITONSERVER_InferenceRequestAppendInputDataWithBufferAttributes(
                                r, in->name, in->bytes.ptr, a));
        core_error_drop(TRITONSERVER_BufferAttributesDelete(a));
        return err;
}

static struct error *add_inputs(struct TRITONSERVER_InferenceRequest *r,
                                const struct infer_request           *q) {
        if (q->is_raw) {
                TRY(core_error_take(TRITONSERVER_InferenceRequestAddRawInput(r, raw_input_name)));
                return append_bytes(r, raw_input_name, q->raw);
        }
        for (uint32_t i = 0; i < q->n_inputs; i++) {
                const struct infer_input *in = &q->inputs[i];

                TRY(core_error_take(TRITONSERVER_InferenceRequestAddInput(r, in->name, in->datatype,
                                                                          in->shape, in->n_dims)));
                TRY(in->gpu == NULL ? append_bytes(r, in->name, in->bytes)
                                    : append_gpu_bytes(r, in));
        }
        return NULL;
}

static struct error *expect_gpu_outputs(struct infer_call *c) {
        TRY(core_error_take(TRITONSERVER_InferenceRequestSetResponseCallback(
                c->request, c->options.core->gpu_allocator, c, on_response, c)));
        return core_error_take(NESO_InferenceRequestSetDeviceOutputs(c->request, true));
}

struct error *infer_call_fill(struct infer_call *c, const struct infer_request *q) {
        struct TRITONSERVER_InferenceRequest *r = c->request;

        if (q->id[0] != '\0')
                TRY(core_error_take(TRITONSERVER_InferenceRequestSetId(r, q->id)));
        TRY(set_sequence(r, q));
        TRY(set_schedule(r, q));
        for (uint32_t i = 0; i < q->n_parameters; i++)
                TRY(set_parameter(r, &q->parameters[i]));
        TRY(add_inputs(r, q));
        for (uint32_t i = 0; i < q->n_outputs; i++)
                TRY(core_error_take(
                        TRITONSERVER_InferenceRequestAddRequestedOutput(r, q->outputs[i].name)));
        if (c->has_gpu_targets)
                TRY(expect_gpu_outputs(c));
        /* The client could change shared memory after the cache key was computed. The response
         * would then be cached under the key of other bytes, and other clients would get it. */
        if (c->n_regions > 0)
                return core_error_take(NESO_InferenceRequestSetCacheable(r, false));
        return NULL;
}

struct error *infer_call_refill(struct infer_call *c, const struct infer_request *q) {
        assert(c->n_regions == 0);
        drop_responses(c);
        init_events(c);
        TRY(core_error_take(TRITONSERVER_InferenceRequestRemoveAllInputs(c->request)));
        return add_inputs(c->request, q);
}

/* ---- memory for outputs; runs on the backend's thread ---- */

static const struct infer_call_target *find_target(const struct infer_call *c, const char *output) {
        for (size_t i = 0; i < c->n_targets; i++)
                if (strcmp(c->targets[i].output, output) == 0)
                        return &c->targets[i];
        return NULL;
}

static size_t round_up(size_t n) {
        return (n + INFER_CALL_ALIGNMENT - 1) & ~(size_t)(INFER_CALL_ALIGNMENT - 1);
}

static void *take_inline(struct infer_call *c, size_t bytes) {
        char *first = c->inline_memory +
                      (round_up((uintptr_t)c->inline_memory) - (uintptr_t)c->inline_memory);
        size_t at;

        if (bytes > INFER_CALL_INLINE_BYTES)
                return NULL;
        at = atomic_load_explicit(&c->inline_used, memory_order_relaxed);
        do {
                if (round_up(bytes) > INFER_CALL_INLINE_BYTES - at)
                        return NULL;
        } while (!atomic_compare_exchange_weak(&c->inline_used, &at, at + round_up(bytes)));
        return first + at;
}

static struct error *allocate_output(struct infer_call *c, const char *output, size_t bytes,
                                     const struct infer_call_target *target, void **ret_memory,
                                     struct buf **ret_holder) {
        *ret_holder = NULL;
        if (target != NULL && bytes > target->bytes)
                return error_new(ERR_INVALID_ARG,
                                 "shared memory size specified with the request for output '%s' "
                                 "(%zu bytes) should be at least %zu bytes to hold the results",
                                 output, target->bytes, bytes);
        *ret_memory = target != NULL ? target->memory : take_inline(c, bytes);
        if (*ret_memory != NULL)
                return NULL;

        *ret_holder = buf_new(c->options.pool, bytes);
        if (*ret_holder == NULL)
                return error_new(ERR_UNAVAILABLE, "%s for output '%s' of %zu bytes",
                                 buf_pool_shortage(c->options.pool, bytes), output, bytes);
        (*ret_holder)->len = bytes;
        *ret_memory = (*ret_holder)->bytes;
        return NULL;
}

/* The client's memory is used whatever the backend prefers. Without bytes an output has no place on a
 * device: a backend on the CPU refuses that. */
static void place_of(const struct infer_call_target *target, TRITONSERVER_MemoryType *ret_type,
                     int64_t *ret_id) {
        bool is_gpu = target != NULL && target->gpu != NULL;

        *ret_type = is_gpu ? TRITONSERVER_MEMORY_GPU : TRITONSERVER_MEMORY_CPU;
        *ret_id = is_gpu ? target->gpu->device : 0;
}

static struct TRITONSERVER_Error *on_alloc(struct TRITONSERVER_ResponseAllocator *allocator,
                                           const char *tensor_name, size_t byte_size,
                                           TRITONSERVER_MemoryType memory_type,
                                           int64_t memory_type_id, void *userp, void **buffer,
                                           void                   **buffer_userp,
                                           TRITONSERVER_MemoryType *actual_memory_type,
                                           int64_t                 *actual_memory_type_id) {
        const struct infer_call_target *target = find_target(userp, tensor_name);
        struct buf                     *holder = NULL;
        struct error                   *err;

        (void)allocator, (void)memory_type, (void)memory_type_id;
        *buffer = NULL;
        place_of(byte_size > 0 ? target : NULL, actual_memory_type, actual_memory_type_id);
        err = allocate_output(userp, tensor_name, byte_size, target, buffer, &holder);
        *buffer_userp = holder;
        return core_error_give(err);
}

static struct TRITONSERVER_Error *on_free(struct TRITONSERVER_ResponseAllocator *allocator,
                                          void *buffer, void *buffer_userp, size_t byte_size,
                                          TRITONSERVER_MemoryType memory_type,
                                          int64_t                 memory_type_id) {
        (void)allocator, (void)buffer, (void)byte_size, (void)memory_type, (void)memory_type_id;
        buf_unref(buffer_userp);
        return NULL;
}

/* For backends that query the memory type of outputs before they compute. */
static struct TRITONSERVER_Error *on_query(struct TRITONSERVER_ResponseAllocator *allocator,
                                           void *userp, const char *tensor_name, size_t *byte_size,
                                           TRITONSERVER_MemoryType *memory_type,
                                           int64_t                 *memory_type_id) {
        (void)allocator, (void)byte_size;
        place_of(tensor_name != NULL ? find_target(userp, tensor_name) : NULL, memory_type,
                 memory_type_id);
        return NULL;
}

/* Adds the client's handle to the buffer of an output in a CUDA region. */
static struct TRITONSERVER_Error *on_describe(
        struct TRITONSERVER_ResponseAllocator *allocator, const char *tensor_name,
        struct TRITONSERVER_BufferAttributes *buffer_attributes, void *userp, void *buffer_userp) {
        const struct infer_call_target *target = find_target(userp, tensor_name);
        TRITONSERVER_MemoryType         type;
        struct TRITONSERVER_Error      *err =
                TRITONSERVER_BufferAttributesMemoryType(buffer_attributes, &type);

        (void)allocator, (void)buffer_userp;
        if (err != NULL || type != TRITONSERVER_MEMORY_GPU || target == NULL || target->gpu == NULL)
                return err;
        return TRITONSERVER_BufferAttributesSetCudaIpcHandle(buffer_attributes,
                                                             (void *)target->gpu->handle);
}

static struct error *make_allocator(struct TRITONSERVER_ResponseAllocator **ret) {
        TRY(core_error_take(TRITONSERVER_ResponseAllocatorNew(ret, on_alloc, on_free, NULL)));
        return core_error_take(TRITONSERVER_ResponseAllocatorSetQueryFunction(*ret, on_query));
}

static struct error *make_allocators(struct infer_core *core) {
        TRY(make_allocator(&core->allocator));
        TRY(make_allocator(&core->gpu_allocator));
        return core_error_take(
                TRITONSERVER_ResponseAllocatorSetBufferAttributesFunction(core->gpu_allocator,
                                                                          on_describe));
}

struct error *infer_core_init(struct infer_core *core, const struct infer_core_options *options) {
        struct error *err;

        *core = (struct infer_core){
                .server = options->server,
                .shared_memory = options->shared_memory,
                .admission = options->admission,
        };
        TRY(header_forward_init(&core->header_forward, options->header_forward_pattern));
        err = make_allocators(core);
        if (err != NULL)
                infer_core_done(core);
        return err;
}

void infer_core_done(struct infer_core *core) {
        header_forward_done(&core->header_forward);
        if (core->allocator != NULL)
                core_error_drop(TRITONSERVER_ResponseAllocatorDelete(core->allocator));
        if (core->gpu_allocator != NULL)
                core_error_drop(TRITONSERVER_ResponseAllocatorDelete(core->gpu_allocator));
        core->allocator = core->gpu_allocator = NULL;
}
