/* SPDX-License-Identifier: BSD-3-Clause */
/* Parameters of a load beside `config` and files: those of chains, which are ours.
 *
 * Threads.  Pure functions.
 */
#pragma once

#include "base/str.h"

#include <stdbool.h>

/* next, next_map, chain_batching, chain_allow_end, chain_autoload: a string; the last two may be a
 * boolean as well. */
bool load_parameter_is_of_chain(struct str name);
