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

/* Returns zeroed memory of n * size bytes; NULL when the arena is full: return config_edit_full()
 * then. */
void *config_edit_alloc(struct model_config *c, size_t n, size_t size) NODISCARD;

/* Creates an initialised message of this type; NULL when the arena is full. */
void *config_edit_new(struct model_config *c, const ProtobufCMessageDescriptor *type) NODISCARD;

/* Copies another configuration's message to this one's arena; NULL when the arena is full. */
Inference__ModelConfig *config_edit_copy(struct model_config *c, const Inference__ModelConfig *from)
        NODISCARD;

/* INVALID_ARG "model configuration is too large". Static. */
struct error *config_edit_full(void);

/* UNAVAILABLE "out of memory", for objects that are built from a configuration. Static. */
struct error *config_out_of_memory(void);

/* Sets a string that is not set yet to prefix followed by text; a string that is set stays. */
struct error *config_edit_text(struct model_config *c, char **field, const char *prefix,
                               const char *text) NODISCARD;

/* Sets model_transaction_policy.decoupled of a model that is made of others; it follows from the
 * steps. */
struct error *config_edit_set_decoupled(struct model_config *c, bool is_decoupled) NODISCARD;

static inline bool config_text_is(const char *text, const char *expected) {
        return text != NULL && expected != NULL && strcmp(text, expected) == 0;
}
