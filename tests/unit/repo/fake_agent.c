/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/fake_agent.h"

#include <stddef.h>

#define EXPORTED __attribute__((visibility("default")))

/* Found with dlsym(), so no header declares it. */
extern const struct fake_agent_hooks   *fake_agent_hooks;
EXPORTED const struct fake_agent_hooks *fake_agent_hooks;

#ifndef FAKE_WITHOUT_ACTION

TRITONSERVER_Error *TRITONREPOAGENT_ModelAction(TRITONREPOAGENT_Agent           *agent,
                                                TRITONREPOAGENT_AgentModel      *model,
                                                const TRITONREPOAGENT_ActionType action) {
        return fake_agent_hooks->model_action(agent, model, action);
}

#endif

#ifndef FAKE_BARE

TRITONSERVER_Error *TRITONREPOAGENT_Initialize(TRITONREPOAGENT_Agent *agent) {
        return fake_agent_hooks->initialize(agent);
}

TRITONSERVER_Error *TRITONREPOAGENT_Finalize(TRITONREPOAGENT_Agent *agent) {
        return fake_agent_hooks->finalize(agent);
}

TRITONSERVER_Error *TRITONREPOAGENT_ModelInitialize(TRITONREPOAGENT_Agent      *agent,
                                                    TRITONREPOAGENT_AgentModel *model) {
        return fake_agent_hooks->model_initialize(agent, model);
}

TRITONSERVER_Error *TRITONREPOAGENT_ModelFinalize(TRITONREPOAGENT_Agent      *agent,
                                                  TRITONREPOAGENT_AgentModel *model) {
        return fake_agent_hooks->model_finalize(agent, model);
}

#endif
