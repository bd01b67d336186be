/* SPDX-License-Identifier: BSD-3-Clause */
/* Header fields (HTTP) and metadata (gRPC) that travel to the backend as request parameters
 * (--http-header-forward-pattern, --grpc-header-forward-pattern): those whose name the pattern
 * matches, anywhere in it and ignoring case.
 *
 * The pattern is a POSIX extended regular expression.
 *
 * Ownership.  header_forward_done() frees what init made.
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

/* "" or NULL forwards nothing. INVALID_ARG names the pattern and what is wrong with it. */
struct error *header_forward_init(struct header_forward *f, const char *pattern) NODISCARD;
void          header_forward_done(struct header_forward *f);

/* Adds a string parameter, named and valued as the field, if the pattern matches its name. */
struct error *header_forward_add(const struct header_forward *f, struct str name, struct str value,
                                 struct arena *arena, struct infer_request *q) NODISCARD;
