/* SPDX-License-Identifier: BSD-3-Clause */
/* Large blocks that are freed on a loop: the system takes a millisecond for some ten megabytes of
 * pages, which connections need not wait for in one go. A few megabytes go back in each round of the
 * loop, which does not sleep meanwhile.
 */
#include "base/mem.h"
#include "net/uv_types.h"

/* A few tenths of a millisecond. */
#define SLICE_BYTES ((size_t)2 << 20)
/* What may lie about when another block comes: who frees faster than that waits for it. */
#define MAX_DISCARDED_BYTES ((size_t)1 << 30)

/* At the front of the block itself. */
struct discarded {
        struct discarded *next;
        size_t            left; /* of its bytes, those that are not given back yet */
};

static _Thread_local struct loop *this_loop;

static void give_back_some(struct loop *l) {
        struct discarded *d = l->discarded;
        size_t            n = MIN(d->left, SLICE_BYTES);

        d->left -= n;
        l->discarded_bytes -= n;
        if (d->left > 0) {
                mem_forget((char *)d + d->left, n);
                return;
        }
        l->discarded = d->next;
        free(d);
}

static void on_idle(uv_idle_t *idle) {
        struct loop *l = CONTAINER_OF(idle, struct loop, discarder);

        if (l->discarded)
                give_back_some(l);
        if (!l->discarded)
                uv_idle_stop(idle);
}

static bool take(void *block, size_t size) {
        struct loop      *l = this_loop;
        struct discarded *d = block;

        if (l->discarded_bytes > MAX_DISCARDED_BYTES)
                return false;
        *d = (struct discarded){ l->discarded, size };
        l->discarded = d;
        l->discarded_bytes += size;
        uv_idle_start(&l->discarder, on_idle);
        return true;
}

void loop_discard_init(struct loop *l) {
        uv_idle_init(&l->uv, &l->discarder);
}

void loop_discard_begin(struct loop *l) {
        this_loop = l;
        mem_free_large_by(take);
}

void loop_discard_close(struct loop *l) {
        mem_free_large_by(NULL);
        while (l->discarded)
                give_back_some(l);
        uv_close((uv_handle_t *)&l->discarder, NULL);
}
