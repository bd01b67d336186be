/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/due_heap.h"

#include "base/mem.h"
#include "infer/request.h"

void due_heap_init(struct due_heap *h) {
        *h = (struct due_heap){ 0 };
}

void due_heap_done(struct due_heap *h) {
        free(h->requests);
}

static void place(struct due_heap *h, size_t at, struct request *req) {
        h->requests[at] = req;
        req->queued.due_at = at;
}

static void sift_up(struct due_heap *h, size_t at, struct request *req) {
        while (at > 0) {
                size_t parent = (at - 1) / 2;

                if (h->requests[parent]->queued.due_ns <= req->queued.due_ns)
                        break;
                place(h, at, h->requests[parent]);
                at = parent;
        }
        place(h, at, req);
}

static void sift_down(struct due_heap *h, size_t at, struct request *req) {
        for (;;) {
                size_t child = 2 * at + 1;

                if (child >= h->n)
                        break;
                if (child + 1 < h->n &&
                    h->requests[child + 1]->queued.due_ns < h->requests[child]->queued.due_ns)
                        child++;
                if (h->requests[child]->queued.due_ns >= req->queued.due_ns)
                        break;
                place(h, at, h->requests[child]);
                at = child;
        }
        place(h, at, req);
}

bool due_heap_push(struct due_heap *h, struct request *req) {
        if (h->n == h->cap) {
                size_t           cap = h->cap > 0 ? h->cap * 2 : 64;
                struct request **grown = try_realloc(h->requests, cap * sizeof(*grown));

                if (grown == NULL)
                        return false;
                h->requests = grown;
                h->cap = cap;
        }
        sift_up(h, h->n++, req);
        return true;
}

void due_heap_remove(struct due_heap *h, struct request *req) {
        size_t          at = req->queued.due_at;
        struct request *last = h->requests[--h->n];

        if (last == req)
                return;
        sift_up(h, at, last);
        sift_down(h, last->queued.due_at, last);
}

struct request *due_heap_first(const struct due_heap *h) {
        return h->n > 0 ? h->requests[0] : NULL;
}
