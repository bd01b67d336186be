/* SPDX-License-Identifier: BSD-3-Clause */
/* Doubtful fields of a message: the text had mistakes, so their values are not those that the
 * author meant.
 *
 * The result of a check that depends on such a field is not reliable: its error may only follow
 * from a mistake that was already reported. Paths are those of error_at(): "input[1].dims".
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
        PB_DOUBT_VALUE,   /* the field has another value, or more values */
        PB_DOUBT_MISSING, /* the field is absent, or an element of it: existing elements are right */
        PB_DOUBT_UNNAMED, /* a message lacks a field of an unknown name. Each field that it lacks
                           * becomes a PB_DOUBT_MISSING */
};

struct pb_doubt {
        const char        *path; /* in arena; "input[1].dims", "input[0]" */
        enum pb_doubt_kind kind;
};

struct pb_doubts {
        struct arena    *arena; /* borrowed */
        struct pb_doubt *items; /* in arena */
        size_t           n;
        bool             is_full; /* doubts were dropped: all fields are doubtful */
};

void pb_doubts_init(struct pb_doubts *d, struct arena *arena);
void pb_doubts_put(struct pb_doubts *d, struct str path, enum pb_doubt_kind kind);

/* Called after the message is read: finds the fields that the unnamed doubts may be about. */
void pb_doubts_spread(struct pb_doubts *d, const ProtobufCMessage *message);

/* True when the field at the path, a field within it, or a field that contains it, is doubtful. The
 * elements of a list are certain even if one is missing. */
bool pb_doubts_touch(const struct pb_doubts *d, struct str path);

/* Appends a field's name to a path. */
void pb_path_put(struct strbuf *path, const char *name);
