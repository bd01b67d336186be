/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens a file that a configuration or a model names, within a directory that it must not leave.
 *
 * Threads.  Any.
 */
#pragma once

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* True for a relative path without "..". */
bool kit_path_stays_within(const char *path);

/* Opens directory/relative with the open(2) flags `flags`, and O_CLOEXEC. No symbolic link is
 * followed out of the directory; where the kernel has no openat2(2), no link is followed at all.
 * Returns -1 and sets errno on failure: EXDEV for a path or a link that leaves the directory. The
 * directory itself may be a link. With O_PATH, opening has no effect on a device or a FIFO. */
int kit_open_beneath(const char *directory, const char *relative, int flags);
/* The same for kernels without openat2(2): follows no link in `relative`, with errno ELOOP. */
int kit_open_beneath_walk(const char *directory, const char *relative, int flags);

#ifdef __cplusplus
}
#endif
