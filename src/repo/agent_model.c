/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/agent_model.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "config/config_edit.h"
#include "repo/agent.h"
#include "repo/override.h"

#include <string.h>

/* ---- init and done --------------------------------------------------------------------------- */

static void copy_parameters(struct agent_model                            *m,
                            const Inference__ModelRepositoryAgents__Agent *wanted) {
        m->parameters = mem_zalloc((wanted->n_parameters + 1) * sizeof(*m->parameters));
        m->n_parameters = wanted->n_parameters;
        for (size_t i = 0; i < m->n_parameters; i++)
                m->parameters[i] = (struct agent_parameter){
                        .name = mem_strdup(wanted->parameters[i]->key),
                        .value = mem_strdup(wanted->parameters[i]->value),
                };
}

static void free_parts(struct agent_model *m) {
        for (size_t i = 0; i < m->n_parameters; i++) {
                free(m->parameters[i].name);
                free(m->parameters[i].value);
        }
        free(m->parameters);
        override_files_unref(m->acquired);
        model_config_free(m->config);
        free(m->moved_to);
        free(m->directory);
}

static struct error *call(struct agent_model *m, agent_model_fn function, const char *name) {
        PLUGIN_CALL(&m->place, name);

        return (struct error *)function((TRITONREPOAGENT_Agent *)m->agent,
                                        (TRITONREPOAGENT_AgentModel *)m);
}

static struct error *start_agent_model(struct agent_model *m, const struct agent_turn *turn) {
        agent_model_fn initialize = m->agent->entry.model_initialize;

        TRY(model_config_copy(turn->config, &m->config));
        /* An agent can learn the name of the model only from here. */
        TRY(config_edit_text(m->config, &m->config->pb->name, "", turn->model));
        m->is_started = true;
        if (initialize == NULL)
                return NULL;
        return call(m, initialize, "TRITONREPOAGENT_ModelInitialize");
}

struct error *agent_model_init(struct agent_model *m, const struct agent_turn *turn) {
        struct error *err;

        *m = (struct agent_model){ .agent = turn->agent,
                                   .place = { .library = turn->agent->path, .model = turn->model },
                                   .places = turn->places,
                                   .directory = mem_strdup(turn->directory) };
        copy_parameters(m, turn->wanted);
        err = start_agent_model(m, turn);
        if (err != NULL)
                agent_model_done(m);
        return err;
}

void agent_model_done(struct agent_model *m) {
        agent_model_fn finalize = m->agent->entry.model_finalize;

        if (m->is_started && finalize != NULL) {
                AUTO_ERROR err = call(m, finalize, "TRITONREPOAGENT_ModelFinalize");

                if (err != NULL)
                        log_error("repository agent '%s' failed to finalize model '%s': %s",
                                  m->agent->name, m->config->pb->name, err->message);
        }
        free_parts(m);
}

struct error *agent_model_act(struct agent_model *m, TRITONREPOAGENT_ActionType action) {
        struct error *err;
        PLUGIN_CALL(&m->place, "TRITONREPOAGENT_ModelAction");

        m->is_loading = action == TRITONREPOAGENT_ACTION_LOAD;
        m->has_ended = action == TRITONREPOAGENT_ACTION_LOAD_FAIL ||
                       action == TRITONREPOAGENT_ACTION_UNLOAD_COMPLETE;
        err = (struct error *)m->agent->entry.model_action((TRITONREPOAGENT_Agent *)m->agent,
                                                           (TRITONREPOAGENT_AgentModel *)m, action);
        m->is_loading = false;
        return err;
}

/* ---- locations ------------------------------------------------------------------------------- */

const char *agent_model_location(const struct agent_model *m) {
        return m->moved_to != NULL ? m->moved_to : m->directory;
}

struct error *agent_model_move(struct agent_model *m, const char *directory) {
        struct file_stat stat;

        if (!m->is_loading)
                return error_new_text(ERR_INVALID_ARG,
                                      "the location of a model can be changed in the action LOAD "
                                      "only");
        TRY(file_stat(directory, &stat));
        if (!stat.is_directory)
                return error_new(ERR_INVALID_ARG,
                                 "'%s' is no directory, so it cannot be the location of a model",
                                 directory);
        free(m->moved_to);
        m->moved_to = mem_strdup(directory);
        return NULL;
}

struct error *agent_model_acquire(struct agent_model *m, const char **ret) {
        if (m->acquired == NULL)
                TRY(override_files_new(m->places, &m->acquired));
        *ret = override_files_directory(m->acquired);
        return NULL;
}

/* True when `path` is the directory, or below it. */
static bool is_within(const char *path, const char *directory) {
        size_t len = strlen(directory);

        return strncmp(path, directory, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

struct error *agent_model_release(struct agent_model *m, const char *directory) {
        if (m->acquired == NULL || strcmp(override_files_directory(m->acquired), directory) != 0)
                return error_new(ERR_INVALID_ARG,
                                 "'%s' is no location that was acquired for this model", directory);
        if (m->moved_to != NULL && is_within(m->moved_to, directory) && !m->has_ended)
                return error_new(ERR_INVALID_ARG,
                                 "'%s' cannot be released while it is the model's location",
                                 directory);
        override_files_unref(m->acquired);
        m->acquired = NULL;
        return NULL;
}
