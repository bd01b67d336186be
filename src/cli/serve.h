/* SPDX-License-Identifier: BSD-3-Clause */
/* `neso serve`: the life of the server, from the options to the exit code.
 *
 * The start goes through options, core (which loads models), gRPC, HTTP and metrics. Then the main
 * thread waits for a signal. At the stop, the core first refuses new requests, so that readiness
 * answers 503 while the ports are still open; requests in flight end or the exit timeout passes;
 * then the ports close.
 */
#pragma once

#include "base/compiler.h"

struct cli_options;
struct error;

/* Checks options as a start does, up to the files that they name: it opens neither those nor a port,
 * nor is there a server. The log gets the levels of the options. */
struct error *serve_check(const struct cli_options *o) NODISCARD;

/* Returns the exit code of the process. argv[0] is skipped. */
int serve_main(int argc, char **argv);
