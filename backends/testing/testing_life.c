/* SPDX-License-Identifier: BSD-3-Clause */
/* The life_log of the testing backend, and the object that the instances of a group share.
 */
#include "kit/scratch.h"
#include "testing/testing.h"
#include "triton/core/neso.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Programs that test the backend without a server do not have these functions. */
#pragma weak NESO_ModelInstanceMember
#pragma weak NESO_ModelInstanceSharedGet
#pragma weak NESO_ModelInstanceSharedSet

#define MAX_LINE 256

struct shared_engine {
        int  log; /* borrowed: the model's */
        char group[128];
};

static void write_line(int log, const char *line) {
        kit_error_log(testing_write(log, line, strlen(line)), "failed to write the life_log");
}

static void destroy_engine(void *object) {
        struct shared_engine *engine = object;
        char                  line[MAX_LINE];

        snprintf(line, sizeof(line), "destroy %s\n", engine->group);
        write_line(engine->log, line);
        free(engine);
}

/* Returns the shared object of the group, which its first instance creates. */
static TRITONSERVER_Error *share_engine(const struct testing_instance *instance,
                                        TRITONBACKEND_ModelInstance *triton, const char *group,
                                        bool *ret_was_made) {
        struct shared_engine *engine;
        void                 *found = NULL;

        *ret_was_made = false;
        KIT_TRY(NESO_ModelInstanceSharedGet(triton, "engine", &found));
        if (found != NULL)
                return NULL;
        engine = kit_alloc_array(1, sizeof(*engine));
        if (engine == NULL)
                return kit_error_no_memory(sizeof(*engine), "a shared object");
        engine->log = instance->model->life_log;
        snprintf(engine->group, sizeof(engine->group), "%s", group);
        *ret_was_made = true;
        return NESO_ModelInstanceSharedSet(triton, "engine", engine, destroy_engine);
}

TRITONSERVER_Error *testing_life_begin(const struct testing_instance *instance,
                                       TRITONBACKEND_ModelInstance   *triton) {
        const char *group = NULL, *file = NULL;
        uint32_t    index = 0;
        bool        was_made;
        char        line[MAX_LINE];

        if (instance->model->life_log < 0)
                return NULL;
        KIT_TRY(NESO_ModelInstanceMember(triton, &group, &index, &file));
        KIT_TRY(share_engine(instance, triton, group, &was_made));
        snprintf(line, sizeof(line), "begin %s %ld %s %u %s\n", instance->name, syscall(SYS_gettid),
                 group, index, was_made ? "made" : "found");
        write_line(instance->model->life_log, line);
        return NULL;
}

void testing_life_note(const struct testing_instance *instance, const char *what) {
        char line[MAX_LINE];

        if (instance->model->life_log < 0)
                return;
        snprintf(line, sizeof(line), "%s %s %ld\n", what, instance->name, syscall(SYS_gettid));
        write_line(instance->model->life_log, line);
}
