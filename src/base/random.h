/* SPDX-License-Identifier: BSD-3-Clause */
/* Random numbers of the kernel, for secrets. */
#pragma once

#include "base/error.h"

#include <stddef.h>

/* Fills all `n` bytes; an error when the kernel has no random numbers. */
struct error *random_fill(void *to, size_t n) NODISCARD;
