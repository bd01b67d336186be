/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/reserve.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
/* Each class has room for a power of two and the header of an arena's block. */
static const struct reserve_class {
        size_t   bytes;
        unsigned n;
} classes[] = {
        { 576, 1024 },
        { 4160, 128 },
        { 16448, 64 },
        { 65600, 8 },
        { 262208, 4 },
        { 524352, 2 }, /* the statistics of a model whose requests have 4096 responses */
};
/* clang-format on */

#define N_CLASSES ARRAY_LEN(classes)

/* A free block. */
struct reserve_block {
        struct reserve_block *next;
};

/* The lock has no rank: memory is allocated under any other lock, and no lock is taken under it. */
static struct {
        pthread_mutex_t       lock;
        struct reserve_block *free[N_CLASSES]; /* owned */
        unsigned              n_free[N_CLASSES];
        unsigned              n_users;
} reserve = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Also true before the first work arrives: asking then fills the reserve. */
static _Atomic bool is_short;

static void *new_block(size_t bytes) {
        void *block = NULL;

        return posix_memalign(&block, RESERVE_ALIGNMENT, bytes) == 0 ? block : NULL;
}

/* Part of the blocks that suffices for the start of the server. */
#define PART_AT_START 8

/* Fills each class up to its number of blocks divided by `part`. False when memory is short. */
static bool fill_locked(unsigned part) {
        for (size_t i = 0; i < N_CLASSES; i++) {
                while (reserve.n_free[i] < (classes[i].n + part - 1) / part) {
                        struct reserve_block *block = new_block(classes[i].bytes);

                        if (block == NULL)
                                return false;
                        block->next = reserve.free[i];
                        reserve.free[i] = block;
                        reserve.n_free[i]++;
                }
        }
        return true;
}

struct error *reserve_open(void) {
        static struct error no_memory =
                ERROR_STATIC(ERR_UNAVAILABLE,
                             "out of memory: unable to set memory aside at the start");
        bool is_full;

        pthread_mutex_lock(&reserve.lock);
        is_full = fill_locked(PART_AT_START);
        if (reserve.n_users++ == 0)
                atomic_store_explicit(&is_short, true, memory_order_relaxed);
        pthread_mutex_unlock(&reserve.lock);
        if (is_full)
                return NULL;
        reserve_close();
        return &no_memory;
}

static void drop_locked(void) {
        for (size_t i = 0; i < N_CLASSES; i++) {
                while (reserve.free[i] != NULL) {
                        struct reserve_block *block = reserve.free[i];

                        reserve.free[i] = block->next;
                        free(block);
                }
                reserve.n_free[i] = 0;
        }
        atomic_store_explicit(&is_short, false, memory_order_relaxed);
}

void reserve_close(void) {
        pthread_mutex_lock(&reserve.lock);
        if (--reserve.n_users == 0)
                drop_locked();
        pthread_mutex_unlock(&reserve.lock);
}

static void *take_locked(size_t size) {
        for (size_t i = 0; i < N_CLASSES; i++) {
                struct reserve_block *block = reserve.free[i];

                if (classes[i].bytes < size || block == NULL)
                        continue;
                reserve.free[i] = block->next;
                reserve.n_free[i]--;
                atomic_store_explicit(&is_short, true, memory_order_relaxed);
                return block;
        }
        return NULL;
}

void *reserve_take(size_t size) {
        void *block;

        pthread_mutex_lock(&reserve.lock);
        block = take_locked(size);
        pthread_mutex_unlock(&reserve.lock);
        return block;
}

void *reserve_move(void *old, size_t size) {
        void *block = reserve_take(size);

        if (block != NULL && old != NULL) {
                memcpy(block, old, MIN(size, malloc_usable_size(old)));
                free(old);
        }
        return block;
}

static COLD bool is_still_short(void) {
        bool is_full;

        pthread_mutex_lock(&reserve.lock);
        is_full = reserve.n_users == 0 || fill_locked(1);
        if (is_full)
                atomic_store_explicit(&is_short, false, memory_order_relaxed);
        pthread_mutex_unlock(&reserve.lock);
        return !is_full;
}

bool reserve_is_short(void) {
        return atomic_load_explicit(&is_short, memory_order_relaxed) && is_still_short();
}
