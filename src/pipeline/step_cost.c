/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/step_cost.h"

#include "infer/inner_request.h"
#include "infer/model.h"
#include "infer/request_memory.h"

/* The job of a decoupled backend, its factory, a window of responses, and what malloc() adds to each. */
#define BESIDE_BYTES 512
#define SHAPE_BYTES 64         /* of an output; longer ones are rare */
#define NAME_BYTES 32          /* of a requested output; one that requests all outputs has none */
#define SMALL_BUFFER_BYTES 144 /* the head of a buffer, and the room up to its alignment */
#define BLOCK_BYTES 4096       /* the first block of an arena; later ones double */

/* Blocks that an arena needs beyond its first memory. */
static size_t blocks_of(size_t bytes, size_t first_bytes) {
        size_t n = BLOCK_BYTES;

        if (bytes <= first_bytes)
                return 0;
        while (n < bytes - first_bytes)
                n = 2 * n + BLOCK_BYTES;
        return n;
}

static size_t outputs_of(uint32_t n) {
        return n * (sizeof(struct response_output) + SHAPE_BYTES);
}

static size_t response_blocks(uint32_t n_outputs) {
        return blocks_of(outputs_of(n_outputs), sizeof(((struct response *)NULL)->first_memory));
}

size_t step_cost_request(const struct model *model) {
        uint32_t n_in = model->io->n_inputs, n_out = model->io->n_outputs;
        size_t   n_bytes = sizeof(struct inner_request) + n_in * sizeof(struct request_input) +
                         (MAX(n_out, 1u) - 1) * (sizeof(struct requested_output) + NAME_BYTES);

        return sizeof(struct request_memory) + BESIDE_BYTES +
               blocks_of(n_bytes, sizeof(((struct request *)NULL)->first_memory)) +
               response_blocks(n_out) + n_out * SMALL_BUFFER_BYTES;
}

size_t step_cost_response(uint32_t n_outputs) {
        return sizeof(struct response) + response_blocks(n_outputs) +
               n_outputs * SMALL_BUFFER_BYTES;
}
