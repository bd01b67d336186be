/* SPDX-License-Identifier: BSD-3-Clause */
/* The agents of one load of a model, and the order in which they are told what happens to it.
 *
 *     (agent_list_add: LOAD) -> LOAD_COMPLETE -> UNLOAD -> UNLOAD_COMPLETE
 *                       '-----> LOAD_FAIL
 *
 * Every agent that got LOAD, refused or not, gets exactly one of these two ways; LOAD in the order
 * of the configuration, the others in the reverse order. Whatever was not told when the last
 * reference goes is told then, so that no way out of a load is forgotten. TRITONREPOAGENT_
 * ModelFinalize comes last.
 *
 * Ownership.  Counted: by what reads the model's files, by each version that was loaded (an agent's
 * directory lasts as long as any of them), and by the repository while they serve.
 * Threads.  agent_list_complete(), _fail() and _unload(): whoever changes the model; the last unref
 * is the reaper's mostly. No lock may be held at any of them: they call out.
 */
#pragma once

#include "base/error.h"
#include "config/model_config.h"

struct agent_list;
struct repo_parts;

/* For that many agents at most; one reference. Copies the name. */
struct agent_list *agent_list_new(const struct repo_parts *parts, const char *model,
                                  size_t n_agents);
struct agent_list *agent_list_ref(struct agent_list *l);   /* NULL gives NULL */
void               agent_list_unref(struct agent_list *l); /* NULL is fine */

/* The next agent's turn: opens it, and tells it LOAD. *ret_moved is where it put the model, borrowed
 * until the next turn; NULL when it left it in `directory`. The error names the agent and the
 * model. */
struct error *agent_list_add(struct agent_list                             *l,
                             const Inference__ModelRepositoryAgents__Agent *wanted,
                             const char *directory, const struct model_config *config,
                             const char **ret_moved) NODISCARD;

/* The load has ended this way; an unload begins. NULL is fine for all. */
void agent_list_complete(struct agent_list *l);
void agent_list_fail(struct agent_list *l);
void agent_list_unload(struct agent_list *l);
