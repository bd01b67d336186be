/* SPDX-License-Identifier: BSD-3-Clause */
/* An arena: memory that is allocated in many pieces and freed at once.
 *
 * An arena hands out 16-byte aligned pieces from blocks. Each block is twice as large as the one
 * before, up to 1 MiB; later ones have a quarter of the arena's size, so that little memory is
 * unused. When a block of that size cannot be allocated, the arena allocates one that is just large
 * enough. It may start in memory of the caller (an array inside a longer-lived struct), so that
 * small uses need no allocation at all.
 *
 * Each arena has a maximum, and may have a byte budget that its blocks are charged to.
 * arena_try_alloc() is for sizes that peers decide: it returns NULL when either has no room.
 * arena_alloc() is for small sizes that our own code fixes: it never fails, exceeds the maximum if
 * it must, and ends the process when there is no memory.
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

/* Every piece starts at a multiple of this number of bytes. */
#define ARENA_ALIGNMENT 16

struct arena {
        char               *next;       /* borrowed: in the current block or in `first` */
        char               *end;        /* borrowed */
        struct arena_block *blocks;     /* owned, newest first */
        void               *first;      /* borrowed: memory given at arena_init(), may be NULL */
        struct byte_budget *budget;     /* borrowed; NULL: blocks are not counted */
        size_t              used_bytes; /* size of all blocks */
        uint32_t            first_bytes : 31;
        uint32_t            lacked_memory : 1; /* arena_try_alloc() failed last for that */
        uint32_t            max_pieces;        /* maximum, in units of ARENA_ALIGNMENT bytes */
};

/* `first` may be NULL; max_bytes 0 means 1 GiB, and 64 GiB is the largest maximum. */
void         arena_init(struct arena *a, void *first, size_t first_bytes, size_t max_bytes);
struct arena arena_of(size_t max_bytes); /* without `first` */
/* Must be called before the first block is allocated; the budget outlives the arena. `budget` may
 * be NULL. */
void arena_set_budget(struct arena *a, struct byte_budget *budget);
/* Sets another maximum. Memory that the arena has already stays, even if it exceeds the maximum. */
void   arena_set_max(struct arena *a, size_t max_bytes);
size_t arena_max(const struct arena *a);
void   arena_done(struct arena *a);
#define AUTO_ARENA CLEANUP(arena_done) struct arena
void arena_reset(struct arena *a);
/* Frees the blocks that were added after `newest` (a->blocks at that time); data in older blocks
 * stays. */
void  arena_cut(struct arena *a, const struct arena_block *newest);
void *arena_alloc(struct arena *a, size_t size);
void *arena_zalloc(struct arena *a, size_t size);
char *arena_strdup(struct arena *a, const char *text);
char *arena_strndup(struct arena *a, const char *text, size_t len);
char *arena_str(struct arena *a, struct str s); /* NUL-terminated copy */
/* The same for texts of peers; NULL when the arena is full. */
char *arena_try_str(struct arena *a, struct str s) NODISCARD;
char *arena_printf(struct arena *a, const char *format, ...) PRINTF_LIKE(2, 3);

/* arena_try_alloc() for a current block that may have no room, and for a `size` of 0 or a huge one. */
void *arena_try_alloc_slow(struct arena *a, size_t size) NODISCARD;

/* Inline, because a request takes dozens of pieces and nearly all of them fit. */
NODISCARD static inline void *arena_try_alloc(struct arena *a, size_t size) {
        size_t rounded = (size + ARENA_ALIGNMENT - 1) & ~(size_t)(ARENA_ALIGNMENT - 1);
        char  *piece = a->next;

        if (size - 1 >= SIZE_MAX / 2 || rounded > (size_t)(a->end - piece))
                return arena_try_alloc_slow(a, size);
        a->next = piece + rounded;
        return piece;
}

/* Zeroed memory for n elements, of which there may be none; NULL when the arena is full. */
void *arena_try_calloc(struct arena *a, size_t n, size_t element_bytes) NODISCARD;

/* A piece of memory that is written repeatedly. It moves only when it must grow, and then at least
 * doubles, so that all abandoned pieces together take no more memory than the last one. All zero is
 * empty. */
struct arena_room {
        void  *memory; /* in arena */
        size_t bytes;
};

void *arena_room_grow(struct arena *a, struct arena_room *room, size_t bytes) NODISCARD;

/* Returns memory for `bytes`, with undefined contents; NULL when the arena is full, and the room
 * stays as it was. */
NODISCARD static inline void *arena_room_get(struct arena *a, struct arena_room *room,
                                             size_t bytes) {
        if (bytes <= room->bytes && room->memory != NULL)
                return room->memory;
        return arena_room_grow(a, room, bytes);
}

#define ARENA_NEW(a, type) ((type *)arena_zalloc((a), sizeof(type)))
