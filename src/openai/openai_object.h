/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers of models of the format `openai`: objects in OpenAI's form, which the front completes.
 *
 * Ownership.  As openai_answer.h, whose functions are the only users.
 * Threads.  One owner at a time.
 */
#pragma once

#include "openai/openai_answer.h"

/* Takes an object of the model: an event of a stream, or the whole answer. An object {"error":{...}} is the
 * model's refusal, with the status that its type stands for. INTERNAL when the text is no object, or a
 * second one for a whole answer. */
struct error *openai_object_add(struct openai_answer *a, struct str object, struct arena *scratch,
                                struct strbuf *out) NODISCARD;

/* Counts a choice that ended, by its reason. */
void openai_object_count_reason(struct openai_answer *a, struct str reason);
