/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/server_steps.h"

#include "infer/model.h"
#include "infer/request.h"
#include "infer/request_prepare.h"
#include "repo/composed_model.h"
#include "repo/loaded_model.h"

typedef void (*each_fn)(const char *model, void *userp);

static void visit(const struct step_models *steps, each_fn each, void *userp) {
        for (size_t i = 0; i < steps->n; i++)
                if (steps->nested[i] != NULL)
                        visit(steps->nested[i], each, userp);
                else
                        each(steps->models[i]->name, userp);
}

bool server_each_step(const struct request *req, each_fn each, void *userp) {
        struct composed_model *c = loaded_model_of(req->model)->composed;
        struct step_models    *steps;

        if (c == NULL || (c->needs.kind == NEEDS_NEXT && !request_runs_chain(req))) {
                each(req->model->name, userp);
                return false;
        }
        if (c->needs.kind == NEEDS_NEXT)
                each(req->model->name, userp);
        steps = composed_model_get(c);
        if (steps != NULL)
                visit(steps, each, userp);
        step_models_unref(steps);
        return true;
}
