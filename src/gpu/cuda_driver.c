/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/cuda_driver.h"

#include "base/dl.h"

#include <stddef.h>
#include <string.h>

static const struct {
        const char *name;
        size_t      offset;
} functions[] = {
#define CUDA_ROW(name, parameters) { #name, offsetof(struct cuda_driver, name) },
        CUDA_FUNCTIONS(CUDA_ROW)
#undef CUDA_ROW
};

/* Drivers before CUDA 10.2 lack them. */
static const char *const of_growing[] = {
        "cuMemGetAllocationGranularity",
        "cuMemAddressReserve",
        "cuMemAddressFree",
        "cuMemCreate",
        "cuMemMap",
        "cuMemSetAccess",
        "cuMemUnmap",
        "cuMemRelease",
};

static bool is_of_growing(const char *name) {
        for (size_t i = 0; i < ARRAY_LEN(of_growing); i++)
                if (strcmp(of_growing[i], name) == 0)
                        return true;
        return false;
}

static struct error *find_all(struct dl *library, struct cuda_driver *d) {
        d->can_grow = true;
        for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
                const char  *name = functions[i].name;
                dl_symbol_fn function = dl_find(library, name);

                if (function == NULL && !is_of_growing(name))
                        return error_new(ERR_UNSUPPORTED, "%s has no function %s", dl_path(library),
                                         name);
                if (function == NULL)
                        d->can_grow = false;
                memcpy((char *)d + functions[i].offset, &function, sizeof(function));
        }
        return NULL;
}

struct error *cuda_driver_open(const char *library, struct cuda_driver *ret) {
        struct cuda_driver d;
        struct dl         *opened;
        struct error      *err;

        TRY(error_recode(dl_open(library, &opened), ERR_NOT_FOUND));
        err = find_all(opened, &d);
        dl_keep(opened);
        if (err != NULL)
                return err;
        *ret = d;
        return NULL;
}

struct error *cuda_error(const struct cuda_driver *d, cu_result r) {
        const char *name = NULL, *text = NULL;

        if (r == CU_SUCCESS)
                return NULL;
        if (d->cuGetErrorName(r, &name) != CU_SUCCESS || name == NULL)
                return error_new(ERR_UNAVAILABLE, "CUDA error %d", r);
        if (d->cuGetErrorString(r, &text) != CU_SUCCESS || text == NULL)
                return error_new(ERR_UNAVAILABLE, "%s", name);
        return error_new(ERR_UNAVAILABLE, "%s: %s", name, text);
}
