/* SPDX-License-Identifier: BSD-3-Clause */
/* GPUs on the stand-in of CUDA's driver (tests/gpu), for the suites of src/gpu: three devices, of which the
 * third one has compute capability 5.2.
 *
 * Ownership.  fake_gpus_open() gives what fake_gpus_close() ends, which checks that nothing is left on the
 * devices. Threads.  One. */
#pragma once

#include "fake_cuda.h"
#include "gpu/gpu.h"

#include <stdbool.h>

struct fake_gpus {
        struct gpus *gpus;
#define FAKE_FIELD(result, name, parameters) result(*name) parameters;
        FAKE_CUDA_FUNCTIONS(FAKE_FIELD)
#undef FAKE_FIELD
        /* The driver itself, for what a client or a backend does. */
#define CUDA_FIELD(name, parameters) cu_result(*name) parameters;
        CUDA_FUNCTIONS(CUDA_FIELD)
#undef CUDA_FIELD
};

/* The devices of compute capability 6 and more, with small pools. */
struct gpus_options fake_gpus_options(void);
/* Settings of an earlier test are gone. */
void fake_gpus_find(struct fake_gpus *f);
void fake_gpus_open(struct fake_gpus *f, const struct gpus_options *options);
void fake_gpus_close(struct fake_gpus *f);

/* What is live in the driver now. */
struct fake_cuda_counts fake_gpus_count(const struct fake_gpus *f);

/* The error's code, and a part of its message; frees it. */
void assert_gpu_error(struct error *err, enum error_code code, const char *part);
/* No context is current on this thread. */
void assert_no_context(const struct fake_gpus *f);

/* Copies between a device and the host by gpu.h. */
void put_bytes(struct gpus *g, int device, void *to, const void *from, size_t bytes);
void get_bytes(struct gpus *g, int device, void *to, const void *from, size_t bytes);
/* Fills with bytes that depend on the place and the seed. */
void fill_bytes(void *memory, size_t bytes, unsigned seed);
