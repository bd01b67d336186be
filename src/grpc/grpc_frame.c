/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/grpc_frame.h"

#include "base/compiler.h"

#include <stdint.h>
#include <string.h>

void grpc_frame_init(struct grpc_frame *f, size_t max_bytes, struct buf_pool *pool) {
        *f = (struct grpc_frame){ .max_bytes = max_bytes, .pool = pool };
}

void grpc_frame_done(struct grpc_frame *f) {
        buf_unref(f->gathered);
        grpc_frame_init(f, f->max_bytes, f->pool);
}

static void take_bytes(struct str *in, size_t n) {
        in->ptr += n;
        in->len -= n;
}

static size_t decode_length(const char *prefix) {
        const unsigned char *p = (const unsigned char *)prefix + 1;

        return (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | (size_t)p[3];
}

/* Reads the prefix; MESSAGE means that it is complete. */
static enum grpc_frame_status read_prefix(struct grpc_frame *f, struct str *in) {
        size_t n = MIN(GRPC_PREFIX_BYTES - f->n_prefix, in->len);

        memcpy(f->prefix + f->n_prefix, in->ptr, n);
        f->n_prefix += (unsigned)n;
        take_bytes(in, n);
        if (f->n_prefix < GRPC_PREFIX_BYTES)
                return GRPC_FRAME_MORE;
        f->len = decode_length(f->prefix);
        if (f->prefix[0] != 0 && f->prefix[0] != 1)
                return GRPC_FRAME_BAD_FLAG;
        return f->len > f->max_bytes ? GRPC_FRAME_TOO_LARGE : GRPC_FRAME_MESSAGE;
}

static void finish_message(struct grpc_frame *f, struct str bytes, struct buf *owner,
                           struct grpc_message *ret) {
        ret->bytes = bytes;
        ret->owner = owner;
        ret->is_compressed = f->prefix[0] == 1;
        f->n_prefix = 0;
        f->got = 0;
}

/* Makes room for at least a part of the bytes. A full buffer grows only here: bytes that are in place fit. */
static bool make_room(struct grpc_frame *f, size_t n_bytes) {
        if (f->gathered == NULL)
                f->gathered = buf_new_growing(f->pool, f->len, n_bytes);
        else if (f->got == f->gathered->cap)
                return buf_grow(&f->gathered, f->len);
        return f->gathered != NULL;
}

static size_t room_of(const struct grpc_frame *f) {
        return MIN(f->len, f->gathered->cap) - f->got;
}

/* Bytes that the socket read into grpc_frame_room() are already in place. */
static void gather_message(struct grpc_frame *f, struct str *in) {
        char  *place = f->gathered->bytes + f->got;
        size_t n = MIN(room_of(f), in->len);

        if (in->ptr != place)
                memmove(place, in->ptr, n);
        f->got += n;
        take_bytes(in, n);
}

enum grpc_frame_status grpc_frame_read(struct grpc_frame *f, struct str *in, struct buf *owner,
                                       struct grpc_message *ret) {
        if (f->n_prefix < GRPC_PREFIX_BYTES) {
                enum grpc_frame_status status = read_prefix(f, in);

                if (status != GRPC_FRAME_MESSAGE)
                        return status;
        }
        if (f->len == 0) {
                finish_message(f, str_range("", 0), NULL, ret);
                return GRPC_FRAME_MESSAGE;
        }
        if (f->gathered == NULL && owner != NULL && in->len >= f->len) {
                struct str bytes = str_range(in->ptr, f->len);

                take_bytes(in, f->len);
                buf_ref(owner);
                finish_message(f, bytes, owner, ret);
                return GRPC_FRAME_MESSAGE;
        }
        if (in->len == 0)
                return GRPC_FRAME_MORE;
        while (f->got < f->len && in->len > 0) {
                if (!make_room(f, in->len))
                        return GRPC_FRAME_NO_MEMORY;
                gather_message(f, in);
        }
        if (f->got < f->len)
                return GRPC_FRAME_MORE;
        f->gathered->len = f->len;
        finish_message(f, str_range(f->gathered->bytes, f->len), f->gathered, ret);
        f->gathered = NULL;
        return GRPC_FRAME_MESSAGE;
}

bool grpc_frame_is_partial(const struct grpc_frame *f) {
        return f->n_prefix > 0;
}

struct iovec grpc_frame_room(const struct grpc_frame *f) {
        if (f->gathered == NULL)
                return (struct iovec){ NULL, 0 };
        return (struct iovec){ f->gathered->bytes + f->got, room_of(f) };
}
