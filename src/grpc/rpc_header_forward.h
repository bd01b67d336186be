/* SPDX-License-Identifier: BSD-3-Clause */
/* Metadata that travels to the backend as request parameters (--grpc-header-forward-pattern):
 * entries whose name the pattern matches, anywhere in it and ignoring case.
 *
 * The pattern is a POSIX extended regular expression.
 *
 * Ownership.  rpc_header_forward_done() frees what init made.
 * Threads.  Constant after init; any thread.
 */
#pragma once

#include "base/error.h"
#include "frontend/infer_message.h"
#include "grpc/grpc_call.h"

#include <regex.h>

struct rpc_header_forward {
        regex_t pattern; /* owned, when has_pattern */
        bool    has_pattern;
};

/* "" or NULL forwards nothing. INVALID_ARG names the pattern and what is wrong with it. */
struct error *rpc_header_forward_init(struct rpc_header_forward *f, const char *pattern) NODISCARD;
void          rpc_header_forward_done(struct rpc_header_forward *f);

/* Adds a string parameter for each matching entry of the call's metadata. */
struct error *rpc_header_forward_add(const struct rpc_header_forward *f,
                                     const struct grpc_call *call, struct arena *arena,
                                     struct infer_request *q) NODISCARD;
