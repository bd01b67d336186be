/* SPDX-License-Identifier: BSD-3-Clause */
/* A backend's shared library whose entry points are functions of the test program.
 *
 * fake_backend.c is built several times: libfake_backend.so has every entry point of the ABI,
 * libfake_bare.so only the one that is required, libfake_no_execute.so all but that one. A test
 * copies one of them to where the server looks for it, opens that copy itself and points its
 * variable `fake_backend_hooks` to a struct of its own (fake_library_open() in fake_host.h).
 *
 * Ownership.  The library borrows the hooks. A hook that is NULL succeeds.
 */
#pragma once

#include "triton/core/tritonbackend.h"

struct fake_backend_hooks {
        TRITONSERVER_Error *(*initialize)(TRITONBACKEND_Backend *backend);
        TRITONSERVER_Error *(*finalize)(TRITONBACKEND_Backend *backend);
        TRITONSERVER_Error *(*get_attributes)(TRITONBACKEND_Backend          *backend,
                                              TRITONBACKEND_BackendAttribute *attributes);
        TRITONSERVER_Error *(*model_initialize)(TRITONBACKEND_Model *model);
        TRITONSERVER_Error *(*model_finalize)(TRITONBACKEND_Model *model);
        TRITONSERVER_Error *(*instance_initialize)(TRITONBACKEND_ModelInstance *instance);
        TRITONSERVER_Error *(*instance_finalize)(TRITONBACKEND_ModelInstance *instance);
        TRITONSERVER_Error *(*instance_ready)(TRITONBACKEND_ModelInstance *instance);
        TRITONSERVER_Error *(*execute)(TRITONBACKEND_ModelInstance *instance,
                                       TRITONBACKEND_Request **requests, uint32_t n_requests);
};
