/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/json_writer.h"

#include "codec/float_print.h"
#include "codec/float_print_run.h"

#include <string.h>

void json_writer_init(struct json_writer *w, struct strbuf *out) {
        *w = (struct json_writer){ .out = out };
}

static ALWAYS_INLINE void put_char(struct strbuf *out, char c) {
        strbuf_put_few(out, &c, 1);
}

/* Writes the comma before a value or a key, if needed. */
static ALWAYS_INLINE void separate(struct json_writer *w) {
        if (w->needs_comma)
                put_char(w->out, ',');
        w->needs_comma = true;
}

static void begin_value(struct json_writer *w, char bracket) {
        separate(w);
        put_char(w->out, bracket);
        w->needs_comma = false;
}

static void end_level(struct json_writer *w, char bracket) {
        put_char(w->out, bracket);
        w->needs_comma = true;
}

void json_begin_object(struct json_writer *w) {
        begin_value(w, '{');
}

void json_end_object(struct json_writer *w) {
        end_level(w, '}');
}

void json_begin_array(struct json_writer *w) {
        begin_value(w, '[');
}

void json_end_array(struct json_writer *w) {
        end_level(w, ']');
}

void json_key(struct json_writer *w, const char *key) {
        json_key_str(w, str_of(key));
}

void json_key_str(struct json_writer *w, struct str key) {
        separate(w);
        json_quote(w->out, key);
        put_char(w->out, ':');
        w->needs_comma = false;
}

void json_put_string(struct json_writer *w, const char *text) {
        json_put_str(w, str_of(text));
}

void json_put_str(struct json_writer *w, struct str s) {
        separate(w);
        if (json_quote(w->out, s))
                w->has_replaced = true;
}

void json_put_bool(struct json_writer *w, bool value) {
        separate(w);
        if (value)
                STRBUF_PUT_LIT(w->out, "true");
        else
                STRBUF_PUT_LIT(w->out, "false");
}

void json_member_string(struct json_writer *w, const char *key, const char *text) {
        json_key(w, key);
        json_put_string(w, text);
}

void json_member_str(struct json_writer *w, const char *key, struct str text) {
        json_key(w, key);
        json_put_str(w, text);
}

void json_member_bool(struct json_writer *w, const char *key, bool value) {
        json_key(w, key);
        json_put_bool(w, value);
}

void json_member_i64(struct json_writer *w, const char *key, int64_t value) {
        json_key(w, key);
        json_put_i64(w, value);
}

void json_member_u64(struct json_writer *w, const char *key, uint64_t value) {
        json_key(w, key);
        json_put_u64(w, value);
}

void json_member_f64(struct json_writer *w, const char *key, double value) {
        json_key(w, key);
        json_put_f64(w, value);
}

void json_member_raw(struct json_writer *w, const char *key, struct str json) {
        json_key(w, key);
        json_put_raw(w, json);
}

void json_member_object(struct json_writer *w, const char *key) {
        json_key(w, key);
        json_begin_object(w);
}

void json_member_array(struct json_writer *w, const char *key) {
        json_key(w, key);
        json_begin_array(w);
}

void json_put_raw(struct json_writer *w, struct str json) {
        separate(w);
        strbuf_put(w->out, json.ptr, json.len);
}

/* Strings. */

/* Letter after a backslash for a character that has one; 'u' for the other control characters; 0
 * for characters that need no escape. */
static char escape_letter(unsigned char c) {
        static const char short_forms[] = "uuuuuuuubtnufruu";

        if (c == '"' || c == '\\')
                return (char)c;
        if (c >= 0x20)
                return 0;
        return c < 16 ? short_forms[c] : 'u';
}

static void put_escape(struct strbuf *out, unsigned char c) {
        static const char hex[] = "0123456789ABCDEF";
        char              letter = escape_letter(c);
        const char        text[6] = { '\\', letter, '0', '0', hex[c >> 4], hex[c & 15] };

        strbuf_put(out, text, letter == 'u' ? 6 : 2);
}

/* True for eight ASCII characters that need no escape. */
static ALWAYS_INLINE bool is_plain_word(uint64_t word) {
        const uint64_t ones = 0x0101010101010101, tops = 0x8080808080808080;
        uint64_t       quotes = word ^ (ones * '"');
        uint64_t       slashes = word ^ (ones * '\\');

        /* A borrow can set a false hit only after a true one. */
        return ((((quotes - ones) & ~quotes) | ((slashes - ones) & ~slashes) |
                 ((word - ones * 0x20) & ~word) | word) &
                tops) == 0;
}

/* Quotes names, which are short and seldom need an escape: those of 4 to 16 characters are checked
 * and copied as two words that may overlap. */
static ALWAYS_INLINE bool quote_plain_name(struct strbuf *out, struct str s) {
        char *to;

        if (s.len < 4 || s.len > 16 || out->overflowed || out->cap - out->len <= 16 + 2)
                return false;
        to = out->ptr + out->len;
        if (s.len < 8) {
                uint32_t head, tail;

                memcpy(&head, s.ptr, 4);
                memcpy(&tail, s.ptr + s.len - 4, 4);
                if (!is_plain_word(head | (uint64_t)tail << 32))
                        return false;
                memcpy(to + 1, &head, 4);
                memcpy(to + 1 + s.len - 4, &tail, 4);
        } else {
                uint64_t first, last;

                memcpy(&first, s.ptr, 8);
                memcpy(&last, s.ptr + s.len - 8, 8);
                if (!is_plain_word(first) || !is_plain_word(last))
                        return false;
                memcpy(to + 1, &first, 8);
                memcpy(to + 1 + s.len - 8, &last, 8);
        }
        to[0] = '"';
        memcpy(to + 1 + s.len, "\"", 2); /* with the NUL */
        out->len += s.len + 2;
        return true;
}

bool json_quote(struct strbuf *out, struct str s) {
        const char *at = s.len > 0 ? s.ptr : "", *limit = at + s.len;
        const char *plain = at; /* start of the text that is copied unchanged */
        bool        has_replaced = false;

        if (quote_plain_name(out, s))
                return false;
        put_char(out, '"');
        while (at < limit) {
                unsigned char c = (unsigned char)*at;
                size_t len = c < 0x80 ? 1 : str_utf8_first(str_range(at, (size_t)(limit - at)));

                if (len > 0 && escape_letter(c) == 0) {
                        at += len;
                        continue;
                }
                strbuf_put(out, plain, (size_t)(at - plain));
                if (len > 0) {
                        put_escape(out, c);
                } else {
                        strbuf_puts(out, "\xef\xbf\xbd"); /* U+FFFD */
                        has_replaced = true;
                }
                plain = ++at;
        }
        strbuf_put(out, plain, (size_t)(limit - plain));
        put_char(out, '"');
        return has_replaced;
}

/* Numbers. */

static const char digit_pairs[] = "00010203040506070809"
                                  "10111213141516171819"
                                  "20212223242526272829"
                                  "30313233343536373839"
                                  "40414243444546474849"
                                  "50515253545556575859"
                                  "60616263646566676869"
                                  "70717273747576777879"
                                  "80818283848586878889"
                                  "90919293949596979899";

static char *print_u64(char *out, uint64_t value) {
        char  text[20]; /* the digits of 2^64 - 1 */
        char *at = text + sizeof(text);

        while (value >= 100) {
                at -= 2;
                memcpy(at, digit_pairs + value % 100 * 2, 2);
                value /= 100;
        }
        if (value >= 10) {
                at -= 2;
                memcpy(at, digit_pairs + value * 2, 2);
        } else {
                *--at = (char)('0' + value);
        }

        size_t len = (size_t)(text + sizeof(text) - at);

        memcpy(out, at, len);
        return out + len;
}

static char *print_i64(char *out, int64_t value) {
        if (value >= 0)
                return print_u64(out, (uint64_t)value);
        *out++ = '-';
        return print_u64(out, 0 - (uint64_t)value);
}

char *json_format_f32(char *out, float value) {
        char   text[FLOAT_PRINT_ROOM];
        size_t len = (size_t)(float_print_f32(text, value) - text);

        memcpy(out, text, len);
        return out + len;
}

/* Prints one element; `out` has FLOAT_PRINT_ROOM bytes. The element may be unaligned. */
static ALWAYS_INLINE char *print_element(char *out, enum json_element element, const char *in) {
#define PRINT_AS(type, call)                                                                       \
        {                                                                                          \
                type value;                                                                        \
                memcpy(&value, in, sizeof(value));                                                 \
                return call(out, value);                                                           \
        }
        switch (element) {
        case JSON_ELEMENT_F32: PRINT_AS(float, float_print_f32)
        case JSON_ELEMENT_F64: PRINT_AS(double, float_print_f64)
        case JSON_ELEMENT_U8: PRINT_AS(uint8_t, print_u64)
        case JSON_ELEMENT_U16: PRINT_AS(uint16_t, print_u64)
        case JSON_ELEMENT_U32: PRINT_AS(uint32_t, print_u64)
        case JSON_ELEMENT_U64: PRINT_AS(uint64_t, print_u64)
        case JSON_ELEMENT_I8: PRINT_AS(int8_t, print_i64)
        case JSON_ELEMENT_I16: PRINT_AS(int16_t, print_i64)
        case JSON_ELEMENT_I32: PRINT_AS(int32_t, print_i64)
        case JSON_ELEMENT_I64: PRINT_AS(int64_t, print_i64)
        case JSON_ELEMENT_BOOL: break;
        }
#undef PRINT_AS
        memcpy(out, *in != 0 ? "true " : "false", 5);
        return out + (*in != 0 ? 4 : 5);
}

/* Longest text of an element with its comma, and the number of elements per check of the buffer's
 * size. */
#define ELEMENT_ROOM (FLOAT_PRINT_MAX + 1)
#define CHUNK_ELEMENTS 256

static size_t element_bytes(enum json_element element) {
        switch (element) {
        case JSON_ELEMENT_BOOL:
        case JSON_ELEMENT_U8:
        case JSON_ELEMENT_I8: return 1;
        case JSON_ELEMENT_U16:
        case JSON_ELEMENT_I16: return 2;
        case JSON_ELEMENT_U32:
        case JSON_ELEMENT_I32:
        case JSON_ELEMENT_F32: return 4;
        default: return 8;
        }
}

/* Prints each element with a comma after it. */
static ALWAYS_INLINE char *print_run(char *out, enum json_element element, const char *in,
                                     size_t n) {
        for (size_t i = 0; i < n; i++) {
                out = print_element(out, element, in + i * element_bytes(element));
                *out++ = ',';
        }
        return out;
}

static void put_chunk(struct strbuf *b, enum json_element element, const char *in, size_t n) {
        char *at = b->ptr + b->len;

        at = element == JSON_ELEMENT_F32 ? float_print_f32_run(at, in, n)
                                         : print_run(at, element, in, n);
        b->len = (size_t)(at - b->ptr);
        b->ptr[b->len] = '\0';
}

/* For the end of the buffer, where the exact length of the text decides whether it fits. */
static void put_one(struct strbuf *b, enum json_element element, const char *in, bool is_last) {
        char  text[FLOAT_PRINT_ROOM];
        char *text_end = print_element(text, element, in);

        if (!is_last)
                *text_end++ = ',';
        strbuf_put(b, text, (size_t)(text_end - text));
}

void json_put_tensor(struct json_writer *w, enum json_element element, const void *in, size_t n) {
        const char    *at = in;
        struct strbuf *b = w->out;
        size_t         bytes = element_bytes(element);

        json_begin_array(w);
        while (n > 0 && !b->overflowed) {
                size_t n_chunk = MIN(n, CHUNK_ELEMENTS);
                size_t room = n_chunk * ELEMENT_ROOM + FLOAT_PRINT_ROOM;

                if (strbuf_max(b) - b->len < room) {
                        put_one(b, element, at, n == 1);
                        n_chunk = 1;
                } else if (strbuf_reserve(b, room)) {
                        put_chunk(b, element, at, n_chunk);
                        if (n == n_chunk)
                                b->ptr[--b->len] = '\0'; /* no comma after the last element */
                }
                at += n_chunk * bytes;
                n -= n_chunk;
        }
        json_end_array(w);
}

void json_put_i64(struct json_writer *w, int64_t value) {
        char text[FLOAT_PRINT_ROOM];

        separate(w);
        strbuf_put(w->out, text, (size_t)(print_i64(text, value) - text));
}

void json_put_u64(struct json_writer *w, uint64_t value) {
        char text[FLOAT_PRINT_ROOM];

        separate(w);
        strbuf_put(w->out, text, (size_t)(print_u64(text, value) - text));
}

void json_put_f32(struct json_writer *w, float value) {
        char text[FLOAT_PRINT_ROOM];

        separate(w);
        strbuf_put(w->out, text, (size_t)(float_print_f32(text, value) - text));
}

void json_put_f64(struct json_writer *w, double value) {
        char text[FLOAT_PRINT_ROOM];

        separate(w);
        strbuf_put(w->out, text, (size_t)(float_print_f64(text, value) - text));
}
