/* SPDX-License-Identifier: BSD-3-Clause */
/* A model version as its backend sees it: TRITONBACKEND_Model.
 *
 * Ownership.  Owned by the loader. It holds a reference to its backend and borrows the configuration,
 * which the backend may complete while TRITONBACKEND_ModelInitialize runs. Instances must be freed
 * first.
 * Threads.  Initialised and finalised by its loader; any thread may read it in between.
 */
#pragma once

#include "backend/backend.h"
#include "backend/shared_objects.h"
#include "config/model_config.h"
#include "observe/memory_reports.h"

struct model_stats;

struct backend_model {
        struct backend      *backend; /* ref */
        const char          *name;    /* borrowed from the loader */
        int64_t              version;
        const char          *directory; /* borrowed from the loader; the model's directory */
        struct model_config *config;    /* borrowed from the loader */
        struct model_stats  *stats;     /* borrowed from the loader; set after initialisation */
        void              *server; /* borrowed: TRITONSERVER_Server of TRITONBACKEND_ModelServer */
        bool               auto_complete;
        bool               is_sent; /* its files were uploaded: no library is taken from them */
        const char *const *sent_parameters; /* borrowed from the loader: names of parameters that
                                               * came with the load */
        size_t             n_sent_parameters;
        bool               has_sequences; /* it may receive null requests; set with `stats` */
        bool               has_parts;     /* it may receive parts of requests; as above */
        bool takes_device_inputs;         /* declared by the backend while it is initialised:  */
        bool writes_device_outputs;       /* it looks at the memory types of this model's tensors */
        bool is_initialising;
        bool is_started;
        int  device;                  /* current on threads that call it; GPU_HOST: none */
        struct plugin_place   place;  /* of calls about this model; set by backend_model_start() */
        void                 *state;  /* the backend's own */
        struct shared_objects shared; /* of its instances; while is_started */
        struct memory_reports memory; /* its own and its instances'; while is_started */
};

/* Calls TRITONBACKEND_ModelInitialize. The caller has filled in `m`, with state NULL. */
struct error *backend_model_start(struct backend_model *m) NODISCARD;
/* Calls TRITONBACKEND_ModelFinalize, also after a failed initialisation: it frees what the
 * initialisation left in `state`, and backends of the reference server rely on the call. Drops the
 * reference to the backend. */
void backend_model_stop(struct backend_model *m);

/* TRITONBACKEND_ModelSetConfig: completes the configuration from the backend's JSON. */
struct error *backend_model_complete(struct backend_model *m, struct str config_json) NODISCARD;
