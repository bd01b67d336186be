/* SPDX-License-Identifier: BSD-3-Clause */
/* A repository agent for tests/e2e/test_agents.py: the model that is served is the one in the
 * directory "sealed" of the model in the repository. With -DWITHOUT_ACTION it lacks what every
 * agent needs.
 */
#include "triton/core/tritonrepoagent.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#ifdef WITHOUT_ACTION

TRITONSERVER_Error *TRITONREPOAGENT_Initialize(TRITONREPOAGENT_Agent *agent) {
        (void)agent;
        abort(); /* nothing of it may be called */
}

#else

#define TRY(expression)                                                                            \
        do {                                                                                       \
                TRITONSERVER_Error *try_err_ = (expression);                                       \
                if (try_err_ != NULL)                                                              \
                        return try_err_;                                                           \
        } while (0)

#define MAX_PATH 4096

static void log_line(const char *what, const char *directory) {
        char text[MAX_PATH + 64];

        snprintf(text, sizeof(text), "relocate: %s %s", what, directory);
        TRITONSERVER_LogMessage(TRITONSERVER_LOG_INFO, __FILE__, __LINE__, text);
}

static bool copy_file(const char *from, const char *to) {
        FILE *source = fopen(from, "rb");
        FILE *target = fopen(to, "wb");
        bool  is_copied = source != NULL && target != NULL;
        int   byte;

        while (is_copied && (byte = getc(source)) != EOF)
                is_copied = putc(byte, target) != EOF;
        if (source != NULL)
                fclose(source);
        return target != NULL && fclose(target) == 0 && is_copied;
}

static bool unseal(const char *from, const char *to) {
        char source[MAX_PATH], target[MAX_PATH];

        snprintf(source, sizeof(source), "%s/sealed/config.pbtxt", from);
        snprintf(target, sizeof(target), "%s/config.pbtxt", to);
        if (!copy_file(source, target))
                return false;
        snprintf(target, sizeof(target), "%s/1", to);
        return mkdir(target, 0700) == 0;
}

static TRITONSERVER_Error *relocate(TRITONREPOAGENT_Agent      *agent,
                                    TRITONREPOAGENT_AgentModel *model) {
        TRITONREPOAGENT_ArtifactType type;
        const char                  *from, *to;

        TRY(TRITONREPOAGENT_ModelRepositoryLocation(agent, model, &type, &from));
        TRY(TRITONREPOAGENT_ModelRepositoryLocationAcquire(agent, model,
                                                           TRITONREPOAGENT_ARTIFACT_FILESYSTEM,
                                                           &to));
        log_line("uses", to);
        if (!unseal(from, to))
                return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "nothing is sealed");
        return TRITONREPOAGENT_ModelRepositoryUpdate(agent, model,
                                                     TRITONREPOAGENT_ARTIFACT_FILESYSTEM, to);
}

TRITONSERVER_Error *TRITONREPOAGENT_ModelAction(TRITONREPOAGENT_Agent           *agent,
                                                TRITONREPOAGENT_AgentModel      *model,
                                                const TRITONREPOAGENT_ActionType action_type) {
        static const char *const names[] = { "LOAD", "LOAD_COMPLETE", "LOAD_FAIL", "UNLOAD",
                                             "UNLOAD_COMPLETE" };

        log_line("is told", names[action_type]);
        return action_type == TRITONREPOAGENT_ACTION_LOAD ? relocate(agent, model) : NULL;
}

#endif
