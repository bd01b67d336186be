/* SPDX-License-Identifier: BSD-3-Clause */
/* A line of the index as JSON: the object of one version, or of a model that has none. Most are
 * printed once and told many times.
 */
#pragma once

#include "base/strbuf.h"
#include "repo/model_key.h"
#include "repo/repo.h"

/* A model without versions; the entry borrows from the key. */
struct repo_index_entry index_entry_of_key(const struct model_key *key, bool is_duplicate);
/* {"name":"m","version":"1","state":"READY"}; what it has no value for is left out. */
void index_line_print(struct strbuf *out, const struct repo_index_entry *e);

/* Where a line is among others in one text. */
struct index_line {
        size_t begin;
        size_t len;
};

struct index_line index_line_append(struct strbuf *texts, const struct repo_index_entry *e);
/* The text, owned by the caller; NULL when memory was too short for all of it. */
char             *index_lines_take(struct strbuf *texts);
/* Empty without a text: then the line is printed when somebody asks for it. */
struct str        index_line_find(const char *texts, struct index_line line);
