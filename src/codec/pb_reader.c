/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/pb_reader.h"

#define MAX_VARINT_BYTES 10

uint64_t pb_fail(struct pb_reader *r) {
        r->failed = true;
        r->at = r->end;
        return 0;
}

uint64_t pb_read_long_varint(struct pb_reader *r) {
        size_t   n = MIN(pb_left(r), (size_t)MAX_VARINT_BYTES);
        uint64_t value = 0;

        for (size_t i = 0; i < n; i++) {
                value |= (uint64_t)(r->at[i] & 0x7f) << (7 * i);
                if (r->at[i] < 0x80) {
                        r->at += i + 1;
                        return value;
                }
        }
        return pb_fail(r);
}

struct str pb_read_text(struct pb_reader *r) {
        struct str text = pb_read_bytes(r);

        if (!str_is_utf8(text)) {
                pb_fail(r);
                text.len = 0;
        }
        return text;
}

static void skip_fixed(struct pb_reader *r, size_t len) {
        if (pb_left(r) < len)
                pb_fail(r);
        else
                r->at += len;
}

/* Not pb_next(), which does not accept the ends of groups. */
static struct pb_tag read_tag_in_group(struct pb_reader *r) {
        uint64_t tag = pb_read_varint(r);

        if (tag > UINT32_MAX || tag < 8 || (tag & 7) > PB_WIRE_FIXED32)
                pb_fail(r);
        return (struct pb_tag){ (uint32_t)(tag >> 3), (enum pb_wire)(tag & 7) };
}

/* Groups end by number and may be nested: a stack of fixed depth has the open ones. */
static void skip_group(struct pb_reader *r, uint32_t number) {
        uint32_t open[PB_MAX_GROUP_DEPTH];
        size_t   depth = 0;

        open[depth++] = number;
        while (depth > 0) {
                struct pb_tag tag = read_tag_in_group(r);

                if (r->failed)
                        return;
                if (tag.wire == PB_WIRE_GROUP) {
                        if (depth == PB_MAX_GROUP_DEPTH) {
                                pb_fail(r);
                                return;
                        }
                        open[depth++] = tag.number;
                } else if (tag.wire == PB_WIRE_GROUP_END) {
                        if (open[--depth] != tag.number)
                                pb_fail(r);
                } else {
                        pb_skip(r, tag);
                }
        }
}

void pb_skip(struct pb_reader *r, struct pb_tag tag) {
        switch (tag.wire) {
        case PB_WIRE_VARINT: pb_read_varint(r); return;
        case PB_WIRE_FIXED64: skip_fixed(r, 8); return;
        case PB_WIRE_BYTES: pb_read_bytes(r); return;
        case PB_WIRE_GROUP: skip_group(r, tag.number); return;
        case PB_WIRE_FIXED32: skip_fixed(r, 4); return;
        case PB_WIRE_GROUP_END: break;
        }
        pb_fail(r);
}
