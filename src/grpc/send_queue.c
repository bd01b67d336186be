/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/send_queue.h"

#include "base/mem.h"
#include "grpc/h2_out.h"

#include <assert.h>
#include <string.h>

/* The header of the frame is copied as well. */
#define MAX_COPIED_BYTES (H2_OUT_FRAME_COPIED_BYTES - 64)

void send_queue_init(struct send_queue *q, struct buf_pool *pool) {
        q->pool = pool;
        q->bytes = 0;
        q->ranges = q->few;
        q->first = q->n_ranges = 0;
        q->cap = SEND_QUEUE_FEW;
        q->tail = NULL;
        q->small_used = 0;
}

static void drop_tail(struct send_queue *q) {
        buf_unref(q->tail);
        q->tail = NULL;
}

void send_queue_done(struct send_queue *q) {
        for (size_t i = q->first; i < q->n_ranges; i++)
                buf_unref(q->ranges[i].owner);
        drop_tail(q);
        if (q->ranges != q->few)
                free(q->ranges);
        send_queue_init(q, q->pool);
}

/* Makes room for one more range. */
static bool make_room(struct send_queue *q) {
        struct send_range *grown;
        size_t             used = q->n_ranges - q->first;
        size_t             bytes;

        if (q->n_ranges < q->cap)
                return true;
        if (q->first > q->cap / 2) {
                memmove(q->ranges, q->ranges + q->first, used * sizeof(q->ranges[0]));
                q->n_ranges = used;
                q->first = 0;
                return true;
        }
        if (!size_mul(2 * q->cap, sizeof(*grown), &bytes))
                return false;
        grown = try_realloc(q->ranges == q->few ? NULL : q->ranges, bytes);
        if (grown == NULL)
                return false;
        if (q->ranges == q->few)
                memcpy(grown, q->few, sizeof(q->few));
        q->ranges = grown;
        q->cap *= 2;
        return true;
}

/* Takes the owner's reference on success. */
static bool push_range(struct send_queue *q, const char *ptr, size_t len, struct buf *owner) {
        if (!make_room(q))
                return false;
        q->ranges[q->n_ranges++] = (struct send_range){ ptr, len, owner };
        q->bytes += len;
        return true;
}

/* Adds bytes that were copied to `ptr`; extends the last range when they follow it. */
static bool push_copied(struct send_queue *q, const char *ptr, size_t len, struct buf *owner) {
        struct send_range *last = q->n_ranges > q->first ? &q->ranges[q->n_ranges - 1] : NULL;

        if (last != NULL && last->owner == owner && last->ptr + last->len == ptr) {
                last->len += len;
                q->bytes += len;
                return true;
        }
        if (!push_range(q, ptr, len, owner))
                return false;
        if (owner != NULL)
                buf_ref(owner);
        return true;
}

static bool put_in_tail(struct send_queue *q, const char *bytes, size_t len) {
        char *place;

        if (q->tail != NULL && q->tail->cap - q->tail->len < len)
                drop_tail(q);
        if (q->tail == NULL)
                q->tail = buf_new(q->pool, len);
        if (q->tail == NULL)
                return false;
        place = q->tail->bytes + q->tail->len;
        memcpy(place, bytes, len);
        q->tail->len += len;
        return push_copied(q, place, len, q->tail);
}

bool send_queue_put(struct send_queue *q, const void *bytes, size_t len) {
        char *place = q->small + q->small_used;

        if (len == 0)
                return true;
        if (len > sizeof(q->small) - q->small_used)
                return put_in_tail(q, bytes, len);
        memcpy(place, bytes, len);
        q->small_used += len;
        return push_copied(q, place, len, NULL);
}

bool send_queue_put_buf(struct send_queue *q, const void *bytes, size_t len, struct buf *owner) {
        if (len > 0 && push_range(q, bytes, len, owner))
                return true;
        buf_unref(owner);
        return len == 0;
}

static bool is_referred(const struct send_range *r) {
        return r->owner != NULL && r->len >= SEND_QUEUE_REFER_BYTES;
}

size_t send_queue_fit(const struct send_queue *q, size_t max) {
        size_t fits = 0, copied = 0, refs = 0;

        for (size_t i = q->first; i < q->n_ranges && fits < max; i++) {
                size_t len = MIN(q->ranges[i].len, max - fits);

                if (is_referred(&q->ranges[i])) {
                        if (++refs > H2_OUT_FRAME_REFS)
                                break;
                } else {
                        len = MIN(len, MAX_COPIED_BYTES - copied);
                        copied += len;
                }
                fits += len;
                if (copied == MAX_COPIED_BYTES)
                        break;
        }
        return fits;
}

/* The rest of a referred range may be copied when it is small. */
static void take_some(struct send_range *r, size_t n, struct h2_out *out) {
        if (is_referred(r))
                h2_out_refer(out, r->ptr, n, r->owner);
        else
                h2_out_copy(out, r->ptr, n);
        r->ptr += n;
        r->len -= n;
}

void send_queue_take(struct send_queue *q, size_t n, struct h2_out *out) {
        assert(n <= q->bytes);
        q->bytes -= n;
        while (n > 0) {
                struct send_range *r = &q->ranges[q->first];
                size_t             some = MIN(n, r->len);

                take_some(r, some, out);
                n -= some;
                if (r->len == 0) {
                        buf_unref(r->owner);
                        q->first++;
                }
        }
        if (q->bytes == 0) {
                q->first = q->n_ranges = 0;
                q->small_used = 0;
                drop_tail(q);
        }
}
