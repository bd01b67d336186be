/* SPDX-License-Identifier: BSD-3-Clause */
/* The header `traceparent`: what is accepted says the same when it is printed and read again. */
#include "trace/traceparent.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
        struct traceparent first, again;
        char               text[TRACEPARENT_CHARS + 1];
        char              *copy = malloc(n + 1); /* of its own size: reading beyond it is seen */

        if (copy == NULL)
                abort();
        memcpy(copy, bytes, n);
        if (traceparent_read(str_range(copy, n), &first)) {
                traceparent_print(&first, text);
                if (strlen(text) != TRACEPARENT_CHARS || !traceparent_read(str_of(text), &again) ||
                    memcmp(&first, &again, sizeof(first)) != 0 ||
                    memcmp(text + 2, copy + 2, TRACEPARENT_CHARS - 2) != 0)
                        abort();
        }
        free(copy);
        return 0;
}
