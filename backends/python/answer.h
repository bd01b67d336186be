/* SPDX-License-Identifier: BSD-3-Clause */
/* A struct shm_answer of the stub as a response of the server.
 *
 * Everything is copied before it is checked, since the stub may change it meanwhile. What does not
 * fit marks the region as broken: the stub is then ended as if it had crashed.
 *
 * Threads.  The reader's.
 */
#pragma once

#include "python/region.h"
#include "kit/model.h"

/* A block of the stub that was checked to lie in its area. */
struct answer_source {
        struct region *region;
        uint32_t       block;
        uint32_t       n_bytes;
};

/* False, and the region broken, when [at, at + n) is not in the block. */
bool answer_copy(const struct answer_source *source, uint32_t at, void *to, size_t n_bytes);
/* A copy with a NUL at its end, free() ends it; NULL and the region broken as above. */
char *answer_copy_text(const struct answer_source *source, struct shm_text text);

/* Writes a struct shm_log, a line of the model's, to the server's log. */
void answer_write_log(const struct answer_source *source);

struct answer_wanted {
        const struct kit_tensor *outputs; /* of the configuration */
        uint32_t                 n_outputs;
        TRITONBACKEND_Request   *request; /* NULL: released, then each output is sent */
};

/* Fills `response` from the record at `at`. *ret_error is the error that the model answers with, for
 * the caller to delete, or NULL. The result is what went wrong here. */
TRITONSERVER_Error *answer_fill(const struct answer_source *source, uint32_t at,
                                const struct answer_wanted *wanted,
                                TRITONBACKEND_Response *response, TRITONSERVER_Error **ret_error);
