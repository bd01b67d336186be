/* SPDX-License-Identifier: BSD-3-Clause */
/* `neso ctl <command>` sends requests to a running server over HTTP. It prints the answers for
 * people, or, with --json, unchanged.
 */
#pragma once

/* Returns the exit code: 0 success, 1 the server refused, 2 wrong usage, 3 no answer. argv[0] is
 * skipped. */
int ctl_main(int argc, char **argv);
