/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/repo_remote.h"

#include "base/mem.h"
#include "base/work_pool.h"
#include "repo/dir_fingerprint.h"
#include "repo/repo_private.h"
#include "store/store_copy.h"

struct error *found_model_fingerprint(const struct found_model *m, struct dir_fingerprint **ret) {
        return m->copy != NULL ? dir_fingerprint_of_copy(m->copy, ret)
                               : dir_fingerprint_read(m->directory, ret);
}

struct error *found_model_config_directory(const struct found_model *m, const char **ret) {
        *ret = m->directory;
        if (m->copy == NULL)
                return NULL;
        *ret = "";
        TRY(store_copy_fetch_config(m->copy));
        *ret = store_copy_directory(m->copy);
        return NULL;
}

/* ---- many ------------------------------------------------------------------------------------ */

struct config_fetch {
        struct work        job;
        struct store_copy *copy; /* borrowed: its model */
};

/* The load of the model reports why it fails. */
static void run_fetch(struct work *job) {
        error_free(store_copy_fetch_config(CONTAINER_OF(job, struct config_fetch, job)->copy));
}

void found_models_fetch_configs(struct repo *r, const struct found_model *const *found, size_t n) {
        struct config_fetch *fetches = mem_zalloc((n + 1) * sizeof(*fetches));
        struct work        **jobs = mem_zalloc((n + 1) * sizeof(struct work *));
        size_t               n_jobs = 0;

        for (size_t i = 0; i < n; i++) {
                if (found[i]->copy == NULL)
                        continue;
                fetches[n_jobs] =
                        (struct config_fetch){ .job.run = run_fetch, .copy = found[i]->copy };
                jobs[n_jobs] = &fetches[n_jobs].job;
                n_jobs++;
        }
        if (n_jobs > 0)
                work_run_all("neso-loader", jobs, n_jobs, r->stores->n_transfers);
        free(jobs);
        free(fetches);
}
