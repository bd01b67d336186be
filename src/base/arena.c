/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/arena.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#define ARENA_FIRST_BLOCK_BYTES 4096 /* a page: most configurations and small requests fit */
#define ARENA_DEFAULT_MAX_BYTES ((size_t)1 << 30)

struct arena_block {
        struct arena_block *older;
        size_t              bytes; /* of memory[] */
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

void arena_init(struct arena *a, void *first, size_t first_bytes, size_t max_bytes) {
        *a = (struct arena){
                .first = first,
                .first_bytes = first ? first_bytes : 0,
                /* At most half of the address space, so that sums with it cannot overflow. */
                .max_bytes = max_bytes > 0 ? MIN(max_bytes, SIZE_MAX / 2) : ARENA_DEFAULT_MAX_BYTES,
        };
        if (first)
                use_range(a, first, first_bytes);
}

static void free_blocks(struct arena_block *block) {
        while (block) {
                struct arena_block *older = block->older;

                free(block);
                block = older;
        }
}

void arena_done(struct arena *a) {
        free_blocks(a->blocks);
        *a = (struct arena){ .max_bytes = a->max_bytes };
}

void arena_reset(struct arena *a) {
        struct arena_block *oldest = a->blocks;

        if (a->first || !oldest) {
                free_blocks(oldest);
                a->blocks = NULL;
                a->used_bytes = 0;
                a->next = a->end = NULL;
                if (a->first)
                        use_range(a, a->first, a->first_bytes);
                return;
        }
        while (oldest->older) {
                struct arena_block *older = oldest->older;

                free(oldest);
                oldest = older;
        }
        a->blocks = oldest;
        a->used_bytes = oldest->bytes;
        use_range(a, oldest->memory, oldest->bytes);
}

/* Opens a block with room for `size` bytes; false beyond the maximum or without memory. */
static bool add_block(struct arena *a, size_t size, void *(*allocate)(size_t)) {
        struct arena_block *block;
        size_t              left = a->max_bytes - a->used_bytes;
        size_t              bytes = a->blocks ? a->blocks->bytes : ARENA_FIRST_BLOCK_BYTES / 2;

        if (size > left)
                return false;
        /* Doubling; a single large piece gets a block of its size. */
        bytes = bytes > left / 2 ? left : bytes * 2;
        bytes = MAX(bytes, size);

        block = allocate(sizeof(*block) + bytes);
        if (!block)
                return false;
        block->older = a->blocks;
        block->bytes = bytes;
        a->blocks = block;
        a->used_bytes += bytes;
        use_range(a, block->memory, bytes);
        return true;
}

static void *take(struct arena *a, size_t size, void *(*allocate)(size_t)) {
        size_t rounded;
        char  *piece;

        if (!size_add(MAX(size, (size_t)1), ARENA_ALIGNMENT - 1, &rounded))
                return NULL;
        rounded &= ~(size_t)(ARENA_ALIGNMENT - 1);

        if ((size_t)(a->end - a->next) < rounded && !add_block(a, rounded, allocate))
                return NULL;
        piece = a->next;
        a->next += rounded;
        return piece;
}

void *arena_try_alloc_slow(struct arena *a, size_t size) {
        return take(a, size, try_alloc);
}

void *arena_room_grow(struct arena *a, struct arena_room *room, size_t bytes) {
        size_t doubled = room->bytes <= SIZE_MAX / 2 ? room->bytes * 2 : bytes;
        size_t grown = MAX(bytes, doubled);
        void  *memory = arena_try_alloc(a, grown);

        if (!memory && grown > bytes) {
                grown = bytes;
                memory = arena_try_alloc(a, grown);
        }
        if (memory)
                *room = (struct arena_room){ .memory = memory, .bytes = grown };
        return memory;
}

void *arena_alloc(struct arena *a, size_t size) {
        void *piece = take(a, size, mem_alloc);

        if (UNLIKELY(!piece)) {
                fprintf(stderr,
                        "out of memory: an arena of at most %zu bytes has no room for %zu\n",
                        a->max_bytes, size);
                abort();
        }
        return piece;
}

void *arena_zalloc(struct arena *a, size_t size) {
        return memset(arena_alloc(a, size), 0, size);
}

char *arena_strndup(struct arena *a, const char *text, size_t len) {
        char *copy = arena_alloc(a, len < SIZE_MAX ? len + 1 : len);

        if (len > 0)
                memcpy(copy, text, len);
        copy[len] = '\0';
        return copy;
}

char *arena_strdup(struct arena *a, const char *text) {
        return text ? arena_strndup(a, text, strlen(text)) : NULL;
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
