/* SPDX-License-Identifier: BSD-3-Clause */
/* How many files the process may have open: each connection is one, and each region of shared
 * memory. Systems begin with a soft limit of 1024, for the sake of programs that use select(), and
 * let every process raise it up to the hard one.
 *
 * It is raised as far as the options allow connections and regions, not to a hard limit that may be
 * a thousand million: some libraries' time goes with it.
 *
 * Threads.  The main thread, before there are others.
 */
#pragma once

#include "cli/cli_options.h"

#include <stdint.h>

/* Connections and regions that the options allow, and what models, backends and logs may take. */
uint64_t open_files_needed(const struct cli_options *o);

/* Raises the soft limit to `wanted`, or as far as the hard one allows; never lowers it. What it is
 * then. */
uint64_t open_files_raise(uint64_t wanted);
