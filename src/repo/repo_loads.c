/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists the loads of models, also retired ones (repo.h). */
#include "base/mem.h"
#include "infer/model_generations.h"
#include "repo/repo.h"
#include "repo/repo_private.h"

#include <string.h>

struct load_list {
        struct model **models; /* owned, and the references */
        size_t         n_models;
};

static void add_loads(struct load_list *to, const struct repo_entry *e) {
        struct model **models;
        size_t         n = model_generations_list(e->generations, &models);

        to->models = mem_realloc(to->models, (to->n_models + n + 1) * sizeof(struct model *));
        memcpy(to->models + to->n_models, models, n * sizeof(struct model *));
        to->n_models += n;
        free(models);
}

size_t repo_loads(struct repo *r, const char *name, struct model ***ret) {
        struct load_list found = { 0 };

        mutex_lock(&r->table.lock);
        for (size_t i = 0; name == NULL && i < r->table.n_entries; i++)
                add_loads(&found, r->table.sorted[i]);
        for (struct repo_entry *e = name != NULL ? repo_table_first_locked(&r->table, name) : NULL;
             e != NULL; e = e->next)
                add_loads(&found, e);
        mutex_unlock(&r->table.lock);
        *ret = found.models;
        return found.n_models;
}
