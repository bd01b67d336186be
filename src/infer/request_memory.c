/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/request_memory.h"

#include "base/block_cache.h"
#include "base/mem.h"

#include <pthread.h>

static _Thread_local TLS_EARLY struct block_cache kept;
static _Thread_local TLS_EARLY bool
        is_exit_registered; /* free_kept() will run at the end of this thread */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t  exit_key; /* its destructor, free_kept(), runs at the end of a thread */
static bool           has_key;

static void free_kept(void *unused) {
        (void)unused;
        while (kept.first != NULL)
                free(block_cache_take(&kept));
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
        if (is_exit_registered)
                return true;
        pthread_once(&once, make_key);
        is_exit_registered = has_key && pthread_setspecific(exit_key, &kept) == 0;
        return is_exit_registered;
}

struct request_memory *request_memory_take(void) {
        if (kept.first == NULL || mem_may_fail())
                return try_aligned_alloc(CACHE_LINE_BYTES, sizeof(struct request_memory));
        return block_cache_take(&kept);
}

void request_memory_give(void *memory) {
        if (!register_thread_exit() || !block_cache_give(&kept, memory, REQUEST_MEMORY_MAX_KEPT))
                free(memory);
}

unsigned request_memory_count_kept(void) {
        return kept.n;
}
