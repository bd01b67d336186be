/* SPDX-License-Identifier: BSD-3-Clause */
/* Header fields that travel to the backend as request parameters
 * (--http-header-forward-pattern): those whose name the pattern matches, anywhere in it and
 * ignoring case.
 *
 * The pattern is a POSIX extended regular expression.
 *
 * Ownership.  http_header_forward_done() frees what init made.
 * Threads.  Constant after init; any thread.
 */
#pragma once

#include "frontend/infer_message.h"
#include "http/http_call.h"

#include <regex.h>

struct http_header_forward {
        regex_t pattern; /* owned, when has_pattern */
        bool    has_pattern;
};

/* "" or NULL forwards nothing. INVALID_ARG names the pattern and what is wrong with it. */
struct error *http_header_forward_init(struct http_header_forward *f, const char *pattern)
        NODISCARD;
void http_header_forward_done(struct http_header_forward *f);

/* Adds a string parameter for each matching field, named and valued as the field. */
struct error *http_header_forward_add(const struct http_header_forward *f,
                                      const struct http_header *headers, size_t n_headers,
                                      struct arena *arena, struct infer_request *q) NODISCARD;
