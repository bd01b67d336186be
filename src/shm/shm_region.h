/* SPDX-License-Identifier: BSD-3-Clause */
/* A region of memory that a client shares with the server. There are two kinds:
 *
 * system   A mapped range of a POSIX shared-memory object. The range is fixed when the region is
 *          opened. shm_region_find() checks each access against the bounds of the region, and
 *          against the current size of the object; the descriptor stays open for that.
 *          shm_guard.h handles changes of the object after the check.
 * CUDA     Memory of a GPU (cuda_region.h). The CPU must not touch it.
 *
 * Ownership.  Counted. The registry (shared_memory.h) holds a reference while the region has a
 * name, and each request that uses the region holds one. The last unref unmaps or closes it.
 * Threads.  All functions: any. To open a CUDA region, and shm_region_unref() of one, may block for
 * milliseconds.
 */
#pragma once

#include "base/error.h"
#include "base/ref.h"
#include "base/work_pool.h"
#include "shm/cuda_region.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limit of a key with its leading slashes: a file name and one slash. */
#define SHM_REGION_MAX_KEY (NAME_MAX + 1)

enum shared_memory_kind {
        SHARED_MEMORY_SYSTEM,
        SHARED_MEMORY_CUDA,
};

struct shm_region {
        struct ref              refs;
        enum shared_memory_kind kind;
        char                   *name; /* owned */
        uint64_t                byte_size;

        /* Of a system region. */
        char    *key;    /* owned: as the client gave it */
        uint64_t offset; /* start of the range in the object */
        char    *memory; /* owned: the mapping */
        int      fd;     /* owned: the object */
        uint32_t guard;  /* owned: entry of shm_guard.h */

        struct cuda_region cuda;    /* owned: of a CUDA region */
        struct work        closing; /* for shm_region_unref_later() */
        struct shm_region *next;    /* for the registry, when it takes out several */
};

/* The range that a client asks for. Texts are borrowed. */
struct shm_place {
        const char *name;
        const char *key;
        uint64_t    offset;
        uint64_t    byte_size;
};

/* Checks a key before the object is opened. INVALID_ARG names region and key. */
struct error *shm_region_check_key(const char *name, const char *key) NODISCARD;

/* Requires a checked key. INTERNAL when there is no such object. INVALID_ARG when the range is
 * outside of the object, is empty, or does not start at a page. UNAVAILABLE when there are too many
 * regions. */
struct error *shm_region_open(const struct shm_place *place, struct shm_region **ret) NODISCARD;

/* The errors are those of cuda_region_open(). */
struct error *shm_region_open_cuda(struct cuda_regions *all, const struct cuda_place *place,
                                   struct shm_region **ret) NODISCARD;

struct shm_region *shm_region_ref(struct shm_region *r);
void               shm_region_unref(struct shm_region *r); /* NULL is fine */
/* For a thread that must not block: another one closes a CUDA region. */
void shm_region_unref_later(struct shm_region *r);

/* Returns the memory of a range of the region, when it is within the bounds and still exists. */
struct error *shm_region_find(const struct shm_region *r, uint64_t offset, uint64_t byte_size,
                              char **ret) NODISCARD;

/* Returns an error when memory of the region was missing during a use. */
struct error *shm_region_check_intact(const struct shm_region *r) NODISCARD;
