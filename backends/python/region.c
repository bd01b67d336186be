/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/region.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

/* Descriptors up to this one have a fixed meaning in the stub, so the memfd gets a higher one. */
#define LOWEST_FD 16

static TRITONSERVER_Error *failed_region(const char *what) {
        return kit_error(TRITONSERVER_ERROR_INTERNAL,
                         "unable to create the memory that is shared with a Python process: %s: %s",
                         what, strerror(errno));
}

static TRITONSERVER_Error *create(struct region *r) {
        int fd = memfd_create("neso_python", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        if (fd < 0)
                return failed_region("memfd_create");
        r->fd = fcntl(fd, F_DUPFD_CLOEXEC, LOWEST_FD);
        (void)close(fd);
        if (r->fd < 0)
                return failed_region("fcntl");
        if (ftruncate(r->fd, (off_t)SHM_BYTES) != 0)
                return failed_region("ftruncate");
        if (fcntl(r->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
                return failed_region("fcntl");
        if (fallocate(r->fd, FALLOC_FL_KEEP_SIZE, 0, SHM_HEADER_BYTES) != 0)
                return failed_region("fallocate");
        return NULL;
}

TRITONSERVER_Error *region_open(struct region *r, const struct region_options *o) {
        TRITONSERVER_Error *err;

        memset(r, 0, sizeof(*r));
        r->fd = -1;
        err = create(r);
        if (err == NULL && !shm_map_open(&r->map, r->fd))
                err = failed_region("mmap");
        if (err != NULL) {
                if (r->fd >= 0)
                        (void)close(r->fd);
                r->fd = -1;
                return err;
        }
        (void)pthread_mutex_init(&r->lock, NULL);
        r->header = shm_map_at(&r->map, 0);
        r->header->magic = SHM_MAGIC;
        r->header->max_bytes = o->max_bytes;
        r->header->first_bytes = o->first_bytes;
        r->header->growth_bytes = o->growth_bytes;
        shm_area_init(&r->area, &r->map,
                      &(struct shm_area_options){ .is_server = true,
                                                  .max_bytes = o->max_bytes,
                                                  .first_bytes = o->first_bytes,
                                                  .growth_bytes = o->growth_bytes });
        return NULL;
}

void region_close(struct region *r) {
        if (r->header == NULL)
                return;
        shm_area_done(&r->area);
        (void)pthread_mutex_destroy(&r->lock);
        shm_map_close(&r->map);
        (void)close(r->fd);
        r->header = NULL;
}

void region_break(struct region *r) {
        atomic_store(&r->is_broken, true);
        /* Without a look at the word, which is the process's to write as well. */
        atomic_store(&r->header->receiver_sleep, SHM_AWAKE);
        shm_futex_wake(&r->header->receiver_sleep, INT32_MAX);
}

/* Frees the blocks of a list. A stub that returns a block twice, or a number without a block,
 * breaks the region. */
static void free_list_locked(struct region *r, uint32_t block) {
        while (block != 0) {
                const void *place = region_find(r, (uint64_t)block * SHM_BLOCK, SHM_BLOCK);
                uint32_t    next = place != NULL ? *(const volatile uint32_t *)place : 0;

                if (place == NULL || !shm_heap_free(&r->area.heap, block)) {
                        region_break(r);
                        return;
                }
                block = next;
        }
}

/* Frees the blocks that the stub has given back. A message may still name an output in the block of
 * an input; such a message was written before the block was given back. So a list is freed only
 * after all messages were handled that existed when the list was taken. */
static void absorb_released_locked(struct region *r) {
        if (r->limbo == 0) {
                r->limbo = shm_list_take(&r->header->released);
                region_after_take(r);
                r->limbo_until = atomic_load(&r->header->message_tail);
        }
        if (r->limbo == 0 || (int32_t)(atomic_load(&r->n_handled) - r->limbo_until) < 0)
                return;
        free_list_locked(r, r->limbo);
        r->limbo = 0;
}

uint32_t region_alloc(struct region *r, uint64_t n_bytes) {
        uint32_t block, segment;

        (void)pthread_mutex_lock(&r->lock);
        absorb_released_locked(r);
        block = shm_area_alloc(&r->area, n_bytes, &segment); /* the stub maps it on its own */
        (void)pthread_mutex_unlock(&r->lock);
        return block;
}

void region_free(struct region *r, uint32_t block) {
        (void)pthread_mutex_lock(&r->lock);
        (void)shm_heap_free(&r->area.heap, block);
        (void)pthread_mutex_unlock(&r->lock);
}

uint64_t region_idle_bytes(struct region *r) {
        uint64_t n_bytes;

        (void)pthread_mutex_lock(&r->lock);
        absorb_released_locked(r);
        n_bytes = shm_heap_idle_bytes(&r->area.heap);
        (void)pthread_mutex_unlock(&r->lock);
        return n_bytes;
}

/* ---- segments -------------------------------------------------------------------------------- */

/* Returns false when the stub broke the rules. */
static bool map_segment(struct region *r, uint32_t i, bool *ret_is_mapped) {
        struct shm_segment_record *record = &r->header->stub_segments[i];
        uint32_t                   granule = record->granule, n_units = record->n_units;
        uint64_t at = granule * SHM_GRANULE, n_bytes = n_units * (uint64_t)SHM_UNIT;

        if (atomic_load(&record->state) != SHM_SEGMENT_OFFERED || r->stub_segments[i].is_mapped ||
            n_bytes == 0 || at >= SHM_AREA_BYTES || n_bytes > SHM_AREA_BYTES - at)
                return false;
        *ret_is_mapped = shm_map_add(&r->map, SHM_STUB_AREA + at, n_bytes);
        r->stub_segments[i] = (struct stub_segment){ *ret_is_mapped, SHM_STUB_AREA + at };
        return *ret_is_mapped || errno != EEXIST;
}

void region_grow(struct region *r, uint32_t i) {
        bool is_mapped;

        if (i >= SHM_SEGMENTS || !map_segment(r, i, &is_mapped)) {
                region_break(r);
                return;
        }
        if (!is_mapped)
                atomic_fetch_add(&r->header->n_stub_refused, 1);
        atomic_store(&r->header->stub_segments[i].state,
                     is_mapped ? SHM_SEGMENT_MAPPED : SHM_SEGMENT_REFUSED);
        shm_futex_wake(&r->header->stub_segments[i].state, INT32_MAX);
}

static bool is_borrowed(const struct region *r) {
        return atomic_load_explicit(&r->n_borrowed, memory_order_acquire) > 0;
}

void region_follow(struct region *r) {
        r->must_shrink = is_borrowed(r);
        if (r->must_shrink)
                return;
        for (uint32_t i = 0; i < SHM_SEGMENTS; i++) {
                struct stub_segment *segment = &r->stub_segments[i];
                _Atomic uint32_t    *state = &r->header->stub_segments[i].state;

                if (atomic_load(state) != SHM_SEGMENT_REMOVED)
                        continue;
                if (segment->is_mapped)
                        shm_map_remove(&r->map, segment->offset);
                segment->is_mapped = false;
                atomic_store(state, SHM_SEGMENT_EMPTY);
        }
}

bool region_shrink(struct region *r) {
        unsigned n = 0;

        (void)pthread_mutex_lock(&r->lock);
        absorb_released_locked(r);
        if (is_borrowed(r))
                shm_heap_trim(&r->area.heap);
        else
                n = shm_area_shrink(&r->area);
        (void)pthread_mutex_unlock(&r->lock);
        if (n > 0)
                atomic_fetch_add(&r->header->n_server_removed, 1);
        return n > 0;
}
