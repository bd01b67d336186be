/* SPDX-License-Identifier: BSD-3-Clause */
/* Additions to a configuration's message, in its arena: functions that fill, normalize and complete
 * share.
 *
 * Names and counts in a configuration come from a file, so an addition may not fit: that is an
 * error of the file and does not end the process.
 *
 * Threads.  The configuration's owner.
 */
#pragma once

#include "config/model_config.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Creates an initialised message of this type; NULL when the arena is full: return model_config_full()
 * then. */
void *config_edit_new(struct model_config *c, const ProtobufCMessageDescriptor *type) NODISCARD;

/* UNAVAILABLE "out of memory", for objects that are built from a configuration. Static. */
struct error *config_out_of_memory(void);

/* Sets a string that is not set yet to prefix followed by text; a string that is set stays. */
struct error *config_edit_text(struct model_config *c, char **field, const char *prefix,
                               const char *text) NODISCARD;

/* Sets model_transaction_policy.decoupled of a model that is made of others; it follows from the
 * steps. */
struct error *config_edit_set_decoupled(struct model_config *c, bool is_decoupled) NODISCARD;
