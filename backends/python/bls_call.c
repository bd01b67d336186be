/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/bls_call.h"

#include "kit/input.h"
#include "kit/json.h"
#include "kit/scratch.h"
#include "kit/text.h"
#include "python/answer.h"
#include "python/device_tensor.h"
#include "python/holds.h"
#include "python/parameter_text.h"
#include "python/waits.h"
#include "triton/core/neso.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Other servers do not have these functions, and have no chains. */
#pragma weak NESO_CancelWatchNew
#pragma weak NESO_InferenceRequestSetRunsAlone
#pragma weak NESO_InferenceRequestModelSteps

#define PREFIX "Model %s - Error when running inference: %s"
#define MAX_TENSORS 4096
#define FEW_REQUESTS 4 /* more of them, in a large batch, take an allocation */
#define LEFT "the requests that are executed were cancelled"

/* Who answers the call; changed by compare-and-swap. */
enum answered_by {
        ANSWERED_BY_NOTHING,
        ANSWERED_BY_MODEL, /* its last response, or the reason why there is none */
        ANSWERED_EARLY,    /* the responses of the model are dropped */
};

struct bls_call {
        struct instance               *instance;
        struct session                *session;     /* ref */
        struct bls_call               *next, *prev; /* guarded by the instance's lock */
        struct reply_to                to;
        TRITONSERVER_InferenceRequest *request; /* owned */
        atomic_uint                    n_ends;  /* outstanding ends: final response, release,
                                                      * start, cancellations */
        uint32_t                       last;    /* block of the last reply, written in advance */
        bool                           is_decoupled; /* accepts any number of responses */
        bool                           is_cancelled; /* by bls_call_cancel_all() */
        bool                           is_left;      /* by end_left_calls() */
        atomic_int                     answered_by;  /* enum answered_by */
        struct wait                    wait;
        char                          *model;      /* owned: its name; NULL: not read */
        bool                           is_through; /* an ensemble or a chain */
        uint32_t              gpu;    /* its outputs are wanted there: number + 1; 0: main memory */
        struct device_tensor *opened; /* owned: inputs on GPUs; NULL: none */
        uint32_t              n_opened;
        /* Handles of the requests on whose behalf it is made: few_requests, or owned. n_requests is guarded by
         * the instance's lock, and the handles do not change once it is set. */
        uint32_t *requests;
        uint32_t  n_requests;
        uint32_t  few_requests[FEW_REQUESTS];
};

/* ---- memory of outputs ----------------------------------------------------------------------- */

struct output_buffer {
        struct session       *session; /* ref: the response may outlive the call */
        const struct backend *backend;
        uint32_t              block;
        void *device_memory; /* owned; NULL: none. The bytes are there unless there is a block */
        struct shm_device place; /* of device_memory */
        int64_t           device;
        bool              is_handed_over;
};

static bool is_on_device(const struct output_buffer *output) {
        return output->device_memory != NULL && output->block == 0;
}

/* Leaves `device_memory` NULL when the GPU has no room, or there is no such GPU: then main memory is as good. */
static void alloc_on_device(const struct bls_call *call, struct output_buffer *output,
                            size_t n_bytes) {
        TRITONSERVER_Error *err;

        if (call->gpu == 0 || n_bytes == 0)
                return;
        output->device = (int64_t)call->gpu - 1;
        err = device_alloc(output->backend, output->device, n_bytes, &output->device_memory);
        if (err == NULL)
                err = device_share(output->backend, output->device, output->device_memory, NULL,
                                   &output->place);
        if (err == NULL)
                return;
        TRITONSERVER_ErrorDelete(err);
        if (output->device_memory != NULL)
                device_free(output->backend, output->device, output->device_memory);
        output->device_memory = NULL;
        output->device = 0;
}

static TRITONSERVER_Error *alloc_in_region(const struct bls_call *call,
                                           struct output_buffer *output, size_t n_bytes,
                                           const char *name) {
        if (n_bytes > 0 && n_bytes <= SHM_AREA_BYTES)
                output->block = region_alloc(&call->session->region, SHM_OUTPUT_OFFSET + n_bytes);
        if (n_bytes == 0 || output->block != 0)
                return NULL;
        return kit_error(TRITONSERVER_ERROR_INTERNAL,
                         "Failed to increase the shared memory pool size to %zu bytes. It is "
                         "needed for output '%s'.",
                         n_bytes, name);
}

static TRITONSERVER_Error *on_alloc(TRITONSERVER_ResponseAllocator *self, const char *name,
                                    size_t n_bytes, TRITONSERVER_MemoryType type, int64_t type_id,
                                    void *userp, void **buffer, void **buffer_userp,
                                    TRITONSERVER_MemoryType *actual_type, int64_t *actual_type_id) {
        struct bls_call      *call = userp;
        struct output_buffer *output = kit_alloc_array(1, sizeof(*output));
        TRITONSERVER_Error   *err = NULL;

        (void)self;
        (void)type;
        (void)type_id;
        if (output == NULL)
                return kit_error_no_memory(sizeof(*output), name);
        output->backend = call->instance->model->backend;
        alloc_on_device(call, output, n_bytes);
        if (output->device_memory == NULL)
                err = alloc_in_region(call, output, n_bytes, name);
        if (err != NULL) {
                free(output);
                return err;
        }
        output->session = call->session;
        session_ref(output->session);
        *buffer = output->device_memory;
        if (output->block != 0)
                *buffer = (char *)region_block(&output->session->region, output->block) +
                          SHM_OUTPUT_OFFSET;
        *buffer_userp = output;
        *actual_type = is_on_device(output) ? TRITONSERVER_MEMORY_GPU : TRITONSERVER_MEMORY_CPU;
        *actual_type_id = output->device;
        return NULL;
}

static TRITONSERVER_Error *on_free(TRITONSERVER_ResponseAllocator *self, void *buffer,
                                   void *buffer_userp, size_t n_bytes, TRITONSERVER_MemoryType type,
                                   int64_t type_id) {
        struct output_buffer *output = buffer_userp;

        (void)self;
        (void)buffer;
        (void)n_bytes;
        (void)type;
        (void)type_id;
        if (output->block != 0 && !output->is_handed_over)
                region_free(&output->session->region, output->block);
        if (output->device_memory != NULL && !(is_on_device(output) && output->is_handed_over))
                device_free(output->backend, output->device, output->device_memory);
        session_unref(output->session);
        free(output);
        return NULL;
}

TRITONSERVER_Error *bls_call_allocator_new(TRITONSERVER_ResponseAllocator **ret) {
        return TRITONSERVER_ResponseAllocatorNew(ret, on_alloc, on_free, NULL);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void unlink_call(struct bls_call *call) {
        struct instance *in = call->instance;

        (void)pthread_mutex_lock(&in->lock);
        if (call->prev != NULL)
                call->prev->next = call->next;
        else
                in->calls = call->next;
        if (call->next != NULL)
                call->next->prev = call->prev;
        (void)pthread_cond_broadcast(&in->changed);
        (void)pthread_mutex_unlock(&in->lock);
}

static void close_inputs(struct bls_call *call) {
        for (uint32_t i = 0; i < call->n_opened; i++)
                device_tensor_close(call->instance, &call->opened[i]);
        free(call->opened);
}

static void end_one(struct bls_call *call) {
        struct session *s = call->session;

        if (atomic_fetch_sub(&call->n_ends, 1) != 1)
                return;
        waits_end(&call->wait);
        if (call->request != NULL)
                kit_error_log(TRITONSERVER_InferenceRequestDelete(call->request),
                              "failed to delete a request");
        close_inputs(call);
        if (atomic_load(&call->answered_by) == ANSWERED_EARLY && !call->to.is_async)
                session_return(s, call->to.call);
        else if (call->last != 0)
                reply_push(s, &call->to, call->last, true);
        else
                reply_text(s, &call->to, TRITONSERVER_ERROR_INTERNAL, "Unexpected empty response.",
                           26);
        region_end_borrow(&s->region);
        unlink_call(call);
        if (call->requests != call->few_requests)
                free(call->requests);
        free(call->model);
        free(call);
        session_unref(s);
}

/* Returns false when the call is answered already. */
static bool take_answer(struct bls_call *call, enum answered_by by) {
        int nothing = ANSWERED_BY_NOTHING;

        return atomic_compare_exchange_strong(&call->answered_by, &nothing, (int)by);
}

/* Returns 0 when memory is short; then the region is marked as broken, since without a reply the stub would
 * wait forever. */
static uint32_t error_reply(struct bls_call *call, uint32_t code, const char *text) {
        size_t            len = strlen(text);
        struct region    *r = &call->session->region;
        uint32_t          block = region_alloc(r, sizeof(struct shm_reply) + len);
        struct shm_reply *reply;

        if (block == 0) {
                region_break(r);
                return 0;
        }
        reply = region_block(r, block);
        *reply = (struct shm_reply){ .answer = { .kind = SHM_ANSWER_ERROR,
                                                 .code = code,
                                                 .text = { sizeof(*reply), (uint32_t)len } } };
        memcpy(reply + 1, text, len);
        return block;
}

/* ---- responses ------------------------------------------------------------------------------- */

struct output_view {
        const char           *name;
        TRITONSERVER_DataType type;
        const int64_t        *dims;
        uint64_t              n_dims;
        const void           *bytes;
        size_t                n_bytes;
        struct output_buffer *buffer;
};

static TRITONSERVER_Error *view_output(TRITONSERVER_InferenceResponse *response, uint32_t i,
                                       struct output_view *ret) {
        TRITONSERVER_MemoryType type;
        int64_t                 type_id;
        void                   *userp;

        KIT_TRY(TRITONSERVER_InferenceResponseOutput(response, i, &ret->name, &ret->type,
                                                     &ret->dims, &ret->n_dims, &ret->bytes,
                                                     &ret->n_bytes, &type, &type_id, &userp));
        ret->buffer = userp;
        return NULL;
}

static TRITONSERVER_Error *print_parameters(TRITONSERVER_InferenceResponse *response,
                                            struct kit_text                *text) {
        uint32_t n;

        KIT_TRY(TRITONSERVER_InferenceResponseParameterCount(response, &n));
        for (uint32_t i = 0; i < n; i++) {
                TRITONSERVER_ParameterType type;
                const char                *name;
                const void                *value;

                KIT_TRY(TRITONSERVER_InferenceResponseParameter(response, i, &name, &type, &value));
                parameter_text_add(text, name, type, value);
        }
        if (text->len > 0)
                kit_text_add(text, "}", 1);
        return NULL;
}

static size_t round_up(size_t n) {
        return (n + 7) & ~(size_t)7;
}

/* The model reads strings in main memory. */
static TRITONSERVER_Error *bring_strings(const struct bls_call    *call,
                                         const struct output_view *view) {
        struct output_buffer  *output = view->buffer;
        struct NESO_MemoryCopy copy;

        if (view->type != TRITONSERVER_TYPE_BYTES || view->n_bytes == 0 || !is_on_device(output))
                return NULL;
        KIT_TRY(alloc_in_region(call, output, view->n_bytes, view->name));
        copy = kit_copy_for_server(&(struct kit_copy){
                .to = (char *)region_block(&output->session->region, output->block) +
                      SHM_OUTPUT_OFFSET,
                .from = output->device_memory,
                .n_bytes = (size_t)view->n_bytes,
                .to_place = { TRITONSERVER_MEMORY_CPU, 0 },
                .from_place = { TRITONSERVER_MEMORY_GPU, output->device } });
        return device_copy_all(output->backend, &copy, 1);
}

static TRITONSERVER_Error *measure_reply(const struct bls_call          *call,
                                         TRITONSERVER_InferenceResponse *response,
                                         uint32_t n_outputs, size_t *ret_bytes) {
        size_t n = sizeof(struct shm_reply) + n_outputs * sizeof(struct shm_tensor);

        if (n_outputs > MAX_TENSORS)
                return kit_error(TRITONSERVER_ERROR_INTERNAL, "a response has %u outputs",
                                 n_outputs);
        for (uint32_t i = 0; i < n_outputs; i++) {
                struct output_view view;

                KIT_TRY(view_output(response, i, &view));
                KIT_TRY(bring_strings(call, &view));
                n += round_up(strlen(view.name)) + view.n_dims * sizeof(int64_t);
                if (view.n_bytes > 0 && is_on_device(view.buffer))
                        n += sizeof(struct shm_device);
        }
        *ret_bytes = n;
        return NULL;
}

static TRITONSERVER_Error *hand_over(const struct bls_call *call, const struct output_view *view,
                                     struct shm_device *ret) {
        struct output_buffer *output = view->buffer;

        KIT_TRY(holds_add_output(call->instance, call->session, output->device,
                                 output->device_memory, view->n_bytes, &output->place));
        *ret = output->place;
        return NULL;
}

/* The stub does not get the reply, so it would not give back what was handed over. */
static void take_back_outputs(const struct bls_call *call, TRITONSERVER_InferenceResponse *response,
                              uint32_t n_outputs) {
        for (uint32_t i = 0; i < n_outputs; i++) {
                struct output_view  view;
                TRITONSERVER_Error *err = view_output(response, i, &view);

                if (err != NULL)
                        TRITONSERVER_ErrorDelete(err);
                else if (view.n_bytes == 0 || !view.buffer->is_handed_over)
                        continue;
                else if (is_on_device(view.buffer))
                        holds_on_dropped(call->instance, view.buffer->place.hold);
                else
                        view.buffer->is_handed_over = false;
        }
}

/* Writes the reply and passes the memory of the outputs to the stub. Places in shm_answer are
 * relative to the reply. */
static TRITONSERVER_Error *write_reply(struct bls_call *call, uint32_t block,
                                       TRITONSERVER_InferenceResponse *response, uint32_t n_outputs,
                                       const struct kit_text *parameters) {
        unsigned char     *base = region_block(&call->session->region, block);
        struct shm_reply  *reply = (struct shm_reply *)(void *)base;
        struct shm_tensor *tensors = (struct shm_tensor *)(void *)(reply + 1);
        size_t             at = sizeof(*reply) + n_outputs * sizeof(*tensors);

        *reply = (struct shm_reply){ .answer = { .kind = SHM_ANSWER_OK,
                                                 .n_outputs = n_outputs,
                                                 .outputs = sizeof(*reply) } };
        for (uint32_t i = 0; i < n_outputs; i++) {
                struct output_view view;
                size_t             len;

                KIT_TRY(view_output(response, i, &view));
                len = strlen(view.name);
                tensors[i] = (struct shm_tensor){
                        .name_index = SHM_NO_INDEX,
                        .name = { (uint32_t)at, (uint32_t)len },
                        .type = view.type,
                        .n_dims = (uint32_t)view.n_dims,
                        .dims = (uint32_t)(at + round_up(len)),
                        .data = view.n_bytes > 0 ? (uint64_t)view.buffer->block * SHM_BLOCK +
                                                           SHM_OUTPUT_OFFSET
                                                 : 0,
                        .n_bytes = view.n_bytes,
                };
                memcpy(base + at, view.name, len);
                at += round_up(len);
                memcpy(base + at, view.dims, view.n_dims * sizeof(int64_t));
                at += view.n_dims * sizeof(int64_t);
                if (view.n_bytes > 0 && is_on_device(view.buffer)) {
                        KIT_TRY(hand_over(call, &view, (struct shm_device *)(void *)(base + at)));
                        tensors[i].gpu = (uint32_t)view.buffer->device + 1;
                        tensors[i].data = (uint64_t)block * SHM_BLOCK + at;
                        at += sizeof(struct shm_device);
                }
                if (view.n_bytes > 0)
                        view.buffer->is_handed_over = true;
        }
        if (parameters->len > 0) {
                reply->answer.parameters =
                        (struct shm_text){ (uint32_t)at, (uint32_t)parameters->len };
                memcpy(base + at, parameters->chars, parameters->len);
        }
        return NULL;
}

static TRITONSERVER_Error *make_reply(struct bls_call                *call,
                                      TRITONSERVER_InferenceResponse *response, uint32_t *ret) {
        struct kit_text     parameters = { 0 };
        uint32_t            n_outputs, block = 0;
        size_t              n_bytes;
        TRITONSERVER_Error *err = TRITONSERVER_InferenceResponseError(response);

        if (err == NULL)
                err = TRITONSERVER_InferenceResponseOutputCount(response, &n_outputs);
        if (err == NULL)
                err = measure_reply(call, response, n_outputs, &n_bytes);
        if (err == NULL)
                err = print_parameters(response, &parameters);
        if (err == NULL) {
                block = region_alloc(&call->session->region, n_bytes + parameters.len);
                if (block == 0)
                        err = kit_error_no_memory(n_bytes, "a response");
        }
        if (err == NULL) {
                err = write_reply(call, block, response, n_outputs, &parameters);
                if (err != NULL) {
                        take_back_outputs(call, response, n_outputs);
                        region_free(&call->session->region, block);
                        block = 0;
                }
        }
        kit_text_done(&parameters);
        *ret = block;
        return err;
}

static uint32_t empty_reply(struct bls_call *call) {
        uint32_t block = region_alloc(&call->session->region, sizeof(struct shm_reply));

        if (block != 0)
                *(struct shm_reply *)region_block(&call->session->region, block) =
                        (struct shm_reply){ .answer = { .kind = SHM_ANSWER_NONE } };
        return block;
}

/* Returns the block of the reply for a response; 0 when there is nothing to reply. */
static uint32_t reply_for(struct bls_call *call, TRITONSERVER_InferenceResponse *response) {
        TRITONSERVER_Error *err;
        uint32_t            block = 0;

        if (response == NULL)
                return empty_reply(call);
        err = make_reply(call, response, &block);
        if (err != NULL) {
                block = error_reply(call, TRITONSERVER_ErrorCode(err),
                                    TRITONSERVER_ErrorMessage(err));
                TRITONSERVER_ErrorDelete(err);
        }
        kit_error_log(TRITONSERVER_InferenceResponseDelete(response),
                      "failed to delete a response");
        return block;
}

/* Returns false when the caller gets no reply for the response. */
static bool is_wanted(struct bls_call *call, const TRITONSERVER_InferenceResponse *response,
                      bool is_final) {
        if (call->is_decoupled && !is_final)
                return atomic_load(&call->answered_by) == ANSWERED_BY_NOTHING;
        return (response != NULL || call->is_decoupled) && take_answer(call, ANSWERED_BY_MODEL);
}

static void on_response(TRITONSERVER_InferenceResponse *response, const uint32_t flags,
                        void *userp) {
        struct bls_call *call = userp;
        bool             is_final = (flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0;
        uint32_t         block = 0;

        if (is_wanted(call, response, is_final))
                block = reply_for(call, response);
        else if (response != NULL)
                kit_error_log(TRITONSERVER_InferenceResponseDelete(response),
                              "failed to delete a response");
        if (block != 0 && call->is_decoupled && !is_final)
                reply_push(call->session, &call->to, block, false);
        else if (block != 0)
                call->last = block;
        if (is_final)
                end_one(call);
}

static void on_release(TRITONSERVER_InferenceRequest *request, const uint32_t flags, void *userp) {
        (void)request;
        (void)flags;
        end_one(userp);
}

/* ---- the request ----------------------------------------------------------------------------- */

/* The payload of a call, which is copied piece by piece. */
struct payload {
        struct answer_source source; /* the call's block */
        uint32_t             at;     /* offset of the payload in it */
        struct shm_infer     infer;
        const char          *model; /* borrowed from the call */
        struct bls_call     *call;
};

static TRITONSERVER_Error *malformed_call(const struct payload *p) {
        region_break(p->source.region);
        return kit_error(TRITONSERVER_ERROR_INTERNAL,
                         "An error occurred while performing BLS request.");
}

static char *copy_text(const struct payload *p, struct shm_text text) {
        if (text.at > UINT32_MAX - p->at)
                text.len = UINT32_MAX; /* out of range, so it is refused */
        text.at += p->at;
        return answer_copy_text(&p->source, text);
}

static TRITONSERVER_Error *describe_device(const struct device_tensor *t, uint64_t n_bytes,
                                           TRITONSERVER_BufferAttributes *a) {
        KIT_TRY(TRITONSERVER_BufferAttributesSetMemoryType(a, TRITONSERVER_MEMORY_GPU));
        KIT_TRY(TRITONSERVER_BufferAttributesSetMemoryTypeId(a, t->found.place.id));
        KIT_TRY(TRITONSERVER_BufferAttributesSetByteSize(a, n_bytes));
        if (t->base == NULL)
                return NULL;
        return TRITONSERVER_BufferAttributesSetCudaIpcHandle(a, (void *)(uintptr_t)t->handle);
}

/* With the handle: a model in another process opens the memory with it. */
static TRITONSERVER_Error *append_device_bytes(TRITONSERVER_InferenceRequest *request,
                                               const char *name, const struct device_tensor *t,
                                               uint64_t n_bytes) {
        TRITONSERVER_BufferAttributes *a;
        TRITONSERVER_Error            *err;

        KIT_TRY(TRITONSERVER_BufferAttributesNew(&a));
        err = describe_device(t, n_bytes, a);
        if (err == NULL)
                err = TRITONSERVER_InferenceRequestAppendInputDataWithBufferAttributes(
                        request, name, t->found.bytes, a);
        (void)TRITONSERVER_BufferAttributesDelete(a);
        return err;
}

static TRITONSERVER_Error *append_device_input(const struct payload          *p,
                                               TRITONSERVER_InferenceRequest *request,
                                               const char *name, const struct shm_tensor *tensor) {
        struct bls_call      *call = p->call;
        struct device_tensor *opened;

        if (call->opened == NULL)
                call->opened = kit_alloc_array(p->infer.n_inputs, sizeof(*call->opened));
        if (call->opened == NULL)
                return kit_error_no_memory(p->infer.n_inputs * sizeof(*opened), "a call");
        opened = &call->opened[call->n_opened];
        KIT_TRY(device_tensor_open(&p->source, tensor, name, opened));
        call->n_opened++;
        return append_device_bytes(request, name, opened, tensor->n_bytes);
}

static TRITONSERVER_Error *append_input(const struct payload          *p,
                                        TRITONSERVER_InferenceRequest *request, const char *name,
                                        const struct shm_tensor *tensor) {
        const void *bytes;

        if (tensor->n_bytes == 0)
                return NULL;
        if (tensor->gpu != 0)
                return append_device_input(p, request, name, tensor);
        bytes = region_find(p->source.region, tensor->data, tensor->n_bytes);
        if (bytes == NULL)
                return malformed_call(p);
        return TRITONSERVER_InferenceRequestAppendInputData(request, name, bytes, tensor->n_bytes,
                                                            TRITONSERVER_MEMORY_CPU, 0);
}

static TRITONSERVER_Error *add_input(const struct payload *p, uint32_t i,
                                     TRITONSERVER_InferenceRequest *request) {
        struct shm_tensor   tensor;
        int64_t             dims[SHM_MAX_DIMS];
        TRITONSERVER_Error *err;
        char               *name;

        if (!answer_copy(&p->source, p->at + p->infer.inputs + i * (uint32_t)sizeof(tensor),
                         &tensor, sizeof(tensor)) ||
            tensor.n_dims > SHM_MAX_DIMS ||
            !answer_copy(&p->source, p->at + tensor.dims, dims, tensor.n_dims * sizeof(*dims)))
                return malformed_call(p);
        name = copy_text(p, tensor.name);
        if (name == NULL)
                return malformed_call(p);
        err = TRITONSERVER_InferenceRequestAddInput(request, name,
                                                    (TRITONSERVER_DataType)tensor.type, dims,
                                                    tensor.n_dims);
        if (err == NULL)
                err = append_input(p, request, name, &tensor);
        free(name);
        return err;
}

static TRITONSERVER_Error *add_output(const struct payload *p, uint32_t i,
                                      TRITONSERVER_InferenceRequest *request) {
        struct shm_text     text;
        TRITONSERVER_Error *err;
        char               *name;

        if (!answer_copy(&p->source, p->at + p->infer.outputs + i * (uint32_t)sizeof(text), &text,
                         sizeof(text)))
                return malformed_call(p);
        name = copy_text(p, text);
        if (name == NULL)
                return malformed_call(p);
        err = TRITONSERVER_InferenceRequestAddRequestedOutput(request, name);
        free(name);
        return err;
}

static TRITONSERVER_Error *set_parameter(TRITONSERVER_InferenceRequest *request,
                                         const struct kit_json_value   *value) {
        switch (value->type) {
        case KIT_JSON_TRUE:
        case KIT_JSON_FALSE:
                return TRITONSERVER_InferenceRequestSetBoolParameter(request, value->key,
                                                                     value->type == KIT_JSON_TRUE);
        case KIT_JSON_NUMBER:
                if (strpbrk(value->text, ".eE") != NULL)
                        return TRITONSERVER_InferenceRequestSetDoubleParameter(
                                request, value->key, kit_json_double(value, 0));
                return TRITONSERVER_InferenceRequestSetIntParameter(request, value->key,
                                                                    kit_json_int(value, 0));
        case KIT_JSON_STRING:
                return TRITONSERVER_InferenceRequestSetStringParameter(request, value->key,
                                                                       value->text);
        default: return NULL;
        }
}

static TRITONSERVER_Error *set_parameters(const struct payload          *p,
                                          TRITONSERVER_InferenceRequest *request) {
        char               *text = copy_text(p, p->infer.parameters);
        struct kit_json    *doc = NULL;
        TRITONSERVER_Error *err;

        if (text == NULL)
                return malformed_call(p);
        err = *text != '\0' ? kit_json_read(text, strlen(text), "the parameters of a request", &doc)
                            : NULL;
        if (err == NULL && doc != NULL)
                for (const struct kit_json_value *v = kit_json_root(doc)->first;
                     v != NULL && err == NULL; v = v->next)
                        err = v->key != NULL ? set_parameter(request, v) : NULL;
        kit_json_free(doc);
        free(text);
        if (err == NULL)
                err = TRITONSERVER_InferenceRequestSetIntParameter(request, BLS_DEPTH_PARAMETER,
                                                                   p->infer.depth);
        return err;
}

static TRITONSERVER_Error *set_identity(const struct payload          *p,
                                        TRITONSERVER_InferenceRequest *request) {
        char               *id = copy_text(p, p->infer.id);
        char               *correlation = copy_text(p, p->infer.correlation_text);
        TRITONSERVER_Error *err;

        err = id != NULL && correlation != NULL ? TRITONSERVER_InferenceRequestSetId(request, id)
                                                : malformed_call(p);
        if (err == NULL && p->infer.correlation_kind == SHM_CORRELATION_TEXT)
                err = TRITONSERVER_InferenceRequestSetCorrelationIdString(request, correlation);
        else if (err == NULL)
                err = TRITONSERVER_InferenceRequestSetCorrelationId(request, p->infer.correlation);
        if (err == NULL)
                err = TRITONSERVER_InferenceRequestSetFlags(request, p->infer.flags);
        if (err == NULL)
                err = TRITONSERVER_InferenceRequestSetTimeoutMicroseconds(request,
                                                                          p->infer.timeout_us);
        free(id);
        free(correlation);
        return err;
}

static TRITONSERVER_Error *fill_request(const struct payload          *p,
                                        TRITONSERVER_InferenceRequest *request) {
        if (p->infer.n_inputs > MAX_TENSORS || p->infer.n_outputs > MAX_TENSORS)
                return malformed_call(p);
        KIT_TRY(set_identity(p, request));
        KIT_TRY(set_parameters(p, request));
        /* The call is meant for the named model alone, not for models that follow it in a chain. */
        if (NESO_InferenceRequestSetRunsAlone != NULL)
                KIT_TRY(NESO_InferenceRequestSetRunsAlone(request, true));
        for (uint32_t i = 0; i < p->infer.n_inputs; i++)
                KIT_TRY(add_input(p, i, request));
        for (uint32_t i = 0; i < p->infer.n_outputs; i++)
                KIT_TRY(add_output(p, i, request));
        return NULL;
}

/* ---- starting -------------------------------------------------------------------------------- */

/* Takes `err`, which may be NULL. */
static TRITONSERVER_Error *prefixed(const struct payload *p, TRITONSERVER_Error *err) {
        TRITONSERVER_Error *longer;

        if (err == NULL)
                return NULL;
        longer = kit_error(TRITONSERVER_ErrorCode(err), PREFIX, p->model,
                           TRITONSERVER_ErrorMessage(err));
        TRITONSERVER_ErrorDelete(err);
        return longer;
}

static TRITONSERVER_Error *refuse_payload(const struct payload *p, const char *text) {
        return kit_error(TRITONSERVER_ERROR_INTERNAL, PREFIX, p->model, text);
}

static TRITONSERVER_Error *open_request(struct bls_call *call, const struct payload *p) {
        TRITONSERVER_Server *server = call->instance->model->server;
        TRITONSERVER_Error  *err;
        uint32_t             flags = 0;

        if (p->infer.depth > BLS_MAX_DEPTH)
                return refuse_payload(p, "BLS calls are nested too deeply");
        err = TRITONSERVER_InferenceRequestNew(&call->request, server, p->model, p->infer.version);
        if (err != NULL) {
                call->request = NULL;
                if (TRITONSERVER_ErrorCode(err) != TRITONSERVER_ERROR_UNAVAILABLE)
                        return prefixed(p, err);
                TRITONSERVER_ErrorDelete(err);
                return kit_error(
                        TRITONSERVER_ERROR_INTERNAL,
                        "Failed for execute the inference request. Model '%s' is not ready.",
                        p->model);
        }
        err = TRITONSERVER_ServerModelTransactionProperties(server, p->model, p->infer.version,
                                                            &flags, NULL);
        if (err != NULL)
                return prefixed(p, err);
        if (flags == TRITONSERVER_TXN_DECOUPLED && !call->is_decoupled)
                return kit_error(
                        TRITONSERVER_ERROR_INTERNAL,
                        "Model %s is using the decoupled. The current BLS request call "
                        "doesn't support models using the decoupled transaction policy. "
                        "Please use 'decoupled=True' argument to the 'exec' or 'async_exec' "
                        "calls for decoupled models.'",
                        p->model);
        err = fill_request(p, call->request);
        return err != NULL ? prefixed(p, err) : NULL;
}

static TRITONSERVER_InferenceTrace *child_trace(struct instance *in, uint32_t handle) {
        struct entry                *e = entry_find(in, handle);
        TRITONSERVER_InferenceTrace *trace = NULL, *child = NULL;

        if (e == NULL || e->request == NULL)
                return NULL;
        kit_error_log(TRITONBACKEND_RequestTrace(e->request, &trace), "failed to find a trace");
        if (trace != NULL)
                kit_error_log(TRITONSERVER_InferenceTraceSpawnChildTrace(trace, &child),
                              "failed to create a trace");
        return child;
}

static void add_wait(const char *model, void *userp) {
        struct bls_call *call = userp;

        waits_add_model(&call->wait, model);
}

static TRITONSERVER_Error *refuse_wait(const struct bls_call *call, const struct kit_text *cycle) {
        static const char why[] = "the model's instances are all waiting for this call";
        const char       *caller = call->instance->model->kit.name;
        const char       *names = cycle->chars != NULL ? cycle->chars : "";

        if (strcmp(call->model, caller) == 0)
                return kit_error(TRITONSERVER_ERROR_INTERNAL, PREFIX, call->model, why);
        return kit_error(TRITONSERVER_ERROR_INTERNAL, PREFIX ": %s%s%s%s", call->model, why, caller,
                         call->is_through ? " -> " : "", call->is_through ? call->model : "",
                         names);
}

static TRITONSERVER_Error *change_wait(struct bls_call *call, enum shm_wait kind) {
        struct kit_text     cycle = { 0 };
        TRITONSERVER_Error *err = NULL;

        if (!waits_change(&call->wait, kind, &cycle))
                err = refuse_wait(call, &cycle);
        kit_text_done(&cycle);
        return err;
}

/* Asks the process whether the execution waits for the call. */
static void ask(struct wait *wait) {
        struct bls_call *call = (struct bls_call *)((char *)wait - offsetof(struct bls_call, wait));
        struct session  *s = call->session;
        uint32_t         block = region_alloc(&s->region, sizeof(struct shm_reply));
        struct shm_reply *reply;

        if (block == 0)
                return;
        reply = region_block(&s->region, block);
        *reply = (struct shm_reply){ .id = call->to.id, .answer = { .kind = SHM_ANSWER_ASK } };
        region_push(&s->region, &s->region.header->async_replies, block, &reply->next);
        shm_futex_wake(&s->region.header->async_replies, INT32_MAX);
}

/* Records what the call waits for: the model, or all models of an ensemble or a chain. */
static TRITONSERVER_Error *begin_wait(struct bls_call *call, const struct payload *p) {
        call->wait.execution = p->infer.execution;
        call->wait.is_stream = call->is_decoupled;
        call->wait.ask = ask;
        if (p->infer.waits == SHM_WAIT_NONE)
                return NULL;
        if (p->infer.waits > SHM_WAIT_INSTANCE ||
            (p->infer.waits == SHM_WAIT_MAYBE && !call->to.is_async))
                return malformed_call(p);
        if (NESO_InferenceRequestModelSteps != NULL)
                KIT_TRY(prefixed(p,
                                 NESO_InferenceRequestModelSteps(call->request, &call->is_through,
                                                                 add_wait, call)));
        else
                waits_add_model(&call->wait, p->model);
        return change_wait(call, (enum shm_wait)p->infer.waits);
}

/* ---- requests that are cancelled ------------------------------------------------------------- */

/* Returns true when all requests of the call have ended or were cancelled, at least one of them the
 * latter. */
static bool is_left_locked(const struct instance *in, const struct bls_call *call) {
        bool has_cancelled = false;

        for (uint32_t i = 0; i < call->n_requests; i++) {
                const struct entry *e = entry_find_locked(in, call->requests[i]);

                if (e != NULL && !atomic_load(&e->is_cancelled))
                        return false;
                has_cancelled = has_cancelled || e != NULL;
        }
        return has_cancelled;
}

static void on_cancelled(void *userp);

/* Ends the calls that are made on behalf of the request when it is cancelled; called with the reader's
 * role. */
static void watch_entry(struct entry *e) {
        if (e->watch == NULL && e->request != NULL && NESO_CancelWatchNew != NULL)
                kit_error_log(NESO_CancelWatchNew(&e->watch, e->request, on_cancelled, e),
                              "failed to watch a request");
}

/* Watches the requests on whose behalf the call is made. Returns an error when they were cancelled
 * before. */
static TRITONSERVER_Error *watch_requests(struct bls_call *call, const struct payload *p) {
        struct instance *in = call->instance;
        uint32_t         n = p->infer.n_requests;
        bool             is_left;

        if (n == 0 || n > MAX_TENSORS)
                return NULL;
        call->requests = call->few_requests;
        if (n > FEW_REQUESTS)
                call->requests = kit_alloc_array(n, sizeof(*call->requests));
        if (call->requests == NULL)
                return kit_error_no_memory(n * sizeof(*call->requests), "a call");
        if (!answer_copy(&p->source, p->at + p->infer.requests, call->requests,
                         n * sizeof(*call->requests)))
                return malformed_call(p);
        for (uint32_t i = 0; i < n; i++) {
                struct entry *e = entry_find(in, call->requests[i]);

                if (e != NULL)
                        watch_entry(e);
        }
        (void)pthread_mutex_lock(&in->lock);
        call->n_requests = n;
        is_left = is_left_locked(in, call);
        (void)pthread_mutex_unlock(&in->lock);
        return is_left ? kit_error(TRITONSERVER_ERROR_CANCELLED, LEFT) : NULL;
}

static TRITONSERVER_Error *submit(struct bls_call *call, const struct payload *p, uint32_t handle) {
        TRITONSERVER_Error *err;

        KIT_TRY(open_request(call, p));
        KIT_TRY(begin_wait(call, p));
        KIT_TRY(TRITONSERVER_InferenceRequestSetReleaseCallback(call->request, on_release, call));
        KIT_TRY(TRITONSERVER_InferenceRequestSetResponseCallback(
                call->request, call->instance->model->backend->allocator, call, on_response, call));
        KIT_TRY(watch_requests(call, p)); /* from now on it may be cancelled */
        atomic_fetch_add(&call->n_ends, 2);
        err = TRITONSERVER_ServerInferAsync(call->instance->model->server, call->request,
                                            child_trace(call->instance, handle));
        if (err == NULL)
                return NULL;
        atomic_fetch_sub(&call->n_ends, 2);
        return prefixed(p, err);
}

/* Adds an end, unless the last one has happened; then returns false. */
static bool hold_call(struct bls_call *call) {
        unsigned n = atomic_load(&call->n_ends);

        while (n > 0)
                if (atomic_compare_exchange_weak(&call->n_ends, &n, n + 1))
                        return true;
        return false;
}

static void link_call(struct bls_call *call) {
        struct instance *in = call->instance;

        (void)pthread_mutex_lock(&in->lock);
        call->next = in->calls;
        if (call->next != NULL)
                call->next->prev = call;
        in->calls = call;
        (void)pthread_mutex_unlock(&in->lock);
}

static TRITONSERVER_Error *read_payload(struct payload *p, struct bls_call *call) {
        if (!answer_copy(&p->source, p->at, &p->infer, sizeof(p->infer)))
                return malformed_call(p);
        call->is_decoupled = p->infer.is_decoupled != 0;
        call->gpu = p->infer.gpu;
        p->model = call->model = copy_text(p, p->infer.model);
        return p->model != NULL ? NULL : malformed_call(p);
}

void bls_call_start(struct instance *in, const struct shm_call *record, const struct reply_to *to) {
        struct payload      p = { .source = { &in->session->region, to->call, 0, in },
                                  .at = record->payload };
        struct bls_call    *call = kit_alloc_array(1, sizeof(*call));
        TRITONSERVER_Error *err;

        p.call = call;
        if (call == NULL ||
            __builtin_add_overflow(record->payload, record->n_bytes, &p.source.n_bytes) ||
            region_find_stub_block(p.source.region, to->call, p.source.n_bytes) == NULL) {
                region_break(&in->session->region);
                free(call);
                return;
        }
        region_borrow(&in->session->region);
        call->instance = in;
        call->session = in->session;
        call->to = *to;
        call->wait.instance = in;
        atomic_init(&call->n_ends, 1);
        session_ref(call->session);
        link_call(call);
        err = read_payload(&p, call);
        if (err == NULL)
                err = submit(call, &p, record->handle);
        if (err != NULL && take_answer(call, ANSWERED_BY_MODEL))
                call->last = error_reply(call, TRITONSERVER_ErrorCode(err),
                                         TRITONSERVER_ErrorMessage(err));
        if (err != NULL)
                TRITONSERVER_ErrorDelete(err);
        end_one(call);
}

/* ---- cancelling ------------------------------------------------------------------------------ */

static void cancel_call(struct bls_call *call) {
        if (call->request != NULL)
                kit_error_log(TRITONSERVER_InferenceRequestCancel(call->request),
                              "failed to cancel");
        end_one(call);
}

/* Answers a call, which the caller holds, before its model does, and cancels it. */
static void end_early(struct bls_call *call, uint32_t code, const char *text) {
        uint32_t block = error_reply(call, code, text);

        if (block != 0 && take_answer(call, ANSWERED_EARLY)) {
                waits_leave(&call->wait);
                reply_push_early(call->session, &call->to, block);
        } else if (block != 0) {
                region_free(&call->session->region, block);
        }
        cancel_call(call);
}

/* Returns a call that is held; NULL when it has ended. */
static struct bls_call *find_call(struct instance *in, uint32_t block) {
        struct bls_call *call;

        (void)pthread_mutex_lock(&in->lock);
        for (call = in->calls; call != NULL; call = call->next)
                if (call->to.call == block && call->session == in->session && hold_call(call))
                        break;
        (void)pthread_mutex_unlock(&in->lock);
        return call;
}

void bls_call_cancel(struct instance *in, uint32_t block) {
        struct bls_call *call = find_call(in, block);

        if (call != NULL)
                cancel_call(call);
}

void bls_call_wait(struct instance *in, uint32_t block, uint64_t kind) {
        struct bls_call    *call = find_call(in, block);
        TRITONSERVER_Error *err;

        if (call == NULL)
                return;
        if (kind > SHM_WAIT_INSTANCE || !call->wait.is_asked) {
                region_break(&in->session->region);
                end_one(call);
                return;
        }
        err = change_wait(call, (enum shm_wait)kind);
        if (err == NULL) {
                end_one(call);
                return;
        }
        end_early(call, TRITONSERVER_ErrorCode(err), TRITONSERVER_ErrorMessage(err));
        TRITONSERVER_ErrorDelete(err);
}

/* Holds a call of the instance and marks it; NULL when there is none. */
static struct bls_call *take_left(struct instance *in) {
        struct bls_call *call;

        (void)pthread_mutex_lock(&in->lock);
        for (call = in->calls; call != NULL; call = call->next)
                if (!call->is_left && is_left_locked(in, call) && hold_call(call))
                        break;
        if (call != NULL)
                call->is_left = true;
        (void)pthread_mutex_unlock(&in->lock);
        return call;
}

/* Answers the calls whose requests were all cancelled, and cancels them; from any thread. */
static void end_left_calls(struct instance *in) {
        struct bls_call *call;

        while ((call = take_left(in)) != NULL)
                end_early(call, TRITONSERVER_ERROR_CANCELLED, LEFT);
}

static void on_cancelled(void *userp) {
        struct entry *e = userp;

        atomic_store(&e->is_cancelled, true);
        end_left_calls(e->instance);
}

void bls_call_cancel_all(struct instance *in) {
        for (;;) {
                struct bls_call *call;

                (void)pthread_mutex_lock(&in->lock);
                for (call = in->calls; call != NULL; call = call->next)
                        if (!call->is_cancelled && hold_call(call))
                                break;
                if (call != NULL)
                        call->is_cancelled = true;
                (void)pthread_mutex_unlock(&in->lock);
                if (call == NULL)
                        return;
                cancel_call(call);
        }
}

void bls_call_wait_all(struct instance *in) {
        (void)pthread_mutex_lock(&in->lock);
        while (in->calls != NULL)
                (void)pthread_cond_wait(&in->changed, &in->lock);
        (void)pthread_mutex_unlock(&in->lock);
}
