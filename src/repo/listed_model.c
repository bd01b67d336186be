/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/listed_model.h"

#include "base/mem.h"
#include "repo/repo_table.h"

#include <string.h>

static size_t text_bytes(const char *text) {
        return text != NULL ? strlen(text) + 1 : 0;
}

/* Texts are as long as names and reasons that are in memory already, so nothing overflows. */
static size_t measure(const struct repo_entry *e) {
        size_t bytes = sizeof(struct listed_model) + text_bytes(e->name) +
                       text_bytes(e->namespace);

        for (size_t i = 0; i < e->n_versions; i++)
                bytes += sizeof(struct listed_version) + text_bytes(e->versions[i].reason);
        return bytes;
}

/* A cursor into memory that was measured before. */
static const char *put_text(char **at, const char *text) {
        size_t bytes = text_bytes(text);
        char  *copy = *at;

        if (text == NULL)
                return NULL;
        memcpy(copy, text, bytes);
        *at += bytes;
        return copy;
}

struct listed_model *listed_model_new(const struct repo_entry *e) {
        struct listed_model *m = mem_alloc(measure(e));
        char                *texts = (char *)&m->versions[e->n_versions];

        ref_init(&m->ref);
        m->name = put_text(&texts, e->name);
        m->namespace = put_text(&texts, e->namespace);
        m->is_duplicate = e->is_duplicate;
        m->n_versions = e->n_versions;
        for (size_t i = 0; i < e->n_versions; i++)
                m->versions[i] = (struct listed_version){
                        .number = e->versions[i].number,
                        .state = e->versions[i].state,
                        .reason = put_text(&texts, e->versions[i].reason),
                };
        return m;
}

void listed_model_unref(struct listed_model *m) {
        if (m != NULL && ref_put(&m->ref))
                free(m);
}
