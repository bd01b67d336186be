/* SPDX-License-Identifier: BSD-3-Clause */
/* Conversion of the stub's records: a struct shm_answer to a response of the server, a struct
 * shm_log to a log line.
 *
 * Everything is copied before it is checked, since the stub may change it at any time. An invalid
 * record marks the region as broken: the stub is then ended as if it had crashed.
 *
 * Threads.  The reader's.
 */
#pragma once

#include "kit/model.h"
#include "python/python_instance.h"
#include "python/region.h"

/* A block of the stub, checked to be within its area. */
struct answer_source {
        struct region   *region;
        uint32_t         block;
        uint32_t         n_bytes;
        struct instance *instance; /* NULL: the block has no tensors */
};

/* Returns false, and marks the region as broken, when [at, at + n) is not in the block. */
bool answer_copy(const struct answer_source *source, uint32_t at, void *to, size_t n_bytes);
/* Returns a copy with a NUL at its end, which the caller frees; NULL, with the region marked as
 * broken, when the text is not in the block, and NULL when memory is short. */
char *answer_copy_text(const struct answer_source *source, struct shm_text text);

/* Writes a struct shm_log, a line of the model, to the server's log. */
void answer_write_log(const struct answer_source *source);

struct answer_wanted {
        const struct kit_tensor *outputs; /* of the configuration */
        uint32_t                 n_outputs;
        TRITONBACKEND_Request   *request; /* NULL: the request was released; then each output is
                                           * sent */
};

/* Fills `response` from the record at `at`. *ret_error is the error that the model answers with,
 * which the caller deletes, or NULL. The returned error is a failure of this backend. */
TRITONSERVER_Error *answer_fill(const struct answer_source *source, uint32_t at,
                                const struct answer_wanted *wanted,
                                TRITONBACKEND_Response *response, TRITONSERVER_Error **ret_error);
