/* SPDX-License-Identifier: BSD-3-Clause */
/* What the caller of a load or an unload permits: which models the change may reach besides the one
 * that it names.
 *
 * A configuration that comes with a load names other models: the steps of an ensemble, the stages
 * of a chain, the next model. Whoever may use the loaded model uses these through it, so the caller
 * of the load needs the right to each of them. A configuration that lies in the repository is its
 * owner's statement, and is not checked.
 *
 * Ownership.  `userp` is the caller's, and lasts as long as the call.
 * Threads.  grants() is called on the caller's thread, with no lock held.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct load_permit {
        bool (*grants)(const char *model, void *userp); /* NULL: every model */
        void *userp;
};

struct label_list;

/* Checks the models that the configuration names. INVALID_ARG "load failed for model '<m>': it would
 * use model '<other>', to which the caller has no right", or the error of a configuration that
 * cannot be read. */
struct error *load_permit_check_config(const struct load_permit *p, const char *model,
                                       const char *config_json) NODISCARD;
/* Checks models that an unload with dependents would reach. */
struct error *load_permit_check_unload(const struct load_permit *p, const char *model,
                                       const struct label_list *names) NODISCARD;
