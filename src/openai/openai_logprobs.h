/* SPDX-License-Identifier: BSD-3-Clause */
/* Log-probabilities of tokens, from vLLM's form into OpenAI's.
 *
 * vLLM reports a list for each response. Each element is a token: an object of candidates by their ids,
 * of which the first is the chosen one.
 *
 *     [{"42":{"logprob":-0.1,"rank":1,"decoded_token":" a"},"7":{...}}, ...]
 *
 * Ownership.  The text is borrowed; temporary memory comes from the caller's arena.
 * Threads.  Any.
 */
#pragma once

#include "base/arena.h"
#include "base/strbuf.h"
#include "openai/openai_request.h"

/* Prints the value of "logprobs" for a choice. `lists` is a JSON array of the lists above; *offset is the
 * number of characters before these tokens and is moved past them. Reading ends where the text is malformed. A candidate
 * without a number is left out, and the token when it is the chosen one. */
void openai_logprobs_print(enum openai_endpoint endpoint, struct str lists, uint32_t max_top,
                           struct arena *scratch, size_t *offset, struct strbuf *out);
