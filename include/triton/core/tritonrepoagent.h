/* SPDX-License-Identifier: BSD-3-Clause */
/* The interface between the server and a repository agent: a shared library that a model's
 * configuration names and that may check or change the model's files before they are loaded.
 *
 * The server finds <directory>/<name>/libtritonrepoagent_<name>.so and calls the entry points
 * at the end of this file; only TRITONREPOAGENT_ModelAction() is required. For each load of a
 * model, actions come in this order: LOAD, then LOAD_COMPLETE or LOAD_FAIL; later UNLOAD and
 * UNLOAD_COMPLETE. With several agents, LOAD goes through them in the order of the
 * configuration and the others in the reverse order.
 *
 * **Ownership.** As in tritonserver.h. Texts belong to the model or to the agent they came
 * from.
 *
 * **Threads.** Different models may be handled by different threads at once; one model by one
 * thread at a time.
 */
#pragma once

#include "triton/core/tritonserver.h"

/* On what the server defines. */
#if defined(__GNUC__)
#define TRITONREPOAGENT_DECLSPEC __attribute__((visibility("default")))
#else
#define TRITONREPOAGENT_DECLSPEC
#endif

/* On what a plug-in defines and the server looks up in it. */
#define TRITONREPOAGENT_ISPEC TRITONREPOAGENT_DECLSPEC

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface. */
#define TRITONREPOAGENT_API_VERSION_MAJOR 0
#define TRITONREPOAGENT_API_VERSION_MINOR 1

/* Objects of the server, known to an agent by pointer only. */
typedef struct TRITONREPOAGENT_Agent      TRITONREPOAGENT_Agent;
typedef struct TRITONREPOAGENT_AgentModel TRITONREPOAGENT_AgentModel;

/* How the files of a model can be reached. */
typedef enum TRITONREPOAGENT_ArtifactType_enum {
        TRITONREPOAGENT_ARTIFACT_FILESYSTEM = 0,        /* a local directory */
        TRITONREPOAGENT_ARTIFACT_REMOTE_FILESYSTEM = 1, /* a path in a store of objects */
} TRITONREPOAGENT_ArtifactType;

/* What is happening to a model. */
typedef enum TRITONREPOAGENT_ActionType_enum {
        TRITONREPOAGENT_ACTION_LOAD = 0,            /* about to be loaded; an error prevents it */
        TRITONREPOAGENT_ACTION_LOAD_COMPLETE = 1,   /* is ready */
        TRITONREPOAGENT_ACTION_LOAD_FAIL = 2,       /* could not be loaded */
        TRITONREPOAGENT_ACTION_UNLOAD = 3,          /* about to be unloaded */
        TRITONREPOAGENT_ACTION_UNLOAD_COMPLETE = 4, /* is unloaded; the last action */
} TRITONREPOAGENT_ActionType;

/* ---- What an agent can call ------------------------------------------------------------------ */

/* Gives the version of this interface that the server implements. */
TRITONREPOAGENT_DECLSPEC TRITONSERVER_Error *TRITONREPOAGENT_ApiVersion(uint32_t *major,
                                                                        uint32_t *minor);

/* Where the model's files are: the repository's directory, or what the agent before this one
 * put in its place. Belongs to the model. */
TRITONREPOAGENT_DECLSPEC TRITONSERVER_Error *TRITONREPOAGENT_ModelRepositoryLocation(
        TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model,
        TRITONREPOAGENT_ArtifactType *artifact_type, const char **location);

/* A new, empty, writable directory in which the agent can put a changed model. One per agent
 * and model: asked again, the same. It is removed when the model is unloaded or the agent
 * releases it. */
TRITONREPOAGENT_DECLSPEC TRITONSERVER_Error *TRITONREPOAGENT_ModelRepositoryLocationAcquire(
        TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model,
        const TRITONREPOAGENT_ArtifactType artifact_type, const char **location);

/* Removes such a directory with what is in it. Not while it is the model's location. */
TRITONREPOAGENT_DECLSPEC TRITONSERVER_Error *TRITONREPOAGENT_ModelRepositoryLocationRelease(
        TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model, const char *location);

/* Puts another directory in the place of the model's files, in the LOAD action only. */
TRITONREPOAGENT_DECLSPEC TRITONSERVER_Error *TRITONREPOAGENT_ModelRepositoryUpdate(
        TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model,
        const TRITONREPOAGENT_ArtifactType artifact_type, const char *location);

/* How many parameters the configuration gives this agent. */
TRITONREPOAGENT_DECLSPEC TRITONSERVER_Error *TRITONREPOAGENT_ModelParameterCount(
        TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model, uint32_t *count);

/* One of them, counted from 0. INVALID_ARG beyond the last. */
TRITONREPOAGENT_DECLSPEC TRITONSERVER_Error *TRITONREPOAGENT_ModelParameter(
        TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model, const uint32_t index,
        const char **parameter_name, const char **parameter_value);

/* The model's configuration as JSON, as far as it is known. `config_version` must be 1. The
 * message is the agent's. */
TRITONREPOAGENT_DECLSPEC TRITONSERVER_Error *TRITONREPOAGENT_ModelConfig(
        TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model,
        const uint32_t config_version, TRITONSERVER_Message **model_config);

/* The pointer set with TRITONREPOAGENT_ModelSetState(), or NULL. */
TRITONREPOAGENT_DECLSPEC TRITONSERVER_Error *TRITONREPOAGENT_ModelState(
        TRITONREPOAGENT_AgentModel *model, void **state);

/* Keeps a pointer of the agent's own with a model. */
TRITONREPOAGENT_DECLSPEC TRITONSERVER_Error *TRITONREPOAGENT_ModelSetState(
        TRITONREPOAGENT_AgentModel *model, void *state);

/* The pointer set with TRITONREPOAGENT_SetState(), or NULL. */
TRITONREPOAGENT_DECLSPEC TRITONSERVER_Error *TRITONREPOAGENT_State(TRITONREPOAGENT_Agent *agent,
                                                                   void                 **state);

/* Keeps a pointer of the agent's own. */
TRITONREPOAGENT_DECLSPEC TRITONSERVER_Error *TRITONREPOAGENT_SetState(TRITONREPOAGENT_Agent *agent,
                                                                      void                  *state);

/* ---- Entry points that an agent defines ------------------------------------------------------ */

/* The library was loaded. Optional. */
TRITONREPOAGENT_ISPEC TRITONSERVER_Error *TRITONREPOAGENT_Initialize(TRITONREPOAGENT_Agent *agent);

/* The library is about to be unloaded; also after an Initialize that failed. Optional. */
TRITONREPOAGENT_ISPEC TRITONSERVER_Error *TRITONREPOAGENT_Finalize(TRITONREPOAGENT_Agent *agent);

/* The agent is going to handle a model. Optional. */
TRITONREPOAGENT_ISPEC TRITONSERVER_Error *TRITONREPOAGENT_ModelInitialize(
        TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model);

/* The agent is done with a model; also after a ModelInitialize that failed. Optional. */
TRITONREPOAGENT_ISPEC TRITONSERVER_Error *TRITONREPOAGENT_ModelFinalize(
        TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model);

/* Something is happening to a model. Required. An error from LOAD prevents the load; errors
 * from the others are logged. */
TRITONREPOAGENT_ISPEC TRITONSERVER_Error *TRITONREPOAGENT_ModelAction(
        TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model,
        const TRITONREPOAGENT_ActionType action_type);

#ifdef __cplusplus
}
#endif
