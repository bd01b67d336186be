/* SPDX-License-Identifier: BSD-3-Clause */
/* A pull reader for the protobuf wire format over borrowed bytes, for the messages of the hot path:
 * inference requests. Strings, bytes and sub-messages are ranges of the input.
 *
 *     pb_reader_init(&r, bytes, len);
 *     while (pb_next(&r, &field))
 *             if (field.number == 1 && field.wire == PB_WIRE_BYTES) name = pb_read_text(&r);
 *             else pb_skip(&r, field);
 *     if (pb_failed(&r)) ...
 *
 * The first failure is kept: afterwards pb_next() is false, values are zero and ranges empty. The
 * caller reads or skips exactly one value after each pb_next(). A field with an unexpected wire
 * type is skipped as if it were unknown, as other parsers do.
 *
 * Packed fields: pb_read_message() returns a reader over the packed values; both forms, packed and
 * one by one, are valid for every repeated number.
 *
 * Ownership.  The bytes are borrowed for the life of the reader and of every range from it.
 */
#pragma once

#include "base/compiler.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Deepest nesting of groups in skipped fields. */
#define PB_MAX_GROUP_DEPTH 100

enum pb_wire {
        PB_WIRE_VARINT = 0,
        PB_WIRE_FIXED64 = 1,
        PB_WIRE_BYTES = 2,
        PB_WIRE_GROUP = 3,
        PB_WIRE_GROUP_END = 4,
        PB_WIRE_FIXED32 = 5,
};

struct pb_tag {
        uint32_t     number; /* 1 .. 2^29 - 1 */
        enum pb_wire wire;
};

struct pb_reader {
        const uint8_t *at;  /* borrowed */
        const uint8_t *end; /* borrowed */
        bool           failed;
};

/* The slow paths, in pb_reader.c. */
uint64_t   pb_fail(struct pb_reader *r) COLD; /* always 0 */
uint64_t   pb_read_long_varint(struct pb_reader *r);
void       pb_skip(struct pb_reader *r, struct pb_tag tag);
struct str pb_read_text(struct pb_reader *r); /* pb_read_bytes() that must be UTF-8 */

static inline void pb_reader_init(struct pb_reader *r, const void *bytes, size_t len) {
        static const uint8_t nothing[1];

        r->at = bytes != NULL ? bytes : nothing;
        r->end = r->at + (bytes != NULL ? len : 0);
        r->failed = false;
}

static inline bool pb_failed(const struct pb_reader *r) {
        return r->failed;
}

static inline bool pb_at_end(const struct pb_reader *r) {
        return r->at == r->end;
}

static inline size_t pb_left(const struct pb_reader *r) {
        return (size_t)(r->end - r->at);
}

/* Up to ten bytes; bits beyond 64 are dropped. */
static inline uint64_t pb_read_varint(struct pb_reader *r) {
        if (r->at < r->end && *r->at < 0x80)
                return *r->at++;
        return pb_read_long_varint(r);
}

static inline bool pb_read_bool(struct pb_reader *r) {
        return pb_read_varint(r) != 0;
}

/* Little-endian on the wire. */
static inline uint32_t pb_read_fixed32(struct pb_reader *r) {
        uint32_t value;

        if (pb_left(r) < sizeof(value))
                return (uint32_t)pb_fail(r);
        memcpy(&value, r->at, sizeof(value));
        r->at += sizeof(value);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        value = __builtin_bswap32(value);
#endif
        return value;
}

static inline uint64_t pb_read_fixed64(struct pb_reader *r) {
        uint64_t value;

        if (pb_left(r) < sizeof(value))
                return pb_fail(r);
        memcpy(&value, r->at, sizeof(value));
        r->at += sizeof(value);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        value = __builtin_bswap64(value);
#endif
        return value;
}

static inline double pb_read_f64(struct pb_reader *r) {
        uint64_t bits = pb_read_fixed64(r);
        double   value;

        memcpy(&value, &bits, sizeof(value));
        return value;
}

/* Reads the bytes of a length-delimited field. */
static inline struct str pb_read_bytes(struct pb_reader *r) {
        uint64_t   len = pb_read_varint(r);
        struct str range = { (const char *)r->at, 0 };

        if (len > pb_left(r)) {
                pb_fail(r);
                return range;
        }
        range.len = (size_t)len;
        r->at += len;
        return range;
}

/* Returns a reader over a sub-message or a packed field; the outer reader skips it. The caller
 * checks the inner reader for failures. */
static inline struct pb_reader pb_read_message(struct pb_reader *r) {
        struct str       range = pb_read_bytes(r);
        struct pb_reader inner;

        pb_reader_init(&inner, range.ptr, range.len);
        inner.failed = r->failed;
        return inner;
}

/* Reads the next field's tag; false at the end and on failure. A field number of 0, a tag beyond 32
 * bits, an unknown wire type and the end of a group that is not open are failures. */
static inline bool pb_next(struct pb_reader *r, struct pb_tag *ret) {
        uint64_t tag;
        unsigned wire;

        if (pb_at_end(r))
                return false;
        tag = pb_read_varint(r);
        wire = tag & 7;
        if (r->failed || tag > UINT32_MAX || tag < 8 || wire == PB_WIRE_GROUP_END ||
            wire > PB_WIRE_FIXED32) {
                pb_fail(r);
                return false;
        }
        ret->number = (uint32_t)(tag >> 3);
        ret->wire = (enum pb_wire)wire;
        return true;
}
