/* SPDX-License-Identifier: BSD-3-Clause */
/* `neso tune`: finds the configuration of a model that serves a load best, on a running server.
 */
#pragma once

/* Returns the exit code: 0 found, 1 not measured or not restored, 2 wrong usage, 3 no answer from the server.
 * argv[0] is skipped. */
int tune_main(int argc, char **argv);
