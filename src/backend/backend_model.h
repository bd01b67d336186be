/* SPDX-License-Identifier: BSD-3-Clause */
/* A model version as its backend sees it: TRITONBACKEND_Model.
 *
 * Ownership.  Owned by the loader; holds a reference to its backend, borrows the configuration,
 * which it may complete while TRITONBACKEND_ModelInitialize runs. Instances must be freed first.
 * Threads.  Initialised and finalised by its loader; read from any thread between.
 */
#pragma once

#include "backend/backend.h"
#include "backend/shared_objects.h"
#include "config/model_config.h"

struct model_stats;

struct backend_model {
        struct backend      *backend;   /* ref */
        const char          *name;      /* borrowed: the loader */
        int64_t              version;
        const char          *directory; /* borrowed: the loader; the model's directory */
        struct model_config *config;    /* borrowed: the loader */
        struct model_stats  *stats;     /* borrowed: the loader; set after initialisation */
        void                *server;    /* borrowed: TRITONSERVER_Server of TRITONBACKEND_ModelServer */
        bool                 auto_complete;
        bool                 is_sent; /* no library is taken from its directory */
        bool                 has_sequences; /* null requests may come; set with `stats` */
        bool                 has_parts; /* of requests may come; the same */
        bool                 is_initialising;
        bool                 is_started;
        struct plugin_place  place; /* of calls about this model; set by backend_model_start() */
        void                *state; /* the backend's own */
        struct shared_objects shared; /* of its instances; while is_started */
};

/* Calls TRITONBACKEND_ModelInitialize. `m` is filled in by the caller, state NULL. */
struct error *backend_model_start(struct backend_model *m) NODISCARD;
/* Calls TRITONBACKEND_ModelFinalize, also after an initialisation that failed: what it left in its
 * state has to be freed, and backends of the reference server count on it. Drops the backend. */
void backend_model_stop(struct backend_model *m);

/* TRITONBACKEND_ModelSetConfig: completes the configuration from the backend's JSON. */
struct error *backend_model_complete(struct backend_model *m, struct str config_json) NODISCARD;
