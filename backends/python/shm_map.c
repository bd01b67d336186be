/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/shm_map.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

static uint64_t file_of(int fd) {
        struct stat st;

        return fstat(fd, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

static uint64_t granules_of(uint64_t n_bytes) {
        return (n_bytes + SHM_GRANULE - 1) / SHM_GRANULE;
}

bool shm_map_open(struct shm_map *map, int fd) {
        map->fd = fd;
        map->file = file_of(fd);
        return shm_map_add(map, 0, SHM_HEADER_BYTES);
}

bool shm_map_has_file(const struct shm_map *map) {
        return file_of(map->fd) == map->file;
}

static bool is_free(const struct shm_map *map, uint64_t first, uint64_t n) {
        for (uint64_t i = first; i < first + n; i++)
                if (atomic_load_explicit(&map->windows[i].place, memory_order_relaxed) != NULL)
                        return false;
        return true;
}

bool shm_map_add(struct shm_map *map, uint64_t offset, uint64_t n_bytes) {
        uint64_t       first = offset / SHM_GRANULE, n = granules_of(n_bytes);
        unsigned char *place;

        if (!is_free(map, first, n)) {
                errno = EEXIST;
                return false;
        }
        place = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, map->fd,
                     (off_t)offset);
        if (place == MAP_FAILED)
                return false;
        (void)madvise(place, n_bytes, MADV_DONTDUMP);
        for (uint64_t i = 0; i < n; i++) {
                struct shm_window *w = &map->windows[first + i];

                atomic_store_explicit(&w->n_bytes, n_bytes - i * SHM_GRANULE, memory_order_relaxed);
                atomic_store_explicit(&w->place, place + i * SHM_GRANULE, memory_order_release);
        }
        return true;
}

void shm_map_remove(struct shm_map *map, uint64_t offset) {
        uint64_t       first = offset / SHM_GRANULE;
        uint64_t       n_bytes = atomic_load(&map->windows[first].n_bytes);
        unsigned char *place = atomic_load(&map->windows[first].place);

        for (uint64_t i = first; i < first + granules_of(n_bytes); i++)
                atomic_store(&map->windows[i].place, NULL);
        (void)munmap(place, n_bytes);
}

void shm_map_close(struct shm_map *map) {
        for (uint64_t i = 0; i < SHM_GRANULES; i++)
                if (atomic_load(&map->windows[i].place) != NULL)
                        shm_map_remove(map, i * SHM_GRANULE);
}
