/* SPDX-License-Identifier: BSD-3-Clause */
/* The handler of SIGFPE: keeps the server alive when a model divides integers by zero.
 *
 * The divisor may be a value that a client sent, and the runtime does not check it. On x86-64 the
 * processor raises a fault, which would end the server and all of its models. The handler gives the
 * division the result that numpy has, and skips it: 0 and the remainder 0 for a divisor of 0, and for the
 * least number divided by -1 that number again, with the remainder 0. The runtime's vector code, which
 * raises no fault, has other results: such a result means nothing. On other processors there is no
 * fault, and this does nothing.
 *
 * A fault elsewhere than in the code of the runtime is forwarded to the previous handler; without one it
 * ends the process.
 *
 * Ownership.  The handler is state of the process. Each start needs a stop; the last stop restores the
 * previous handler.
 * Threads.  Any. The handler takes no lock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Begins to watch the code of the library in which `code` lies. That library stays loaded. */
void division_guard_start(const void *code);
void division_guard_stop(void);

/* Divisions that had no result so far. */
uint64_t division_guard_count(void);
/* True once, after the first of them, for a line of the log. */
bool division_guard_take_first(void);

#ifdef __cplusplus
}
#endif
