/* SPDX-License-Identifier: BSD-3-Clause */
/* `neso check` checks the configurations of a repository. It reads them as the server would and,
 * with --load, loads each model once in a server of its own.
 */
#pragma once

/* Returns the exit code: 0 no problem, 1 problems, 2 wrong usage. argv[0] is skipped. */
int check_main(int argc, char **argv);
