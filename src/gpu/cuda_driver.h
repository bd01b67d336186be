/* SPDX-License-Identifier: BSD-3-Clause */
/* CUDA's driver library, opened at run time, as a table of its functions; and errors of what they return.
 *
 * Ownership.  Once loaded the library stays loaded: it leaves threads and thread-specific keys behind.
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"
#include "gpu/cuda_driver_api.h"

#include <stdbool.h>

struct cuda_driver {
#define CUDA_MEMBER(name, parameters) cu_result(*name) parameters;
        CUDA_FUNCTIONS(CUDA_MEMBER)
#undef CUDA_MEMBER
        bool can_grow; /* it has all functions of growing memory; else they may be NULL */
};

/* `library` is CUDA_LIBRARY, which is searched for as the loader does it, by its soname. NOT_FOUND when it cannot be loaded, with the loader's
 * text; UNSUPPORTED when it lacks a function, which is named. */
struct error *cuda_driver_open(const char *library, struct cuda_driver *ret) NODISCARD;

/* UNAVAILABLE "<the driver's name of the error>: <its text>", as in "CUDA_ERROR_OUT_OF_MEMORY: out of
 * memory"; "CUDA error 1234" for a number that the driver does not know. NULL for CU_SUCCESS, so that
 * error_wrap() can say what failed. */
struct error *cuda_error(const struct cuda_driver *d, cu_result r) NODISCARD;
