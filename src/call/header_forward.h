/* SPDX-License-Identifier: BSD-3-Clause */
/* Header fields (HTTP) and metadata (gRPC) that the server forwards to the backend as request
 * parameters (--http-header-forward-pattern, --grpc-header-forward-pattern).
 *
 * The pattern is a POSIX extended regular expression. A field is forwarded when the pattern matches
 * any part of its name, in upper or lower case.
 *
 * Ownership.  header_forward_done() frees what header_forward_init() makes.
 * Threads.  Constant after init; any thread.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "call/infer_message.h"

#include <regex.h>
#include <stdbool.h>

struct header_forward {
        regex_t pattern; /* owned, when has_pattern */
        bool    has_pattern;
};

/* "" or NULL forwards nothing. INVALID_ARG names the pattern and its mistake. */
struct error *header_forward_init(struct header_forward *f, const char *pattern) NODISCARD;
void          header_forward_done(struct header_forward *f);

/* Adds a string parameter with the name and the value of the field, when the pattern matches the
 * name. */
struct error *header_forward_add(const struct header_forward *f, struct str name, struct str value,
                                 struct arena *arena, struct infer_request *q) NODISCARD;
