/* SPDX-License-Identifier: BSD-3-Clause */
/* `neso serve`: the server's life from options to exit code.
 *
 * Order: options, core (models load), HTTP, metrics; then it waits for a signal. Stopping is the
 * reverse in effect: the core refuses new requests, so that readiness answers 503 while the ports
 * are still open; requests in flight end or the exit timeout passes; then the ports close.
 */
#pragma once

/* The process's exit code. argv[0] is skipped. */
int serve_main(int argc, char **argv);
