/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/plain_text.h"

#include "base/mem.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* U+0080 to U+009F in UTF-8; U+009B begins the sequences of a terminal as ESC [ does. */
static bool is_wide_control(const char *at, size_t len) {
        return len > 1 && (unsigned char)at[0] == 0xc2 && (unsigned char)at[1] >= 0x80 &&
               (unsigned char)at[1] < 0xa0;
}

void plain_text_make(char *text, size_t len, char instead) {
        for (size_t i = 0; i < len; i++) {
                unsigned char b = (unsigned char)text[i];

                if (is_wide_control(text + i, len - i)) {
                        text[i++] = instead;
                        text[i] = instead;
                } else if ((b < ' ' && b != '\n') || b == 0x7f) {
                        text[i] = instead;
                }
        }
}

void plain_text_print(struct strbuf *text, bool is_json) {
        if (!is_json && text->len > 0)
                plain_text_make(text->ptr, text->len, '?');
        fwrite(strbuf_cstr(text), 1, text->len, stdout);
}

void plain_text_print_error(const char *command, const struct error *err) {
        AUTO_CHARS text = mem_strdup(err->message);

        plain_text_make(text, strlen(text), '?');
        fprintf(stderr, "neso %s: %s\n", command, text);
}
