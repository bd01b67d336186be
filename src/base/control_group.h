/* SPDX-License-Identifier: BSD-3-Clause */
/* The limit of memory that the control groups of this process set, of version 2 or 1 (cgroups(7)).
 *
 * Threads.  Any.
 */
#pragma once

#include <stdint.h>

/* The least limit of the process's group and of all groups that contain it; UINT64_MAX without one. Malformed files
 * are left out. `root` comes before /proc and /sys: "", or a directory with files of a test. */
uint64_t control_group_memory(const char *root);
