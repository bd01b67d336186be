/* SPDX-License-Identifier: BSD-3-Clause */
/* The tool that a model must call, for models whose answers are texts.
 *
 *     "tools": [{"type":"function","function":{"name":"weather","parameters":{...}}}],
 *     "tool_choice": {"type":"function","function":{"name":"weather"}}      or "required" with one tool
 *
 * The JSON schema of its parameters constrains the answer, which as a whole is the arguments of the call. Where
 * the model may choose, its calls would be texts of a form that each family of models has for itself.
 *
 * Ownership.  The texts borrow from the request or are in the arena.
 * Threads.  Any.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

struct openai_request;

struct openai_tool {
        struct str name;   /* ptr NULL: no tool must be called */
        struct str schema; /* JSON */
};

/* Finds the tool. INVALID_ARG when "tool_choice" has no form that is known, names a tool that "tools" lacks, or
 * leaves the choice among several. */
struct error *openai_tool_choose(const struct openai_request *q, struct arena *arena,
                                 struct openai_tool *ret) NODISCARD;
