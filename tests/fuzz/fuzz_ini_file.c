/* SPDX-License-Identifier: BSD-3-Clause */
/* A file of AWS's tools: each value is found again at its line, and an error names a line but none of its text.
 */
#include "store/ini_file.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void check_entry(const struct ini_file *f, const struct ini_entry *e) {
        char                    key[64];
        const struct ini_entry *last;

        if (!ini_file_has_section(f, e->section) || e->line == 0)
                abort();
        if (e->key.ptr == NULL || e->key.len >= sizeof(key))
                return;
        memcpy(key, e->key.ptr, e->key.len);
        key[e->key.len] = '\0';
        last = ini_file_find(f, e->section, key);
        if (last == NULL || last < e || !str_equal(last->key, e->key))
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
        struct strbuf   text;
        struct ini_file f;
        struct error   *err;

        strbuf_init(&text, INI_MAX_BYTES);
        strbuf_put(&text, input, size);
        err = ini_file_read("file", &text, &f);
        strbuf_done(&text);
        if (err != NULL) {
                if (strncmp(err->message, "file:", 5) != 0 || strlen(err->message) > 64)
                        abort();
                error_free(err);
                return 0;
        }
        for (size_t i = 0; i < f.n_entries && i < 256; i++)
                check_entry(&f, &f.entries[i]);
        ini_file_done(&f);
        return 0;
}
