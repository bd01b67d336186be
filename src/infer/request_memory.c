/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/request_memory.h"

#include "base/mem.h"

#include <pthread.h>

/* The contents of a cached block. */
struct kept_block {
        struct kept_block *next;
};

static _Thread_local TLS_EARLY struct kept_block *kept; /* owned */
static _Thread_local TLS_EARLY unsigned           n_kept;
static _Thread_local TLS_EARLY bool               will_be_freed; /* when the thread ends */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t  at_end; /* its destructor, free_kept(), runs at the end of a thread */
static bool           has_key;

static void free_kept(void *unused UNUSED) {
        while (kept != NULL) {
                struct kept_block *block = kept;

                kept = block->next;
                free(block);
        }
        n_kept = 0;
        will_be_freed = false; /* another destructor of this thread may still give a block back */
}

static void make_key(void) {
        has_key = pthread_key_create(&at_end, free_kept) == 0;
}

/* The library may be unloaded before its threads end: blocks cached by other threads are then leaked. */
static DESTRUCTOR void drop_key(void) {
        if (!has_key)
                return;
        has_key = false;
        pthread_key_delete(at_end);
        free_kept(NULL);
}

/* Registers the thread's destructor. False: no block may be cached, since none would be freed. */
static bool see_to_the_end(void) {
        if (LIKELY(will_be_freed))
                return true;
        pthread_once(&once, make_key);
        will_be_freed = has_key && pthread_setspecific(at_end, &kept) == 0;
        return will_be_freed;
}

struct request_memory *request_memory_take(void) {
        struct kept_block *block = kept;

        if (block == NULL || UNLIKELY(mem_may_fail()))
                return try_aligned_alloc(CACHE_LINE_BYTES, sizeof(struct request_memory));
        kept = block->next;
        n_kept--;
        return (struct request_memory *)block;
}

void request_memory_give(void *memory) {
        struct kept_block *block = memory;

        if (n_kept >= REQUEST_MEMORY_MAX_KEPT || !see_to_the_end()) {
                free(memory);
                return;
        }
        block->next = kept;
        kept = block;
        n_kept++;
}

unsigned request_memory_count_kept(void) {
        return n_kept;
}
