/* SPDX-License-Identifier: BSD-3-Clause */
/* A backend: one shared library that runs models, from the host's side of its ABI.
 *
 * Opening resolves the entry points, passes the configuration to the backend, calls
 * TRITONBACKEND_Initialize and reads its attributes. One backend per library path serves all models
 * that use it.
 *
 * Ownership.  Reference counted by the models that use it and by the registry; the last unref calls
 * TRITONBACKEND_Finalize and unloads the library.
 * Threads.  Initialize and Finalize run one at a time per library (ensured by the registry). All fields
 * are immutable after opening, except for `state`, which belongs to the backend.
 */
#pragma once

#include "base/error.h"
#include "base/plugin_call.h"
#include "base/ref.h"
#include "config/config_normalize.h"
#include "infer/message.h"
#include "triton/core/tritonbackend.h"

#include <stdbool.h>
#include <stdint.h>

struct dl;
struct gpus;

typedef TRITONSERVER_Error *(*backend_life_fn)(TRITONBACKEND_Backend *backend);
typedef TRITONSERVER_Error *(*backend_attribute_fn)(TRITONBACKEND_Backend          *backend,
                                                    TRITONBACKEND_BackendAttribute *attributes);
typedef TRITONSERVER_Error *(*backend_model_fn)(TRITONBACKEND_Model *model);
typedef TRITONSERVER_Error *(*backend_instance_fn)(TRITONBACKEND_ModelInstance *instance);
typedef TRITONSERVER_Error *(*backend_execute_fn)(TRITONBACKEND_ModelInstance *instance,
                                                  TRITONBACKEND_Request      **requests,
                                                  const uint32_t               n);

/* Neso's own extensions, optional: see include/triton/core/neso.h. */
typedef TRITONSERVER_Error *(*backend_batch_range_fn)(TRITONBACKEND_ModelInstance *instance,
                                                      uint32_t *min_rows, uint32_t *max_rows);

typedef TRITONSERVER_Error *(*backend_stacks_fn)(TRITONBACKEND_ModelInstance *instance,
                                                 TRITONSERVER_Message       **stacks);

/* All are optional except execute. */
struct backend_entry {
        backend_life_fn        initialize;
        backend_life_fn        finalize;
        backend_attribute_fn   get_attributes;
        backend_model_fn       model_initialize;
        backend_model_fn       model_finalize;
        backend_instance_fn    instance_initialize;
        backend_instance_fn    instance_finalize;
        backend_instance_fn    instance_ready;
        backend_execute_fn     execute;
        backend_batch_range_fn instance_batch_range;
        backend_stacks_fn      instance_stacks;
};

/* Attributes of TRITONBACKEND_BackendAttribute. */
struct backend_attributes {
        struct preferred_group *groups; /* owned, and the gpus of each group */
        size_t                  n_groups;
        bool                    parallel_instances;
};

/* Whose execute() looks at the memory types of tensors, by the constant NESO_BACKEND_HOST_MEMORY that the
 * backend exports. */
enum backend_memory {
        BACKEND_LOOKS,   /* no constant: that of instances of KIND_GPU and KIND_MODEL */
        BACKEND_ON_HOST, /* 1: that of none */
        BACKEND_BY_KIND, /* 2: that of instances of KIND_GPU */
};

struct backend {
        struct ref           ref;
        char                *name;      /* owned; "onnxruntime" */
        char                *path;      /* owned; path of the library */
        struct plugin_place  place;     /* for crash reports of calls that concern no model */
        char                *directory; /* owned; directory of the library with its artifacts */
        struct dl           *library;   /* owned */
        struct gpus         *gpus;      /* borrowed from the server; NULL: there are none */
        struct backend_entry entry;
        struct backend_attributes     attributes;
        struct message               *config; /* owned; {"cmdline":{…}} */
        TRITONBACKEND_ExecutionPolicy policy;
        void                         *state; /* belongs to the backend */
        enum backend_memory           memory;
        bool is_inline_safe; /* it declares that execute() never blocks for long */
};

/* Takes the text of config_json (an overflowed buffer is an error). `gpus` may be NULL. */
struct error *backend_open(const char *name, const char *path, struct strbuf *config_json,
                           struct gpus *gpus, struct backend **ret) NODISCARD;
void          backend_ref(struct backend *b);
void          backend_unref(struct backend *b); /* NULL is fine */
/* True for the python backend, also as that of a backend that is a Python program. */
bool backend_is_python(const struct backend *b);

void backend_attributes_add_group(struct backend_attributes    *a,
                                  const struct preferred_group *group);
