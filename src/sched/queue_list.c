/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/queue_list.h"

#include "infer/request_shape.h"

static bool is_inversion(const struct request *before, const struct request *req) {
        return req->times.queue_start_ns < before->times.queue_start_ns;
}

void queue_list_compare_last(struct queue_list *l, struct request *req, bool compares_shapes) {
        const struct request *before = queue_list_entry(l->requests.head.prev);

        req->differs = compares_shapes && !request_same_shape(before, req);
        req->is_inversion = is_inversion(before, req);
        l->n_differing += req->differs;
        l->n_inversions += req->is_inversion;
}

/* The request before `next` is about to leave. Having the same shape is transitive, so the shapes are
 * compared only when both differ from the ones before them. */
static bool differs_without(const struct request *before, const struct request *req,
                            const struct request *next) {
        if (req->differs && next->differs)
                return !request_same_shape(before, next);
        return req->differs || next->differs;
}

void queue_list_compare_neighbours(struct queue_list *l, struct request *req) {
        struct list_node     *after = list_next(&l->requests, &req->queued.node);
        bool                  is_first = l->requests.head.next == &req->queued.node;
        const struct request *before = is_first ? NULL : queue_list_entry(req->queued.node.prev);
        struct request       *next;

        l->n_differing -= req->differs;
        l->n_inversions -= req->is_inversion;
        if (after == NULL)
                return;
        next = queue_list_entry(after);
        l->n_differing -= next->differs;
        l->n_inversions -= next->is_inversion;
        next->differs = !is_first && differs_without(before, req, next);
        next->is_inversion = !is_first && is_inversion(before, next);
        l->n_differing += next->differs;
        l->n_inversions += next->is_inversion;
}

void queue_list_take_rows(struct queue_list *l, const struct request *req, uint64_t n_rows) {
        l->n_rows -= n_rows;
        l->n_large -= request_rows(req) > 1 && request_rows(req) - n_rows <= 1;
}
