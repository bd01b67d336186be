/* SPDX-License-Identifier: BSD-3-Clause */
/* The certificates of `neso serve`: the certificate that each service presents, and the authorities
 * of the client certificates that it requires.
 *
 * Ownership.  Embedded in struct serve; no service outlives its context.
 * Threads.  The main thread; services use the contexts from their loops.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>

struct cli_options;
struct tls_context;

/* NULL: the service does not use TLS. */
struct serve_tls {
        struct tls_context *http;
        struct tls_context *grpc;
        struct tls_context *metrics;
};

/* Reads the files before models are loaded, so that a bad file ends the start early. */
struct error *serve_tls_prepare(struct serve_tls *t, const struct cli_options *o) NODISCARD;
/* Reads the files again. A failure is logged, and the service keeps its certificates. */
void serve_tls_reload(struct serve_tls *t);
void serve_tls_done(struct serve_tls *t);
