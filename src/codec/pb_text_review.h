/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads a text of the protobuf text format to its end and reports all mistakes in it.
 *
 * pb_text_read() stops at the first mistake. With a review the reader reports a mistake and continues
 * ("panic mode"): it skips tokens up to the next field of the same message, or the end of that message.
 * What it skips is not reported. Two rules keep one mistake from being reported as several:
 *
 *   missing bracket  A field that is indented no further than the line where its message was opened,
 *                    and that an enclosing message has, ends the message.
 *   wrong bracket    A bracket of another kind on the line of the opening one ends the message or list.
 *
 * The review also records the places of all fields, and the fields whose values the author did not
 * mean (pb_doubt.h).
 *
 * Bounds.  PB_REVIEW_MAX_ERRORS; PB_REVIEW_MAX_PLACES, beyond which a field has the place of the message
 * or list around it.
 * Ownership.  pb_text_review_done() frees everything; the message is in the caller's arena.
 * Threads.  One owner.
 */
#pragma once

#include "codec/pb_doubt.h"
#include "codec/pb_text.h"
#include "codec/pb_text_lexer.h"

#include <stdbool.h>
#include <stddef.h>

#define PB_REVIEW_MAX_ERRORS 20
#define PB_REVIEW_MAX_PLACES 65536

struct pb_placed_field {
        const char     *path; /* in arena; "input[1].dims" for the name, "input[1].dims[0]" */
        struct pb_place place;
};

struct pb_text_review {
        struct arena            arena;
        struct pb_placed_field *places; /* owned array */
        size_t                  n_places;
        struct pb_doubts        doubts;
        size_t                  n_errors;
        bool                    is_cut; /* a bound was reached: there may be more mistakes */

        void (*on_error)(void *owner, struct error *err); /* takes `err` */
        void *owner;                                      /* borrowed */
};

void pb_text_review_init(struct pb_text_review *rv,
                         void (*on_error)(void *owner, struct error *err), void *owner);
void pb_text_review_done(struct pb_text_review *rv);

/* Reads like pb_text_read(), but to the end. Reports each mistake in the order of the text; *ret has
 * everything that is right. The returned error is not a mistake of the text: memory is short. */
struct error *pb_text_read_all(struct pb_text_review *rv, const ProtobufCMessageDescriptor *type,
                               struct str text, const char *file_for_errors, struct arena *arena,
                               ProtobufCMessage **ret) NODISCARD;

/* Finds the place of the field with this path, such as "input[1].dims[0]": that of the field's name, or
 * of an element's value in a list. An absent field or element has the place of the nearest one around
 * it that exists. False when there is none. */
bool pb_text_review_find(const struct pb_text_review *rv, const char *path, struct pb_place *ret);

/* For the reader. Paths are copied. */
void pb_text_review_report(struct pb_text_review *rv, struct error *err); /* takes `err` */
void pb_text_review_place(struct pb_text_review *rv, struct str path, struct pb_place place);
