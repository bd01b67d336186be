/* SPDX-License-Identifier: BSD-3-Clause */
/* Parameters of a load that stand for parameters of the configuration: next, next_map, chain_batching,
 * chain_allow_end, chain_autoload. They become a configuration override, and hold as long as one.
 *
 * Threads.  Pure functions.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct repo_parts;

struct load_parameter {
        const char *name;  /* of the configuration's parameter */
        const char *value; /* "" takes it away */
};

/* Is it the name of one? */
bool load_parameter_is_known(const char *name);

/* The configuration `config_json`, or (NULL) the one in the directory, with these parameters, as JSON
 * that the caller owns. */
struct error *load_parameters_apply(const struct repo_parts *parts, const char *directory,
                                    const char                  *config_json,
                                    const struct load_parameter *parameters, size_t n, char **ret)
        NODISCARD;
