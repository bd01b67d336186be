/* SPDX-License-Identifier: BSD-3-Clause */
/* Base64, of vectors of the OpenAI API and of contents of files: what is encoded comes back, and the strict decoder
 * accepts nothing but what the encoder makes. */
#include "codec/base64.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void expect_same(struct str a, const struct strbuf *b) {
        if (!str_equal(a, strbuf_str(b)))
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
        char         *copy = malloc(n + 1); /* of its own size: reading beyond it is seen */
        struct str    in = { copy, n };
        struct strbuf coded, plain;

        if (copy == NULL)
                abort();
        memcpy(copy, bytes, n);
        strbuf_init(&coded, 0);
        strbuf_init(&plain, 0);
        base64_encode(in, &coded);
        if (coded.len != (n + 2) / 3 * 4 || !base64_decode(strbuf_str(&coded), &plain))
                abort();
        expect_same(in, &plain);
        strbuf_clear(&plain);
        base64_decode_lenient(strbuf_str(&coded), &plain);
        expect_same(in, &plain);
        strbuf_clear(&plain);
        if (base64_decode(in, &plain)) {
                strbuf_clear(&coded);
                base64_encode(strbuf_str(&plain), &coded);
                expect_same(in, &coded);
        } else if (plain.len > 0) {
                abort();
        }
        strbuf_clear(&plain);
        base64_decode_lenient(in, &plain);
        if (plain.len > n)
                abort();
        strbuf_done(&coded);
        strbuf_done(&plain);
        free(copy);
        return 0;
}
