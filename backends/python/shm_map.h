/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of the shared region that a process has mapped: the header, and segments (shm_layout.h).
 *
 * A segment is contiguous in the file and in the process, and stays where it is until it is removed, so
 * pointers into it stay valid while the process grows. Each process maps it at an address of its own; a
 * place that both know is an offset in the file.
 *
 * Ownership.  The map owns its mappings and borrows the descriptor.
 * Threads.  shm_map_find() and shm_map_at() from any thread. One thread at a time adds and removes. A
 * segment is removed when no thread uses it any more.
 */
#pragma once

#include "python/shm_layout.h"

#include <stdbool.h>

#define SHM_GRANULES (SHM_BYTES / SHM_GRANULE)

/* One granule of the file. */
struct shm_window {
        _Atomic(unsigned char *) place;   /* address of its begin; NULL: not mapped */
        _Atomic uint64_t         n_bytes; /* from there to the end of its segment */
};

struct shm_map {
        int               fd;
        uint64_t          file; /* number of its inode */
        struct shm_window windows[SHM_GRANULES];
};

/* Maps the header. `map` is filled with 0. Returns false, with errno, on failure. */
bool shm_map_open(struct shm_map *map, int fd);
void shm_map_close(struct shm_map *map);

/* Maps `n_bytes` from `offset`, a multiple of SHM_GRANULE, on. Returns false, with errno, on failure; EEXIST
 * when a part of it is mapped already. */
bool shm_map_add(struct shm_map *map, uint64_t offset, uint64_t n_bytes);
void shm_map_remove(struct shm_map *map, uint64_t offset);

/* Returns false when the descriptor denotes another file: a model may close it and open another file with
 * its number. */
bool shm_map_has_file(const struct shm_map *map);

/* Returns the address of an offset that is mapped. */
static inline void *shm_map_at(const struct shm_map *map, uint64_t offset) {
        return atomic_load_explicit(&map->windows[offset / SHM_GRANULE].place,
                                    memory_order_acquire) +
               offset % SHM_GRANULE;
}

/* The same for any offset; NULL when n_bytes from there are not mapped in one piece. */
static inline void *shm_map_find(const struct shm_map *map, uint64_t offset, uint64_t n_bytes) {
        const struct shm_window *w;
        unsigned char           *place;
        uint64_t                 at = offset % SHM_GRANULE, n_mapped;

        if (offset >= SHM_BYTES)
                return NULL;
        w = &map->windows[offset / SHM_GRANULE];
        place = atomic_load_explicit(&w->place, memory_order_acquire);
        n_mapped = atomic_load_explicit(&w->n_bytes, memory_order_relaxed);
        if (place == NULL || at > n_mapped || n_bytes > n_mapped - at)
                return NULL;
        return place + at;
}
