/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/secret.h"

#include "base/mem.h"

char *secret_copy(const char *text) {
        return text != NULL && text[0] != '\0' ? mem_strdup(text) : NULL;
}

void secret_free(char *text) {
        if (text != NULL)
                explicit_bzero(text, strlen(text));
        free(text);
}

void secret_buf_init(struct strbuf *b, size_t bytes, size_t max) {
        strbuf_init(b, max);
        strbuf_need(b, bytes);
}

void secret_buf_done(struct strbuf *b) {
        if (b->ptr != NULL)
                explicit_bzero(b->ptr, b->cap);
        strbuf_done(b);
}

bool secret_is_plain(const char *text) {
        for (; *text != '\0'; text++)
                if ((unsigned char)*text < ' ' || *text == 0x7f)
                        return false;
        return true;
}
