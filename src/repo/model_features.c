/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/model_features.h"

#include "config/model_config.h"

static struct error *missing(const struct model_config *config, const char *feature) {
        return error_new(ERR_UNSUPPORTED, "model '%s': %s is not supported yet", config->pb->name,
                         feature);
}

struct error *model_features_check(const struct model_config *config) {
        const Inference__ModelConfig *pb = config->pb;

        if (pb->model_repository_agents != NULL && pb->model_repository_agents->n_agents > 0)
                return missing(config, "model_repository_agents");
        return NULL;
}
