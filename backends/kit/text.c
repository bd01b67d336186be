/* SPDX-License-Identifier: BSD-3-Clause */
#include "kit/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for `more` characters and the final NUL. */
static bool reserve_text(struct kit_text *text, size_t more) {
        size_t capacity = text->capacity;
        char  *chars;

        if (text->has_failed || more > KIT_TEXT_MAX - text->len - 1) {
                text->has_failed = true;
                return false;
        }
        if (text->len + more < capacity)
                return true;
        if (capacity < 256)
                capacity = 256;
        while (capacity <= text->len + more)
                capacity *= 2;
        chars = realloc(text->chars, capacity);
        if (chars == NULL) {
                text->has_failed = true;
                return false;
        }
        text->chars = chars;
        text->capacity = capacity;
        return true;
}

void kit_text_add(struct kit_text *text, const char *chars, size_t len) {
        if (!reserve_text(text, len))
                return;
        if (len > 0)
                memcpy(text->chars + text->len, chars, len);
        text->len += len;
        text->chars[text->len] = '\0';
}

void kit_text_print(struct kit_text *text, const char *format, ...) {
        va_list args;
        char   *printed = NULL;
        int     len;

        va_start(args, format);
        len = vasprintf(&printed, format, args);
        va_end(args);
        if (len < 0) {
                text->has_failed = true;
                return;
        }
        kit_text_add(text, printed, (size_t)len);
        free(printed);
}

void kit_text_add_json(struct kit_text *text, const char *string) {
        kit_text_add(text, "\"", 1);
        for (const char *at = string; *at != '\0'; at++) {
                unsigned char c = (unsigned char)*at;

                if (c == '"' || c == '\\')
                        kit_text_print(text, "\\%c", c);
                else if (c < 0x20)
                        kit_text_print(text, "\\u%04x", c);
                else
                        kit_text_add(text, at, 1);
        }
        kit_text_add(text, "\"", 1);
}

void kit_text_add_shape(struct kit_text *text, const int64_t *dims, size_t n_dims) {
        kit_text_add(text, "[", 1);
        for (size_t i = 0; i < n_dims; i++)
                kit_text_print(text, "%s%" PRId64, i > 0 ? "," : "", dims[i]);
        kit_text_add(text, "]", 1);
}

char *kit_text_take(struct kit_text *text) {
        char *chars;

        if (!reserve_text(text, 0)) {
                kit_text_done(text);
                return NULL;
        }
        text->chars[text->len] = '\0';
        chars = text->chars;
        *text = (struct kit_text){ 0 };
        return chars;
}

void kit_text_done(struct kit_text *text) {
        free(text->chars);
        *text = (struct kit_text){ 0 };
}
