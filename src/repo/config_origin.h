/* SPDX-License-Identifier: BSD-3-Clause */
/* Which parameters of a model's configuration came with a load request.
 *
 * A parameter is "sent" unless the config.pbtxt of the model's directory in the repository has the
 * same one with the same value. So a client may send back what it got, with other changes, while a
 * parameter that names a file or a program remains the repository owner's choice. Uploaded files have
 * no config.pbtxt of the owner, so that all their parameters are sent.
 *
 * Ownership.  config_origin_done() frees what the others make.
 * Threads.  One owner at a time; any thread may read it meanwhile.
 */
#pragma once

#include "config/model_config.h"

#include <stdbool.h>
#include <stddef.h>

struct config_origin {
        char **sent; /* owned, and each: names of parameters */
        size_t n_sent;
        bool   has_sent_runtime; /* `runtime` is not that of config.pbtxt */
};

/* `own`: the configuration of the repository; NULL: there is none. *ret is overwritten. */
void config_origin_compare(const struct model_config *given, const struct model_config *own,
                           struct config_origin *ret);
void config_origin_copy(const struct config_origin *from, struct config_origin *ret);
bool config_origin_is_sent(const struct config_origin *o, const char *parameter);
void config_origin_done(struct config_origin *o);
