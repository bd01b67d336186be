/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/pb_text_scalar.h"

#include "codec/pb_build.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

enum number_form {
        NUMBER_INTEGER,
        NUMBER_TOO_LARGE, /* an integer beyond 64 bits */
        NUMBER_OTHER,
};

static struct error *wrong_value(const struct pb_lexer *l, const ProtobufCFieldDescriptor *field,
                                 const char *wanted) {
        return pb_lexer_expected(l, "%s for field '%s'", wanted, field->name);
}

/* Reads decimal, 0x hexadecimal, or octal with a leading 0. */
static enum number_form read_magnitude(struct str text, uint64_t *ret) {
        unsigned base = 10;
        size_t   at = 0;
        uint64_t value = 0;
        bool     is_too_large = false;

        if (text.len > 2 && text.ptr[0] == '0' && (text.ptr[1] | 0x20) == 'x') {
                base = 16;
                at = 2;
        } else if (text.len > 1 && text.ptr[0] == '0') {
                base = 8;
                at = 1;
        }
        for (; at < text.len; at++) {
                char     c = text.ptr[at];
                unsigned digit = 99;

                if (c >= '0' && c <= '9')
                        digit = (unsigned)(c - '0');
                else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
                        digit = (unsigned)((c | 0x20) - 'a') + 10;
                if (digit >= base)
                        return NUMBER_OTHER;
                is_too_large = is_too_large || __builtin_mul_overflow(value, base, &value) ||
                               __builtin_add_overflow(value, digit, &value);
        }
        *ret = value;
        return is_too_large ? NUMBER_TOO_LARGE : NUMBER_INTEGER;
}

static struct error *out_of_range(const struct pb_lexer *l, const ProtobufCFieldDescriptor *field,
                                  struct pb_place place, bool is_negative) {
        return pb_lexer_locate(l, place,
                               error_new(ERR_INVALID_ARG,
                                         "value %s%.*s of field '%s' is out of range for %s",
                                         is_negative ? "-" : "", STR_ARG(l->token.text),
                                         field->name, pb_field_type_name(field)));
}

static struct error *read_integer(struct pb_lexer *l, const ProtobufCFieldDescriptor *field,
                                  union pb_value *ret) {
        struct pb_place  place = l->token.place;
        uint64_t         magnitude = 0;
        enum number_form form;
        bool             is_negative;

        TRY(pb_lexer_accept(l, '-', &is_negative));
        if (l->token.kind != PB_TOKEN_NUMBER)
                return wrong_value(l, field, "an integer");
        form = read_magnitude(l->token.text, &magnitude);
        if (form == NUMBER_OTHER)
                return wrong_value(l, field, "an integer");
        if (form == NUMBER_TOO_LARGE || !pb_integer_fit(field, is_negative, magnitude, ret))
                return out_of_range(l, field, place, is_negative);
        return pb_lexer_next(l);
}

static size_t count_digits(struct str text, size_t at) {
        size_t n = 0;

        while (at + n < text.len && text.ptr[at + n] >= '0' && text.ptr[at + n] <= '9')
                n++;
        return n;
}

/* Digits with a dot and an exponent, a trailing f as in C; *ret_len is the length without it. */
static bool is_decimal(struct str text, size_t *ret_len) {
        size_t at = count_digits(text, 0);
        size_t n_digits = at;

        /* 010 is octal elsewhere: refused rather than read as ten. */
        if (at == text.len && at > 1 && text.ptr[0] == '0')
                return false;
        if (at < text.len && text.ptr[at] == '.') {
                n_digits += count_digits(text, at + 1);
                at += 1 + count_digits(text, at + 1);
        }
        if (n_digits == 0)
                return false;
        if (at < text.len && (text.ptr[at] | 0x20) == 'e') {
                at++;
                if (at < text.len && (text.ptr[at] == '+' || text.ptr[at] == '-'))
                        at++;
                if (count_digits(text, at) == 0)
                        return false;
                at += count_digits(text, at);
        }
        *ret_len = at;
        return at == text.len || (at + 1 == text.len && (text.ptr[at] | 0x20) == 'f');
}

static bool is_real_word(struct str text, double *ret) {
        if (str_equal_nocase(text, STR_LIT("inf")) || str_equal_nocase(text, STR_LIT("infinity")))
                *ret = (double)INFINITY;
        else if (str_equal_nocase(text, STR_LIT("nan")))
                *ret = (double)NAN;
        else
                return false;
        return true;
}

static struct error *read_real(struct pb_lexer *l, const ProtobufCFieldDescriptor *field,
                               struct strbuf *scratch, union pb_value *ret) {
        double real;
        size_t len;
        bool   is_negative;

        TRY(pb_lexer_accept(l, '-', &is_negative));
        if (l->token.kind == PB_TOKEN_NUMBER && is_decimal(l->token.text, &len)) {
                strbuf_clear(scratch);
                strbuf_put(scratch, l->token.text.ptr, len);
                if (scratch->overflowed)
                        return pb_out_of_memory();
                /* Rounded once, from the digits. A number that is too large becomes infinity, as
                 * elsewhere. */
                real = pb_field_bits(field) == 32 ? (double)strtof(strbuf_cstr(scratch), NULL)
                                                  : strtod(strbuf_cstr(scratch), NULL);
        } else if (l->token.kind != PB_TOKEN_WORD || !is_real_word(l->token.text, &real)) {
                return wrong_value(l, field, "a number");
        }
        ret->real = is_negative ? -real : real;
        return pb_lexer_next(l);
}

static struct error *read_bool(struct pb_lexer *l, const ProtobufCFieldDescriptor *field,
                               union pb_value *ret) {
        static const struct {
                const char *word;
                bool        value;
        } words[] = { { "true", true },   { "True", true },   { "t", true },
                      { "false", false }, { "False", false }, { "f", false } };
        uint64_t number;

        if (l->token.kind == PB_TOKEN_NUMBER &&
            read_magnitude(l->token.text, &number) == NUMBER_INTEGER && number <= 1) {
                ret->truth = number == 1;
                return pb_lexer_next(l);
        }
        for (size_t i = 0; l->token.kind == PB_TOKEN_WORD && i < ARRAY_LEN(words); i++) {
                if (!str_is(l->token.text, words[i].word))
                        continue;
                ret->truth = words[i].value;
                return pb_lexer_next(l);
        }
        return wrong_value(l, field, "true or false");
}

static struct error *unknown_enum_value(const struct pb_lexer *l, struct pb_place place,
                                        const ProtobufCFieldDescriptor *field, bool is_negative) {
        struct error *err =
                error_new(ERR_INVALID_ARG, "enum '%s' of field '%s' has no value '%s%.*s'",
                          pb_field_type_name(field), field->name, is_negative ? "-" : "",
                          STR_ARG(l->token.text));

        return pb_lexer_locate(l, place,
                               error_suggest(err, "", pb_enum_suggest(field, l->token.text)));
}

static struct error *read_enum(struct pb_lexer *l, const ProtobufCFieldDescriptor *field,
                               union pb_value *ret) {
        struct pb_place place = l->token.place;
        uint64_t        magnitude = 0;
        bool            is_negative, is_known = false;
        int             number = 0;

        TRY(pb_lexer_accept(l, '-', &is_negative));
        if (l->token.kind == PB_TOKEN_WORD && !is_negative) {
                is_known = pb_enum_find(field, l->token.text, false, &number);
        } else if (l->token.kind == PB_TOKEN_NUMBER) {
                enum number_form form = read_magnitude(l->token.text, &magnitude);

                if (form == NUMBER_OTHER)
                        return wrong_value(l, field, "the name of an enum value");
                if (form == NUMBER_INTEGER && magnitude <= INT32_MAX) {
                        number = is_negative ? -(int)magnitude : (int)magnitude;
                        is_known = pb_enum_name(field, number) != NULL;
                }
        } else {
                return wrong_value(l, field, "the name of an enum value");
        }
        if (!is_known)
                return unknown_enum_value(l, place, field, is_negative);
        ret->i64 = number;
        return pb_lexer_next(l);
}

static struct error *read_string(struct pb_lexer *l, const ProtobufCFieldDescriptor *field,
                                 struct arena *arena, struct strbuf *scratch, union pb_value *ret) {
        struct pb_place place = l->token.place;
        struct str      text;
        struct error   *err;

        if (l->token.kind != PB_TOKEN_STRING)
                return wrong_value(l, field, "a string in quotes");
        strbuf_clear(scratch);
        TRY(pb_lexer_read_string(l, scratch));
        if (scratch->overflowed)
                return pb_out_of_memory();
        text = strbuf_str(scratch);
        if (pb_field_kind(field) == PB_STRING) {
                err = pb_text_value(text, arena, ret);
                return err != NULL ? pb_lexer_locate(l, place, err) : NULL;
        }
        ret->bytes.len = text.len;
        ret->bytes.data = text.len > 0 ? arena_try_alloc(arena, text.len) : NULL;
        if (text.len > 0 && ret->bytes.data == NULL)
                return pb_out_of_memory();
        if (text.len > 0)
                memcpy(ret->bytes.data, text.ptr, text.len);
        return NULL;
}

struct error *pb_text_scalar_read(struct pb_lexer *l, const ProtobufCFieldDescriptor *field,
                                  struct arena *arena, struct strbuf *scratch,
                                  union pb_value *ret) {
        switch (pb_field_kind(field)) {
        case PB_SIGNED:
        case PB_UNSIGNED: return read_integer(l, field, ret);
        case PB_REAL: return read_real(l, field, scratch, ret);
        case PB_BOOL: return read_bool(l, field, ret);
        case PB_ENUM: return read_enum(l, field, ret);
        case PB_STRING:
        case PB_BYTES: return read_string(l, field, arena, scratch, ret);
        case PB_MESSAGE: break;
        }
        return error_new(ERR_INTERNAL, "field '%s' is a message", field->name);
}
