/* SPDX-License-Identifier: BSD-3-Clause */
#include "backend/probe.h"

#include "base/mem.h"
#include "infer/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void on_response(struct response *response, uint32_t flags, void *userp) {
        struct probe    *p = userp;
        struct response *old;

        pthread_mutex_lock(&p->lock);
        old = p->response;
        p->response = response;
        p->n_answers++;
        p->n_finals += (flags & RESPONSE_FINAL) != 0;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->lock);
        response_free(old);
}

static void on_release(struct request *req, uint32_t flags, void *userp) {
        struct probe *p = userp;

        assert_ptr_equal(req, p->request);
        assert_int_equal(flags, REQUEST_RELEASE_ALL);
        pthread_mutex_lock(&p->lock);
        p->n_releases++;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->lock);
}

static void count_buffers(struct probe *p, int change) {
        pthread_mutex_lock(&p->lock);
        p->n_live_buffers += (unsigned)change;
        pthread_mutex_unlock(&p->lock);
}

/* The signature of allocator_alloc_fn. */
static struct error *allocate(struct response_allocator *allocator, const char *tensor,
                              size_t byte_size, enum memory_type type, int64_t id, void *userp,
                              void **buffer, void **buffer_userp, enum memory_type *actual_type,
                              int64_t *actual_id) {
        (void)allocator;
        (void)tensor;
        (void)type;
        (void)id;
        *buffer = mem_alloc(byte_size);
        *buffer_userp = userp;
        *actual_type = MEMORY_CPU;
        *actual_id = 0;
        count_buffers(userp, 1);
        return NULL;
}

static struct error *take_back(struct response_allocator *allocator, void *buffer,
                               void *buffer_userp, size_t byte_size, enum memory_type type,
                               int64_t id) {
        (void)allocator;
        (void)byte_size;
        (void)type;
        (void)id;
        free(buffer);
        count_buffers(buffer_userp, -1);
        return NULL;
}

static const struct response_allocator allocator = { .alloc = allocate, .release = take_back };

void probe_init(struct probe *p, struct model *model) {
        *p = (struct probe){ .request = request_new(model) };
        assert_non_null(p->request);
        pthread_mutex_init(&p->lock, NULL);
        pthread_cond_init(&p->changed, NULL);
        p->request->allocator = &allocator;
        p->request->allocator_userp = p;
        p->request->on_response = on_response;
        p->request->on_response_userp = p;
        p->request->on_release = on_release;
        p->request->on_release_userp = p;
}

void probe_done(struct probe *p) {
        request_free(p->request);
        response_free(p->response);
        assert_int_equal(p->n_live_buffers, 0);
        pthread_cond_destroy(&p->changed);
        pthread_mutex_destroy(&p->lock);
}

void probe_add_row(struct probe *p, const char *input, const int32_t *values, int64_t n) {
        struct buffer_attributes attributes = { .memory_type = MEMORY_CPU,
                                                .byte_size = (size_t)n * sizeof(*values) };

        assert_null(request_add_input(p->request, input, DATA_TYPE_INT32, (int64_t[]){ 1, n }, 2));
        assert_null(request_append_bytes(p->request, input, values, &attributes, NULL));
}

void probe_wait(struct probe *p) {
        pthread_mutex_lock(&p->lock);
        while (p->n_finals == 0 || p->n_releases == 0)
                pthread_cond_wait(&p->changed, &p->lock);
        pthread_mutex_unlock(&p->lock);
}

const struct error *probe_error(struct probe *p) {
        const struct error *err;

        pthread_mutex_lock(&p->lock);
        err = p->response != NULL ? p->response->error : NULL;
        pthread_mutex_unlock(&p->lock);
        return err;
}
