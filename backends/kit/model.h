/* SPDX-License-Identifier: BSD-3-Clause */
/* A backend's view of its model and of itself: the configuration, read once at load.
 *
 * Ownership.  The struct is embedded in the backend's own model state; kit_model_close() frees what
 * it owns. Its names and texts live as long as it does.
 * Threads.  It does not change between open and close, except by kit_model_set_config(), which may
 * be called during TRITONBACKEND_ModelInitialize only.
 */
#pragma once

#include "kit/json.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An input or output of the configuration. */
struct kit_tensor {
        const char           *name;
        TRITONSERVER_DataType type;   /* INVALID when the configuration leaves it open */
        int64_t              *dims;   /* owned; as the backend sees them, so after `reshape`; */
        uint32_t              n_dims; /* -1 = any; without the batch dimension */
        bool                  is_optional; /* inputs: a request may omit it */
        bool                  is_ragged;   /* inputs: may be batched with different shapes */
};

struct kit_model {
        TRITONBACKEND_Model *triton;
        const char          *name;
        uint64_t             version;
        const char          *path;         /* the model's directory */
        char                *version_path; /* owned; the version's directory below it */

        struct kit_json   *config;         /* owned */
        int64_t            max_batch_size; /* 0: the server does not batch for this model */
        struct kit_tensor *inputs;         /* owned */
        uint32_t           n_inputs;
        struct kit_tensor *outputs; /* owned */
        uint32_t           n_outputs;
};

TRITONSERVER_Error *kit_model_open(TRITONBACKEND_Model *triton, struct kit_model *ret);
void                kit_model_close(struct kit_model *model);

/* Passes a completed configuration (the text of the whole JSON object) to the server and reads the
 * model's description from it again. */
TRITONSERVER_Error *kit_model_set_config(struct kit_model *model, const char *json);

/* Returns NULL when there is no such input or output. */
const struct kit_tensor *kit_model_find_input(const struct kit_model *model, const char *name);
const struct kit_tensor *kit_model_find_output(const struct kit_model *model, const char *name);

/* Returns the parameter of the model configuration, parameters { key value { string_value } }; NULL
 * when there is none. */
const char *kit_model_parameter(const struct kit_model *model, const char *key);

/* The same as a number or a boolean. An absent parameter leaves *value unchanged. A value that is
 * neither ("true", "false", "1", "0" for bool) is INVALID_ARG with the names of model and
 * parameter. */
TRITONSERVER_Error *kit_model_parameter_int(const struct kit_model *model, const char *key,
                                            int64_t *value);
TRITONSERVER_Error *kit_model_parameter_bool(const struct kit_model *model, const char *key,
                                             bool *value);

/* True when the parameter came with a load request, and config.pbtxt of the model in the repository
 * has no such value (NESO_ModelParameterIsSent). A backend refuses such a parameter when it names a
 * file or a program, unless the client that sent it could as well have sent the program. False on
 * servers without that function. */
TRITONSERVER_Error *kit_model_parameter_is_sent(const struct kit_model *model, const char *key,
                                                bool *ret);
/* The same as a refusal: UNSUPPORTED with the names of the model and the parameter. */
TRITONSERVER_Error *kit_model_refuse_sent(const struct kit_model *model, const char *key);

/* Converts "TYPE_FP32" of a configuration; TYPE_STRING is BYTES, anything else INVALID. */
TRITONSERVER_DataType kit_type_from_config(const char *name);

/* Returns "TYPE_FP32"; "TYPE_INVALID" for anything else. */
const char *kit_type_to_config(TRITONSERVER_DataType type);

/* Reads the configuration of the backend: {"cmdline":{"<setting>":"<value>"}}. */
TRITONSERVER_Error *kit_backend_config(TRITONBACKEND_Backend *backend, struct kit_json **ret);

/* Returns an error when the server's API lacks something that this backend was built for. */
TRITONSERVER_Error *kit_check_api_version(const char *backend_name);

/* Placed once in a backend, this declares that it reads and writes tensors in main memory only, also
 * those of instances on GPUs. The server copies what lies elsewhere. */
#define KIT_BACKEND_HOST_MEMORY                                                                    \
        extern TRITONBACKEND_ISPEC const int NESO_BACKEND_HOST_MEMORY;                             \
        const int                            NESO_BACKEND_HOST_MEMORY = 1

/* The same for instances of KIND_CPU and KIND_MODEL only: those of KIND_GPU look at the memory types of
 * tensors (memory.h). The server copies for models with instances of another kind, too. */
#define KIT_BACKEND_MEMORY_BY_KIND                                                                 \
        extern TRITONBACKEND_ISPEC const int NESO_BACKEND_HOST_MEMORY;                             \
        const int                            NESO_BACKEND_HOST_MEMORY = 2

/* Placed once in a backend, this declares that its TRITONBACKEND_ModelInstanceExecute computes on
 * the calling thread and returns. The server may then call it on the thread that brought the
 * request, when measurements show that this is faster than waking another. Such a backend must not
 * wait for other requests. */
#define KIT_BACKEND_INLINE_SAFE                                                                    \
        extern TRITONBACKEND_ISPEC const int NESO_BACKEND_INLINE_SAFE;                             \
        const int                            NESO_BACKEND_INLINE_SAFE = 1

#ifdef __cplusplus
}
#endif
