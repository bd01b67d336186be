/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions of the C API that exist, so that plug-ins link, and do nothing yet: each gives
 * UNSUPPORTED with its name. A function that becomes real leaves this table and
 * tests/abi/unsupported.txt, which a test compares.
 */
#include "api/api_types.h"

#include "triton/core/tritonbackend.h"
#include "triton/core/tritonrepoagent.h"

/* The parameters have names, for the reader; none is used. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

static COLD struct TRITONSERVER_Error *unsupported(const char *function) {
        return error_to_api(error_new(ERR_UNSUPPORTED, "%s is not supported yet", function));
}

#define UNSUPPORTED(function, parameters)                                                          \
        struct TRITONSERVER_Error *function parameters {                                           \
                return unsupported(#function);                                                     \
        }

/* ---- Repository agents ----------------------------------------------------------------------- */

UNSUPPORTED(TRITONREPOAGENT_ModelRepositoryLocation,
            (TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model,
             TRITONREPOAGENT_ArtifactType *artifact_type, const char **location))
UNSUPPORTED(TRITONREPOAGENT_ModelRepositoryLocationAcquire,
            (TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model,
             const TRITONREPOAGENT_ArtifactType artifact_type, const char **location))
UNSUPPORTED(TRITONREPOAGENT_ModelRepositoryLocationRelease,
            (TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model, const char *location))
UNSUPPORTED(TRITONREPOAGENT_ModelRepositoryUpdate,
            (TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model,
             const TRITONREPOAGENT_ArtifactType artifact_type, const char *location))
UNSUPPORTED(TRITONREPOAGENT_ModelParameterCount,
            (TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model, uint32_t *count))
UNSUPPORTED(TRITONREPOAGENT_ModelParameter,
            (TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model, const uint32_t index,
             const char **parameter_name, const char **parameter_value))
UNSUPPORTED(TRITONREPOAGENT_ModelConfig,
            (TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model,
             const uint32_t config_version, TRITONSERVER_Message **model_config))
UNSUPPORTED(TRITONREPOAGENT_ModelState, (TRITONREPOAGENT_AgentModel *model, void **state))
UNSUPPORTED(TRITONREPOAGENT_ModelSetState, (TRITONREPOAGENT_AgentModel *model, void *state))
UNSUPPORTED(TRITONREPOAGENT_State, (TRITONREPOAGENT_Agent *agent, void **state))
UNSUPPORTED(TRITONREPOAGENT_SetState, (TRITONREPOAGENT_Agent *agent, void *state))
