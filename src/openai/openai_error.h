/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors in the form of the OpenAI API:
 *
 *     {"error":{"message":"...","type":"invalid_request_error","param":"model","code":"model_not_found"}}
 *
 * The type follows from the HTTP status. The code does, too, unless the caller knows a more exact one.
 *
 * Ownership.  Texts are borrowed during the call or static.
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"
#include "base/strbuf.h"

#include <stdint.h>

struct openai_error {
        unsigned    status;  /* of HTTP */
        const char *message; /* borrowed */
        const char *param;   /* borrowed: the member of the body that is at fault; NULL = none */
        const char *code;    /* static; NULL = that of the status */
};

#define OPENAI_CODE_NO_MODEL "model_not_found"
#define OPENAI_CODE_NOT_READY "model_not_ready"
#define OPENAI_CODE_TOO_LONG "context_length_exceeded"

/* Appends the object. The caller checks `out` for overflow. */
void openai_error_print(const struct openai_error *e, struct strbuf *out);

/* INTERNAL: JSON has no form for NaN and infinities, and no client computes with them. `index`: of the text. */
struct error *openai_vector_fault(const char *model, uint64_t index) NODISCARD;
