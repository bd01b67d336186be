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
#include <stdint.h>

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
char *arena_strdup(struct arena *a, const char *text);
char *arena_strndup(struct arena *a, const char *text, size_t len);
char *arena_str(struct arena *a, struct str s); /* NUL-terminated copy */
/* The same; NULL when the arena is full: for texts of peers. */
char *arena_try_str(struct arena *a, struct str s) NODISCARD;
char *arena_printf(struct arena *a, const char *format, ...) PRINTF_LIKE(2, 3);

/* Every piece starts at a multiple of this. */
#define ARENA_ALIGNMENT 16

/* arena_try_alloc() when the current block may have no room, or `size` is odd (0, huge). */
void *arena_try_alloc_slow(struct arena *a, size_t size) NODISCARD;

/* Inline, because a request takes dozens of pieces and nearly all of them fit. */
NODISCARD static inline void *arena_try_alloc(struct arena *a, size_t size) {
        size_t rounded = (size + ARENA_ALIGNMENT - 1) & ~(size_t)(ARENA_ALIGNMENT - 1);
        char  *piece = a->next;

        if (UNLIKELY(size - 1 >= SIZE_MAX / 2 || rounded > (size_t)(a->end - piece)))
                return arena_try_alloc_slow(a, size);
        a->next = piece + rounded;
        return piece;
}

/* A piece that is written again and again: it moves only when it must grow, and then at least
 * doubles, so that all pieces ever given up take no more than the last one. All zero is empty. */
struct arena_room {
        void  *memory; /* in arena */
        size_t bytes;
};

void *arena_room_grow(struct arena *a, struct arena_room *room, size_t bytes) NODISCARD;

/* Memory for `bytes`, what is in it is undefined; NULL when the arena is full: as it was. */
NODISCARD static inline void *arena_room_get(struct arena *a, struct arena_room *room,
                                             size_t bytes) {
        if (bytes <= room->bytes && room->memory)
                return room->memory;
        return arena_room_grow(a, room, bytes);
}

#define ARENA_NEW(a, type) ((type *)arena_zalloc((a), sizeof(type)))
