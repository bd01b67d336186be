/* SPDX-License-Identifier: BSD-3-Clause */
/* Repository agents: the shared libraries that model configurations name in
 * model_repository_agents, and their ABI. The server opens each library once.
 *
 * The library of the agent "x" is <directory>/x/libtritonrepoagent_x.so. Opening looks up the entry
 * points and calls TRITONREPOAGENT_Initialize. An agent whose Initialize fails gets
 * TRITONREPOAGENT_Finalize at once, and the next load tries again.
 *
 * Ownership.  The registry owns its agents until it is freed. Each agent then gets
 * TRITONREPOAGENT_Finalize and its library is unloaded. All models that use an agent must have
 * ended before.
 * Threads.  Any. A thread waits while another one opens the same library, as for backends. No lock
 * is held during the plug-in's Initialize. An open agent does not change, except for `state`, which
 * belongs to the agent.
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

/* All are optional except model_action. */
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
        struct plugin_place place;   /* for calls that concern no model */
        struct agent_entry  entry;
        void               *state; /* for the agent's own use */
};

/* `directory` is copied. */
struct agent_registry *agent_registry_new(const char *directory);
void                   agent_registry_free(struct agent_registry *r); /* NULL is fine */

/* Returns the agent, borrowed from the registry, and opens it if necessary. The error names the
 * path of the library, the symbol that it lacks, the agent, and the model that asks for it. */
struct error *agent_registry_get(struct agent_registry *r, const char *name, const char *model,
                                 struct agent **ret) NODISCARD;

/* Returns the path of the library, owned by the caller, without opening it. */
struct error *agent_registry_find(const struct agent_registry *r, const char *name,
                                  const char *model, char **ret_path) NODISCARD;

/* Calls `each` for every open agent, for tables in the log. */
void agent_registry_each(struct agent_registry *r, void (*each)(const struct agent *a, void *userp),
                         void                  *userp);
