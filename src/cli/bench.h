/* SPDX-License-Identifier: BSD-3-Clause */
/* `neso bench`: sends a load to a running server and reports rates and latencies.
 */
#pragma once

/* Returns the exit code: 0 measured, 1 not measured, 2 wrong usage, 3 no answer from the server, 4 --fail-if.
 * argv[0] is skipped. */
int bench_main(int argc, char **argv);
