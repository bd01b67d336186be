/* SPDX-License-Identifier: BSD-3-Clause */
/* When a directory last changed, for those who keep what they read there: while its stamp is the
 * same, the same entries are in it.
 *
 * That holds for file systems of this machine, which note each change of a directory at once, and
 * for a stamp that has settled: two changes in one tick of the kernel's clock leave the same one.
 * Elsewhere, and before, a directory has to be read again to know.
 *
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct dir_stamp {
        uint64_t device;
        uint64_t inode;
        int64_t  modified_ns; /* since the epoch */
        int64_t  changed_ns;  /* likewise; who may read it, for one, is not a modification */
        bool     is_local;    /* a file system that can be relied on, as said above */
};

/* The error is that of dir_check(). */
struct error *dir_stamp_read(const char *path, struct dir_stamp *ret) NODISCARD;
bool          dir_stamp_is_equal(const struct dir_stamp *a, const struct dir_stamp *b);
/* The next change, at `wall_ns` (since the epoch) or later, leaves another stamp. */
bool          dir_stamp_is_settled(const struct dir_stamp *s, uint64_t wall_ns);
