/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory set aside for when there is none.
 *
 * Small things of our own (a node of a list, the struct of a connection, the text of a refusal) are
 * allocated with mem_*, which cannot fail. When the allocator has nothing left they come from this
 * reserve, and from then on the server is short: it takes no new work, and so needs no more than
 * what it has begun may take. The blocks are the allocator's own, so whoever has one frees it as any
 * other. The reserve fills again as soon as there is memory.
 *
 * Each link unit has one of its own. Without reserve_open() there is none.
 *
 * Threads.  Any.
 */
#pragma once

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>

/* Of its blocks: a cache line. */
#define RESERVE_ALIGNMENT 64

/* At the start, by each who needs it. Ends the process with a clear line when there is no memory even
 * for this. The last close frees what is there. */
void reserve_open(void);
void reserve_close(void);

/* At least `size` bytes, aligned to RESERVE_ALIGNMENT; NULL: the reserve has none of that size. */
void *reserve_take(size_t size) NODISCARD;
/* The same, with what is in `old`, an allocator's block or NULL, which is freed on success. */
void *reserve_move(void *old, size_t size) NODISCARD;

/* Whether something was taken and could not be replaced yet, which is tried first: then new
 * connections and requests are refused. Nearly always one look at a flag. */
bool reserve_is_short(void);
