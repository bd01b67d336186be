/* SPDX-License-Identifier: BSD-3-Clause */
/* A mapped range of a client's POSIX shared-memory object.
 *
 * The range is fixed when the region is opened. shm_region_find() checks each access against the
 * bounds of the region, and against the current size of the object; the descriptor stays open for
 * that. shm_guard.h handles changes of the object after the check.
 *
 * Ownership.  Counted. The registry (shared_memory.h) holds a reference while the region has a
 * name, and each request that uses the region holds one. The last unref unmaps it.
 * Threads.  All functions: any.
 */
#pragma once

#include "base/error.h"
#include "base/ref.h"
#include "base/str.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limit of a key with its leading slashes: a file name and one slash. */
#define SHM_REGION_MAX_KEY (NAME_MAX + 1)

struct shm_region {
        struct ref refs;
        char      *name;   /* owned */
        char      *key;    /* owned: as the client gave it */
        uint64_t   offset; /* start of the range in the object */
        uint64_t   byte_size;
        char      *memory; /* owned: the mapping */
        int        fd;     /* owned: the object */
        uint32_t   guard;  /* owned: entry of shm_guard.h */
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

struct shm_region *shm_region_ref(struct shm_region *r);
void               shm_region_unref(struct shm_region *r); /* NULL is fine */

/* Returns the memory of a range of the region, when it is within the bounds and still exists. */
struct error *shm_region_find(const struct shm_region *r, uint64_t offset, uint64_t byte_size,
                              char **ret) NODISCARD;

/* Returns an error when memory of the region was missing during a use. */
struct error *shm_region_check_intact(const struct shm_region *r) NODISCARD;
