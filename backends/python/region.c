/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/region.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

/* Descriptors up to this one have a fixed meaning in the stub, so the memfd gets a higher one. */
#define LOWEST_FD 16

static TRITONSERVER_Error *failed(const char *what) {
        return kit_error(TRITONSERVER_ERROR_INTERNAL,
                         "unable to create the memory that is shared with a Python process: %s: %s",
                         what, strerror(errno));
}

static TRITONSERVER_Error *create(struct region *r) {
        int fd = memfd_create("neso_python", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        if (fd < 0)
                return failed("memfd_create");
        r->fd = fcntl(fd, F_DUPFD_CLOEXEC, LOWEST_FD);
        (void)close(fd);
        if (r->fd < 0)
                return failed("fcntl");
        if (ftruncate(r->fd, (off_t)SHM_BYTES) != 0)
                return failed("ftruncate");
        if (fcntl(r->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
                return failed("fcntl");
        if (fallocate(r->fd, FALLOC_FL_KEEP_SIZE, 0, SHM_HEADER_BYTES) != 0)
                return failed("fallocate");
        return NULL;
}

TRITONSERVER_Error *region_open(struct region *r, uint64_t max_bytes) {
        TRITONSERVER_Error *err;

        memset(r, 0, sizeof(*r));
        r->fd = -1;
        err = create(r);
        if (err == NULL) {
                r->base = mmap(NULL, SHM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                               r->fd, 0);
                if (r->base == MAP_FAILED)
                        err = failed("mmap of the addresses (an instance reserves 128 GiB of them, "
                                     "without memory; see `ulimit -v`)");
        }
        if (err != NULL) {
                if (r->fd >= 0)
                        (void)close(r->fd);
                r->fd = -1;
                r->base = NULL;
                return err;
        }
        (void)madvise(r->base, SHM_BYTES, MADV_DONTDUMP);
        (void)pthread_mutex_init(&r->lock, NULL);
        r->header = (struct shm_header *)r->base;
        r->header->magic = SHM_MAGIC;
        r->header->max_bytes = max_bytes;
        shm_heap_init(&r->heap, &(struct shm_heap_options){
                                        .begin = SHM_SERVER_AREA,
                                        .fd = r->fd,
                                        .max_bytes = max_bytes,
                                        .committed = &r->header->server_committed,
                                        .committed_by_other = &r->header->stub_committed });
        return NULL;
}

void region_close(struct region *r) {
        if (r->base == NULL)
                return;
        shm_heap_done(&r->heap);
        (void)pthread_mutex_destroy(&r->lock);
        (void)munmap(r->base, SHM_BYTES);
        (void)close(r->fd);
        r->base = NULL;
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

                if (place == NULL || !shm_heap_free(&r->heap, block)) {
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
        uint32_t block;

        (void)pthread_mutex_lock(&r->lock);
        absorb_released_locked(r);
        block = shm_heap_alloc(&r->heap, n_bytes);
        (void)pthread_mutex_unlock(&r->lock);
        return block;
}

void region_free(struct region *r, uint32_t block) {
        (void)pthread_mutex_lock(&r->lock);
        (void)shm_heap_free(&r->heap, block);
        (void)pthread_mutex_unlock(&r->lock);
}

void region_trim(struct region *r) {
        (void)pthread_mutex_lock(&r->lock);
        absorb_released_locked(r);
        shm_heap_trim(&r->heap);
        (void)pthread_mutex_unlock(&r->lock);
}

uint64_t region_idle_bytes(struct region *r) {
        uint64_t n_bytes;

        (void)pthread_mutex_lock(&r->lock);
        absorb_released_locked(r);
        n_bytes = shm_heap_idle_bytes(&r->heap);
        (void)pthread_mutex_unlock(&r->lock);
        return n_bytes;
}
