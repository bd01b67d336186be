/* SPDX-License-Identifier: BSD-3-Clause */
/* The version of Neso's C API: the program and the library may come from different packages.
 *
 * Threads.  Any.
 */
#pragma once

#include "base/compiler.h"
#include "base/error.h"

#include <stdint.h>

/* Checks that this program, as it was compiled, can use a library of this version. UNSUPPORTED when the
 * major version differs or the minor one is lower:
 *
 *     libtritonserver.so has version 1.0 of Neso's API, this program needs 1.2 or later of 1 */
struct error *core_version_check(uint32_t major, uint32_t minor) NODISCARD;

/* The same for the library that was loaded. */
struct error *core_version_check_library(void) NODISCARD;
