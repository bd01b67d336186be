/* SPDX-License-Identifier: BSD-3-Clause */
/* The body of a request that registers a region of system shared memory:
 *
 *     {"key":"/name","offset":0,"byte_size":64}
 *
 * The offset may be left out. Of a member that is given twice the first counts; others mean
 * nothing.
 *
 * Ownership.  The key goes into the arena.
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "shm/shm_region.h"

/* All but the name. INVALID_ARG, and the first fault in the order above. */
struct error *http_shm_decode(struct str body, struct arena *arena, struct shm_place *ret)
        NODISCARD;
