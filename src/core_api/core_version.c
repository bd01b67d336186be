/* SPDX-License-Identifier: BSD-3-Clause */
#include "core_api/core_version.h"

#include "core_api/core_error.h"
#include "triton/core/neso.h"

struct error *core_version_check(uint32_t major, uint32_t minor) {
        const uint32_t needed_minor = NESO_API_VERSION_MINOR;

        if (major == NESO_API_VERSION_MAJOR && minor >= needed_minor)
                return NULL;
        return error_new(ERR_UNSUPPORTED,
                         "libtritonserver.so has version %u.%u of Neso's API, this program needs "
                         "%d.%d or later of %d",
                         major, minor, NESO_API_VERSION_MAJOR, NESO_API_VERSION_MINOR,
                         NESO_API_VERSION_MAJOR);
}

struct error *core_version_check_library(void) {
        uint32_t major = 0, minor = 0;

        TRY(core_error_take(NESO_ApiVersion(&major, &minor)));
        return core_version_check(major, minor);
}
