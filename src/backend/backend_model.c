/* SPDX-License-Identifier: BSD-3-Clause */
#include "backend/backend_model.h"

#include "base/log.h"
#include "config/config_complete.h"
#include "config/config_normalize.h"
#include "gpu/gpu.h"

/* A model with instances on GPUs is called with the first of them as the current device. */
static struct error *call_model(struct backend_model *m, backend_model_fn function,
                                const char *name) {
        if (m->backend->gpus != NULL && m->device != GPU_HOST)
                TRY(gpu_enter(m->backend->gpus, m->device));
        PLUGIN_CALL(&m->place, name);

        return (struct error *)function((TRITONBACKEND_Model *)m);
}

struct error *backend_model_start(struct backend_model *m) {
        backend_model_fn initialise = m->backend->entry.model_initialize;
        struct error    *err;

        m->place = (struct plugin_place){ m->backend->path, m->name, m->version };
        shared_objects_init(&m->shared);
        memory_reports_init(&m->memory);
        m->is_started = true;
        if (initialise == NULL)
                return NULL;
        m->is_initialising = true;
        err = call_model(m, initialise, "TRITONBACKEND_ModelInitialize");
        m->is_initialising = false;
        return err;
}

void backend_model_stop(struct backend_model *m) {
        if (m->is_started && m->backend->entry.model_finalize != NULL) {
                AUTO_ERROR err = call_model(m, m->backend->entry.model_finalize,
                                            "TRITONBACKEND_ModelFinalize");

                if (err != NULL)
                        log_error("backend '%s' failed to finalize model '%s' version %lld: %s",
                                  m->backend->name, m->name, (long long)m->version, err->message);
        }
        if (m->is_started) {
                shared_objects_done(&m->shared);
                memory_reports_done(&m->memory);
        }
        m->is_started = false;
        backend_unref(STEAL(m->backend));
}

struct error *backend_model_complete(struct backend_model *m, struct str config_json) {
        AUTO_MODEL_CONFIG from_backend = NULL;

        if (!m->is_initialising)
                return error_new(ERR_UNSUPPORTED,
                                 "TRITONBACKEND_ModelSetConfig is allowed only while "
                                 "TRITONBACKEND_ModelInitialize of model '%s' runs",
                                 m->name);
        TRY(model_config_read_json(config_json, &from_backend));
        TRY(model_config_complete(m->config, from_backend));
        return model_config_normalize(m->config);
}
