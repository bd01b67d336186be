/* SPDX-License-Identifier: BSD-3-Clause */
/* What a load generator reads of the answers of ModelInfer and ModelStreamInfer, from their wire format.
 *
 * Ownership.  Results are ranges of the message.
 * Threads.  Any.
 */
#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct grpc_answer {
        struct str error;    /* of a stream; empty: none */
        struct str response; /* the ModelInferResponse */
        bool       is_final; /* the parameter triton_final_response */
        bool       is_empty; /* it has no outputs */
};

/* Reads a ModelStreamInferResponse; false when it cannot be decoded. */
bool grpc_stream_answer_read(struct str message, struct grpc_answer *ret);

/* An output of a ModelInferResponse. */
struct grpc_output {
        struct str name, datatype;
        struct str bytes;  /* of raw_output_contents; ptr NULL: none */
        struct str region; /* shared memory; empty: none */
};

/* Calls `on_output` for each output until it returns false. False when the message cannot be decoded. */
bool grpc_outputs_read(struct str response,
                       bool (*on_output)(void *owner, const struct grpc_output *o), void *owner);
