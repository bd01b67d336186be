/* SPDX-License-Identifier: BSD-3-Clause */
/* The models of whole_server.h. The first three are in each server, the others in a full one: one for each
 * format of the OpenAI API, one that answers several times, one with sequences.
 *
 * Ownership.  Constant texts.
 * Threads.  Any.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct whole_model {
        const char *name;
        const char *config;
};

extern const struct whole_model whole_models[];

size_t whole_models_count(bool is_full);
