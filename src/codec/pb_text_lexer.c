/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/pb_text_lexer.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#define SHOWN_BYTES 48 /* longest part of a token that an error quotes */

static bool is_digit(char c) {
        return c >= '0' && c <= '9';
}

static bool is_word_start(char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_word_part(char c) {
        return is_word_start(c) || is_digit(c);
}

/* Value of a digit; -1 when c is not a digit of the base (8 or 16). */
static int digit_value(char c, int base) {
        int value = str_hex_digit(c);

        return value < base ? value : -1;
}

struct error *pb_lexer_locate(const struct pb_lexer *l, struct pb_place place, struct error *err) {
        if (l->file != NULL)
                return error_prefix(err, "%s:%u:%u: ", l->file, place.line, place.column);
        return error_prefix(err, "%u:%u: ", place.line, place.column);
}

/* Continuation bytes of UTF-8 do not count. */
static unsigned count_characters(const char *begin, const char *end) {
        unsigned n = 0;

        for (; begin < end; begin++)
                n += ((uint8_t)*begin & 0xc0) != 0x80;
        return n;
}

static struct pb_place place_at(const struct pb_lexer *l, const char *at) {
        return (struct pb_place){ l->line, l->column + count_characters(l->counted, at) };
}

/* Prints a token for an error message: quoted, without bytes that would garble a terminal. */
static void show_token(const struct pb_token *token, struct strbuf *out) {
        struct str text = token->text;
        bool       is_utf8 = str_is_utf8(text);

        if (token->kind == PB_TOKEN_END) {
                strbuf_puts(out, "the end of the text");
                return;
        }
        if (text.len > SHOWN_BYTES) {
                text.len = SHOWN_BYTES;
                /* Does not cut within a character. */
                while (is_utf8 && text.len > 0 && ((uint8_t)text.ptr[text.len] & 0xc0) == 0x80)
                        text.len--;
        }
        if (token->kind != PB_TOKEN_STRING)
                strbuf_putc(out, '\'');
        for (size_t i = 0; i < text.len; i++) {
                uint8_t c = (uint8_t)text.ptr[i];

                if (c < 0x20 || c == 0x7f || (c >= 0x80 && !is_utf8))
                        strbuf_printf(out, "\\x%02x", c);
                else
                        strbuf_putc(out, (char)c);
        }
        if (text.len < token->text.len)
                strbuf_puts(out, "...");
        if (token->kind != PB_TOKEN_STRING)
                strbuf_putc(out, '\'');
}

struct error *pb_lexer_expected(const struct pb_lexer *l, const char *format, ...) {
        AUTO_STRBUF shown = { 0 };
        AUTO_CHARS  what = NULL;
        va_list     args;

        va_start(args, format);
        if (vasprintf(&what, format, args) < 0)
                what = NULL;
        va_end(args);
        show_token(&l->token, &shown);
        TRY(strbuf_check(&shown, "the text of an error"));
        return pb_lexer_locate(l, l->token.place,
                               error_new(ERR_INVALID_ARG, "expected %s, got %s",
                                         what != NULL ? what : "something else",
                                         strbuf_cstr(&shown)));
}

static void skip_blanks(struct pb_lexer *l) {
        for (; l->at < l->end; l->at++) {
                if (*l->at == '#') {
                        const char *newline = memchr(l->at, '\n', (size_t)(l->end - l->at));

                        l->at = newline != NULL ? newline : l->end;
                        if (newline == NULL)
                                return;
                }
                if (*l->at == '\n') {
                        l->line++;
                        l->column = 1;
                        l->counted = l->at + 1;
                } else if (*l->at != ' ' && (*l->at < '\t' || *l->at > '\r')) {
                        return;
                }
        }
}

static void locate_token(struct pb_lexer *l) {
        struct pb_token *token = &l->token;

        token->place = place_at(l, l->at);
        token->from = l->at;
        l->column = token->place.column;
        l->counted = l->at;
        token->is_first = l->indent_line != l->line;
        if (token->is_first) {
                l->indent_line = l->line;
                l->indent = l->column;
        }
}

/* Returns the byte after the closing quote. Strings end on the line where they begin. */
static struct error *scan_string(struct pb_lexer *l, const char **ret_end) {
        char quote = *l->at;

        for (const char *c = l->at + 1; c < l->end && *c != '\n'; c++) {
                if (*c == quote) {
                        *ret_end = c + 1;
                        return NULL;
                }
                if (*c == '\\' && c + 1 < l->end && c[1] != '\n')
                        c++;
        }
        l->is_broken = true;
        l->broken_line = l->line;
        return pb_lexer_locate(l, l->token.place,
                               error_new(ERR_INVALID_ARG, "string is not terminated"));
}

/* Includes letters, so that 12abc is one malformed number and not a number and a name. */
static const char *scan_number(const struct pb_lexer *l) {
        bool        is_hex = l->end - l->at > 1 && (l->at[1] == 'x' || l->at[1] == 'X');
        const char *c = l->at;

        while (c < l->end && (is_word_part(*c) || *c == '.')) {
                bool is_exponent = !is_hex && (*c == 'e' || *c == 'E');

                c++;
                if (is_exponent && c < l->end && (*c == '+' || *c == '-'))
                        c++;
        }
        return c;
}

struct error *pb_lexer_next(struct pb_lexer *l) {
        const char *end;
        char        c;

        skip_blanks(l);
        locate_token(l);
        l->token.text = str_range(l->at, 0);
        l->token.kind = PB_TOKEN_END;
        if (l->at == l->end)
                return NULL;

        c = *l->at;
        end = l->at + 1;
        if (is_word_start(c)) {
                l->token.kind = PB_TOKEN_WORD;
                while (end < l->end && is_word_part(*end))
                        end++;
        } else if (is_digit(c) || (c == '.' && end < l->end && is_digit(*end))) {
                l->token.kind = PB_TOKEN_NUMBER;
                end = scan_number(l);
        } else if (c == '"' || c == '\'') {
                l->token.kind = PB_TOKEN_STRING;
                TRY(scan_string(l, &end));
        } else {
                l->token.kind = PB_TOKEN_SIGN;
                /* A character of several bytes is one token. */
                while (((uint8_t)c & 0x80) && end < l->end && ((uint8_t)*end & 0xc0) == 0x80)
                        end++;
        }
        l->token.text.len = (size_t)(end - l->at);
        l->at = end;
        return NULL;
}

struct error *pb_lexer_start(struct pb_lexer *l, struct str text, const char *file) {
        /* Some editors put a byte order mark in front. */
        if (str_starts(text, STR_LIT("\xef\xbb\xbf"))) {
                text.ptr += 3;
                text.len -= 3;
        }
        l->at = text.len > 0 ? text.ptr : "";
        l->end = l->at + text.len;
        l->counted = l->at;
        l->line = l->column = 1;
        l->file = file;
        l->indent = l->indent_line = l->broken_line = 0;
        l->is_broken = false;
        return pb_lexer_next(l);
}

void pb_lexer_skip(struct pb_lexer *l) {
        struct error *err = l->is_broken ? NULL : pb_lexer_next(l);

        while (l->is_broken) {
                const char *newline = memchr(l->at, '\n', (size_t)(l->end - l->at));

                error_free(err);
                l->at = newline != NULL ? newline : l->end;
                l->is_broken = false;
                err = pb_lexer_next(l);
        }
        error_free(err);
}

static bool is_one_of(const struct pb_lexer *l, const char *signs) {
        return l->token.kind == PB_TOKEN_SIGN && l->token.text.len == 1 &&
               *l->token.text.ptr != '\0' && strchr(signs, *l->token.text.ptr) != NULL;
}

bool pb_lexer_is_opener(const struct pb_lexer *l) {
        return is_one_of(l, "{[<");
}

bool pb_lexer_is_closer(const struct pb_lexer *l) {
        return is_one_of(l, "}]>");
}

bool pb_lexer_is_sign(const struct pb_lexer *l, char sign) {
        return l->token.kind == PB_TOKEN_SIGN && l->token.text.len == 1 &&
               *l->token.text.ptr == sign;
}

struct error *pb_lexer_accept(struct pb_lexer *l, char sign, bool *ret_found) {
        *ret_found = pb_lexer_is_sign(l, sign);
        return *ret_found ? pb_lexer_next(l) : NULL;
}

/* Position within a string token: `at` moves from the byte after the opening quote to the closing
 * one. */
struct string_cursor {
        const struct pb_lexer *lexer; /* borrowed */
        const char            *at;
        const char            *end;
};

static struct error *string_error(const struct string_cursor *s, const char *at, const char *text) {
        const struct pb_token *token = &s->lexer->token;
        struct pb_place        place = token->place;

        place.column += count_characters(token->text.ptr, at);
        return pb_lexer_locate(s->lexer, place, error_new_text(ERR_INVALID_ARG, text));
}

/* Reads up to `max` digits; returns their count. */
static int read_digits(struct string_cursor *s, int base, int max, uint32_t *ret) {
        int n = 0;

        *ret = 0;
        while (n < max && s->at < s->end && digit_value(*s->at, base) >= 0) {
                *ret = *ret * (uint32_t)base + (uint32_t)digit_value(*s->at, base);
                s->at++;
                n++;
        }
        return n;
}

static void put_utf8(struct strbuf *out, uint32_t code) {
        if (code < 0x80) {
                strbuf_putc(out, (char)code);
                return;
        }
        if (code < 0x800) {
                strbuf_putc(out, (char)(0xc0 | code >> 6));
        } else {
                if (code < 0x10000) {
                        strbuf_putc(out, (char)(0xe0 | code >> 12));
                } else {
                        strbuf_putc(out, (char)(0xf0 | code >> 18));
                        strbuf_putc(out, (char)(0x80 | (code >> 12 & 0x3f)));
                }
                strbuf_putc(out, (char)(0x80 | (code >> 6 & 0x3f)));
        }
        strbuf_putc(out, (char)(0x80 | (code & 0x3f)));
}

/* Reads the digits after \u or \U. A pair of surrogates is one character, as in JSON. */
static struct error *read_unicode(struct string_cursor *s, int n_digits, struct strbuf *out) {
        const char *start = s->at - 2;
        uint32_t    code, low;

        if (read_digits(s, 16, n_digits, &code) < n_digits)
                return string_error(s, start,
                                    n_digits == 4 ? "\\u must be followed by 4 hexadecimal digits"
                                                  : "\\U must be followed by 8 hexadecimal digits");
        if (code >= 0xd800 && code <= 0xdbff && s->end - s->at >= 6 && s->at[0] == '\\' &&
            s->at[1] == 'u') {
                s->at += 2;
                if (read_digits(s, 16, 4, &low) < 4 || low < 0xdc00 || low > 0xdfff)
                        return string_error(s, start, "surrogate without its other half");
                code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        }
        if (code >= 0xd800 && code <= 0xdfff)
                return string_error(s, start, "surrogate without its other half");
        if (code > 0x10ffff)
                return string_error(s, start, "there is no such Unicode character");
        put_utf8(out, code);
        return NULL;
}

/* s->at is after the backslash, which is never the last byte before the closing quote. */
static struct error *read_escape(struct string_cursor *s, struct strbuf *out) {
        static const char letters[] = "abfnrtv\\?'\"";
        static const char values[] = "\a\b\f\n\r\t\v\\?'\"";
        const char       *start = s->at - 1;
        char              c = *s->at;
        const char       *letter = c ? strchr(letters, c) : NULL;
        uint32_t          code;

        if (letter != NULL) {
                s->at++;
                strbuf_putc(out, values[letter - letters]);
                return NULL;
        }
        if (read_digits(s, 8, 3, &code) > 0) {
                if (code > UINT8_MAX)
                        return string_error(s, start, "octal escape is larger than a byte");
                strbuf_putc(out, (char)code);
                return NULL;
        }
        s->at++;
        if (c == 'u' || c == 'U')
                return read_unicode(s, c == 'u' ? 4 : 8, out);
        if (c != 'x' && c != 'X')
                return string_error(s, start, "unknown escape sequence in string");
        if (read_digits(s, 16, 2, &code) == 0)
                return string_error(s, start, "\\x must be followed by hexadecimal digits");
        strbuf_putc(out, (char)code);
        return NULL;
}

static struct error *read_one_string(const struct pb_lexer *l, struct strbuf *out) {
        struct string_cursor s = { l, l->token.text.ptr + 1,
                                   l->token.text.ptr + l->token.text.len - 1 };

        while (s.at < s.end) {
                const char *escape = memchr(s.at, '\\', (size_t)(s.end - s.at));
                const char *plain_end = escape != NULL ? escape : s.end;

                strbuf_put(out, s.at, (size_t)(plain_end - s.at));
                s.at = plain_end;
                if (escape != NULL) {
                        s.at++;
                        TRY(read_escape(&s, out));
                }
        }
        return NULL;
}

struct error *pb_lexer_read_string(struct pb_lexer *l, struct strbuf *out) {
        while (l->token.kind == PB_TOKEN_STRING) {
                TRY(read_one_string(l, out));
                TRY(pb_lexer_next(l));
        }
        return NULL;
}
