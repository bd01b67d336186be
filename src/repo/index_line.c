/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/index_line.h"

#include "codec/json_writer.h"

#include <stdio.h>

struct repo_index_entry index_entry_of_key(const struct model_key *key, bool is_duplicate) {
        struct repo_index_entry e = { .name = key->name,
                                      .namespace = key->namespace,
                                      .version = -1 };

        if (is_duplicate) {
                e.state = VERSION_UNAVAILABLE;
                e.reason = "model appears in two or more repositories";
        }
        return e;
}

void index_line_print(struct strbuf *out, const struct repo_index_entry *e) {
        char               version[24]; /* a number of 64 bits has 20 */
        struct json_writer w;

        json_writer_init(&w, out);
        json_begin_object(&w);
        json_key(&w, "name");
        json_put_string(&w, e->name);
        if (e->version >= 0) {
                snprintf(version, sizeof(version), "%lld", (long long)e->version);
                json_key(&w, "version");
                json_put_string(&w, version);
        }
        if (e->state != VERSION_UNKNOWN) {
                json_key(&w, "state");
                json_put_string(&w, version_state_name(e->state));
        }
        if (e->reason != NULL) {
                json_key(&w, "reason");
                json_put_string(&w, e->reason);
        }
        json_end_object(&w);
}

struct index_line index_line_append(struct strbuf *texts, const struct repo_index_entry *e) {
        size_t begin = texts->len;

        index_line_print(texts, e);
        return (struct index_line){ begin, texts->len - begin };
}

char *index_lines_take(struct strbuf *texts) {
        return texts->overflowed ? NULL : strbuf_take(texts);
}

struct str index_line_find(const char *texts, struct index_line line) {
        return texts != NULL ? str_range(texts + line.begin, line.len) : str_range(NULL, 0);
}
