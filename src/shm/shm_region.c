/* SPDX-License-Identifier: BSD-3-Clause */
#include "shm/shm_region.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "shm/shm_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Prefix of the regions that the Python backend of the reference server makes for itself. */
#define RESERVED_PREFIX "triton_python_backend_shm_region_"

/* A key is one file name, with or without leading slashes. */
struct error *shm_region_check_key(const char *name, const char *key) {
        const char *bare = key + strspn(key, "/");
        size_t      len = strlen(key);

        if (len > SHM_REGION_MAX_KEY)
                return error_new(
                        ERR_INVALID_ARG,
                        "cannot register shared memory region '%s': its key has %zu bytes, "
                        "at most %d are allowed",
                        name, len, SHM_REGION_MAX_KEY);
        if (strncmp(bare, RESERVED_PREFIX, strlen(RESERVED_PREFIX)) == 0)
                return error_new(ERR_INVALID_ARG,
                                 "cannot register shared memory region '%s' with key '%s' as the "
                                 "key contains the reserved prefix '" RESERVED_PREFIX "'",
                                 name, key);
        if (*bare == '\0' || strchr(bare, '/') != NULL || strcmp(bare, ".") == 0 ||
            strcmp(bare, "..") == 0)
                return error_new(ERR_INVALID_ARG,
                                 "cannot register shared memory region '%s' - invalid shm key '%s'",
                                 name, key);
        return NULL;
}

static struct error *open_object(const char *key, int *ret) {
        int fd = shm_open(key, O_RDWR | O_CLOEXEC, 0);

        if (fd < 0)
                return error_new(ERR_INTERNAL, "Unable to open shared memory region: '%s'", key);
        *ret = fd;
        return NULL;
}

static void close_object(int fd) {
        if (fd >= 0)
                close(fd);
}

/* Shared-memory objects are regular files. The size of anything else in their directory cannot be
 * trusted. */
static bool find_size(int fd, uint64_t *ret) {
        struct stat now;

        if (fstat(fd, &now) != 0 || !S_ISREG(now.st_mode) || now.st_size < 0)
                return false;
        *ret = (uint64_t)now.st_size;
        return true;
}

static bool is_within(uint64_t offset, uint64_t byte_size, uint64_t whole) {
        return byte_size <= whole && offset <= whole - byte_size;
}

static struct error *check_place(const struct shm_place *p, int fd) {
        uint64_t object_bytes, page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);

        if (!find_size(fd, &object_bytes))
                return error_new(ERR_INTERNAL, "Invalid shared memory region: '%s'", p->key);
        if (!is_within(p->offset, p->byte_size, object_bytes))
                return error_new(ERR_INVALID_ARG,
                                 "failed to register shared memory region '%s': invalid args",
                                 p->name);
        if (p->byte_size == 0)
                return error_new(ERR_INVALID_ARG,
                                 "failed to register shared memory region '%s': byte_size must be "
                                 "greater than 0",
                                 p->name);
        if (p->offset % page_bytes != 0)
                return error_new(ERR_INVALID_ARG,
                                 "failed to register shared memory region '%s': offset %" PRIu64
                                 " is not a multiple of the page size %" PRIu64,
                                 p->name, p->offset, page_bytes);
        return NULL;
}

static struct error *map(const struct shm_place *p, int fd, char **ret, uint32_t *ret_guard) {
        void *memory = mmap(NULL, (size_t)p->byte_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                            (off_t)p->offset);

        if (memory == MAP_FAILED)
                return error_recode(error_errno(errno,
                                                "failed to register shared memory region '%s': "
                                                "unable to process address space",
                                                p->name),
                                    ERR_INVALID_ARG);
        if (!shm_guard_add(memory, (size_t)p->byte_size, ret_guard)) {
                munmap(memory, (size_t)p->byte_size);
                return error_new(ERR_UNAVAILABLE,
                                 "cannot register shared memory region '%s': there are %d already, "
                                 "counting those that requests still use",
                                 p->name, SHM_GUARD_MAX);
        }
        *ret = memory;
        return NULL;
}

static struct error *fill_region(struct shm_region *r, const struct shm_place *p) {
        TRY(open_object(p->key, &r->fd));
        TRY(check_place(p, r->fd));
        return map(p, r->fd, &r->memory, &r->guard);
}

struct error *shm_region_open(const struct shm_place *p, struct shm_region **ret) {
        struct shm_region *r = mem_zalloc(sizeof(*r));

        ref_init(&r->refs);
        r->kind = SHARED_MEMORY_SYSTEM;
        r->fd = -1;
        r->offset = p->offset;
        r->byte_size = p->byte_size;
        TRY_OR(fill_region(r, p), shm_region_unref(r));
        r->name = mem_strdup(p->name);
        r->key = mem_strdup(p->key);
        *ret = r;
        return NULL;
}

struct error *shm_region_open_cuda(struct cuda_regions *all, const struct cuda_place *p,
                                   struct shm_region **ret) {
        struct cuda_region cuda;
        struct shm_region *r;

        TRY(cuda_region_open(all, p, &cuda));
        r = mem_zalloc(sizeof(*r));
        ref_init(&r->refs);
        r->kind = SHARED_MEMORY_CUDA;
        r->name = mem_strdup(p->name);
        r->byte_size = p->byte_size;
        r->fd = -1;
        r->cuda = cuda;
        *ret = r;
        return NULL;
}

struct shm_region *shm_region_ref(struct shm_region *r) {
        ref_get(&r->refs);
        return r;
}

static void free_region(struct shm_region *r) {
        if (r->memory != NULL) {
                shm_guard_remove(r->guard);
                munmap(r->memory, (size_t)r->byte_size);
        }
        close_object(r->fd);
        cuda_region_close(&r->cuda);
        free(r->name);
        free(r->key);
        free(r);
}

void shm_region_unref(struct shm_region *r) {
        if (r != NULL && ref_put(&r->refs))
                free_region(r);
}

static void close_later(struct work *w) {
        free_region(CONTAINER_OF(w, struct shm_region, closing));
}

void shm_region_unref_later(struct shm_region *r) {
        if (!ref_put(&r->refs))
                return;
        if (r->kind == SHARED_MEMORY_SYSTEM) {
                free_region(r);
                return;
        }
        r->closing.run = close_later;
        work_pool_push(r->cuda.of->closer, &r->closing);
}

/* ---- use ---- */

/* False when a part of the range no longer exists. The caller then returns the same error as for a
 * range that never existed. */
static bool is_there(const struct shm_region *r, uint64_t end) {
        uint64_t object_bytes;

        if (r->kind == SHARED_MEMORY_CUDA)
                return true;
        return !shm_guard_is_broken(r->guard) && find_size(r->fd, &object_bytes) &&
               is_within(r->offset, end, object_bytes);
}

struct error *shm_region_find(const struct shm_region *r, uint64_t offset, uint64_t byte_size,
                              char **ret) {
        if (offset >= r->byte_size)
                return error_new(ERR_INVALID_ARG, "Invalid offset for shared memory region: '%s'",
                                 r->name);
        if (byte_size > UINT64_MAX - offset)
                return error_new(ERR_INVALID_ARG,
                                 "Integer overflow detected: byte_size (%" PRIu64
                                 ") + offset (%" PRIu64 ") exceeds maximum value (%" PRIu64
                                 ") for region '%s'",
                                 byte_size, offset, UINT64_MAX, r->name);
        if (offset + byte_size > r->byte_size || !is_there(r, offset + byte_size))
                return error_new(ERR_INVALID_ARG,
                                 "Invalid offset + byte size for shared memory region: '%s'",
                                 r->name);
        *ret = (r->kind == SHARED_MEMORY_CUDA ? (char *)r->cuda.memory : r->memory) + offset;
        return NULL;
}

struct error *shm_region_check_intact(const struct shm_region *r) {
        if (r->kind == SHARED_MEMORY_CUDA || !shm_guard_is_broken(r->guard))
                return NULL;
        return error_new(ERR_INVALID_ARG,
                         "memory of shared memory region '%s' was missing while the request used "
                         "it: the object was truncated, or there is no memory for it",
                         r->name);
}
