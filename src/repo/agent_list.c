/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/agent_list.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/ref.h"
#include "repo/agent.h"
#include "repo/agent_model.h"
#include "repo/repo_environment.h"

enum agent_stage { AGENTS_LOADING, AGENTS_READY, AGENTS_UNLOADING, AGENTS_ENDED };

struct agent_list {
        struct ref                     ref;
        const struct repo_environment *env;    /* borrowed: the repository */
        char                          *model;  /* owned; its name */
        struct agent_model            *models; /* owned; agents keep their addresses */
        size_t                         n_models;
        enum agent_stage               stage;
};

struct agent_list *agent_list_new(const struct repo_environment *env, const char *model,
                                  size_t n_agents) {
        struct agent_list *l = mem_zalloc(sizeof(*l));

        ref_init(&l->ref);
        l->env = env;
        l->model = mem_strdup(model);
        l->models = mem_zalloc((n_agents + 1) * sizeof(*l->models));
        return l;
}

static const char *action_name(TRITONREPOAGENT_ActionType action) {
        switch (action) {
        case TRITONREPOAGENT_ACTION_LOAD: return "LOAD";
        case TRITONREPOAGENT_ACTION_LOAD_COMPLETE: return "LOAD_COMPLETE";
        case TRITONREPOAGENT_ACTION_LOAD_FAIL: return "LOAD_FAIL";
        case TRITONREPOAGENT_ACTION_UNLOAD: return "UNLOAD";
        case TRITONREPOAGENT_ACTION_UNLOAD_COMPLETE: return "UNLOAD_COMPLETE";
        }
        return "unknown";
}

/* Logs the errors of the agents. They change nothing. */
static void notify_agents(struct agent_list *l, TRITONREPOAGENT_ActionType action) {
        for (size_t i = l->n_models; i > 0; i--) {
                struct agent_model *m = &l->models[i - 1];
                AUTO_ERROR          err = agent_model_act(m, action);

                if (err != NULL)
                        log_error("repository agent '%s', action %s of model '%s': %s",
                                  m->agent->name, action_name(action), l->model, err->message);
        }
}

void agent_list_complete(struct agent_list *l) {
        if (l == NULL || l->stage != AGENTS_LOADING)
                return;
        l->stage = AGENTS_READY;
        notify_agents(l, TRITONREPOAGENT_ACTION_LOAD_COMPLETE);
}

void agent_list_fail(struct agent_list *l) {
        if (l == NULL || l->stage != AGENTS_LOADING)
                return;
        l->stage = AGENTS_ENDED;
        notify_agents(l, TRITONREPOAGENT_ACTION_LOAD_FAIL);
}

void agent_list_unload(struct agent_list *l) {
        if (l == NULL || l->stage != AGENTS_READY)
                return;
        l->stage = AGENTS_UNLOADING;
        notify_agents(l, TRITONREPOAGENT_ACTION_UNLOAD);
}

struct agent_list *agent_list_ref(struct agent_list *l) {
        if (l != NULL)
                ref_get(&l->ref);
        return l;
}

void agent_list_unref(struct agent_list *l) {
        if (l == NULL || !ref_put(&l->ref))
                return;
        agent_list_fail(l);
        agent_list_unload(l);
        if (l->stage == AGENTS_UNLOADING)
                notify_agents(l, TRITONREPOAGENT_ACTION_UNLOAD_COMPLETE);
        for (size_t i = l->n_models; i > 0; i--)
                agent_model_done(&l->models[i - 1]);
        free(l->models);
        free(l->model);
        free(l);
}

struct error *agent_list_add(struct agent_list                             *l,
                             const Inference__ModelRepositoryAgents__Agent *wanted,
                             const char *directory, const struct model_config *config,
                             const char **ret_moved) {
        struct agent_model *m = &l->models[l->n_models];
        struct agent_turn   turn = { .wanted = wanted,
                                     .model = l->model,
                                     .directory = directory,
                                     .config = config,
                                     .places = l->env->places };

        TRY(agent_registry_get(l->env->agents, wanted->name, l->model, &turn.agent));
        TRY(error_wrap(agent_model_init(m, &turn),
                       "repository agent '%s' failed to initialize model '%s'", wanted->name,
                       l->model));
        l->n_models++; /* from now on it gets the actions that end the load */
        TRY(error_wrap(agent_model_act(m, TRITONREPOAGENT_ACTION_LOAD),
                       "repository agent '%s' does not let model '%s' be loaded", wanted->name,
                       l->model));
        *ret_moved = m->moved_to;
        return NULL;
}
