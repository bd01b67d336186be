/* SPDX-License-Identifier: BSD-3-Clause */
/* Kinds of memory. This build has CPU memory only; plug-ins may ask for the other kinds and receive CPU
 * memory.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Values are those of TRITONSERVER_MemoryType. */
enum memory_type { MEMORY_CPU = 0, MEMORY_CPU_PINNED = 1, MEMORY_GPU = 2 };

/* "CPU", "CPU_PINNED", "GPU", "<invalid>". */
const char *memory_type_name(enum memory_type type);
