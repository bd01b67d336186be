/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of an ensemble by itself: every tensor comes from somewhere and goes somewhere. Checks
 * against the models of its steps need those models: ensemble_models.h.
 */
#include "config/config_check_parts.h"
#include "config/config_edit.h"
#include "config/ensemble_graph.h"

static struct error *check_fields(const Inference__ModelConfig *pb) {
        if (!config_text_is(pb->platform, "ensemble"))
                return error_at(
                        error_new(ERR_INVALID_ARG,
                                  "ensemble scheduling cannot be set for model '%s' whose platform "
                                  "is not ensemble",
                                  pb->name),
                        "platform");
        if (pb->n_instance_group > 0)
                return error_at(
                        error_new(ERR_INVALID_ARG,
                                  "instance group should not be specified for ensemble '%s'",
                                  pb->name),
                        "instance_group");
        if (pb->optimization != NULL)
                return error_at(error_new(ERR_INVALID_ARG,
                                          "optimization should not be specified for ensemble '%s'",
                                          pb->name),
                                "optimization");
        if (pb->n_model_warmup > 0)
                return error_at(error_new(ERR_INVALID_ARG,
                                          "model_warmup can not be specified for ensemble '%s'",
                                          pb->name),
                                "model_warmup");
        if (pb->ensemble_scheduling->n_step == 0)
                return error_at(error_new(ERR_INVALID_ARG, "must specify 'step' for ensemble '%s'",
                                          pb->name),
                                "ensemble_scheduling");
        return NULL;
}

struct error *check_ensemble(const Inference__ModelConfig *pb) {
        struct ensemble_graph *g;
        struct error          *err;

        TRY(check_fields(pb));
        TRY(ensemble_graph_new(pb, &g));
        err = ensemble_graph_check(g);
        ensemble_graph_free(g);
        return err;
}
