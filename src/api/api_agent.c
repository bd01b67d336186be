/* SPDX-License-Identifier: BSD-3-Clause */
/* The C API of repository agents: a TRITONREPOAGENT_Agent is a struct agent, a
 * TRITONREPOAGENT_AgentModel a struct agent_model.
 */
#include "api/api_types.h"
#include "repo/agent.h"
#include "repo/agent_model.h"
#include "triton/core/tritonrepoagent.h"

DEFINE_API_TYPE(TRITONREPOAGENT_Agent, agent)
DEFINE_API_TYPE(TRITONREPOAGENT_AgentModel, agent_model)

static struct error *check_artifact(TRITONREPOAGENT_ArtifactType type) {
        if (type == TRITONREPOAGENT_ARTIFACT_FILESYSTEM)
                return NULL;
        if (type == TRITONREPOAGENT_ARTIFACT_REMOTE_FILESYSTEM)
                return error_new_text(ERR_UNSUPPORTED,
                                      "TRITONREPOAGENT_ARTIFACT_REMOTE_FILESYSTEM is not "
                                      "supported: models are loaded from local directories");
        return error_new(ERR_INVALID_ARG, "%d is no valid artifact type", (int)type);
}

/* ---- locations ------------------------------------------------------------------------------- */

TRITONSERVER_Error *TRITONREPOAGENT_ModelRepositoryLocation(
        TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model,
        TRITONREPOAGENT_ArtifactType *artifact_type, const char **location) {
        API_NEEDS(agent, model, artifact_type, location);
        *artifact_type = TRITONREPOAGENT_ARTIFACT_FILESYSTEM;
        *location = agent_model_location(agent_model_from_api(model));
        return NULL;
}

TRITONSERVER_Error *TRITONREPOAGENT_ModelRepositoryLocationAcquire(
        TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model,
        const TRITONREPOAGENT_ArtifactType artifact_type, const char **location) {
        API_NEEDS(agent, model, location);
        API_TRY(check_artifact(artifact_type));
        return error_to_api(agent_model_acquire(agent_model_from_api(model), location));
}

TRITONSERVER_Error *TRITONREPOAGENT_ModelRepositoryLocationRelease(
        TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model, const char *location) {
        API_NEEDS(agent, model, location);
        return error_to_api(agent_model_release(agent_model_from_api(model), location));
}

TRITONSERVER_Error *TRITONREPOAGENT_ModelRepositoryUpdate(
        TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model,
        const TRITONREPOAGENT_ArtifactType artifact_type, const char *location) {
        API_NEEDS(agent, model, location);
        API_TRY(check_artifact(artifact_type));
        return error_to_api(agent_model_move(agent_model_from_api(model), location));
}

/* ---- configuration --------------------------------------------------------------------------- */

TRITONSERVER_Error *TRITONREPOAGENT_ModelParameterCount(TRITONREPOAGENT_Agent      *agent,
                                                        TRITONREPOAGENT_AgentModel *model,
                                                        uint32_t                   *count) {
        API_NEEDS(agent, model, count);
        *count = (uint32_t)agent_model_from_api(model)->n_parameters;
        return NULL;
}

TRITONSERVER_Error *TRITONREPOAGENT_ModelParameter(TRITONREPOAGENT_Agent      *agent,
                                                   TRITONREPOAGENT_AgentModel *model,
                                                   const uint32_t              index,
                                                   const char                **parameter_name,
                                                   const char                **parameter_value) {
        const struct agent_model *m = agent_model_from_api(model);

        API_NEEDS(agent, model, parameter_name, parameter_value);
        if (index >= m->n_parameters)
                return error_to_api(error_new(ERR_INVALID_ARG,
                                              "parameter %u is out of range: the agent has %zu for "
                                              "this model",
                                              index, m->n_parameters));
        *parameter_name = m->parameters[index].name;
        *parameter_value = m->parameters[index].value;
        return NULL;
}

TRITONSERVER_Error *TRITONREPOAGENT_ModelConfig(TRITONREPOAGENT_Agent      *agent,
                                                TRITONREPOAGENT_AgentModel *model,
                                                const uint32_t              config_version,
                                                TRITONSERVER_Message      **model_config) {
        API_NEEDS(agent, model, model_config);
        return api_print_config(agent_model_from_api(model)->config, config_version, model_config);
}

/* ---- states ---------------------------------------------------------------------------------- */

API_GETTER(TRITONREPOAGENT_ModelState, TRITONREPOAGENT_AgentModel, model, void *, state,
           agent_model_from_api(model)->state)

API_SETTER(TRITONREPOAGENT_ModelSetState, TRITONREPOAGENT_AgentModel, model, void *, state,
           agent_model_from_api(model)->state)

API_GETTER(TRITONREPOAGENT_State, TRITONREPOAGENT_Agent, agent, void *, state,
           agent_from_api(agent)->state)

API_SETTER(TRITONREPOAGENT_SetState, TRITONREPOAGENT_Agent, agent, void *, state,
           agent_from_api(agent)->state)
