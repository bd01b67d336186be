/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/due_heap.h"

#include "base/mem.h"

void due_heap_init(struct due_heap *h) {
        *h = (struct due_heap){ 0 };
}

void due_heap_done(struct due_heap *h) {
        free(h->dues);
}

static void place_due(struct due_heap *h, size_t at, struct due *d) {
        h->dues[at] = d;
        d->at = at;
}

static void sift_up(struct due_heap *h, size_t at, struct due *d) {
        while (at > 0) {
                size_t parent = (at - 1) / 2;

                if (h->dues[parent]->due_ns <= d->due_ns)
                        break;
                place_due(h, at, h->dues[parent]);
                at = parent;
        }
        place_due(h, at, d);
}

static void sift_down(struct due_heap *h, size_t at, struct due *d) {
        for (;;) {
                size_t child = 2 * at + 1;

                if (child >= h->n)
                        break;
                if (child + 1 < h->n && h->dues[child + 1]->due_ns < h->dues[child]->due_ns)
                        child++;
                if (h->dues[child]->due_ns >= d->due_ns)
                        break;
                place_due(h, at, h->dues[child]);
                at = child;
        }
        place_due(h, at, d);
}

static size_t next_cap(const struct due_heap *h) {
        return h->cap > 0 ? h->cap * 2 : 64;
}

void due_heap_need(struct due_heap *h) {
        if (h->n < h->cap)
                return;
        h->cap = next_cap(h);
        h->dues = mem_realloc(h->dues, h->cap * sizeof(struct due *));
}

bool due_heap_push(struct due_heap *h, struct due *d) {
        if (h->n == h->cap) {
                struct due **grown = try_realloc(h->dues, next_cap(h) * sizeof(*grown));

                if (grown == NULL)
                        return false;
                h->cap = next_cap(h);
                h->dues = grown;
        }
        sift_up(h, h->n++, d);
        return true;
}

void due_heap_remove(struct due_heap *h, struct due *d) {
        size_t      at = d->at;
        struct due *last = h->dues[--h->n];

        if (last == d)
                return;
        sift_up(h, at, last);
        sift_down(h, last->at, last);
}

struct due *due_heap_first(const struct due_heap *h) {
        return h->n > 0 ? h->dues[0] : NULL;
}
