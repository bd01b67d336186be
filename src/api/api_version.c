/* SPDX-License-Identifier: BSD-3-Clause */
/* The versions of the C APIs and of Neso. */
#include "api/api_types.h"
#include "triton/core/neso.h"
#include "triton/core/tritonbackend.h"
#include "triton/core/tritoncache.h"
#include "triton/core/tritonrepoagent.h"

/* The build defines the project's version. */
#ifndef NESO_VERSION
#define NESO_VERSION "0.0.0-unversioned"
#endif

struct TRITONSERVER_Error *TRITONSERVER_ApiVersion(uint32_t *major, uint32_t *minor) {
        API_NEEDS(major, minor);
        *major = TRITONSERVER_API_VERSION_MAJOR;
        *minor = TRITONSERVER_API_VERSION_MINOR;
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ApiVersion(uint32_t *major, uint32_t *minor) {
        API_NEEDS(major, minor);
        *major = TRITONBACKEND_API_VERSION_MAJOR;
        *minor = TRITONBACKEND_API_VERSION_MINOR;
        return NULL;
}

TRITONSERVER_Error *TRITONREPOAGENT_ApiVersion(uint32_t *major, uint32_t *minor) {
        API_NEEDS(major, minor);
        *major = TRITONREPOAGENT_API_VERSION_MAJOR;
        *minor = TRITONREPOAGENT_API_VERSION_MINOR;
        return NULL;
}

TRITONSERVER_Error *TRITONCACHE_ApiVersion(uint32_t *major, uint32_t *minor) {
        API_NEEDS(major, minor);
        *major = TRITONCACHE_API_VERSION_MAJOR;
        *minor = TRITONCACHE_API_VERSION_MINOR;
        return NULL;
}

struct TRITONSERVER_Error *NESO_ApiVersion(uint32_t *major, uint32_t *minor) {
        API_NEEDS(major, minor);
        *major = NESO_API_VERSION_MAJOR;
        *minor = NESO_API_VERSION_MINOR;
        return NULL;
}

const char *NESO_Version(void) {
        return NESO_VERSION;
}
