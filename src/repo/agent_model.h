/* SPDX-License-Identifier: BSD-3-Clause */
/* One agent's view of one load of a model: TRITONREPOAGENT_AgentModel.
 *
 * A load that is followed by another one of the same model has agent models of its own: nothing
 * here is ever changed to mean newer files. agent_list.h says which actions come when.
 *
 * Ownership.  The list of its load owns it, with the directory that the agent acquired: that one is
 * removed when the agent releases it, and with the agent model at the latest.
 * Threads.  One at a time: whoever loads or unloads the model, then the reaper. An agent calls the
 * functions below from within its own entry points.
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
        struct plugin_place     place;      /* of its calls; borrows the model's name */
        struct override_store  *places;     /* borrowed: the repository */
        char                   *directory;  /* owned; as it was when the agent's turn came */
        char                   *moved_to;   /* owned; NULL: the agent left it there */
        struct override_files  *acquired;   /* ref; NULL: none */
        struct model_config    *config;     /* owned; as known when the agent's turn came */
        struct agent_parameter *parameters; /* owned; in the order of the configuration */
        size_t                  n_parameters;
        void                   *state;      /* the agent's own */
        bool                    is_started; /* to be finalised, initialised or not */
        bool                    is_loading; /* LOAD is at work */
        bool                    has_ended;  /* LOAD_FAIL or UNLOAD_COMPLETE was told */
};

/* One agent's turn in a load. */
struct agent_turn {
        struct agent                                  *agent;
        const Inference__ModelRepositoryAgents__Agent *wanted; /* name and parameters */
        const char                *model; /* its name; outlives the agent model */
        const char                *directory;
        const struct model_config *config;
        struct override_store     *places; /* outlives the agent model */
};

/* Ends with TRITONREPOAGENT_ModelInitialize; returns its error, after TRITONREPOAGENT_ModelFinalize:
 * nothing is left to be done then. */
struct error *agent_model_init(struct agent_model *m, const struct agent_turn *turn) NODISCARD;
/* TRITONREPOAGENT_ModelFinalize. */
void agent_model_done(struct agent_model *m);

/* The agent's error as it is. */
struct error *agent_model_act(struct agent_model *m, TRITONREPOAGENT_ActionType action) NODISCARD;

/* For the agent: where the model is, as far as this agent and those before it say. */
const char *agent_model_location(const struct agent_model *m);
/* Another place of it; INVALID_ARG outside of LOAD, or when it is no directory. */
struct error *agent_model_move(struct agent_model *m, const char *directory) NODISCARD;

/* An empty directory, the same one when it is asked again. */
struct error *agent_model_acquire(struct agent_model *m, const char **ret) NODISCARD;
/* INVALID_ARG when it is another directory, or the place of a model that has not ended. */
struct error *agent_model_release(struct agent_model *m, const char *directory) NODISCARD;
