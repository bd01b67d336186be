/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/repo_forget.h"

#include "infer/model_generations.h"
#include "repo/repo_compose.h"

bool repo_is_over_locked(const struct repo_entry *e) {
        if (e->is_busy || e->is_planned || e->n_waiting > 0 || e->n_unloads > 0)
                return false;
        for (size_t i = 0; i < e->n_versions; i++)
                if (e->versions[i].state != VERSION_UNAVAILABLE)
                        return false;
        return true;
}

struct model *repo_forget_model_locked(struct repo *r, struct repo_entry *e) {
        struct model *retired = model_generations_find_retired(e->generations, -1);

        if (retired != NULL)
                return retired;
        while (e->n_versions > 0)
                repo_entry_remove_version_locked(e, e->versions[0].number);
        repo_entry_clear_locked(e);
        repo_forget_locked(r, e);
        return NULL;
}

static bool is_old(const struct repo_version *v, const struct version_pick *pick) {
        return v->state == VERSION_UNAVAILABLE && !version_pick_has(pick, v->number);
}

void repo_forget_versions_locked(struct repo_entry *e, const struct version_pick *pick) {
        size_t n = 0;

        for (size_t i = 0; i < e->n_versions; i++)
                n += is_old(&e->versions[i], pick);
        for (size_t i = 0; n > REPO_MAX_GONE;) {
                if (!is_old(&e->versions[i], pick)) {
                        i++;
                        continue;
                }
                repo_entry_remove_version_locked(e, e->versions[i].number);
                n--;
        }
}

/* Uploaded files are in no repository. */
static bool is_gone_locked(const struct repo_entry *e) {
        return *e->repository == '\0' && (e->n_versions > 0 || e->is_versionless) &&
               repo_is_over_locked(e);
}

struct model *repo_note_gone_locked(struct repo *r, struct repo_entry *e) {
        struct repo_entry *oldest;
        struct model      *retired;

        if (r->is_stopping || !is_gone_locked(e))
                return NULL;
        repo_table_append_gone_locked(&r->table, e);
        if (r->table.n_gone <= REPO_MAX_GONE)
                return NULL;
        oldest = repo_table_take_gone_locked(&r->table);
        if (!is_gone_locked(oldest))
                return NULL; /* it serves again */
        repo_compose_forget_locked(r, oldest);
        retired = repo_forget_model_locked(r, oldest);
        if (retired != NULL) /* its sequences end sooner or later */
                repo_table_append_gone_locked(&r->table, oldest);
        return retired;
}
