/* SPDX-License-Identifier: BSD-3-Clause */
/* Fields of a message whose value is not what its author meant, since the text had mistakes.
 *
 * A check of the message that depends on such a field proves nothing: what it reports may only
 * follow from a mistake that was reported already. Paths are those of error_at(): "input[1].dims".
 *
 * Ownership.  Paths are in the arena.
 * Threads.  One owner.
 */
#pragma once

#include "base/arena.h"
#include "base/str.h"
#include "base/strbuf.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

#define PB_DOUBTS_MAX 4096

enum pb_doubt_kind {
        PB_DOUBT_VALUE,   /* the field has another value, or more of them */
        PB_DOUBT_MISSING, /* the field is not there, or an element of it: what is there is right */
        PB_DOUBT_UNNAMED, /* a message lacks a field of no known name. Each that it does not have
                           * is a PB_DOUBT_MISSING of its own */
};

struct pb_doubt {
        const char        *path; /* in arena; "input[1].dims", "input[0]" */
        enum pb_doubt_kind kind;
};

struct pb_doubts {
        struct arena    *arena; /* borrowed */
        struct pb_doubt *items; /* in arena */
        size_t           n;
        bool             is_full; /* there are more: nothing about the message is certain */
};

void pb_doubts_init(struct pb_doubts *d, struct arena *arena);
void pb_doubts_put(struct pb_doubts *d, struct str path, enum pb_doubt_kind kind);

/* Once the message is read: which fields those without a name may be. */
void pb_doubts_spread(struct pb_doubts *d, const ProtobufCMessage *message);

/* True when the field at the path, one within it, or one that it is in, has a doubt. What a list
 * has is certain though an element of it is missing. */
bool pb_doubts_touch(const struct pb_doubts *d, struct str path);

/* Appends a field's name to a path. */
void pb_path_put(struct strbuf *path, const char *name);
