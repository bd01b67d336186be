/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/arena.h"

#include "base/byte_budget.h"
#include "base/mem.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#define ARENA_FIRST_BLOCK_BYTES 4096 /* a page: most configurations and small requests fit */
#define ARENA_LARGE_BLOCK_BYTES ((size_t)1 << 20) /* blocks double up to this size */
#define ARENA_DEFAULT_MAX_BYTES ((size_t)1 << 30)

struct arena_block {
        struct arena_block *older;
        size_t              bytes; /* size of memory[] */
        char                memory[] __attribute__((aligned(ARENA_ALIGNMENT)));
};

static void use_range(struct arena *a, char *start, size_t bytes) {
        size_t skip = -(uintptr_t)start & (ARENA_ALIGNMENT - 1);

        if (bytes < skip) {
                a->next = a->end = NULL;
                return;
        }
        a->next = start + skip;
        a->end = start + bytes;
}

static uint32_t pieces_of(size_t max_bytes) {
        size_t bytes = max_bytes > 0 ? max_bytes : ARENA_DEFAULT_MAX_BYTES;

        return (uint32_t)MIN(bytes / ARENA_ALIGNMENT, UINT32_MAX);
}

size_t arena_max(const struct arena *a) {
        return (size_t)a->max_pieces * ARENA_ALIGNMENT;
}

void arena_init(struct arena *a, void *first, size_t first_bytes, size_t max_bytes) {
        *a = (struct arena){
                .first = first,
                .first_bytes = first != NULL ? (uint32_t)MIN(first_bytes, INT32_MAX) : 0,
                .max_pieces = pieces_of(max_bytes),
        };
        if (first != NULL)
                use_range(a, first, a->first_bytes);
}

struct arena arena_of(size_t max_bytes) {
        return (struct arena){ .max_pieces = pieces_of(max_bytes) };
}

void arena_set_max(struct arena *a, size_t max_bytes) {
        a->max_pieces = pieces_of(max_bytes);
}

void arena_set_budget(struct arena *a, struct byte_budget *budget) {
        a->budget = budget;
}

/* Frees the blocks that are newer than `last`. */
static NOINLINE void free_blocks(struct arena *a, const struct arena_block *last) {
        while (a->blocks != last) {
                struct arena_block *block = a->blocks;

                a->blocks = block->older;
                a->used_bytes -= block->bytes;
                if (a->budget != NULL)
                        byte_budget_give(a->budget, block->bytes);
                free(block);
        }
}

void arena_done(struct arena *a) {
        if (a->blocks != NULL) /* a small arena needs no block */
                free_blocks(a, NULL);
        *a = (struct arena){ .max_pieces = a->max_pieces, .budget = a->budget };
}

void arena_reset(struct arena *a) {
        struct arena_block *oldest = a->blocks;

        if (a->first != NULL || oldest == NULL) {
                if (oldest != NULL)
                        free_blocks(a, NULL);
                a->next = a->end = NULL;
                if (a->first != NULL)
                        use_range(a, a->first, a->first_bytes);
                return;
        }
        while (oldest->older != NULL)
                oldest = oldest->older;
        free_blocks(a, oldest);
        use_range(a, oldest->memory, oldest->bytes);
}

void arena_cut(struct arena *a, const struct arena_block *newest) {
        if (a->blocks == newest)
                return;
        free_blocks(a, newest);
        a->next = a->end =
                NULL; /* the place where the arena was in that block is not known any more */
}

static void open_block(struct arena *a, struct arena_block *block, size_t bytes) {
        block->older = a->blocks;
        block->bytes = bytes;
        a->blocks = block;
        a->used_bytes += bytes;
        use_range(a, block->memory, bytes);
}

/* Allocates a block of `bytes`; false when the budget or the memory has no room for it. */
static bool try_block(struct arena *a, size_t bytes) {
        struct arena_block *block;

        if (a->budget != NULL && !byte_budget_take(a->budget, bytes))
                return false;
        block = try_aligned_alloc(ARENA_ALIGNMENT, sizeof(*block) + bytes);
        if (block != NULL)
                open_block(a, block, bytes);
        else if (a->budget != NULL)
                byte_budget_give(a->budget, bytes);
        return block != NULL;
}

/* Size of the next block: twice the newest one up to a bound, then a quarter of all blocks; at
 * least `size`, at most `left`. */
static size_t next_bytes(const struct arena *a, size_t size, size_t left) {
        size_t bytes = a->blocks != NULL ? a->blocks->bytes : ARENA_FIRST_BLOCK_BYTES / 2;

        bytes = MIN(bytes, SIZE_MAX / 2) * 2;
        bytes = MIN(bytes, MAX(ARENA_LARGE_BLOCK_BYTES, a->used_bytes / 4));
        return MAX(MIN(bytes, left), size);
}

/* Adds a block with room for `size` bytes; false beyond the maximum, the budget or the memory. */
static bool try_add_block(struct arena *a, size_t size) {
        size_t max = arena_max(a), left = a->used_bytes < max ? max - a->used_bytes : 0;
        size_t bytes;

        a->lacked_memory = size <= left;
        if (size > left)
                return false;
        bytes = next_bytes(a, size, left);
        if (try_block(a, bytes) || (bytes > size && try_block(a, size)))
                return true;
        if (a->budget != NULL && !byte_budget_fits(a->budget, size))
                byte_budget_refused(a->budget);
        return false;
}

/* The same for small allocations of our own, which must not fail. */
static void add_block(struct arena *a, size_t size) {
        size_t bytes = next_bytes(a, size, ARENA_FIRST_BLOCK_BYTES);

        if (a->budget != NULL)
                byte_budget_force(a->budget, bytes);
        open_block(a, mem_alloc(sizeof(struct arena_block) + bytes), bytes);
}

static bool round_up(size_t size, size_t *ret) {
        if (!size_add(MAX(size, (size_t)1), ARENA_ALIGNMENT - 1, ret))
                return false;
        *ret &= ~(size_t)(ARENA_ALIGNMENT - 1);
        return true;
}

static bool has_room(const struct arena *a, size_t rounded) {
        return (size_t)(a->end - a->next) >= rounded;
}

static void *take_room(struct arena *a, size_t rounded) {
        char *piece = a->next;

        a->next += rounded;
        return piece;
}

void *arena_try_alloc_slow(struct arena *a, size_t size) {
        size_t rounded;

        if (!round_up(size, &rounded) || (!has_room(a, rounded) && !try_add_block(a, rounded)))
                return NULL;
        return take_room(a, rounded);
}

void *arena_room_grow(struct arena *a, struct arena_room *room, size_t bytes) {
        size_t doubled = room->bytes <= SIZE_MAX / 2 ? room->bytes * 2 : bytes;
        size_t grown = MAX(bytes, doubled);
        void  *memory = arena_try_alloc(a, grown);

        if (memory == NULL && grown > bytes) {
                grown = bytes;
                memory = arena_try_alloc(a, grown);
        }
        if (memory != NULL)
                *room = (struct arena_room){ .memory = memory, .bytes = grown };
        return memory;
}

void *arena_alloc(struct arena *a, size_t size) {
        size_t rounded;

        if (size > PTRDIFF_MAX || !round_up(size, &rounded)) {
                fprintf(stderr, "out of memory: no arena has room for %zu bytes\n", size);
                abort();
        }
        if (!has_room(a, rounded) && !try_add_block(a, rounded))
                add_block(a, rounded);
        return take_room(a, rounded);
}

void *arena_zalloc(struct arena *a, size_t size) {
        return memset(arena_alloc(a, size), 0, size);
}

void *arena_try_calloc(struct arena *a, size_t n, size_t element_bytes) {
        size_t bytes;
        void  *elements;

        if (!size_mul(n, element_bytes, &bytes))
                return NULL;
        elements = arena_try_alloc(a, MAX(bytes, 1));
        return elements != NULL ? memset(elements, 0, bytes) : NULL;
}

char *arena_strndup(struct arena *a, const char *text, size_t len) {
        char *copy = arena_alloc(a, len < SIZE_MAX ? len + 1 : len);

        if (len > 0)
                memcpy(copy, text, len);
        copy[len] = '\0';
        return copy;
}

char *arena_strdup(struct arena *a, const char *text) {
        return text != NULL ? arena_strndup(a, text, strlen(text)) : NULL;
}

char *arena_str(struct arena *a, struct str s) {
        return arena_strndup(a, s.ptr, s.len);
}

char *arena_try_str(struct arena *a, struct str s) {
        char *copy = s.len < SIZE_MAX ? arena_try_alloc(a, s.len + 1) : NULL;

        if (copy == NULL)
                return NULL;
        if (s.len > 0)
                memcpy(copy, s.ptr, s.len);
        copy[s.len] = '\0';
        return copy;
}

char *arena_printf(struct arena *a, const char *format, ...) {
        va_list args;
        char   *text;
        int     printed;
        size_t  size;

        va_start(args, format);
        printed = vsnprintf(NULL, 0, format, args);
        va_end(args);
        size = printed > 0 ? (size_t)printed + 1 : 1;

        text = arena_alloc(a, size);
        text[0] = '\0';
        va_start(args, format);
        vsnprintf(text, size, format, args);
        va_end(args);
        return text;
}
