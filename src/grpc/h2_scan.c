/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/h2_scan.h"

#include "base/compiler.h"

#include <string.h>

enum { TYPE_HEADERS = 1, TYPE_RST_STREAM = 3 };

#define PREFACE_BYTES 24
#define RST_STREAM_BYTES 4

void h2_scan_init(struct h2_scan *s) {
        *s = (struct h2_scan){ .left = PREFACE_BYTES };
}

static uint32_t length_of(const unsigned char *head) {
        return (uint32_t)head[0] << 16 | (uint32_t)head[1] << 8 | head[2];
}

static int32_t stream_of(const unsigned char *head) {
        return (int32_t)((uint32_t)(head[5] & 0x7f) << 24 | (uint32_t)head[6] << 16 |
                         (uint32_t)head[7] << 8 | head[8]);
}

/* A client's streams have odd numbers. What else is wrong is left to the session. */
static bool is_stray(const struct h2_scan *s, const unsigned char *head) {
        int32_t id;

        if (head[3] != TYPE_RST_STREAM || length_of(head) != RST_STREAM_BYTES)
                return false;
        id = stream_of(head);
        return id % 2 == 1 && id > s->last_id;
}

static void begin_frame(struct h2_scan *s, const unsigned char *head) {
        if (head[3] == TYPE_HEADERS)
                s->last_id = MAX(s->last_id, stream_of(head));
        s->left = H2_FRAME_HEAD_BYTES + length_of(head);
}

/* Moves on up to a head that is incomplete or that of a stray reset; returns the bytes before it. */
static size_t move_on(struct h2_scan *s, struct str bytes) {
        size_t done = 0;

        for (;;) {
                const unsigned char *head;
                size_t               n = MIN((size_t)s->left, bytes.len - done);

                s->left -= (uint32_t)n;
                done += n;
                head = (const unsigned char *)bytes.ptr + done;
                if (s->left > 0 || bytes.len - done < H2_FRAME_HEAD_BYTES || is_stray(s, head))
                        return done;
                begin_frame(s, head);
        }
}

/* Completes a head that came in parts. */
static struct h2_piece take_head(struct h2_scan *s, struct str bytes) {
        size_t               n = MIN(H2_FRAME_HEAD_BYTES - (size_t)s->n_head, bytes.len);
        const unsigned char *head = (const unsigned char *)s->head;
        struct h2_piece      p = { .n_used = n };

        if (n > 0)
                memcpy(s->head + s->n_head, bytes.ptr, n);
        s->n_head += (uint32_t)n;
        if (s->n_head < H2_FRAME_HEAD_BYTES)
                return p;
        s->n_head = 0;
        p.is_stray = is_stray(s, head);
        if (p.is_stray) {
                s->n_stray = RST_STREAM_BYTES;
                return p;
        }
        begin_frame(s, head);
        s->left -= H2_FRAME_HEAD_BYTES;
        p.feed = str_range(s->head, H2_FRAME_HEAD_BYTES);
        return p;
}

static struct h2_piece take_stray(struct h2_scan *s, struct str bytes) {
        size_t n = MIN((size_t)s->n_stray, bytes.len);

        s->n_stray -= (uint32_t)n;
        return (struct h2_piece){ .n_used = n };
}

struct h2_piece h2_scan_take(struct h2_scan *s, struct str bytes) {
        size_t n;

        if (s->n_stray > 0)
                return take_stray(s, bytes);
        if (s->n_head > 0)
                return take_head(s, bytes);
        n = move_on(s, bytes);
        if (n > 0 || bytes.len == 0)
                return (struct h2_piece){ .feed = str_range(bytes.ptr, n), .n_used = n };
        if (bytes.len < H2_FRAME_HEAD_BYTES)
                return take_head(s, bytes);
        s->n_stray = H2_FRAME_HEAD_BYTES + RST_STREAM_BYTES;
        return (struct h2_piece){ .is_stray = true };
}

void h2_scan_take_back(struct h2_scan *s, const struct h2_scan *before, struct str fed, size_t n) {
        *s = *before;
        (void)move_on(s, str_range(fed.ptr, n));
}
