/* SPDX-License-Identifier: BSD-3-Clause */
/* One agent and one load of a model: TRITONREPOAGENT_AgentModel.
 *
 * Each load of a model has agent models of its own, so the content never changes to newer files.
 * agent_list.h defines the order of the actions.
 *
 * Ownership.  The agent list of the load owns it, together with the directory that the agent
 * acquired. The directory is removed when the agent releases it, at the latest with the agent
 * model.
 * Threads.  One at a time: the thread that loads or unloads the model, then the reaper. An agent
 * calls the functions below from its own entry points.
 */
#pragma once

#include "base/error.h"
#include "base/plugin_call.h"
#include "config/model_config.h"
#include "triton/core/tritonrepoagent.h"

#include <stdbool.h>
#include <stddef.h>

struct agent;
struct override_files;
struct override_store;

struct agent_parameter {
        char *name;  /* owned */
        char *value; /* owned */
};

struct agent_model {
        struct agent           *agent;      /* borrowed: the registry */
        struct plugin_place     place;      /* for calls of the agent; borrows the name of the
                                             * model */
        struct override_store  *places;     /* borrowed: the repository */
        char                   *directory;  /* owned; the location before the agent's LOAD */
        char                   *moved_to;   /* owned; NULL: the agent did not move the model */
        struct override_files  *acquired;   /* ref; NULL: none */
        struct model_config    *config;     /* owned; the configuration before the agent's LOAD */
        struct agent_parameter *parameters; /* owned; in the order of the configuration */
        size_t                  n_parameters;
        void                   *state;      /* for the agent's own use */
        bool                    is_started; /* must be finalised, even when Initialize failed */
        bool                    is_loading; /* LOAD is running */
        bool                    has_ended;  /* got LOAD_FAIL or UNLOAD_COMPLETE */
};

/* The arguments of agent_model_init(). */
struct agent_turn {
        struct agent                                  *agent;
        const Inference__ModelRepositoryAgents__Agent *wanted; /* name and parameters */
        const char                *model; /* name of the model; outlives the agent model */
        const char                *directory;
        const struct model_config *config;
        struct override_store     *places; /* outlives the agent model */
};

/* Makes the agent model and calls TRITONREPOAGENT_ModelInitialize. After an error of that it calls
 * TRITONREPOAGENT_ModelFinalize and returns the error; nothing is left to be freed then. */
struct error *agent_model_init(struct agent_model *m, const struct agent_turn *turn) NODISCARD;
/* Calls TRITONREPOAGENT_ModelFinalize and frees the content. */
void agent_model_done(struct agent_model *m);

/* Passes an action to the agent. Returns the agent's error unchanged. */
struct error *agent_model_act(struct agent_model *m, TRITONREPOAGENT_ActionType action) NODISCARD;

/* For the agent: the location of the model after this agent and those before it. */
const char *agent_model_location(const struct agent_model *m);
/* Sets another location. INVALID_ARG outside of LOAD, or when it is no directory. */
struct error *agent_model_move(struct agent_model *m, const char *directory) NODISCARD;

/* Returns an empty directory; every call returns the same one. */
struct error *agent_model_acquire(struct agent_model *m, const char **ret) NODISCARD;
/* Removes that directory. INVALID_ARG when it is another directory, or the location of a model that
 * has not ended. */
struct error *agent_model_release(struct agent_model *m, const char *directory) NODISCARD;
