/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared memory extensions: the registry of the regions that clients have registered, by name.
 *
 * All protocols share one registry, and regions of system and of CUDA shared memory share the names
 * in it. A name is free again as soon as its region is unregistered. The memory is unmapped or
 * closed when the last request that uses it has ended.
 *
 * Without GPUs there are no CUDA regions. Clients may always read the registry; they may change it
 * when the operator allows that.
 *
 * Ownership.  The server's program owns the registry and frees it when no front end runs. Regions
 * are counted (shm_region.h). NULL stands for a registry that is empty and cannot be changed; it is
 * what a server has whose operator does not allow changes.
 * Threads.  All functions but new and free: any. To register or unregister CUDA regions may block
 * for as long as the driver needs.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "shm/shm_region.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limit of a region name. With the limit of regions it bounds the size of a list. */
#define SHARED_MEMORY_MAX_NAME 4096

struct shared_memory;

/* Also installs the handler of SIGBUS (shm_guard.h). `gpus` is borrowed; NULL: without GPUs. */
struct error *shared_memory_new(struct gpus *gpus, struct shared_memory **ret) NODISCARD;
void          shared_memory_free(struct shared_memory *m); /* NULL is fine; no region is in use */
/* The part of each GPU's memory, 0 to 1, that CUDA regions may keep open; CUDA_REGION_MEMORY until then. To be
 * called before the first region. */
void shared_memory_limit_gpus(struct shared_memory *m, double part);

/* UNSUPPORTED unless clients may register and unregister regions. */
struct error *shared_memory_check_change(const struct shared_memory *m) NODISCARD;

/* May be called only after shared_memory_check_change() has succeeded. */
struct error *shared_memory_register(struct shared_memory *m, const struct shm_place *place)
        NODISCARD;
/* True when there are GPUs, so that regions of CUDA can be registered. */
bool shared_memory_has_gpus(const struct shared_memory *m);
/* INVALID_ARG "failed to register CUDA shared memory region: '<name>', GPUs not supported" unless
 * there are GPUs. */
struct error *shared_memory_check_gpus(const struct shared_memory *m, const char *name) NODISCARD;
/* May be called only after shared_memory_check_gpus() has succeeded. */
struct error *shared_memory_register_cuda(struct shared_memory *m, const struct cuda_place *place)
        NODISCARD;
/* UNSUPPORTED when clients may change nothing. Otherwise unregisters the region of that name and
 * kind, or with "" all regions of the kind. Does nothing when there is no such region. */
struct error *shared_memory_unregister(struct shared_memory *m, enum shared_memory_kind kind,
                                       struct str name) NODISCARD;

/* Returns a new reference to the region of that name; NOT_FOUND. */
struct error *shared_memory_take(struct shared_memory *m, const char *name, struct shm_region **ret)
        NODISCARD;

/* True when there is a CUDA region of that name. */
bool shared_memory_has_cuda(struct shared_memory *m, const char *name);

/* One region in a list. Texts are in the arena. */
struct shared_memory_entry {
        const char *name;
        uint64_t    byte_size;
        const char *key; /* of a system region, and what follows */
        uint64_t    offset;
        uint64_t    device; /* of a CUDA region */
};

/* Lists all regions of a kind, sorted by name. With a name that is not "" it lists only that
 * region, or returns NOT_FOUND. */
struct error *shared_memory_list(struct shared_memory *m, enum shared_memory_kind kind,
                                 struct str name, struct arena *arena,
                                 struct shared_memory_entry **ret, size_t *ret_n) NODISCARD;
