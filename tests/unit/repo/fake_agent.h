/* SPDX-License-Identifier: BSD-3-Clause */
/* A repository agent's shared library whose entry points are functions of the test program.
 *
 * fake_agent.c is built several times: libfake_agent.so has every entry point of the ABI,
 * libfake_agent_bare.so only the one that is required, libfake_agent_no_action.so all but that one.
 * agent_host.h copies them to where the server looks and connects them.
 *
 * Ownership.  The library borrows the hooks.
 */
#pragma once

#include "triton/core/tritonrepoagent.h"

struct fake_agent_hooks {
        TRITONSERVER_Error *(*initialize)(TRITONREPOAGENT_Agent *agent);
        TRITONSERVER_Error *(*finalize)(TRITONREPOAGENT_Agent *agent);
        TRITONSERVER_Error *(*model_initialize)(TRITONREPOAGENT_Agent      *agent,
                                                TRITONREPOAGENT_AgentModel *model);
        TRITONSERVER_Error *(*model_finalize)(TRITONREPOAGENT_Agent      *agent,
                                              TRITONREPOAGENT_AgentModel *model);
        TRITONSERVER_Error *(*model_action)(TRITONREPOAGENT_Agent      *agent,
                                            TRITONREPOAGENT_AgentModel *model,
                                            TRITONREPOAGENT_ActionType  action);
};
