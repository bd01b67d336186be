/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel's random numbers, for secrets.
 */
#pragma once

#include "base/error.h"

#include <stddef.h>

/* All `n` bytes; an error where the kernel has none. */
struct error *random_fill(void *to, size_t n) NODISCARD;
