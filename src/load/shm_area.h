/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions of system shared memory for a load: one with the values of each input of all requests, one for each
 * output, which all requests share.
 *
 * Ownership.  shm_area_close() unregisters and unlinks them.
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

struct shm_area;

struct shm_area *shm_area_new(const struct load_model *m, uint64_t output_bytes);
/* Adds values of an input, which are copied. */
struct shm_part shm_area_add(struct shm_area *a, size_t input, struct str bytes);
struct shm_part shm_area_output(const struct shm_area *a, size_t output);
/* Creates and registers the regions. After an error shm_area_close() removes what there is. */
struct error *shm_area_open(struct shm_area *a, struct control *c) NODISCARD;
void          shm_area_close(struct shm_area *a, struct control *c); /* NULL is fine */
