/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/warmup.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "config/model_config.h"
#include "infer/executor.h"
#include "infer/model.h"
#include "infer/request_check.h"
#include "infer/response.h"
#include "repo/warmup_input.h"

#include <string.h>

/* Far beyond any batch that runs, and little enough memory. */
#define MAX_WARMUP_BATCH 65536

/* One sample being run. */
struct warmup {
        struct model                 *model;
        const char                   *directory;
        const Inference__ModelWarmup *sample;
        struct warmup_bytes          *bytes;    /* owned; one per input */
        struct request              **requests; /* owned */
        struct mutex                  lock;     /* rank LOCK_MAILBOX; guards the two below */
        struct cond                   ended;
        uint32_t                      n_open; /* responses and releases still to come */
        struct error                 *error;  /* owned; the first failure */
};

static void keep_error(struct warmup *w, const struct error *why) {
        MUTEX_GUARD(&w->lock);
        if (w->error == NULL)
                w->error = error_copy(why);
}

static void end_one(struct warmup *w) {
        MUTEX_GUARD(&w->lock);
        w->n_open--;
        cond_signal(&w->ended);
}

static void on_response(struct response *response, uint32_t flags, void *userp) {
        struct warmup *w = userp;

        /* A decoupled model may fail before its final response. */
        if (response != NULL && response->error != NULL)
                keep_error(w, response->error);
        response_free(response);
        if ((flags & RESPONSE_FINAL) != 0)
                end_one(w);
}

static void on_release(struct request *req, uint32_t flags, void *userp) {
        (void)req;
        (void)flags;
        end_one(userp);
}

/* The signature of allocator_alloc_fn. */
static struct error *allocate(struct response_allocator *allocator, const char *tensor,
                              size_t byte_size, enum memory_type type, int64_t id, void *userp,
                              void **buffer, void **buffer_userp, enum memory_type *actual_type,
                              int64_t *actual_id) {
        (void)allocator;
        (void)type;
        (void)id;
        (void)userp;
        *buffer = byte_size > 0 ? try_alloc(byte_size) : NULL;
        *buffer_userp = NULL;
        *actual_type = MEMORY_CPU;
        *actual_id = 0;
        if (*buffer == NULL && byte_size > 0)
                return error_new(ERR_UNAVAILABLE, "out of memory for output '%s'", tensor);
        return NULL;
}

static struct error *give_back(struct response_allocator *allocator, void *buffer,
                               void *buffer_userp, size_t byte_size, enum memory_type type,
                               int64_t id) {
        (void)allocator;
        (void)buffer_userp;
        (void)byte_size;
        (void)type;
        (void)id;
        free(buffer);
        return NULL;
}

static struct error *add_input(struct warmup *w, struct request *req, size_t index) {
        const Inference__ModelWarmup__Input *input = w->sample->inputs[index]->value;
        const char                          *name = w->sample->inputs[index]->key;
        bool     is_batched = w->model->io->max_batch_size > 0;
        int64_t *dims = mem_alloc((input->n_dims + 1) * sizeof(*dims));
        struct buffer_attributes attributes = { .byte_size = w->bytes[index].n };
        struct error            *err;

        if (is_batched)
                dims[0] = 1;
        if (input->n_dims > 0)
                memcpy(dims + (is_batched ? 1 : 0), input->dims, input->n_dims * sizeof(*dims));
        err = request_add_input(req, name, (enum data_type)input->data_type, dims,
                                input->n_dims + (is_batched ? 1 : 0));
        free(dims);
        TRY(err);
        return request_append_bytes(req, name, w->bytes[index].bytes, &attributes, NULL);
}

static struct error *make_request(struct warmup *w, struct request **ret) {
        static const struct response_allocator allocator = { .alloc = allocate,
                                                             .release = give_back };
        struct request                        *req = request_new(w->model);
        struct error                          *err = NULL;

        if (req == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory for a warmup request");
        *ret = req;
        for (size_t i = 0; i < w->sample->n_inputs && err == NULL; i++)
                err = add_input(w, req, i);
        TRY(err);
        req->allocator = &allocator;
        req->on_response = on_response;
        req->on_response_userp = w;
        req->on_release = on_release;
        req->on_release_userp = w;
        TRY(request_prepare(req));
        req->times.request_start_ns = req->times.queue_start_ns = clock_now_ns();
        atomic_fetch_add(&w->model->n_in_flight, 1);
        atomic_store(&req->state, REQUEST_EXECUTING);
        w->n_open += 2; /* its final response and its release */
        return NULL;
}

/* All requests of the sample as one batch. */
static struct error *run_once(struct warmup *w, struct executor *executor) {
        uint32_t      n = w->sample->batch_size;
        uint32_t      n_made = 0;
        struct error *err = NULL;

        w->requests = try_zalloc(((size_t)n + 1) * sizeof(*w->requests));
        if (w->requests == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory for %u warmup requests", n);
        while (n_made < n && err == NULL)
                err = make_request(w, &w->requests[n_made++]);
        if (err == NULL) {
                executor->ops->execute(executor, w->requests, n);
                mutex_lock(&w->lock);
                while (w->n_open > 0)
                        cond_wait(&w->ended, &w->lock);
                err = STEAL(w->error);
                mutex_unlock(&w->lock);
        } else {
                atomic_fetch_sub(&w->model->n_in_flight, w->n_open / 2);
                w->n_open = 0;
        }
        for (uint32_t i = 0; i < n_made; i++)
                request_free(w->requests[i]);
        free(STEAL(w->requests));
        return err;
}

static struct error *read_inputs(struct warmup *w) {
        w->bytes = mem_zalloc((w->sample->n_inputs + 1) * sizeof(*w->bytes));
        for (size_t i = 0; i < w->sample->n_inputs; i++)
                TRY(warmup_input_read(w->sample->inputs[i]->value, w->sample->inputs[i]->key,
                                      w->directory, &w->bytes[i]));
        return NULL;
}

/* Takes `why`, which may be NULL. The text ends as the reference server's. */
static struct error *name_sample(const struct warmup *w, struct error *why) {
        struct error *err;

        if (why == NULL)
                return NULL;
        err = error_new(why->code, "failed to run warmup sample '%s': %s; ", w->sample->name,
                        why->message);
        error_free(why);
        return err;
}

static struct error *run_sample(struct warmup *w, struct executor *executor) {
        struct error *err = read_inputs(w);

        for (uint32_t i = 0; i < w->sample->count && err == NULL; i++)
                err = name_sample(w, run_once(w, executor));
        for (size_t i = 0; i < w->sample->n_inputs; i++)
                free(w->bytes[i].bytes);
        free(w->bytes);
        return err;
}

struct error *warmup_run(struct model *model, const char *model_directory,
                         struct executor *executor) {
        const Inference__ModelConfig *pb = model->config->pb;
        struct error                 *err = NULL;

        for (size_t i = 0; i < pb->n_model_warmup && err == NULL; i++) {
                struct warmup w = { .model = model,
                                    .directory = model_directory,
                                    .sample = pb->model_warmup[i] };

                if (w.sample->batch_size == 0)
                        continue;
                if (w.sample->batch_size > MAX_WARMUP_BATCH)
                        return error_new(ERR_INVALID_ARG,
                                         "warmup sample '%s' has batch_size %u, at most %d are "
                                         "supported",
                                         w.sample->name, w.sample->batch_size, MAX_WARMUP_BATCH);
                mutex_init(&w.lock, LOCK_MAILBOX);
                cond_init(&w.ended);
                err = run_sample(&w, executor);
                cond_done(&w.ended);
                mutex_done(&w.lock);
        }
        return err;
}
