/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting requests in an order, with sums. The sums show what the requests have in common, so that a
 * policy can add all of them to a batch without a look at each (sched/policy_dynamic.c).
 *
 * The shapes and times of neighbours are compared when a request is appended or leaves. So each operation
 * takes the same time for any number of requests.
 *
 * Ownership.  A part of a request_queue, which borrows its requests.
 * Threads.  The caller holds the owner's lock.
 */
#pragma once

#include "base/list.h"
#include "infer/request.h"

#include <stdbool.h>
#include <stdint.h>

struct queue_list {
        struct list requests; /* struct request by queued.node */
        uint64_t    n_rows;
        uint32_t    n;
        uint32_t    n_large;      /* requests with more than one row */
        uint32_t    n_kept_batch; /* requests with a kept_batch */
        uint32_t    n_differing;  /* requests with another shape than the one before; if compared */
        uint32_t
                n_inversions; /* requests whose time of queueing is before that of the one before */
};

static inline void queue_list_init(struct queue_list *l) {
        *l = (struct queue_list){ 0 };
        list_init(&l->requests);
}

static inline struct request *queue_list_entry(struct list_node *node) {
        return LIST_ENTRY(node, struct request, queued.node);
}

static inline uint64_t request_kept_batch(const struct request *req) {
        return req->is_inner ? req->kept_batch : 0;
}

/* Compares a request with the one before it, at the end of the list. */
void queue_list_compare_last(struct queue_list *l, struct request *req, bool compares_shapes);
/* The request leaves: compares the one behind it with the one before it. */
void queue_list_compare_neighbours(struct queue_list *l, struct request *req);

/* The request becomes the last one. */
static inline void queue_list_append(struct queue_list *l, struct request *req,
                                     bool compares_shapes) {
        uint64_t rows = request_rows(req);

        req->is_delayed = req->differs = req->is_inversion = false;
        if (l->n > 0)
                queue_list_compare_last(l, req, compares_shapes);
        list_append(&l->requests, &req->queued.node);
        l->n++;
        l->n_rows += rows;
        l->n_large += rows > 1;
        if (req->is_inner)
                l->n_kept_batch += req->kept_batch != 0;
}

static inline void queue_list_remove(struct queue_list *l, struct request *req) {
        uint64_t rows = request_rows(req);

        if ((l->n_differing | l->n_inversions) > 0)
                queue_list_compare_neighbours(l, req);
        list_remove(&req->queued.node);
        l->n--;
        l->n_rows -= rows;
        l->n_large -= rows > 1;
        if (l->n_kept_batch > 0)
                l->n_kept_batch -= request_kept_batch(req) != 0;
}

/* Called before rows of a request are taken, but not all; the caller then reduces its batch_size. */
void queue_list_take_rows(struct queue_list *l, const struct request *req, uint64_t n_rows);
