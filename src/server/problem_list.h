/* SPDX-License-Identifier: BSD-3-Clause */
/* What is wrong with a model's files, each with the place where it is.
 *
 * Ownership.  A list owns its problems, and they their texts.
 * Threads.  One owner.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"
#include "codec/json_writer.h"
#include "codec/pb_text_lexer.h"

#include <stdbool.h>
#include <stddef.h>

struct problem {
        bool     is_warning; /* the model loads all the same */
        char    *file;       /* owned; a file, or the directory that it is about */
        unsigned line;       /* 0: the file as a whole */
        unsigned column;
        char    *field;   /* owned; "input[1].dims"; NULL: nobody knows */
        char    *message; /* owned */
};

struct problem_list {
        struct problem *items; /* owned */
        size_t          n_items;
        size_t          n_errors;
};

void problem_list_done(struct problem_list *l);

/* `text` is that of `file`, to find where the field of the error stands, and `patches` those that
 * it was read with; ptr NULL when there is none. An error of pb_text_read() without a file name
 * has its place in its message. Takes `err`; NULL adds nothing. */
void problem_list_add(struct problem_list *l, const char *file, struct str text,
                      struct pb_patches patches, struct error *err);
void problem_list_warn(struct problem_list *l, const char *file, const char *message);

/* In the order of their places; what is about files as a whole comes last. */
void problem_list_sort(struct problem_list *l);

/* An array of objects. */
void problem_list_print(const struct problem_list *l, struct json_writer *w);
