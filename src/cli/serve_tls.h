/* SPDX-License-Identifier: BSD-3-Clause */
/* The certificates of `neso serve`: what each service shows, and of whom it wants one.
 *
 * Ownership.  Embedded in the server's own struct; the services outlive no context.
 * Threads.  The main thread; services use the contexts from their loops.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>

struct cli_options;
struct tls_context;

/* NULL: that service is plain. */
struct serve_tls {
        struct tls_context *http;
        struct tls_context *grpc;
        struct tls_context *metrics;
};

/* Reads the files, so that a bad one ends the start before models are loaded. */
struct error *serve_tls_prepare(struct serve_tls *t, const struct cli_options *o) NODISCARD;
/* Reads them again; what cannot be read is logged, and that service goes on with what it has. */
void          serve_tls_reload(struct serve_tls *t);
void          serve_tls_done(struct serve_tls *t);
