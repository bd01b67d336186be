/* SPDX-License-Identifier: BSD-3-Clause */
/* Parameters of a load that replace parameters of the configuration: next, next_map,
 * chain_batching, chain_allow_end, chain_autoload. They are converted to a configuration override,
 * and are valid as long as one.
 *
 * Threads.  Pure functions.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct repo_environment;

struct load_parameter {
        const char *name;  /* name of the configuration's parameter */
        const char *value; /* "" removes the parameter */
};

/* True when it is the name of such a parameter. */
bool load_parameter_is_known(const char *name);

/* Applies the parameters to the configuration `config_json`, or with NULL to that in the directory.
 * *ret is JSON that the caller owns. */
struct error *load_parameters_apply(const struct repo_environment *env, const char *directory,
                                    const char                  *config_json,
                                    const struct load_parameter *parameters, size_t n, char **ret)
        NODISCARD;
