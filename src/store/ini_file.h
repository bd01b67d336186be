/* SPDX-License-Identifier: BSD-3-Clause */
/* A file of sections and values, as AWS's tools write: ~/.aws/config and ~/.aws/credentials.
 *
 *     [profile one]        a section; blanks next to the brackets are ignored
 *     region = eu-west-1   blanks around the key and the value are ignored
 *     s3 =                 lines that begin with a blank belong to the value above, and are skipped
 *       max_queue = 10
 *     # ; begin a comment at the beginning of a line
 *
 * A section may occur twice; then its values are joined. When a key occurs twice, the last value is used.
 *
 * Ownership.  ini_file_done() overwrites and frees the text; values are ranges of it.
 * Threads.  One owner; read by any.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>

#define INI_MAX_BYTES ((size_t)1 << 20)

struct ini_entry {
        struct str section;
        struct str key; /* ptr NULL: the line of the section itself */
        struct str value;
        unsigned   line;
};

struct ini_file {
        char             *path; /* owned; for messages */
        struct strbuf     text;
        struct ini_entry *entries; /* owned */
        size_t            n_entries;
};

/* Reads a text; takes the contents of `text`, also when it fails. INVALID_ARG "<path>:<line>: <what>",
 * without the text of the line. */
struct error *ini_file_read(const char *path, struct strbuf *text, struct ini_file *ret) NODISCARD;
/* Opens the file: the error of file_read(), too. */
struct error *ini_file_open(const char *path, struct ini_file *ret) NODISCARD;
void          ini_file_done(struct ini_file *f);

bool                    ini_file_has_section(const struct ini_file *f, struct str section);
const struct ini_entry *ini_file_find(const struct ini_file *f, struct str section,
                                      const char *key);
