/* SPDX-License-Identifier: BSD-3-Clause */
/* The agents of one load of a model, and the order of the actions that they get.
 *
 *     (agent_list_add: LOAD) -> LOAD_COMPLETE -> UNLOAD -> UNLOAD_COMPLETE
 *                       '-----> LOAD_FAIL
 *
 * Every agent that got LOAD takes exactly one of these two paths, even when it returned an error
 * for LOAD. LOAD comes in the order of the configuration, the other actions in the reverse order.
 * When the last reference is dropped, the agents get the actions that are still missing, so no exit
 * from a load can leave one out. TRITONREPOAGENT_ModelFinalize comes last.
 *
 * Ownership.  Counted. References are held by the reader of the model's files, by each loaded
 * version (an agent's directory lasts as long as any of them), and by the repository while they
 * serve.
 * Threads.  agent_list_complete(), _fail() and _unload(): the thread that changes the model. The
 * last unref: mostly the reaper. No lock may be held at any of them, because they call plug-ins.
 */
#pragma once

#include "base/error.h"
#include "config/model_config.h"

struct agent_list;
struct repo_environment;

/* Makes a list for at most n_agents, with one reference. Copies the name. */
struct agent_list *agent_list_new(const struct repo_environment *env, const char *model,
                                  size_t n_agents);
struct agent_list *agent_list_ref(struct agent_list *l);   /* NULL gives NULL */
void               agent_list_unref(struct agent_list *l); /* NULL is fine */

/* Opens the next agent and passes it LOAD. *ret_moved is the new location of the model, borrowed
 * until the next call; NULL when the agent left the model in `directory`. The error names the agent
 * and the model. */
struct error *agent_list_add(struct agent_list                             *l,
                             const Inference__ModelRepositoryAgents__Agent *wanted,
                             const char *directory, const struct model_config *config,
                             const char **ret_moved) NODISCARD;

/* Passes the action for a load that succeeded, a load that failed, an unload that begins. NULL is
 * fine for all. */
void agent_list_complete(struct agent_list *l);
void agent_list_fail(struct agent_list *l);
void agent_list_unload(struct agent_list *l);
