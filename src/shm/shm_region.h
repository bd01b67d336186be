/* SPDX-License-Identifier: BSD-3-Clause */
/* A piece of a client's POSIX shared-memory object, mapped.
 *
 * The piece and its bounds are fixed when it is opened. Who asks for a range of it is checked
 * against these, and against the size that the object has at that moment, which is why the
 * descriptor stays open; what happens to the object afterwards is shm_guard's business.
 *
 * Ownership.  Counted: by the registry (shared_memory.h) while it has a name, and by each request
 * that uses it. The last one unmaps it.
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

/* Most bytes of a key, leading slashes included: a file name and one slash. */
#define SHM_REGION_MAX_KEY (NAME_MAX + 1)

struct shm_region {
        struct ref refs;
        char      *name;   /* owned */
        char      *key;    /* owned: as the client gave it */
        uint64_t   offset; /* in the object */
        uint64_t   byte_size;
        char      *memory; /* owned: the mapping */
        int        fd;     /* owned: of the object */
        uint32_t   guard;  /* owned: entry of shm_guard.h */
};

/* What a client names; texts are borrowed. */
struct shm_place {
        const char *name;
        const char *key;
        uint64_t    offset;
        uint64_t    byte_size;
};

/* What can be told of a key before the object is looked for: INVALID_ARG, naming region and key. */
struct error *shm_region_check_key(const char *name, const char *key) NODISCARD;

/* The key has been checked. INTERNAL when there is no such object; INVALID_ARG when the place is
 * not within it, is empty, or does not begin at a page; UNAVAILABLE when there are too many. */
struct error *shm_region_open(const struct shm_place *place, struct shm_region **ret) NODISCARD;

struct shm_region *shm_region_ref(struct shm_region *r);
void               shm_region_unref(struct shm_region *r); /* NULL is fine */

/* The memory of a range of the region, if it is in its bounds and there now. */
struct error *shm_region_find(const struct shm_region *r, uint64_t offset, uint64_t byte_size,
                              char **ret) NODISCARD;

/* An error when memory of it was missing while somebody used it. */
struct error *shm_region_check_intact(const struct shm_region *r) NODISCARD;
