/* SPDX-License-Identifier: BSD-3-Clause */
/* Parameters of requests and of responses as the JSON object that a model reads with Python's json.loads().
 *
 * Ownership and threads.  Those of the text.
 */
#pragma once

#include "kit/text.h"
#include "triton/core/tritonserver.h"

/* Adds `"name":value`, after "{" when the text is empty and after "," otherwise; the caller closes the object. A
 * double stays a float in Python, also one without a fraction and one that is no number. Parameters of type BYTES
 * have no form in JSON and are left out. */
void parameter_text_add(struct kit_text *text, const char *name, TRITONSERVER_ParameterType type,
                        const void *value);
