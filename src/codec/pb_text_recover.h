/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads a text of the protobuf text format to its end and reports all mistakes in it.
 *
 * pb_text_read() stops at the first mistake. Here the text is read again with a patch that corrects
 * the mistake (a valid value, a missing bracket), and so on until the reader reaches the end. The
 * text itself never changes, so all places are those of the file. A mistake that only follows from
 * another one is not reported: when in doubt, a patch removes more of the text, and fewer mistakes
 * are reported.
 *
 * The rules, by kind of mistake:
 *   unknown field              taken out with its value. When an enclosing message has the field and
 *                              the line is indented as that one's are, or brackets are missing in
 *                              all, brackets are added before it instead
 *   wrong value                replaced by a default, with what follows on the line up to a field
 *   no ':', ',' or '{'         added, or the sign in its place replaced
 *   wrong or missing bracket   the one that makes the brackets of the whole text balance
 *   string without an end      ends with its line; other mistakes of that line are not reported
 *
 * Doubts name the fields whose values the author did not mean (pb_doubt.h).
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
/* Larger than the number of errors: some patches go without a report. */
#define PB_RECOVERY_MAX_PATCHES 256
/* The text's length times the number of attempts: a text of 256 KiB may have all patches. */
#define PB_RECOVERY_MAX_READ_BYTES ((size_t)64 << 20)

struct pb_recovery {
        struct arena     arena;
        struct pb_patch *patches; /* in arena */
        size_t           n_patches;
        struct pb_doubts doubts;
        size_t           n_errors;
        bool             is_cut;       /* a bound was reached: there may be more mistakes */
        const char      *quiet_list;   /* borrowed: list with a missing ',' that was reported */
        const char      *quiet_string; /* borrowed: the last unterminated string */

        void (*on_error)(void *owner, struct error *err); /* takes `err` */
        void *owner;                                      /* borrowed */
};

void pb_recovery_init(struct pb_recovery *rec, void (*on_error)(void *owner, struct error *err),
                      void               *owner);
void pb_recovery_done(struct pb_recovery *rec);

struct pb_patches pb_recovery_patches(const struct pb_recovery *rec);

/* Like pb_text_read(), but to the end. Reports each mistake in the order of the text; *ret is the
 * corrected message, or NULL when a bound was reached. The returned error is not a mistake of the
 * text: memory is short. `arena` is reset. */
struct error *pb_text_read_all(struct pb_recovery *rec, const ProtobufCMessageDescriptor *type,
                               struct str text, const char *file_for_errors, struct arena *arena,
                               ProtobufCMessage **ret) NODISCARD;
