/* SPDX-License-Identifier: BSD-3-Clause */
/* Values of gRPC's header fields: the status that a call ends with (a code, and a message that is
 * percent-encoded on the wire), and the timeout that a client sets.
 */
#pragma once

#include "auth/access.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

/* Status codes of the gRPC protocol. */
enum grpc_code {
        GRPC_OK = 0,
        GRPC_CANCELLED = 1,
        GRPC_UNKNOWN = 2,
        GRPC_INVALID_ARGUMENT = 3,
        GRPC_DEADLINE_EXCEEDED = 4,
        GRPC_NOT_FOUND = 5,
        GRPC_ALREADY_EXISTS = 6,
        GRPC_PERMISSION_DENIED = 7,
        GRPC_RESOURCE_EXHAUSTED = 8,
        GRPC_FAILED_PRECONDITION = 9,
        GRPC_ABORTED = 10,
        GRPC_OUT_OF_RANGE = 11,
        GRPC_UNIMPLEMENTED = 12,
        GRPC_INTERNAL = 13,
        GRPC_UNAVAILABLE = 14,
        GRPC_DATA_LOSS = 15,
        GRPC_UNAUTHENTICATED = 16,
        N_GRPC_CODES,
};

/* Limit of an encoded message: clients refuse trailers beyond 8 KiB by default, and then lose the status
 * together with its message. */
#define GRPC_MAX_MESSAGE_TEXT 7000

/* "0" .. "16". */
struct str     grpc_code_digits(enum grpc_code code);
enum grpc_code grpc_code_of_error(enum error_code code);
enum grpc_code grpc_code_of_access(enum access_verdict verdict);

/* Percent-encodes a message ("PROTOCOL-HTTP2, Status-Message"): the characters from space to tilde except
 * "%" are not encoded. Cuts it between characters where it would become too long. Returns `text` itself when
 * nothing changes. */
struct str grpc_message_encode(struct arena *a, struct str text);

/* Reads the value of grpc-timeout, "100m" or "5S": at most eight digits and one of the units H M S m u n
 * ("PROTOCOL-HTTP2, Timeout"). False for anything else. */
bool grpc_timeout_decode(struct str text, uint64_t *ret_ns);
