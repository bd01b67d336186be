/* SPDX-License-Identifier: BSD-3-Clause */
/* What all models do now, without a text. */
#include "base/mem.h"
#include "infer/model.h"
#include "observe/model_activity.h"
#include "repo/loaded_model.h"
#include "repo/model_instances.h"
#include "repo/repo.h"
#include "server/server.h"

struct error *server_visit_activity(struct server *s, server_activity_fn visit, void *userp) {
        struct model **models;
        size_t         n;

        TRY(server_check_started(s));
        n = repo_ready_models(s->repo, NULL, &models);
        for (size_t i = 0; i < n; i++) {
                struct model_activity activity;

                model_activity_read(models[i]->stats, &activity);
                visit(models[i]->name, models[i]->version,
                      model_instances_count(loaded_model_of(models[i])), &activity, userp);
                model_unref(models[i]);
        }
        free(models);
        return NULL;
}
