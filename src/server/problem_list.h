/* SPDX-License-Identifier: BSD-3-Clause */
/* Problems of a model's files, or remarks on them, each with its location.
 *
 * Ownership.  A list owns its problems, which own their texts.
 * Threads.  One owner.
 */
#pragma once

#include "base/error.h"
#include "codec/json_writer.h"
#include "codec/pb_text_review.h"

#include <stdbool.h>
#include <stddef.h>

struct problem {
        /* Static; "error", or "warning" for what does not keep the model from loading; of a remark
         * its verdict (config_notes.h). */
        const char *severity;
        char       *file; /* owned; the file or directory that has the problem */
        unsigned    line; /* 0: the whole file */
        unsigned    column;
        char       *field;   /* owned; "input[1].dims"; NULL: unknown */
        char       *message; /* owned */
};

struct problem_list {
        struct problem *items; /* owned */
        size_t          n_items;
        size_t          n_errors;
};

void problem_list_done(struct problem_list *l);

/* Adds `err`, which it takes, as a problem; NULL adds nothing. The location is that of the error's
 * field in the text of `file`, as `review` recorded it (NULL: the file has no text). If the message
 * begins with "<line>:<column>: ", as those of pb_text_read() do, that is the location. */
void problem_list_add(struct problem_list *l, const char *file, const struct pb_text_review *review,
                      struct error *err);
void problem_list_warn(struct problem_list *l, const char *file, const char *message);
/* The same as problem_list_add() for a remark, which is no error. `severity` is static. */
void problem_list_note(struct problem_list *l, const char *file,
                       const struct pb_text_review *review, const char *severity,
                       struct error *err);

/* Sorts by location; problems of whole files come last. */
void problem_list_sort(struct problem_list *l);

/* Prints an array of objects. */
void problem_list_print(const struct problem_list *l, struct json_writer *w);
