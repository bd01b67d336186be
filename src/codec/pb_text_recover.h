/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads a text of the protobuf text format to its end and reports all that is wrong with it.
 *
 * pb_text_read() stops at the first mistake. Here the text is read again with a patch that corrects
 * it (a value that fits, a bracket that was missing), and again, until it reads to the end. The text
 * itself never changes, so all places are those of the file. No mistake is reported that only
 * follows from another: when in doubt, a patch takes more of the text out, and less is reported.
 *
 * The rules, by what the reader found:
 *   unknown field              taken out with its value. When an enclosing message has the field and
 *                              the line is indented as that one's are, or brackets are missing in
 *                              all, brackets are added before it instead
 *   wrong value                replaced by a default, with what follows on the line up to a field
 *   no ':', ',' or '{'         added, or the sign in its place replaced
 *   wrong or missing bracket   the one that makes the brackets of the whole text balance
 *   string without an end      ends with its line; other mistakes of that line are not reported
 *
 * Doubts name the fields whose value is not what the author meant: a check of the message that
 * depends on one proves nothing.
 *
 * Bounds.  PB_RECOVERY_MAX_ERRORS, and PB_RECOVERY_MAX_READ_BYTES read in all.
 * Ownership.  pb_recovery_done() frees; patches point into the text, which is borrowed until then.
 */
#pragma once

#include "codec/pb_doubt.h"
#include "codec/pb_text.h"
#include "codec/pb_text_lexer.h"

#include <stdbool.h>
#include <stddef.h>

#define PB_RECOVERY_MAX_ERRORS 100
/* More than errors: some patches go without a report. */
#define PB_RECOVERY_MAX_PATCHES 256
/* The text's length times the attempts: with 256 KiB it may have all patches. */
#define PB_RECOVERY_MAX_READ_BYTES ((size_t)64 << 20)

struct pb_recovery {
        struct arena     arena;
        struct pb_patch *patches; /* in arena */
        size_t           n_patches;
        struct pb_doubts doubts;
        size_t           n_errors;
        bool             is_cut;       /* a bound was reached: there may be more mistakes */
        const char      *quiet_list;   /* borrowed: a ',' was missing in it already */
        const char      *quiet_string; /* borrowed: the last one without an end */

        void (*on_error)(void *owner, struct error *err); /* takes the error */
        void *owner;                                      /* borrowed */
};

void pb_recovery_init(struct pb_recovery *rec, void (*on_error)(void *owner, struct error *err),
                      void               *owner);
void pb_recovery_done(struct pb_recovery *rec);

struct pb_patches pb_recovery_patches(const struct pb_recovery *rec);

/* pb_text_read() to the end. Reports each mistake in the order of the text; *ret is the message
 * without them, or NULL when a bound was reached. An error is no mistake of the text: there is no
 * memory. `arena` is reset. */
struct error *pb_text_read_all(struct pb_recovery *rec, const ProtobufCMessageDescriptor *type,
                               struct str text, const char *file_for_errors, struct arena *arena,
                               ProtobufCMessage **ret) NODISCARD;
