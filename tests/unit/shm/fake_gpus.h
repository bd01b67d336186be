/* SPDX-License-Identifier: BSD-3-Clause */
/* GPUs of the tests' own in place of those of src/gpu: as many of its functions as the front end uses.
 * There are the devices 0 and 1, and some allocations of a client, which the CPU cannot touch except by
 * a copy.
 */
#pragma once

#include "gpu/gpu.h"

#include <stdbool.h>
#include <stddef.h>

#define FAKE_GPU_BYTES 8192 /* of each allocation */
#define FAKE_N_ALLOCATIONS 3
#define FAKE_GPU_TOTAL_BYTES (1 << 20) /* of a device */

struct gpus {
        char            *memory[FAKE_N_ALLOCATIONS];
        _Atomic unsigned n_open[FAKE_N_ALLOCATIONS];
        _Atomic unsigned n_opened; /* so far */
        bool             is_lost;  /* the device cannot be used */
        bool             fails_to_copy;
};

/* The i-th byte of each allocation is i % 251. */
void fake_gpus_open(struct gpus *g);
void fake_gpus_close(struct gpus *g); /* all is closed */
/* The handle of an allocation. */
void     fake_gpus_handle(size_t allocation, unsigned char ret[GPU_SHARE_BYTES]);
unsigned fake_gpus_n_open(const struct gpus *g);
