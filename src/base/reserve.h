/* SPDX-License-Identifier: BSD-3-Clause */
/* A reserve of memory for small allocations that must not fail.
 *
 * Small things of our own (a node of a list, the struct of a connection, the text of a refusal) are
 * allocated with mem_*, which cannot fail. When the allocator fails they come from this reserve,
 * and from then on the server is short: it refuses new work, and so needs memory only for the work
 * in progress. The blocks come from the allocator, so free() releases them as any other. The
 * reserve is refilled as soon as there is memory.
 *
 * At the start it has an eighth of its blocks. The first piece of work that asks reserve_is_short()
 * fills it, so that a server without clients does not hold 3 MiB that it does not need.
 *
 * Each link unit has a reserve of its own, after reserve_open().
 *
 * Threads.  Any.
 */
#pragma once

#include "base/compiler.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* Alignment of its blocks, in bytes: a cache line. */
#define RESERVE_ALIGNMENT 64

/* Opens the reserve, with a part of its blocks; called at start by each of its users. UNAVAILABLE when there is no
 * memory even for the reserve; it is not open then. The last close frees the blocks. */
struct error *reserve_open(void) NODISCARD;
void          reserve_close(void);

/* Returns at least `size` bytes, aligned to RESERVE_ALIGNMENT; NULL when no block of that size is
 * left. */
void *reserve_take(size_t size) NODISCARD;
/* The same, with the contents of `old`, an allocator's block or NULL, which is freed on success. */
void *reserve_move(void *old, size_t size) NODISCARD;

/* Whether a block was taken and cannot be replaced yet (replacing it is tried first): new
 * connections and requests are refused meanwhile. Nearly always one read of a flag. */
bool reserve_is_short(void);
