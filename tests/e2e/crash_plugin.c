/* SPDX-License-Identifier: BSD-3-Clause */
/* A plug-in of every kind for test_crash_report.py: a backend, a repository agent, a cache and a
 * batching library. Each entry point does the least that is right; the one that the environment
 * variable CRASH_AT names aborts.
 */
#include "triton/core/tritonbackend.h"
#include "triton/core/tritoncache.h"
#include "triton/core/tritonrepoagent.h"

#include <stdlib.h>
#include <string.h>

static TRITONSERVER_Error *enter(const char *function) {
        const char *crash_at = getenv("CRASH_AT");

        if (crash_at != NULL && strcmp(crash_at, function) == 0)
                abort();
        return NULL;
}

/* With one parameter and with two. */
#define ENTRY_1(function, A)                                                                       \
        TRITONSERVER_Error *function(A a) {                                                        \
                (void)a;                                                                           \
                return enter(#function);                                                           \
        }
#define ENTRY_2(function, A, B)                                                                    \
        TRITONSERVER_Error *function(A a, B b) {                                                   \
                (void)a, (void)b;                                                                  \
                return enter(#function);                                                           \
        }

/* ---- backend --------------------------------------------------------------------------------- */

ENTRY_1(TRITONBACKEND_Initialize, TRITONBACKEND_Backend *)
ENTRY_1(TRITONBACKEND_Finalize, TRITONBACKEND_Backend *)
ENTRY_2(TRITONBACKEND_GetBackendAttribute, TRITONBACKEND_Backend *,
        TRITONBACKEND_BackendAttribute *)
ENTRY_1(TRITONBACKEND_ModelInitialize, TRITONBACKEND_Model *)
ENTRY_1(TRITONBACKEND_ModelFinalize, TRITONBACKEND_Model *)
ENTRY_1(TRITONBACKEND_ModelInstanceInitialize, TRITONBACKEND_ModelInstance *)
ENTRY_1(TRITONBACKEND_ModelInstanceFinalize, TRITONBACKEND_ModelInstance *)
ENTRY_1(TRITONBACKEND_ModelInstanceReady, TRITONBACKEND_ModelInstance *)

static void answer(TRITONBACKEND_Request *request) {
        TRITONBACKEND_Response *response;

        if (TRITONBACKEND_ResponseNew(&response, request) != NULL ||
            TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, NULL) !=
                    NULL ||
            TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL) != NULL)
                exit(1);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *instance,
                                                       TRITONBACKEND_Request      **requests,
                                                       const uint32_t               request_count) {
        (void)instance;
        for (uint32_t i = 0; i < request_count; i++)
                answer(requests[i]);
        return enter(__func__);
}

/* ---- batches --------------------------------------------------------------------------------- */

ENTRY_2(TRITONBACKEND_ModelBatcherInitialize, TRITONBACKEND_Batcher **, TRITONBACKEND_Model *)
ENTRY_1(TRITONBACKEND_ModelBatcherFinalize, TRITONBACKEND_Batcher *)
ENTRY_2(TRITONBACKEND_ModelBatchInitialize, const TRITONBACKEND_Batcher *, void **)
ENTRY_1(TRITONBACKEND_ModelBatchFinalize, void *)

TRITONSERVER_Error *TRITONBACKEND_ModelBatchIncludeRequest(TRITONBACKEND_Request *request,
                                                           void *userp, bool *should_include) {
        (void)request, (void)userp;
        *should_include = true;
        return enter(__func__);
}

/* ---- repository agent ------------------------------------------------------------------------ */

ENTRY_1(TRITONREPOAGENT_Initialize, TRITONREPOAGENT_Agent *)
ENTRY_1(TRITONREPOAGENT_Finalize, TRITONREPOAGENT_Agent *)
ENTRY_2(TRITONREPOAGENT_ModelInitialize, TRITONREPOAGENT_Agent *, TRITONREPOAGENT_AgentModel *)
ENTRY_2(TRITONREPOAGENT_ModelFinalize, TRITONREPOAGENT_Agent *, TRITONREPOAGENT_AgentModel *)

TRITONSERVER_Error *TRITONREPOAGENT_ModelAction(TRITONREPOAGENT_Agent           *agent,
                                                TRITONREPOAGENT_AgentModel      *model,
                                                const TRITONREPOAGENT_ActionType action_type) {
        (void)agent, (void)model, (void)action_type;
        return enter(__func__);
}

/* ---- cache ----------------------------------------------------------------------------------- */

ENTRY_2(TRITONCACHE_CacheInitialize, TRITONCACHE_Cache **, const char *)
ENTRY_1(TRITONCACHE_CacheFinalize, TRITONCACHE_Cache *)

TRITONSERVER_Error *TRITONCACHE_CacheInsert(TRITONCACHE_Cache *cache, const char *key,
                                            TRITONCACHE_CacheEntry *entry,
                                            TRITONCACHE_Allocator  *allocator) {
        (void)cache, (void)key, (void)entry, (void)allocator;
        return enter(__func__);
}

TRITONSERVER_Error *TRITONCACHE_CacheLookup(TRITONCACHE_Cache *cache, const char *key,
                                            TRITONCACHE_CacheEntry *entry,
                                            TRITONCACHE_Allocator  *allocator) {
        (void)cache, (void)key, (void)entry, (void)allocator;
        (void)enter(__func__);
        return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_NOT_FOUND, "nothing is kept");
}
