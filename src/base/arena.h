/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of one life: allocate often, free once.
 *
 * An arena hands out 16-byte aligned pieces from blocks that double in size. It may start in
 * memory of the caller (an array inside a longer-lived struct), so that a small life costs no
 * allocation at all. Each arena has a maximum; beyond it arena_try_alloc() gives NULL and
 * arena_alloc() ends the process.
 *
 * Ownership.  arena_done() frees everything; arena_reset() keeps the first block.
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/compiler.h"
#include "base/str.h"

#include <stddef.h>

struct arena_block;

struct arena {
        char               *next;      /* borrowed: in the current block or in `first` */
        char               *end;       /* borrowed */
        struct arena_block *blocks;    /* owned, newest first */
        void               *first;     /* borrowed: memory given at arena_init(), may be NULL */
        size_t              first_bytes;
        size_t              used_bytes; /* of all blocks so far */
        size_t              max_bytes;
};

/* `first` may be NULL; max_bytes 0 means 1 GiB. */
void  arena_init(struct arena *a, void *first, size_t first_bytes, size_t max_bytes);
void  arena_done(struct arena *a);
void  arena_reset(struct arena *a);
void *arena_alloc(struct arena *a, size_t size);
void *arena_zalloc(struct arena *a, size_t size);
void *arena_try_alloc(struct arena *a, size_t size) NODISCARD;
char *arena_strdup(struct arena *a, const char *text);
char *arena_strndup(struct arena *a, const char *text, size_t len);
char *arena_str(struct arena *a, struct str s); /* NUL-terminated copy */
char *arena_printf(struct arena *a, const char *format, ...) PRINTF_LIKE(2, 3);

#define ARENA_NEW(a, type) ((type *)arena_zalloc((a), sizeof(type)))
