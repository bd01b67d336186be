/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_chunk_reader.h"

#include "base/compiler.h"

#include <stdbool.h>
#include <string.h>

static enum http_chunk_event malformed_chunk(struct http_chunk_reader *r, const char *reason) {
        r->reason = reason;
        return HTTP_CHUNK_MALFORMED;
}

static enum http_chunk_event enter_state(struct http_chunk_reader *r, enum http_chunk_state state,
                                         enum http_chunk_event event) {
        r->state = state;
        return event;
}

static bool is_token_character(char c) {
        return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
               (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

/* True for a visible character, blank, tab, or byte above ASCII. */
static bool is_text(char c) {
        return (unsigned char)c >= ' ' ? c != 0x7f : c == '\t';
}

/* Takes the text characters at the front of *in. */
static struct str take_text(struct str *in) {
        struct str text = { in->ptr, 0 };

        while (text.len < in->len && is_text(in->ptr[text.len]))
                text.len++;
        *in = str_range(in->ptr + text.len, in->len - text.len);
        return text;
}

static enum http_chunk_event take_size_character(struct http_chunk_reader *r, char c) {
        int digit = str_hex_digit(c);

        if (digit >= 0) {
                if (r->left > UINT64_MAX >> 4)
                        return malformed_chunk(r, "chunk size is too large");
                r->left = r->left << 4 | (uint64_t)digit;
                return enter_state(r, HTTP_CHUNK_DIGITS, HTTP_CHUNK_MORE);
        }
        if (r->state == HTTP_CHUNK_FIRST_DIGIT)
                return malformed_chunk(r, "chunk size must begin with a hexadecimal digit");
        if (c == '\r')
                return enter_state(r, HTTP_CHUNK_SIZE_LF, HTTP_CHUNK_MORE);
        if (c == ';')
                return enter_state(r, HTTP_CHUNK_EXTENSION_TEXT, HTTP_CHUNK_MORE);
        return malformed_chunk(r, "chunk size must be hexadecimal digits and end in CRLF");
}

static enum http_chunk_event take_trailer_character(struct http_chunk_reader *r, char c) {
        if (is_token_character(c))
                return enter_state(r, HTTP_CHUNK_TRAILER_NAME, HTTP_CHUNK_MORE);
        if (r->state == HTTP_CHUNK_TRAILER_NAME && c == ':')
                return enter_state(r, HTTP_CHUNK_TRAILER_VALUE, HTTP_CHUNK_MORE);
        if (r->state == HTTP_CHUNK_TRAILER_LINE && c == '\r')
                return enter_state(r, HTTP_CHUNK_LAST_LF, HTTP_CHUNK_MORE);
        return malformed_chunk(
                r, "trailer must be a name, a colon and a value on one line that ends in "
                   "CRLF");
}

/* Handles one character of the framing. */
static enum http_chunk_event take_character(struct http_chunk_reader *r, char c) {
        switch (r->state) {
        case HTTP_CHUNK_FIRST_DIGIT:
        case HTTP_CHUNK_DIGITS: return take_size_character(r, c);
        case HTTP_CHUNK_EXTENSION_TEXT:
                if (c == '\r')
                        return enter_state(r, HTTP_CHUNK_SIZE_LF, HTTP_CHUNK_MORE);
                return malformed_chunk(r, "chunk extension must be text and end in CRLF");
        case HTTP_CHUNK_SIZE_LF:
                if (c == '\n')
                        return enter_state(r,
                                           r->left > 0 ? HTTP_CHUNK_DATA : HTTP_CHUNK_TRAILER_LINE,
                                           HTTP_CHUNK_SIZE);
                return malformed_chunk(r, "chunk size must end in CRLF");
        case HTTP_CHUNK_DATA_CR:
                if (c == '\r')
                        return enter_state(r, HTTP_CHUNK_DATA_LF, HTTP_CHUNK_MORE);
                return malformed_chunk(r, "chunk must be as long as its size and end in CRLF");
        case HTTP_CHUNK_DATA_LF:
                if (c == '\n')
                        return enter_state(r, HTTP_CHUNK_FIRST_DIGIT, HTTP_CHUNK_MORE);
                return malformed_chunk(r, "chunk must end in CRLF");
        case HTTP_CHUNK_TRAILER_LINE:
        case HTTP_CHUNK_TRAILER_NAME: return take_trailer_character(r, c);
        case HTTP_CHUNK_TRAILER_VALUE:
                if (c == '\r')
                        return enter_state(r, HTTP_CHUNK_TRAILER_LF, HTTP_CHUNK_MORE);
                return malformed_chunk(r, "trailer must be text and end in CRLF");
        case HTTP_CHUNK_TRAILER_LF:
                if (c == '\n')
                        return enter_state(r, HTTP_CHUNK_TRAILER_LINE, HTTP_CHUNK_TRAILER);
                return malformed_chunk(r, "trailer must end in CRLF");
        case HTTP_CHUNK_LAST_LF:
                if (c == '\n')
                        return enter_state(r, HTTP_CHUNK_FIRST_DIGIT, HTTP_CHUNK_END);
                return malformed_chunk(r, "chunked body must end in CRLF");
        case HTTP_CHUNK_DATA: /* no framing */ break;
        }
        return HTTP_CHUNK_MORE;
}

static struct str take_data(struct http_chunk_reader *r, struct str *in) {
        struct str bytes = { in->ptr, (size_t)MIN(r->left, (uint64_t)in->len) };

        *in = str_range(in->ptr + bytes.len, in->len - bytes.len);
        r->left -= bytes.len;
        if (r->left == 0)
                r->state = HTTP_CHUNK_DATA_CR;
        return bytes;
}

enum http_chunk_event http_chunk_reader_next(struct http_chunk_reader *r, struct str *in,
                                             struct str *ret_bytes) {
        enum http_chunk_event event = HTTP_CHUNK_MORE;

        while (event == HTTP_CHUNK_MORE && in->len > 0) {
                if (r->state == HTTP_CHUNK_DATA) {
                        *ret_bytes = take_data(r, in);
                        return HTTP_CHUNK_BYTES;
                }
                if (r->state == HTTP_CHUNK_EXTENSION_TEXT || r->state == HTTP_CHUNK_TRAILER_VALUE) {
                        struct str text = take_text(in);

                        if (r->state == HTTP_CHUNK_EXTENSION_TEXT && text.len > 0) {
                                *ret_bytes = text;
                                return HTTP_CHUNK_EXTENSION;
                        }
                        if (in->len == 0)
                                break;
                }
                event = take_character(r, *in->ptr);
                *in = str_range(in->ptr + 1, in->len - 1);
        }
        return event;
}
