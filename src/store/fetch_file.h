/* SPDX-License-Identifier: BSD-3-Clause */
/* The transfer of one object into the cache: its pieces, its runners, its checksum (store_fetch.h).
 *
 *     begin -> runners fetch pieces -> the last one verifies, commits, makes the further name
 *
 * Ownership.  The transfer frees itself when its last runner ends.
 * Threads.  Runners are work of the transfer pool. The hub's lock guards what they share.
 */
#pragma once

#include "base/error.h"
#include "store/store_cache.h"

struct store_entry;
struct store_fetch;

/* Begins to fetch the object unless the cache has it, and gives it the name `target` then or at the end.
 * *ret_state is what the cache had. CACHE_PART: the fetch's n_running counts it until it ends, and its
 * failure becomes the fetch's. */
struct error *fetch_file_begin(struct store_fetch *f, const struct store_entry *e,
                               const char *target, enum cache_state *ret_state) NODISCARD;
