/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions of shared memory for a load: one with the values of each input of all requests, one for each
 * output, which all requests share. They are objects of the system, or memory of the first GPU.
 *
 * Ownership.  load_regions_close() unregisters them, and unlinks or frees them.
 * Threads.  One, which runs no loop.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"
#include "load/load_model.h"

#include <stddef.h>
#include <stdint.h>

struct control;

struct shm_part {
        const char *region; /* owned by the area */
        uint64_t    offset, bytes;
};

struct load_regions;

enum load_memory { LOAD_MEMORY_SYSTEM, LOAD_MEMORY_CUDA };

struct load_regions *load_regions_new(const struct load_model *m, enum load_memory kind,
                                      uint64_t output_bytes);
/* Adds values of an input, which are copied. */
struct shm_part load_regions_add(struct load_regions *a, size_t input, struct str bytes);
struct shm_part load_regions_output(const struct load_regions *a, size_t output);
/* Creates and registers the regions. UNSUPPORTED when there is no GPU for them. After an error load_regions_close() removes what there is. */
struct error *load_regions_open(struct load_regions *a, struct control *c) NODISCARD;
void          load_regions_close(struct load_regions *a, struct control *c); /* NULL is fine */
