/* SPDX-License-Identifier: BSD-3-Clause */
/* `neso check`: are the configurations of a repository right? Reads them as the server would and,
 * with --load, loads each model once in a server of its own.
 */
#pragma once

/* The exit code: 0 nothing is wrong, 1 something is, 2 wrong usage. argv[0] is skipped. */
int check_main(int argc, char **argv);
