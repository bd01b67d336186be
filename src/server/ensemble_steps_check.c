/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/ensemble_steps_check.h"

#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "config/config_edit.h"
#include "config/ensemble_models.h"
#include "repo/model_needs.h"
#include "server/model_check.h"

enum visit { NOT_VISITED, VISITING, VISITED };

struct checked_model {
        struct model_check *check;
        enum visit          visit;
        bool                is_decoupled;
        size_t n_all; /* models that a request of an ensemble without mistakes executes */
};

struct ensemble_steps_check {
        const char           *repository;
        struct checked_model *models;
        struct map            keys; /* key -> struct checked_model */
};

/* NULL when there is no such model. */
static struct checked_model *find_model(const struct ensemble_steps_check *e,
                                        const struct checked_model        *user,
                                        const struct ensemble_step        *step) {
        const char *repository = model_check_repository(user->check->repository, step->namespace);
        AUTO_CHARS  key = model_check_key(e->repository, repository, step->model);

        return map_find(&e->keys, str_of(key));
}

/* True for a namespace whose directory does not exist on this machine. */
static bool is_on_other_machine(const struct ensemble_step *step) {
        return *step->namespace != '\0' && !file_is_directory(step->namespace);
}

static bool is_comparable(const struct checked_model *m) {
        return m->check->config != NULL && m->check->problems.n_errors == 0;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static struct error *check_presence(const struct ensemble_steps_check *e,
                                    const struct checked_model        *user,
                                    const struct ensemble_graph       *g) {
        AUTO_STRBUF missing = { 0 };
        uint32_t    first = ENSEMBLE_NONE;

        for (uint32_t i = 0; i < g->n_steps; i++) {
                if (find_model(e, user, &g->steps[i]) != NULL || is_on_other_machine(&g->steps[i]))
                        continue;
                if (first == ENSEMBLE_NONE)
                        first = i;
                strbuf_printf(&missing, "%s%s", missing.len > 0 ? ", " : "", g->steps[i].model);
        }
        if (first == ENSEMBLE_NONE)
                return NULL;
        TRY(strbuf_check(&missing, "the text of an error"));
        return error_at(
                error_new(ERR_INVALID_ARG,
                          "ensemble %s contains models that are not available or ambiguous: "
                          "%s",
                          g->pb->name, strbuf_cstr(&missing)),
                "ensemble_scheduling.step[%u].model_name", first);
}

static struct error *check_versions(const struct ensemble_steps_check *e,
                                    const struct checked_model        *user,
                                    const struct ensemble_graph       *g) {
        for (uint32_t i = 0; i < g->n_steps; i++) {
                const struct ensemble_step *step = &g->steps[i];
                const struct checked_model *m = find_model(e, user, step);

                if (m == NULL || !is_comparable(m) || step->version == -1 ||
                    version_pick_has(&m->check->versions, step->version))
                        continue;
                return error_at(error_new(ERR_INVALID_ARG,
                                          "ensemble '%s' depends on '%s' whose required version "
                                          "%lld is not loaded.",
                                          g->pb->name, step->model, (long long)step->version),
                                "ensemble_scheduling.step[%u].model_version", i);
        }
        return NULL;
}

static void describe_step_models(const struct ensemble_steps_check *e,
                                 const struct checked_model *user, const struct ensemble_graph *g,
                                 struct ensemble_step_model *models) {
        for (uint32_t i = 0; i < g->n_steps; i++) {
                const struct checked_model *m = find_model(e, user, &g->steps[i]);

                if (m == NULL || !is_comparable(m))
                        continue;
                models[i].pb = m->check->config->pb;
                models[i].is_decoupled = m->is_decoupled;
                models[i].may_be_completed = m->check->options->auto_complete &&
                                             !model_config_is_ensemble(m->check->config);
        }
}

static struct error *check_graph(const struct ensemble_steps_check *e, struct checked_model *m,
                                 const struct ensemble_graph *g) {
        struct ensemble_step_model *models = mem_zalloc(
                (g->n_steps + (size_t)1) *
                sizeof(*models)); /* n_steps is bounded by the size of the configuration */
        struct error *err;
        uint32_t      n_decoupled = 0;

        describe_step_models(e, m, g, models);
        err = check_presence(e, m, g);
        if (err == NULL)
                err = check_versions(e, m, g);
        if (err == NULL)
                err = ensemble_models_check(g, models);
        if (err == NULL)
                err = ensemble_models_streams(g, models, NULL, &n_decoupled);
        free(models);
        m->is_decoupled = n_decoupled > 0;
        return err;
}

/* Steps of steps are counted as often as they run. */
static struct error *check_size(const struct ensemble_steps_check *e, struct checked_model *m,
                                const struct ensemble_graph *g) {
        size_t n_all = 0;

        for (uint32_t i = 0; i < g->n_steps; i++) {
                const struct checked_model *step = find_model(e, m, &g->steps[i]);

                n_all += 1 + (step != NULL ? step->n_all : 0); /* n_all of each is bounded */
        }
        TRY(error_at(model_needs_check_size(g->pb->name, n_all), "ensemble_scheduling"));
        m->n_all = n_all;
        return NULL;
}

/* ---- ensembles ------------------------------------------------------------------------------- */

static void visit(struct ensemble_steps_check *e, struct checked_model *m);

/* Visits the models of the steps first, since the check uses their decoupled flags. repository_check.c has
 * reported cycles before; a model that is being visited is skipped. Recursion is as deep as ensembles
 * are nested. */
static void visit_steps(struct ensemble_steps_check *e, const struct checked_model *user,
                        const struct ensemble_graph *g) {
        for (uint32_t i = 0; i < g->n_steps; i++) {
                struct checked_model *step = find_model(e, user, &g->steps[i]);

                if (step != NULL && step->visit == NOT_VISITED)
                        visit(e, step);
        }
}

static void visit_ensemble(struct ensemble_steps_check *e, struct checked_model *m) {
        struct model_config   *config = m->check->config;
        struct ensemble_graph *g;
        struct error          *err = ensemble_graph_new(config->pb, &g);

        if (err == NULL) {
                visit_steps(e, m, g);
                err = check_graph(e, m, g);
                if (err == NULL)
                        err = check_size(e, m, g);
                ensemble_graph_free(g);
        }
        if (err == NULL)
                err = config_edit_set_decoupled(config, m->is_decoupled);
        model_check_refuse(m->check, err);
}

static void visit(struct ensemble_steps_check *e, struct checked_model *m) {
        m->visit = VISITING;
        if (is_comparable(m) && model_config_is_ensemble(m->check->config))
                visit_ensemble(e, m);
        m->visit = VISITED;
}

void ensemble_steps_check(struct model_check *const *checks, size_t n, const char *repository) {
        struct ensemble_steps_check e = { .repository = repository,
                                          .models = mem_zalloc((n + 1) * sizeof(*e.models)) };

        map_init(&e.keys);
        for (size_t i = 0; i < n; i++) {
                struct model_check *c = checks[i];

                e.models[i] = (struct checked_model){
                        .check = c,
                        .is_decoupled = c->config != NULL && model_config_is_decoupled(c->config),
                };
                map_set(&e.keys, str_of(c->key), &e.models[i]);
        }
        for (size_t i = 0; i < n; i++)
                if (e.models[i].visit == NOT_VISITED)
                        visit(&e, &e.models[i]);
        map_done(&e.keys);
        free(e.models);
}
