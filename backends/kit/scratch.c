/* SPDX-License-Identifier: BSD-3-Clause */
#include "kit/scratch.h"

#include <stdlib.h>

/* A cache line, and the widest vector loads of today's processors. */
#define SCRATCH_ALIGNMENT 64

/* Small growth steps would reallocate at each slightly larger batch. */
#define SCRATCH_STEP 4096

void *kit_scratch_reserve(struct kit_scratch *scratch, size_t n_bytes) {
        size_t wanted;

        if (scratch->bytes != NULL && n_bytes <= scratch->n_bytes)
                return scratch->bytes;
        if (!kit_size_add(n_bytes, SCRATCH_STEP, &wanted))
                return NULL;
        wanted -= wanted % SCRATCH_STEP;
        kit_scratch_done(scratch);
        scratch->bytes = aligned_alloc(SCRATCH_ALIGNMENT, wanted);
        if (scratch->bytes != NULL)
                scratch->n_bytes = wanted;
        return scratch->bytes;
}

void kit_scratch_done(struct kit_scratch *scratch) {
        free(scratch->bytes);
        scratch->bytes = NULL;
        scratch->n_bytes = 0;
}

void *kit_alloc_array(size_t n, size_t size) {
        return calloc(n > 0 ? n : 1, size > 0 ? size : 1);
}
