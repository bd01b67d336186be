/* SPDX-License-Identifier: BSD-3-Clause */
/* `neso ctl <command>`: asks a running server over HTTP, and prints what it says for people, or, with
 * --json, as it came.
 */
#pragma once

/* The exit code: 0 done, 1 the server said no, 2 wrong usage, 3 no answer. argv[0] is skipped. */
int ctl_main(int argc, char **argv);
