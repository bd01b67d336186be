/* SPDX-License-Identifier: BSD-3-Clause */
/* What fake agents do: each call is written down as a line, and answered as the test says.
 *
 * A line is "<agent> Initialize" or "<agent>#<n> <call>", where n counts the agent models of this
 * agent: the first load has 1. Calls are Initialize, Finalize, ModelInitialize, ModelFinalize, and
 * the actions LOAD, LOAD_COMPLETE, LOAD_FAIL, UNLOAD, UNLOAD_COMPLETE. Agents without
 * ModelInitialize have n = 0.
 *
 * There is one host per program, because entry points of a library have no place for a pointer.
 *
 * Threads.  Calls on any; the rest on the test's.
 */
#pragma once

#include "backend/fake_host.h"
#include "triton/core/tritonrepoagent.h"

/* No lines, no reactions. */
void agent_host_begin(void);
void agent_host_end(void);

/* A copy of lib<kind>.so as the agent of this name in the tree's folder "agents"; closed with
 * fake_library_close(). */
struct fake_library agent_host_add(const struct temp_tree *tree, const char *kind,
                                   const char *name);

/* What the call answers from now on; `model` is NULL for Initialize and Finalize. NULL takes it
 * back. Names are borrowed. */
typedef TRITONSERVER_Error *(*agent_reaction_fn)(TRITONREPOAGENT_Agent      *agent,
                                                 TRITONREPOAGENT_AgentModel *model);
void agent_host_react(const char *agent, const char *call, agent_reaction_fn reaction);

/* The lines since the last time, separated by ", "; owned by the caller. */
char *agent_host_take(void);
void  agent_host_assert(const char *expected);
/* Waits until this is the last line. */
void agent_host_await(const char *line);
