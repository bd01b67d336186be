/* SPDX-License-Identifier: BSD-3-Clause */
/* Repository agents: the shared libraries that models' configurations name in
 * model_repository_agents, seen from the host's side of their ABI. Each is opened once.
 *
 * The library of the agent "x" is <directory>/x/libtritonrepoagent_x.so. Opening looks up the
 * entry points and calls TRITONREPOAGENT_Initialize; one that failed gets TRITONREPOAGENT_Finalize at
 * once, and is tried again by the next load.
 *
 * Ownership.  The registry owns its agents until it is freed, when each gets
 * TRITONREPOAGENT_Finalize and its library is unloaded: all models that use one must have ended.
 * Threads.  Any; who wants a library that somebody else is opening waits for it, as for backends,
 * and no lock is held across the plug-in's Initialize. An open agent does not change, but for `state`,
 * which is the agent's own.
 */
#pragma once

#include "base/error.h"
#include "base/plugin_call.h"
#include "triton/core/tritonrepoagent.h"

struct agent_registry;
struct dl;

typedef TRITONSERVER_Error *(*agent_life_fn)(TRITONREPOAGENT_Agent *agent);
typedef TRITONSERVER_Error *(*agent_model_fn)(TRITONREPOAGENT_Agent      *agent,
                                              TRITONREPOAGENT_AgentModel *model);
typedef TRITONSERVER_Error *(*agent_action_fn)(TRITONREPOAGENT_Agent           *agent,
                                               TRITONREPOAGENT_AgentModel      *model,
                                               const TRITONREPOAGENT_ActionType action);

/* All optional but model_action. */
struct agent_entry {
        agent_life_fn   initialize;
        agent_life_fn   finalize;
        agent_model_fn  model_initialize;
        agent_model_fn  model_finalize;
        agent_action_fn model_action;
};

struct agent {
        char               *name;    /* owned; "checksum" */
        char               *path;    /* owned; of the library */
        struct dl          *library; /* owned */
        struct plugin_place place;   /* of calls that are about no model */
        struct agent_entry  entry;
        void               *state; /* the agent's own */
};

/* `directory` is copied. */
struct agent_registry *agent_registry_new(const char *directory);
void                   agent_registry_free(struct agent_registry *r); /* NULL is fine */

/* Borrowed: the registry. The error names the library's path, the symbol that it lacks, the agent
 * and the model that wants it. */
struct error *agent_registry_get(struct agent_registry *r, const char *name, const char *model,
                                 struct agent **ret) NODISCARD;

/* The path of the library that would be opened, owned by the caller; nothing is opened. */
struct error *agent_registry_find(const struct agent_registry *r, const char *name,
                                  const char *model, char **ret_path) NODISCARD;

/* For tables in the log: calls `each` for every open agent. */
void agent_registry_each(struct agent_registry *r, void (*each)(const struct agent *a, void *userp),
                         void                  *userp);
