/* SPDX-License-Identifier: BSD-3-Clause */
#include "sequence/sequence_batch.h"

#include "base/clock.h"
#include "base/mem.h"
#include "config/shape.h"
#include "infer/host_inputs.h"
#include "infer/implicit_state.h"
#include "infer/inner_request.h"
#include "infer/model.h"
#include "infer/request.h"
#include "infer/request_shape.h"
#include "infer/response.h"
#include "sequence/sequence_control.h"
#include "sequence/sequence_table.h"

#include <stdatomic.h>
#include <string.h>

#define MIN_ZEROS 4096

struct zero_block {
        struct zero_block *next; /* a smaller block, which null requests may still use */
        size_t             n;
        char               bytes[];
};

/* The null request of a slot, used again in each execution. While it is free, it holds no reference
 * to the model; it ends with the model's scheduler. */
struct reusable_null {
        struct inner_request *request; /* owned; NULL: not made yet */
        atomic_bool           is_free; /* its last execution, responses included, has ended */
};

/* ---- null requests --------------------------------------------------------------------------- */

static void on_null_response(struct inner_request *r, struct response *response, uint32_t flags) {
        (void)r;
        (void)flags;
        response_free(response);
}

static void free_null(struct inner_request *r) {
        if (r != NULL && r->request->has_states)
                implicit_states_free(r->request->states);
        inner_request_free(r);
}

static void on_null_end(struct inner_request *r) {
        struct reusable_null *reusable = r->owner;
        struct model         *model = r->request->model;

        if (reusable == NULL) {
                free_null(r);
                return;
        }
        atomic_store_explicit(&reusable->is_free, true, memory_order_release);
        model_unref(model);
}

/* Returns n zeros; NULL when memory is short. */
static const void *zeros_of(struct sequence_instance *in, size_t n) {
        struct zero_block *block = in->zeros;
        size_t             larger = MAX(n, MIN_ZEROS);

        if (block != NULL && block->n >= n)
                return block->bytes;
        if (block != NULL && block->n <= SIZE_MAX / 4)
                larger = MAX(larger, 2 * block->n);
        if (!size_add(sizeof(*block), larger, &n))
                return NULL;
        block = try_zalloc(n);
        if (block == NULL)
                return NULL;
        block->n = larger;
        block->next = in->zeros;
        in->zeros = block;
        return block->bytes;
}

/* Adds zeros. For BYTES these are empty elements, whose lengths are zero. */
static struct error *add_zero_input(struct sequence_instance *in, struct request *req,
                                    const struct request_input *like) {
        uint64_t n = like->byte_size;

        if (like->type == DATA_TYPE_BYTES) {
                int64_t n_elements = shape_element_count(like->given_shape, like->n_given_dims);

                n = n_elements > 0 ? (uint64_t)n_elements * sizeof(uint32_t) : 0;
        }
        TRY(request_add_input(req, like->name, like->type, like->given_shape, like->n_given_dims));
        if (n == 0)
                return NULL;

        const void              *bytes = zeros_of(in, n);
        struct buffer_attributes attributes = { .byte_size = n };

        if (bytes == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory");
        return request_append_bytes(req, like->name, bytes, &attributes, NULL);
}

static struct error *fill_null(struct sequence_instance *in, struct inner_request *r,
                               const struct request *like) {
        struct request *req = r->request;

        for (const struct request_input *i = like->first_input; i != NULL; i = i->next)
                TRY(add_zero_input(in, req, i));
        for (const struct requested_output *o = like->first_output; o != NULL; o = o->next)
                TRY(request_add_output(req, o->name));
        return inner_request_prepare(r);
}

/* Adds states with the shapes of the states of `like`. Returns false when memory is short. */
static bool add_states(struct inner_request *r, const struct request *like) {
        struct implicit_states *states;

        if (r->request->model->states == NULL)
                return true;
        states = implicit_states_new(r->request->model->states, STATES_OF_NULL);
        if (states == NULL)
                return false;
        implicit_states_attach(states, r->request);
        return implicit_states_imitate(states, like->sequence->states);
}

/* Returns NULL when memory is short. */
static struct inner_request *make_null(struct sequence_instance *in, const struct request *like,
                                       struct reusable_null *reusable) {
        static const struct inner_request_ops ops = { .on_response = on_null_response,
                                                      .on_end = on_null_end };
        const struct sequence_controls       *controls = in->batching->controls;
        struct inner_request *r = inner_request_new(in->batching->model, &ops, reusable);
        AUTO_ERROR            err = NULL;
        void                 *room;

        if (r == NULL)
                return NULL;
        err = fill_null(in, r, like);
        room = err == NULL ? arena_try_alloc(&r->request->arena, sequence_controls_room(controls))
                           : NULL;
        if (room == NULL) {
                inner_request_free(r);
                return NULL;
        }
        r->request->is_null = true;
        r->request->has_sequence = true;
        r->request->sequence = NULL;
        sequence_controls_init_room(controls, room);
        sequence_controls_attach(controls, room, r->request, NULL);
        if (!add_states(r, like)) {
                free_null(r);
                return NULL;
        }
        return r;
}

/* Returns the slot's reusable null request, which is made on first use. NULL when it cannot be used
 * now. */
static struct inner_request *take_reusable(struct sequence_instance *in, uint32_t slot,
                                           const struct request *like) {
        struct reusable_null *reusable = in->nulls[slot];

        if (reusable == NULL)
                reusable = in->nulls[slot] = mem_zalloc(sizeof(*reusable));
        if (reusable->request == NULL) {
                reusable->request =
                        make_null(in, like, reusable); /* it holds a reference to the model */
                return reusable->request;
        }
        if (!atomic_load_explicit(&reusable->is_free, memory_order_acquire))
                return NULL; /* its backend has not answered yet */
        if (reusable->request->request->has_states &&
            !implicit_states_imitate(reusable->request->request->states, like->sequence->states))
                return NULL;

        AUTO_ERROR err = request_renew_stream(reusable->request->request);

        if (err != NULL)
                return NULL;
        atomic_store_explicit(&reusable->is_free, false, memory_order_relaxed);
        model_ref(in->batching->model);
        return reusable->request;
}

static void free_reusable(struct reusable_null *reusable) {
        if (reusable != NULL && reusable->request != NULL) {
                reusable->request->request->model = NULL; /* it holds no reference */
                free_null(reusable->request);
        }
        free(reusable);
}

/* Returns a null request whose execution has begun; NULL when memory is short. */
static struct request *null_request_new(struct sequence_instance *in, uint32_t slot,
                                        const struct request *like) {
        struct inner_request *r = NULL;

        if (in->batching->has_fixed_inputs && like->first_output == NULL)
                r = take_reusable(in, slot, like);
        if (r == NULL)
                r = make_null(in, like, NULL);
        if (r == NULL)
                return NULL;
        inner_request_begin(r);
        return r->request;
}

/* ---- batches --------------------------------------------------------------------------------- */

static void attach(struct sequence_instance *in, struct request *req) {
        struct sequence *seq = req->sequence;

        sequence_controls_attach(in->batching->controls, seq->slot->room, req, seq);
        if (seq->states != NULL)
                implicit_states_attach(seq->states, req);
}

/* The error of a device is passed on; a host without memory has one text. */
static struct error *no_states(const struct sequence_instance *in, struct error *why) {
        static const struct error no_memory =
                ERROR_STATIC(ERR_UNAVAILABLE, "out of memory for the states of a sequence");

        if (why != NULL && in->batching->model->gpus != NULL)
                return why;
        error_free(why);
        return error_copy(&no_memory);
}

/* The first request of a sequence, and each one with START, gets the initial values. */
static struct error *open_states(struct sequence_instance *in, const struct request *req) {
        const struct model *model = in->batching->model;
        struct sequence    *seq = req->sequence;
        struct error       *err = NULL;

        if (model->states == NULL)
                return NULL;
        if (seq->states != NULL && (req->flags & REQUEST_SEQUENCE_START) != 0)
                err = implicit_states_reset(seq->states);
        if (err != NULL) {
                implicit_states_free(STEAL(seq->states));
                return no_states(in, err);
        }
        if (seq->states == NULL)
                seq->states = implicit_states_new(model->states, STATES_OF_SEQUENCE);
        return seq->states != NULL ? implicit_states_bring(seq->states, model, in->inner->gpu)
                                   : no_states(in, NULL);
}

static bool open_states_or_refuse(struct sequence_instance *in, struct request *req) {
        struct error *err = open_states(in, req);

        if (err == NULL)
                return true;
        request_refuse(req, err, FAILURE_OTHER);
        error_free(err);
        return false;
}

static bool same_shape(const struct sequence_instance *in, const struct request *a,
                       const struct request *b) {
        if (in->batching->model->states != NULL &&
            !implicit_states_same_shape(a->sequence->states, b->sequence->states))
                return false;
        return !in->batching->model->needs_equal_shapes || request_same_shape(a, b);
}

static void refuse_slots(struct request **batch, uint32_t n) {
        static const struct error no_memory =
                ERROR_STATIC(ERR_UNAVAILABLE,
                             "out of memory for the null requests of a sequence batch");

        for (uint32_t i = 0; i < n; i++)
                if (batch[i] != NULL)
                        request_refuse(batch[i], &no_memory, FAILURE_OTHER);
}

/* Moves the first request, and those of by_slot with the same shape, to `batch`. */
static struct request *select_same_shape(struct sequence_instance *in, uint32_t n_top,
                                         uint32_t *n_left) {
        struct request *first = NULL;

        for (uint32_t i = 0; i < n_top; i++) {
                struct request *req = in->by_slot[i];

                in->batch[i] = NULL;
                if (req == NULL || (first != NULL && !same_shape(in, first, req)))
                        continue;
                if (first == NULL)
                        first = req;
                in->batch[i] = req;
                in->by_slot[i] = NULL;
                --*n_left;
        }
        return first;
}

/* Executes the selected requests with null requests in the other slots. */
static void execute_selected(struct sequence_instance *in, const struct request *first,
                             uint32_t n_top) {
        for (uint32_t i = 0; i < n_top; i++) {
                struct request *null;

                if (in->batch[i] != NULL)
                        continue;
                null = null_request_new(in, i, first);
                if (null == NULL) {
                        refuse_slots(in->batch, n_top);
                        return;
                }
                in->batch[i] = null;
        }
        for (uint32_t i = 0; i < n_top; i++)
                if (in->batch[i]->sequence != NULL)
                        attach(in, in->batch[i]);
        in->inner->ops->execute(in->inner, in->batch, n_top);
}

static void reserve_slots(struct sequence_instance *in, uint32_t n) {
        uint32_t old = in->cap;

        if (n <= old)
                return;
        in->cap = MAX(n, 2 * old);
        in->by_slot = mem_realloc(in->by_slot, (size_t)in->cap * sizeof(struct request *));
        in->batch = mem_realloc(in->batch, (size_t)in->cap * sizeof(struct request *));
        in->nulls = mem_realloc(in->nulls, (size_t)in->cap * sizeof(struct reusable_null *));
        memset(in->nulls + old, 0, (size_t)(in->cap - old) * sizeof(struct reusable_null *));
}

static void execute_slots(struct sequence_instance *in, struct request **requests, uint32_t n) {
        uint32_t n_top, n_left = 0;

        mutex_lock(in->batching->lock);
        n_top = in->place->n_top;
        mutex_unlock(in->batching->lock);
        reserve_slots(in, n_top);
        for (uint32_t i = 0; i < n_top; i++)
                in->by_slot[i] = NULL;
        for (uint32_t i = 0; i < n; i++) {
                if (!open_states_or_refuse(in, requests[i]))
                        continue;
                in->by_slot[requests[i]->sequence->slot->number] = requests[i];
                n_left++;
        }
        while (n_left > 0) {
                struct request *first = select_same_shape(in, n_top, &n_left);

                execute_selected(in, first, n_top);
        }
}

/* Executes the requests in groups whose states have the same shapes. */
static void execute_with_states(struct sequence_instance *in, struct request **requests,
                                uint32_t n) {
        uint32_t n_left = 0;

        reserve_slots(in, n);
        for (uint32_t i = 0; i < n; i++)
                if (open_states_or_refuse(in, requests[i]))
                        in->by_slot[n_left++] = requests[i];
        while (n_left > 0) {
                uint32_t n_all = n_left, n_now = 0;

                n_left = 0;
                for (uint32_t i = 0; i < n_all; i++) {
                        struct request *req = in->by_slot[i];

                        if (n_now == 0 || implicit_states_same_shape(in->batch[0]->sequence->states,
                                                                     req->sequence->states))
                                in->batch[n_now++] = req;
                        else
                                in->by_slot[n_left++] = req;
                }
                for (uint32_t i = 0; i < n_now; i++)
                        attach(in, in->batch[i]);
                in->inner->ops->execute(in->inner, in->batch, n_now);
        }
}

/* Of an iterative model: the backend will know the sequence, or see its end. */
static void note_execution(struct request *req) {
        struct sequence *seq = req->sequence;

        seq->is_open = true;
        if (!req->runs_cancelled || !request_is_cancelled(req))
                return;
        seq->is_closing = true;
        req->flags = REQUEST_SEQUENCE_END;
}

/* Copies inputs that lie on devices to the host, for a backend that does not look there: later the place of a request
 * is that of its slot, and none could be refused alone. Returns the number of requests that are left. */
static COLD uint32_t bring_inputs(struct request **requests, uint32_t n) {
        uint64_t now_ns = clock_now_ns();
        uint32_t n_kept = 0;

        for (uint32_t i = 0; i < n; i++) {
                struct request *req = requests[i];
                AUTO_ERROR      err = req->has_device_inputs ? host_inputs_copy(req, now_ns) : NULL;

                if (err == NULL)
                        requests[n_kept++] = req;
                else
                        request_refuse(req, err, FAILURE_OTHER);
        }
        return n_kept;
}

static void execute_batch(struct executor *base, struct request **requests, uint32_t n) {
        struct sequence_instance *in = CONTAINER_OF(base, struct sequence_instance, base);
        const struct model       *model = in->batching->model;

        if (model->gpus != NULL && !model->takes_device_memory) {
                n = bring_inputs(requests, n);
                if (n == 0)
                        return;
        }
        if (in->batching->closes)
                for (uint32_t i = 0; i < n; i++)
                        note_execution(requests[i]);
        if (in->batching->is_by_slot) {
                execute_slots(in, requests, n);
                return;
        }
        if (in->batching->model->states != NULL) {
                execute_with_states(in, requests, n);
                return;
        }
        for (uint32_t i = 0; i < n; i++)
                attach(in, requests[i]);
        in->inner->ops->execute(in->inner, requests, n);
}

static bool is_ready(struct executor *base) {
        struct sequence_instance *in = CONTAINER_OF(base, struct sequence_instance, base);

        return in->inner->ops->is_ready(in->inner);
}

/* ---- instances ------------------------------------------------------------------------------- */

struct sequence_instance *sequence_instance_new(const struct sequence_batching *b) {
        struct sequence_instance *in = mem_zalloc(sizeof(*in));

        in->batching = b;
        return in;
}

void sequence_instance_bind(struct sequence_instance *in, struct executor *inner) {
        static const struct executor_ops ops = { .execute = execute_batch, .is_ready = is_ready };

        in->inner = inner;
        in->base = *inner;
        in->base.ops = &ops;
}

void sequence_instance_free(struct sequence_instance *in) {
        if (in == NULL)
                return;
        for (struct zero_block *block = in->zeros, *next; block != NULL; block = next) {
                next = block->next;
                free(block);
        }
        for (uint32_t i = 0; i < in->cap; i++)
                free_reusable(in->nulls[i]);
        free(in->nulls);
        free(in->by_slot);
        free(in->batch);
        free(in);
}
