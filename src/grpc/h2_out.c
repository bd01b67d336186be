/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/h2_out.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

/* Copied bytes may come before each reference and after the last one. */
_Static_assert(2 * H2_OUT_FRAME_REFS + 1 <= H2_OUT_PARTS, "a frame fits");
_Static_assert(H2_OUT_FRAME_COPIED_BYTES <= H2_OUT_STAGING_BYTES, "a frame fits");

struct h2_out *h2_out_new(struct buf_pool *pool) {
        struct h2_out *o = try_zalloc(sizeof(*o));

        if (o != NULL)
                o->pool = pool;
        return o;
}

void h2_out_clear(struct h2_out *o) {
        for (size_t i = 0; i < o->n_held; i++)
                buf_unref(o->held[i]);
        o->n_held = o->n_parts = 0;
        o->n_staged = o->n_bytes = 0;
}

void h2_out_free(struct h2_out *o) {
        if (o == NULL)
                return;
        h2_out_clear(o);
        buf_unref(o->staging);
        free(o);
}

bool h2_out_has_room(struct h2_out *o) {
        if (o->staging == NULL)
                o->staging = buf_new(o->pool, H2_OUT_STAGING_BYTES);
        return o->staging != NULL && o->n_bytes < H2_OUT_MAX_BYTES &&
               o->n_parts + 2 * H2_OUT_FRAME_REFS + 1 <= H2_OUT_PARTS &&
               o->n_staged + H2_OUT_FRAME_COPIED_BYTES <= H2_OUT_STAGING_BYTES;
}

static void add_bytes(struct h2_out *o, const void *bytes, size_t len) {
        struct iovec *last = o->n_parts > 0 ? &o->parts[o->n_parts - 1] : NULL;

        o->n_bytes += len;
        if (last != NULL && (char *)last->iov_base + last->iov_len == bytes) {
                last->iov_len += len;
                return;
        }
        assert(o->n_parts < H2_OUT_PARTS);
        o->parts[o->n_parts++] = (struct iovec){ (void *)(uintptr_t)bytes, len };
}

void h2_out_copy(struct h2_out *o, const void *bytes, size_t len) {
        char *place = o->staging->bytes + o->n_staged;

        assert(len <= H2_OUT_STAGING_BYTES - o->n_staged);
        if (len == 0)
                return;
        memcpy(place, bytes, len);
        o->n_staged += len;
        add_bytes(o, place, len);
}

void h2_out_refer(struct h2_out *o, const void *bytes, size_t len, struct buf *owner) {
        if (len == 0)
                return;
        add_bytes(o, bytes, len);
        if (o->n_held > 0 && o->held[o->n_held - 1] == owner)
                return; /* already held */
        buf_ref(owner);
        o->held[o->n_held++] = owner;
}
