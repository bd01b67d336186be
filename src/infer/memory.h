/* SPDX-License-Identifier: BSD-3-Clause */
/* Where bytes live. This build has CPU memory only; the other kinds are named so that plug-ins
 * may ask for them and be given CPU memory instead.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Values are those of TRITONSERVER_MemoryType. */
enum memory_type { MEMORY_CPU = 0, MEMORY_CPU_PINNED = 1, MEMORY_GPU = 2 };

/* "CPU", "CPU_PINNED", "GPU", "<invalid>". */
const char *memory_type_name(enum memory_type type);
