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
static _Thread_local TLS_EARLY bool
        is_exit_registered; /* free_kept() will run at the end of this thread */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t  exit_key; /* its destructor, free_kept(), runs at the end of a thread */
static bool           has_key;

static void free_kept(void *unused) {
        (void)unused;
        while (kept != NULL) {
                struct kept_block *block = kept;

                kept = block->next;
                free(block);
        }
        n_kept = 0;
        /* Another destructor of this thread may still give a block back. */
        is_exit_registered = false;
}

static void make_key(void) {
        has_key = pthread_key_create(&exit_key, free_kept) == 0;
}

/* The library may be unloaded before its threads end: blocks cached by other threads are then leaked. */
static DESTRUCTOR void drop_key(void) {
        if (!has_key)
                return;
        has_key = false;
        pthread_key_delete(exit_key);
        free_kept(NULL);
}

/* Makes free_kept() run at the end of this thread. False: no block may be cached, since none would be
 * freed. */
static bool register_thread_exit(void) {
        if (LIKELY(is_exit_registered))
                return true;
        pthread_once(&once, make_key);
        is_exit_registered = has_key && pthread_setspecific(exit_key, &kept) == 0;
        return is_exit_registered;
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

        if (n_kept >= REQUEST_MEMORY_MAX_KEPT || !register_thread_exit()) {
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
