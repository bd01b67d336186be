/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints records as the body of an OTLP/HTTP export (OpenTelemetry protocol 1.x, JSON encoding).
 *
 * A record becomes a tree of spans:
 *
 *     InferRequest                     server; child of the client's span when it sent one
 *       <model>                        REQUEST_START to REQUEST_END
 *         compute                      COMPUTE_START to COMPUTE_END
 *         <name>                       a backend's own <name>_START to <name>_END
 *         <model> ...                  an inference made on behalf of this one
 *
 * Every point in time is an event of the span in which it happens.
 *
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/strbuf.h"

#include <stddef.h>

struct trace_record;

struct otlp_resource {
        const char *const *attributes; /* "key=value" */
        size_t             n_attributes;
};

/* Prints the records that `next` links, and returns the number of spans. */
size_t otlp_json_print(const struct otlp_resource *resource, const struct trace_record *first,
                       struct strbuf *out);
