/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/parameter_text.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static void add_double(struct kit_text *text, double value) {
        char digits[32]; /* "%.17g" writes at most 24 characters */

        if (!isfinite(value)) {
                kit_text_print(text, "%s",
                               isnan(value) ? "NaN"
                               : value > 0  ? "Infinity"
                                            : "-Infinity");
                return;
        }
        (void)snprintf(digits, sizeof(digits), "%.17g", value);
        kit_text_print(text, "%s%s", digits, strpbrk(digits, ".e") == NULL ? ".0" : "");
}

void parameter_text_add(struct kit_text *text, const char *name, TRITONSERVER_ParameterType type,
                        const void *value) {
        if (type == TRITONSERVER_PARAMETER_BYTES)
                return;
        kit_text_add(text, text->len == 0 ? "{" : ",", 1);
        kit_text_add_json(text, name);
        kit_text_add(text, ":", 1);
        switch (type) {
        case TRITONSERVER_PARAMETER_INT:
                kit_text_print(text, "%lld", (long long)*(const int64_t *)value);
                break;
        case TRITONSERVER_PARAMETER_BOOL:
                kit_text_print(text, "%s", *(const bool *)value ? "true" : "false");
                break;
        case TRITONSERVER_PARAMETER_DOUBLE: add_double(text, *(const double *)value); break;
        default: kit_text_add_json(text, value);
        }
}
