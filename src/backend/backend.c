/* SPDX-License-Identifier: BSD-3-Clause */
#include "backend/backend.h"

#include "base/dl.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

#include <string.h>

/* A backend of ours whose execute() may run on a loop's thread exports this constant with the value 1. */
#define INLINE_SAFE_SYMBOL "NESO_BACKEND_INLINE_SAFE"
#define HOST_MEMORY_SYMBOL "NESO_BACKEND_HOST_MEMORY"

#define FIND(b, member, symbol)                                                                    \
        (b)->entry.member = (__typeof__((b)->entry.member))dl_find((b)->library, symbol)

static struct error *find_entry_points(struct backend *b) {
        dl_symbol_fn execute;

        /* First: a library without it is not a backend, and none of its functions may be called. */
        TRY(dl_get(b->library, "TRITONBACKEND_ModelInstanceExecute", &execute));
        b->entry.execute = (backend_execute_fn)execute;
        FIND(b, initialize, "TRITONBACKEND_Initialize");
        FIND(b, finalize, "TRITONBACKEND_Finalize");
        FIND(b, get_attributes, "TRITONBACKEND_GetBackendAttribute");
        FIND(b, model_initialize, "TRITONBACKEND_ModelInitialize");
        FIND(b, model_finalize, "TRITONBACKEND_ModelFinalize");
        FIND(b, instance_initialize, "TRITONBACKEND_ModelInstanceInitialize");
        FIND(b, instance_finalize, "TRITONBACKEND_ModelInstanceFinalize");
        FIND(b, instance_ready, "TRITONBACKEND_ModelInstanceReady");
        FIND(b, instance_batch_range, "NESOBACKEND_ModelInstanceBatchRange");
        FIND(b, instance_stacks, "NESOBACKEND_ModelInstanceStacks");

        const int *inline_safe = (const int *)(void *)dl_find(b->library, INLINE_SAFE_SYMBOL);
        const int *host_memory = (const int *)(void *)dl_find(b->library, HOST_MEMORY_SYMBOL);

        if (host_memory != NULL && *host_memory == 1)
                b->memory = BACKEND_ON_HOST;
        else if (host_memory != NULL && *host_memory == 2)
                b->memory = BACKEND_BY_KIND;
        b->is_inline_safe = inline_safe != NULL && *inline_safe == 1;
        return NULL;
}

static struct error *call_initialize(struct backend *b) {
        PLUGIN_CALL(&b->place, "TRITONBACKEND_Initialize");

        return (struct error *)b->entry.initialize((TRITONBACKEND_Backend *)b);
}

static struct error *call_get_attributes(struct backend *b) {
        PLUGIN_CALL(&b->place, "TRITONBACKEND_GetBackendAttribute");

        return (struct error *)b->entry.get_attributes(
                (TRITONBACKEND_Backend *)b, (TRITONBACKEND_BackendAttribute *)&b->attributes);
}

static struct error *call_finalize(struct backend *b) {
        PLUGIN_CALL(&b->place, "TRITONBACKEND_Finalize");

        return (struct error *)b->entry.finalize((TRITONBACKEND_Backend *)b);
}

static struct error *start_backend(struct backend *b) {
        if (b->entry.initialize != NULL)
                /* A common cause is that our API version is too old, and few backends report the
                 * version they found. */
                TRY(error_wrap(call_initialize(b),
                               "unable to initialize backend '%s' from '%s' with backend API "
                               "%d.%d",
                               b->name, b->path, TRITONBACKEND_API_VERSION_MAJOR,
                               TRITONBACKEND_API_VERSION_MINOR));
        return b->entry.get_attributes != NULL ? call_get_attributes(b) : NULL;
}

struct error *backend_open(const char *name, const char *path, struct strbuf *config_json,
                           struct gpus *gpus, struct backend **ret) {
        struct backend *b = mem_zalloc(sizeof(*b));

        ref_init(&b->ref);
        b->name = mem_strdup(name);
        b->path = mem_strdup(path);
        b->place.library = b->path;
        b->gpus = gpus;
        b->directory = path_dirname(path);
        TRY_OR(message_new_take(config_json, &b->config), backend_unref(b));
        TRY_OR(dl_open(path, &b->library), backend_unref(b));
        TRY_OR(find_entry_points(b), backend_unref(b));
        TRY_OR(start_backend(b), backend_unref(b));
        *ret = b;
        return NULL;
}

void backend_ref(struct backend *b) {
        ref_get(&b->ref);
}

void backend_unref(struct backend *b) {
        if (b == NULL || !ref_put(&b->ref))
                return;
        if (b->entry.finalize != NULL) {
                AUTO_ERROR err = call_finalize(b);

                if (err != NULL)
                        log_error("backend '%s' failed to finalize: %s", b->name, err->message);
        }
        for (size_t i = 0; i < b->attributes.n_groups; i++)
                free((int32_t *)b->attributes.groups[i].gpus);
        free(b->attributes.groups);
        dl_close(b->library);
        message_free(b->config);
        free(b->directory);
        free(b->path);
        free(b->name);
        free(b);
}

void backend_attributes_add_group(struct backend_attributes    *a,
                                  const struct preferred_group *group) {
        struct preferred_group *copy;

        a->groups = mem_realloc(a->groups, (a->n_groups + 1) * sizeof(*a->groups));
        copy = &a->groups[a->n_groups++];
        *copy = *group;
        copy->gpus = NULL;
        if (group->n_gpus > 0) {
                int32_t *gpus = mem_alloc(group->n_gpus * sizeof(*gpus));

                memcpy(gpus, group->gpus, group->n_gpus * sizeof(*gpus));
                copy->gpus = gpus;
        }
}

bool backend_is_python(const struct backend *b) {
        const char *slash = strrchr(b->path, '/');

        return strcmp(slash != NULL ? slash + 1 : b->path, "libtriton_python.so") == 0;
}
