/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/inner_request.h"

#include "base/buf.h"
#include "base/clock.h"
#include "infer/host_inputs.h"
#include "infer/infer_thread.h"
#include "infer/model.h"
#include "infer/model_submit.h"
#include "infer/request.h"
#include "infer/request_prepare.h"
#include "infer/response.h"
#include "infer/step_request.h"

/* The second call usually reads 1 and needs no locked instruction. */
static NOINLINE void count_end_elsewhere(struct inner_request *r) {
        if (atomic_load_explicit(&r->n_open, memory_order_acquire) == 1 ||
            atomic_fetch_sub_explicit(&r->n_open, 1, memory_order_acq_rel) == 1)
                r->ops->on_end(r);
}

/* Called for the last response and for the release. */
static inline void count_end(struct inner_request *r) {
        if (atomic_load_explicit(&r->thread, memory_order_relaxed) == infer_thread_self())
                r->n_here++;
        else
                count_end_elsewhere(r);
}

static void on_response(struct response *response, uint32_t flags, void *userp) {
        struct inner_request *r = userp;

        r->ops->on_response(r, response, flags);
        if ((flags & RESPONSE_FINAL) != 0)
                count_end(r);
}

static void on_release(struct request *req, uint32_t flags, void *userp) {
        (void)req;
        (void)flags;
        count_end(userp);
}

/* Has the type allocator_alloc_fn. */
static struct error *allocate_output(struct response_allocator *allocator, const char *tensor,
                                     size_t byte_size, enum memory_type type, int64_t id,
                                     void *userp, void **buffer, void **buffer_userp,
                                     enum memory_type *actual_type, int64_t *actual_id) {
        struct buf *b = NULL;

        (void)allocator;
        (void)type;
        (void)id;
        (void)userp;
        if (byte_size > 0) {
                b = buf_new(NULL, byte_size);
                if (b == NULL)
                        return error_new(ERR_UNAVAILABLE, "out of memory for output '%s'", tensor);
                b->len = byte_size;
        }
        *buffer = b != NULL ? b->bytes : NULL;
        *buffer_userp = b;
        *actual_type = MEMORY_CPU;
        *actual_id = 0;
        return NULL;
}

struct error *inner_output_release(struct response_allocator *allocator, void *buffer,
                                   void *buffer_userp, size_t byte_size, enum memory_type type,
                                   int64_t id) {
        (void)allocator;
        (void)buffer;
        (void)byte_size;
        (void)type;
        (void)id;
        buf_unref(buffer_userp);
        return NULL;
}

/* Wraps the request, which it takes; NULL when that is NULL. */
static struct inner_request *wrap_request(struct request *req, const struct inner_request_ops *ops,
                                          void *owner) {
        static const struct response_allocator allocator = { .alloc = allocate_output,
                                                             .release = inner_output_release };
        struct inner_request                  *r;

        if (req == NULL)
                return NULL;
        r = arena_try_alloc(&req->arena, sizeof(*r));
        if (r == NULL) {
                request_free(req);
                return NULL;
        }
        *r = (struct inner_request){ .request = req, .ops = ops, .owner = owner };
        req->is_inner = true;
        req->outer = NULL;
        req->steps = NULL;
        req->sums = NULL;
        req->kept_batch = 0;
        req->allocator = &allocator;
        req->on_response = on_response;
        req->on_response_userp = r;
        req->on_release = on_release;
        req->on_release_userp = r;
        return r;
}

struct inner_request *inner_request_new(struct model *model, const struct inner_request_ops *ops,
                                        void *owner) {
        return wrap_request(request_new(model), ops, owner);
}

struct inner_request *inner_request_new_borrowing(struct model                   *model,
                                                  const struct inner_request_ops *ops,
                                                  void                           *owner) {
        return wrap_request(request_new_borrowing(model), ops, owner);
}

void inner_request_free(struct inner_request *r) {
        if (r != NULL)
                request_free(r->request);
}

struct error *inner_request_submit(struct inner_request *r) {
        atomic_store_explicit(&r->n_open, 2, memory_order_relaxed);
        return model_submit_at(r->request, infer_thread_now(infer_thread_self()));
}

struct error *inner_request_run(struct inner_request *r, bool *ret_has_ended) {
        struct infer_thread *self = infer_thread_self();
        struct error        *err;
        unsigned             n;

        atomic_store_explicit(&r->n_open, 3, memory_order_relaxed);
        r->n_here = 0;
        atomic_store_explicit(&r->thread, self, memory_order_relaxed);
        err = model_submit_at(r->request, infer_thread_now(self));
        n = 1 + r->n_here;
        atomic_store_explicit(&r->thread, NULL, memory_order_relaxed);
        if (err != NULL)
                return err;
        /* From the subtraction on, another thread may end the request, and its owner free it. */
        *ret_has_ended =
                n == 3 || atomic_fetch_sub_explicit(&r->n_open, n, memory_order_acq_rel) == n;
        return NULL;
}

#define MAX_TOGETHER 64

void inner_request_submit_all(struct inner_request *const *requests, uint32_t n,
                              struct error **ret_errors) {
        struct request *plain[MAX_TOGETHER];

        while (n > 0) {
                uint32_t n_now = MIN(n, (uint32_t)MAX_TOGETHER);

                for (uint32_t i = 0; i < n_now; i++) {
                        atomic_store_explicit(&requests[i]->n_open, 2, memory_order_relaxed);
                        plain[i] = requests[i]->request;
                }
                model_submit_all(plain, n_now, ret_errors);
                requests += n_now;
                ret_errors += n_now;
                n -= n_now;
        }
}

struct error *inner_request_prepare(struct inner_request *r) {
        struct error *err = request_prepare(r->request);

        if (err != NULL)
                host_inputs_return(r->request);
        return err;
}

void inner_request_begin(struct inner_request *r) {
        struct request *req = r->request;

        atomic_store_explicit(&r->n_open, 2, memory_order_relaxed);
        req->times.request_start_ns = req->times.queue_start_ns = clock_now_ns();
        atomic_fetch_add(&req->model->n_in_flight, 1);
        atomic_store(&req->state, REQUEST_EXECUTING);
}

struct buf *inner_output_buf(const struct response_output *output) {
        return output->has_buffer ? output->userp : NULL;
}
