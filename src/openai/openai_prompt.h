/* SPDX-License-Identifier: BSD-3-Clause */
/* The request that a model of the format `openai` gets: the client's body, with the name of the endpoint as
 * its last member. Readers of JSON take the last one of equal members, so a client cannot choose it.
 *
 *     {"model":"m","messages":[...],"endpoint":"chat"}
 *
 * Ownership.  The caller provides the memory.
 * Threads.  Any.
 */
#pragma once

#include "openai/openai_request.h"

/* Returns an upper bound of what openai_prompt_print() writes. */
size_t openai_prompt_measure(const struct openai_request *q);
/* The body was read before: it is one JSON object with at least one member. */
struct str openai_prompt_print(const struct openai_request *q, char *memory);
