/* SPDX-License-Identifier: BSD-3-Clause */
/* The limit of open files of the process. Each connection and each region of shared memory is one
 * open file. Systems start programs with a soft limit of 1024, for those that use select(), and
 * every process may raise it up to the hard limit.
 *
 * The soft limit is raised as far as the options allow connections and regions, and not to the hard
 * limit, which may be a thousand million: some libraries need time in proportion to it.
 *
 * Threads.  The main thread, before it starts others.
 */
#pragma once

#include "cli/cli_options.h"

#include <stdint.h>

/* Returns the number of connections and regions that the options allow, plus an allowance for
 * models, backends and logs. */
uint64_t open_files_needed(const struct cli_options *o);

/* Raises the soft limit to `wanted`, or to the hard limit when that is lower; never lowers it.
 * Returns the resulting limit. */
uint64_t open_files_raise(uint64_t wanted);
