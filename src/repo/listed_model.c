/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/listed_model.h"

#include "base/mem.h"
#include "base/strbuf.h"
#include "repo/index_line.h"
#include "repo/repo_table.h"

#include <string.h>

static size_t text_bytes(const char *text) {
        return text != NULL ? strlen(text) + 1 : 0;
}

/* What is blocked is UNAVAILABLE for all who ask. */
static const char *reason_of(const struct repo_version *v) {
        return v->blocked != NULL ? v->blocked : v->reason;
}

static enum version_state state_of(const struct repo_version *v) {
        return v->blocked != NULL ? VERSION_UNAVAILABLE : v->state;
}

/* Texts are as long as names and reasons that are in memory already, so nothing overflows. */
static size_t measure(const struct repo_entry *e) {
        size_t bytes = sizeof(struct listed_model) + text_bytes(e->name) +
                       text_bytes(e->namespace);

        for (size_t i = 0; i < e->n_versions; i++)
                bytes += sizeof(struct listed_version) + text_bytes(reason_of(&e->versions[i]));
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

struct model_key listed_model_key(const struct listed_model *m) {
        return (struct model_key){ .namespace = m->namespace, .name = m->name };
}

struct repo_index_entry listed_model_entry(const struct listed_model   *m,
                                           const struct listed_version *v) {
        return (struct repo_index_entry){ .name = m->name,
                                          .namespace = m->namespace,
                                          .version = v->number,
                                          .state = v->state,
                                          .reason = v->reason,
                                          .line = index_line_find(m->texts, v->line) };
}

static void print_lines(struct listed_model *m) {
        const struct model_key        key = listed_model_key(m);
        const struct repo_index_entry itself = index_entry_of_key(&key, m->is_duplicate);
        AUTO_STRBUF                   texts = { 0 };

        m->texts = NULL; /* also for listed_model_entry() below */
        strbuf_init(&texts, 0);
        if (m->is_duplicate || (m->n_versions == 0 && !m->is_versionless))
                m->line = index_line_append(&texts, &itself);
        for (size_t i = 0; i < m->n_versions; i++) {
                const struct repo_index_entry e = listed_model_entry(m, &m->versions[i]);

                m->versions[i].line = index_line_append(&texts, &e);
        }
        m->texts = index_lines_take(&texts);
}

struct listed_model *listed_model_new(const struct repo_entry *e) {
        struct listed_model *m = mem_alloc(measure(e));
        char                *texts = (char *)&m->versions[e->n_versions];

        ref_init(&m->ref);
        m->name = put_text(&texts, e->name);
        m->namespace = put_text(&texts, e->namespace);
        m->is_duplicate = e->is_duplicate;
        m->is_versionless = e->is_versionless && e->n_versions == 0;
        m->n_versions = e->n_versions;
        m->line = (struct index_line){ 0 };
        for (size_t i = 0; i < e->n_versions; i++)
                m->versions[i] = (struct listed_version){
                        .number = e->versions[i].number,
                        .state = state_of(&e->versions[i]),
                        .reason = put_text(&texts, reason_of(&e->versions[i])),
                };
        print_lines(m);
        return m;
}

void listed_model_unref(struct listed_model *m) {
        if (m == NULL || !ref_put(&m->ref))
                return;
        free(m->texts);
        free(m);
}
