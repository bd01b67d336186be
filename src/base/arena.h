/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of one life: allocate often, free once.
 *
 * An arena hands out 16-byte aligned pieces from blocks that double in size up to 1 MiB, and then
 * are a quarter of what it has: little of it is ever unused. When a block of that size cannot be
 * had, it takes one that is just large enough. It may start in memory of the caller (an array inside
 * a longer-lived struct), so that a small life costs no allocation at all.
 *
 * Each arena has a maximum, and may have a byte budget that its blocks are charged to. Both are for
 * what peers decide: without room arena_try_alloc() gives NULL. arena_alloc() is for small things of
 * our own and never fails: it goes beyond the maximum, and without any memory it ends the process.
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
struct byte_budget;

/* Every piece starts at a multiple of this. */
#define ARENA_ALIGNMENT 16

struct arena {
        char               *next;      /* borrowed: in the current block or in `first` */
        char               *end;       /* borrowed */
        struct arena_block *blocks;    /* owned, newest first */
        void               *first;     /* borrowed: memory given at arena_init(), may be NULL */
        struct byte_budget *budget;    /* borrowed; NULL: blocks are not counted */
        size_t              used_bytes; /* of all blocks so far */
        uint32_t            first_bytes;
        uint32_t            max_pieces; /* of ARENA_ALIGNMENT bytes: the struct stays within a line */
};

/* `first` may be NULL; max_bytes 0 means 1 GiB, and 64 GiB is the most. */
void  arena_init(struct arena *a, void *first, size_t first_bytes, size_t max_bytes);
/* Before the first block; the budget outlives the arena. NULL is fine. */
void  arena_set_budget(struct arena *a, struct byte_budget *budget);
/* Another maximum: what there is stays, also when it is more. */
void  arena_set_max(struct arena *a, size_t max_bytes);
size_t arena_max(const struct arena *a);
void  arena_done(struct arena *a);
void  arena_reset(struct arena *a);
/* Frees the blocks that were added since the newest one was `newest` (a->blocks then); what lies in
 * older ones stays. */
void  arena_cut(struct arena *a, const struct arena_block *newest);
void *arena_alloc(struct arena *a, size_t size);
void *arena_zalloc(struct arena *a, size_t size);
char *arena_strdup(struct arena *a, const char *text);
char *arena_strndup(struct arena *a, const char *text, size_t len);
char *arena_str(struct arena *a, struct str s); /* NUL-terminated copy */
/* The same; NULL when the arena is full: for texts of peers. */
char *arena_try_str(struct arena *a, struct str s) NODISCARD;
char *arena_printf(struct arena *a, const char *format, ...) PRINTF_LIKE(2, 3);

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
