/* SPDX-License-Identifier: BSD-3-Clause */
/* A repository agent that calls every function of tritonrepoagent.h with right arguments, and with
 * NULL in the place of each pointer. It leaves the model as it is. */
#define CALLER "agent"
#include "calls.h"
#include "triton/core/tritonrepoagent.h"

#define FILES TRITONREPOAGENT_ARTIFACT_FILESYSTEM

static int note; /* what is kept as a state */

TRITONSERVER_Error *TRITONREPOAGENT_Initialize(TRITONREPOAGENT_Agent *agent) {
        uint32_t major = 7, minor = 0;
        void    *state = NULL;

        OK(TRITONREPOAGENT_ApiVersion, &major, &minor);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_ApiVersion, NULL, &minor);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_ApiVersion, &major, NULL);
        EXPECT(major == TRITONREPOAGENT_API_VERSION_MAJOR &&
               minor == TRITONREPOAGENT_API_VERSION_MINOR);
        OK(TRITONREPOAGENT_SetState, agent, &note);
        OK(TRITONREPOAGENT_State, agent, &state);
        EXPECT(state == &note);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_SetState, NULL, &note);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_State, NULL, &state);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_State, agent, NULL);
        return NULL;
}

TRITONSERVER_Error *TRITONREPOAGENT_ModelInitialize(TRITONREPOAGENT_Agent      *agent,
                                                    TRITONREPOAGENT_AgentModel *model) {
        void *state = NULL;

        (void)agent;
        OK(TRITONREPOAGENT_ModelSetState, model, &note);
        OK(TRITONREPOAGENT_ModelState, model, &state);
        EXPECT(state == &note);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_ModelSetState, NULL, &note);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_ModelState, NULL, &state);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_ModelState, model, NULL);
        return NULL;
}

static void call_parameters(TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model) {
        const char *name = NULL, *value = NULL;
        uint32_t    n = 0;

        OK(TRITONREPOAGENT_ModelParameterCount, agent, model, &n);
        EXPECT(n == 1);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_ModelParameterCount, NULL, model, &n);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_ModelParameterCount, agent, NULL, &n);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_ModelParameterCount, agent, model, NULL);
        OK(TRITONREPOAGENT_ModelParameter, agent, model, 0, &name, &value);
        EXPECT(strcmp(name, "key") == 0 && strcmp(value, "value") == 0);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_ModelParameter, NULL, model, 0, &name, &value);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_ModelParameter, agent, NULL, 0, &name, &value);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_ModelParameter, agent, model, 0, NULL, &value);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_ModelParameter, agent, model, 0, &name, NULL);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_ModelParameter, agent, model, 1, &name, &value);
}

static void call_config(TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model) {
        TRITONSERVER_Message *config = NULL;

        OK(TRITONREPOAGENT_ModelConfig, agent, model, 1, &config);
        OK(TRITONSERVER_MessageDelete, config);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_ModelConfig, NULL, model, 1, &config);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_ModelConfig, agent, NULL, 1, &config);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_ModelConfig, agent, model, 1, NULL);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_ModelConfig, agent, model, 2, &config);
}

static void call_acquire(TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model) {
        const char *place = NULL;

        REFUSED(INVALID_ARG, TRITONREPOAGENT_ModelRepositoryLocationAcquire, NULL, model, FILES,
                &place);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_ModelRepositoryLocationAcquire, agent, NULL, FILES,
                &place);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_ModelRepositoryLocationAcquire, agent, model, FILES,
                NULL);
        REFUSED(UNSUPPORTED, TRITONREPOAGENT_ModelRepositoryLocationAcquire, agent, model,
                TRITONREPOAGENT_ARTIFACT_REMOTE_FILESYSTEM, &place);
        OK(TRITONREPOAGENT_ModelRepositoryLocationAcquire, agent, model, FILES, &place);
        EXPECT(access(place, W_OK) == 0);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_ModelRepositoryLocationRelease, NULL, model, place);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_ModelRepositoryLocationRelease, agent, NULL, place);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_ModelRepositoryLocationRelease, agent, model, NULL);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_ModelRepositoryLocationRelease, agent, model, "/");
        OK(TRITONREPOAGENT_ModelRepositoryLocationRelease, agent, model, place);
}

static void call_places(TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model) {
        TRITONREPOAGENT_ArtifactType type = TRITONREPOAGENT_ARTIFACT_REMOTE_FILESYSTEM;
        const char                  *place = NULL;

        REFUSED(INVALID_ARG, TRITONREPOAGENT_ModelRepositoryLocation, NULL, model, &type, &place);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_ModelRepositoryLocation, agent, NULL, &type, &place);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_ModelRepositoryLocation, agent, model, NULL, &place);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_ModelRepositoryLocation, agent, model, &type, NULL);
        OK(TRITONREPOAGENT_ModelRepositoryLocation, agent, model, &type, &place);
        EXPECT(type == FILES);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_ModelRepositoryUpdate, NULL, model, FILES, place);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_ModelRepositoryUpdate, agent, NULL, FILES, place);
        REFUSED(INVALID_ARG, TRITONREPOAGENT_ModelRepositoryUpdate, agent, model, FILES, NULL);
        OK(TRITONREPOAGENT_ModelRepositoryUpdate, agent, model, FILES, place);
}

TRITONSERVER_Error *TRITONREPOAGENT_ModelAction(TRITONREPOAGENT_Agent           *agent,
                                                TRITONREPOAGENT_AgentModel      *model,
                                                const TRITONREPOAGENT_ActionType action_type) {
        if (action_type != TRITONREPOAGENT_ACTION_LOAD)
                return NULL;
        call_parameters(agent, model);
        call_config(agent, model);
        call_acquire(agent, model);
        call_places(agent, model);
        return NULL;
}
