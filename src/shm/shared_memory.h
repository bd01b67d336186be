/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared memory extensions: the regions that clients have registered, by name.
 *
 * There is one registry for all protocols. A name is free again as soon as its region is
 * unregistered; the memory goes when the last request that uses it is over.
 *
 * This build has no GPUs: there are no CUDA regions, and their names are those of nobody. Reading
 * the registry is always allowed, changing it is if the operator said so.
 *
 * Ownership.  The server's program owns the registry and frees it when no front end runs. Regions
 * are counted (shm_region.h). NULL stands for a registry that is empty and may not be changed:
 * there is one only if the operator allows it.
 * Threads.  All functions but new and free: any.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "shm/shm_region.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Names of regions are no longer; with the number of regions that bounds what a list takes. */
#define SHARED_MEMORY_MAX_NAME 4096

struct shared_memory;

enum shared_memory_kind {
        SHARED_MEMORY_SYSTEM,
        SHARED_MEMORY_CUDA,
};

/* Also handles SIGBUS from here on: shm_guard.h. */
struct error *shared_memory_new(struct shared_memory **ret) NODISCARD;
void          shared_memory_free(struct shared_memory *m); /* NULL is fine; no region is in use */

/* UNSUPPORTED unless clients may register regions. */
struct error *shared_memory_check_change(const struct shared_memory *m) NODISCARD;

/* Allowed only after the check. */
struct error *shared_memory_register(struct shared_memory *m, const struct shm_place *place)
        NODISCARD;
/* UNSUPPORTED as above; otherwise the region of that name goes, or with "" all of the kind. Nothing
 * when there is none. */
struct error *shared_memory_unregister(struct shared_memory *m, enum shared_memory_kind kind,
                                       struct str name) NODISCARD;
struct error *shared_memory_refuse_cuda(const char *name) NODISCARD;

/* The region of that name, a reference; NOT_FOUND. */
struct error *shared_memory_take(struct shared_memory *m, const char *name, struct shm_region **ret)
        NODISCARD;

/* What there is to tell of a region. In arena. */
struct shared_memory_entry {
        const char *name;
        const char *key;
        uint64_t    offset;
        uint64_t    byte_size;
};

/* All regions of a kind, by name; or, unless it is "", the one of that name: NOT_FOUND. */
struct error *shared_memory_list(struct shared_memory *m, enum shared_memory_kind kind,
                                 struct str name, struct arena *arena,
                                 struct shared_memory_entry **ret, size_t *ret_n) NODISCARD;
