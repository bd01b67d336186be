/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/json_reader.h"

#include "codec/json_number.h"
#include "codec/json_scan.h"

#include <string.h>

#define BYTE_ORDER_MARK "\xef\xbb\xbf" /* of UTF-8; some editors begin every file with it */

static const char *behind_mark(const char *begin, const char *end) {
        struct str mark = STR_LIT(BYTE_ORDER_MARK);

        return str_starts(str_range(begin, (size_t)(end - begin)), mark) ? begin + mark.len : begin;
}

struct json_reader json_reader_of(struct str text) {
        struct json_reader r;

        json_reader_init(&r, text);
        return r;
}

void json_reader_init(struct json_reader *r, struct str text) {
        const char *begin = text.ptr != NULL ? text.ptr : "";
        const char *end = begin + text.len;

        *r = (struct json_reader){ .begin = begin, .at = behind_mark(begin, end), .end = end };
}

const char *json_error_text(const struct json_reader *r) {
        return r->error_text != NULL ? r->error_text : "";
}

size_t json_error_offset(const struct json_reader *r) {
        return r->error_offset;
}

/* Too deep nesting is reported without an offset, as in the reference server. */
struct error *json_syntax_error(const struct json_reader *r) {
        if (r->is_too_deep)
                return error_new_text(ERR_INVALID_ARG, json_error_text(r));
        return error_new(ERR_INVALID_ARG, "failed to parse the request JSON buffer: %s at %zu",
                         json_error_text(r), json_error_offset(r));
}

bool json_fail_at(struct json_reader *r, const char *at, const char *error_text) {
        if (r->error_text == NULL) {
                r->error_text = error_text;
                r->error_offset = (size_t)(at - r->begin);
                r->at = r->end;
        }
        return false;
}

bool json_fail_depth(struct json_reader *r) {
        if (!json_failed(r))
                r->is_too_deep = true;
        return json_fail_at(r, r->at, "JSON nesting depth exceeds maximum allowed limit (100)");
}

bool json_fail_value(struct json_reader *r) {
        if (r->at == r->end && json_blanks_end(behind_mark(r->begin, r->end), r->end) == r->end)
                return json_fail_at(r, r->at, "The document is empty.");
        return json_fail_at(r, r->at, JSON_INVALID_VALUE);
}

/* Type of a value by its first character. */
static ALWAYS_INLINE enum json_type type_of(char c) {
        static const unsigned char types[256] = {
                ['{'] = JSON_OBJECT, ['['] = JSON_ARRAY,  ['"'] = JSON_STRING, ['t'] = JSON_BOOL,
                ['f'] = JSON_BOOL,   ['n'] = JSON_NULL,   ['-'] = JSON_NUMBER, ['N'] = JSON_NUMBER,
                ['I'] = JSON_NUMBER, ['0'] = JSON_NUMBER, ['1'] = JSON_NUMBER, ['2'] = JSON_NUMBER,
                ['3'] = JSON_NUMBER, ['4'] = JSON_NUMBER, ['5'] = JSON_NUMBER, ['6'] = JSON_NUMBER,
                ['7'] = JSON_NUMBER, ['8'] = JSON_NUMBER, ['9'] = JSON_NUMBER,
        };

        return (enum json_type)types[(unsigned char)c];
}

_Static_assert(JSON_INVALID == 0, "what the table does not name is invalid");

/* A failed reader is at its end, and so needs no check of its own. */
enum json_type json_peek(struct json_reader *r) {
        enum json_type type = type_of(json_next_char(r));

        if (type == JSON_INVALID && !json_failed(r) && r->at < r->end)
                json_fail_value(r);
        return type;
}

static NOINLINE bool fail_type(struct json_reader *r, const char *error_text) {
        if (json_failed(r))
                return false;
        if (json_peek(r) == JSON_INVALID)
                return json_fail_value(r);
        return json_fail_at(r, r->at, error_text);
}

/* True when a value of the wanted type starts here; otherwise the reader fails. */
static ALWAYS_INLINE bool expect(struct json_reader *r, enum json_type wanted,
                                 const char *error_text) {
        return type_of(json_next_char(r)) == wanted || fail_type(r, error_text);
}

static void enter_level(struct json_reader *r) {
        if (r->depth == JSON_MAX_DEPTH) {
                json_fail_depth(r);
                return;
        }
        r->at++;
        r->depth++;
        r->at_first = true;
}

void json_enter_object(struct json_reader *r) {
        if (expect(r, JSON_OBJECT, "attempt to access JSON non-object as object"))
                enter_level(r);
}

void json_enter_array(struct json_reader *r) {
        if (expect(r, JSON_ARRAY, "attempt to access JSON non-array as array"))
                enter_level(r);
}

/* True when another member or element follows; consumes the comma or the closing bracket. */
static ALWAYS_INLINE bool advance(struct json_reader *r, char bracket, const char *error_text) {
        bool is_first = r->at_first;
        char c;

        if (json_failed(r))
                return false;
        c = json_next_char(r);
        r->at_first = false;
        if (c == bracket) {
                r->at++;
                r->depth -= r->depth > 0 ? 1 : 0;
                return false;
        }
        if (is_first)
                return true;
        if (c != ',')
                return json_fail_at(r, r->at, error_text);
        r->at++;
        return true;
}

bool json_take_key(struct json_reader *r, struct str *ret_raw, bool *ret_has_escapes) {
        if (json_next_char(r) != '"')
                return json_fail_at(r, r->at, "Missing a name for object member.");
        if (!json_take_string(r, ret_raw, ret_has_escapes))
                return false;
        if (json_next_char(r) != ':')
                return json_fail_at(r, r->at, "Missing a colon after a name of object member.");
        r->at++;
        return true;
}

/* Copies checked text without its escapes; fails when memory, or the arena, is short. */
static struct str resolve(struct json_reader *r, const char *at, struct str raw,
                          struct arena *arena) {
        char *out = arena != NULL ? arena_try_alloc(arena, raw.len) : NULL;

        if (out == NULL) {
                json_fail_at(r, at, "Terminate parsing due to Handler error.");
                return STR_LIT("");
        }
        return json_resolve_escapes(raw, out);
}

static NOINLINE bool next_key_of_any_kind(struct json_reader *r, struct arena *arena,
                                          struct str *ret_key) {
        struct str raw;
        bool       has_escapes;

        *ret_key = STR_LIT("");
        if (!advance(r, '}', JSON_NO_COMMA_IN_OBJECT) || !json_take_key(r, &raw, &has_escapes))
                return false;
        if (!has_escapes)
                *ret_key = raw;
        else if (arena != NULL)
                *ret_key = resolve(r, raw.ptr - 1, raw, arena);
        return !json_failed(r);
}

/* Bytes for a comma, a blank, a quote, a short key, its quote and the colon. */
#define SHORT_KEY_ROOM (3 + JSON_STOPS_ROOM + 2)

/* Finds the end of a key of up to 16 plain characters with its colon, with at most one blank before
 * it, as nearly all keys are written. Returns where the value begins; NULL for any other key. */
static ALWAYS_INLINE const char *short_key_end(const char *at, bool is_first, struct str *ret) {
        if (!is_first && *at++ != ',')
                return NULL;
        at += *at == ' ';
        if (*at++ != '"')
                return NULL;
        ret->ptr = at;
        ret->len = (size_t)__builtin_ctz(json_string_stops(at) | UINT32_C(1) << JSON_STOPS_ROOM);
        at += ret->len;
        return at[0] == '"' && at[1] == ':' ? at + 2 : NULL;
}

bool json_next_key(struct json_reader *r, struct arena *arena, struct str *ret_key) {
        const char *at = r->at;
        struct str  key;

        if (r->end - at < SHORT_KEY_ROOM)
                return next_key_of_any_kind(r, arena, ret_key);
        at = short_key_end(at, r->at_first, &key);
        if (at == NULL && *r->at == '}' && r->depth > 0) {
                r->at++;
                r->at_first = false;
                r->depth--;
                *ret_key = STR_LIT("");
                return false;
        }
        if (at == NULL)
                return next_key_of_any_kind(r, arena, ret_key);
        r->at = at;
        r->at_first = false;
        *ret_key = key;
        return true;
}

bool json_next_element(struct json_reader *r) {
        return advance(r, ']', JSON_NO_COMMA_IN_ARRAY);
}

bool json_take_literal(struct json_reader *r, const char *word) {
        const char *at = r->at;

        for (; *word != '\0'; word++, at++) {
                if (at == r->end || *at != *word)
                        return json_fail_at(r, at, JSON_INVALID_VALUE);
        }
        r->at = at;
        return true;
}

bool json_read_bool(struct json_reader *r) {
        if (!expect(r, JSON_BOOL, "attempt to access JSON non-boolean as boolean"))
                return false;

        if (r->end - r->at >= 5) { /* the frequent case; strings of a constant length */
                bool is_true = memcmp(r->at, "true", 4) == 0;

                if (is_true || memcmp(r->at, "false", 5) == 0) {
                        r->at += is_true ? 4 : 5;
                        return is_true;
                }
        }

        bool value = *r->at == 't';

        return json_take_literal(r, value ? "true" : "false") && value;
}

void json_read_null(struct json_reader *r) {
        if (expect(r, JSON_NULL, "attempt to access JSON non-null as null"))
                json_take_literal(r, "null");
}

bool json_take_number(struct json_reader *r, struct json_number_scan *ret) {
        double value;

        json_number_scan(r->at, r->end, ret);
        if (ret->kind == JSON_NUMBER_BAD)
                return json_fail_at(r, ret->at, ret->error_text);
        /* The mantissa has at most 19 digits: below 10^289 no value can be too large. */
        if (ret->decimal.exponent > 289 && !json_number_get_f64(ret, &value))
                return json_fail_at(r, r->at, "Number too big to be stored in double.");
        r->at = ret->at;
        return true;
}

bool json_try_string(struct json_reader *r, struct str *ret) {
        return json_next_char(r) == '"' && json_take_plain_string(&r->at, r->end, ret);
}

bool json_try_u64(struct json_reader *r, uint64_t *ret) {
        const char *at = r->at = json_blanks_end(r->at, r->end);
        uint64_t    value = 0;

        for (; at < r->end && *at >= '0' && *at <= '9'; at++)
                value = value * 10 + (uint64_t)(*at - '0');
        /* Other forms of a number go to the complete scanner; 19 digits fit in 64 bits. */
        if (at == r->at || at - r->at > 19 || (*r->at == '0' && at - r->at > 1) || at == r->end ||
            *at == '.' || (*at | 0x20) == 'e')
                return false;
        *ret = value;
        r->at = at;
        return true;
}

struct json_number json_read_number(struct json_reader *r) {
        struct json_number_scan scan;
        struct json_number      number = { 0 };

        if (!expect(r, JSON_NUMBER, "attempt to access JSON non-number as double") ||
            !json_take_number(r, &scan))
                return number;

        json_number_get_f64(&scan, &number.real);
        number.is_negative = scan.decimal.is_negative;
        number.is_integer = json_number_get_magnitude(&scan, &number.magnitude);
        if (number.is_integer && number.is_negative) {
                /* -0 is an integer like any other zero; -2^63 is the least that fits. */
                number.is_negative = number.magnitude != 0;
                number.is_integer = number.magnitude <= 1ull << 63;
        }
        if (!number.is_integer)
                number.magnitude = 0;
        return number;
}

static NOINLINE struct str read_any_string(struct json_reader *r, struct arena *arena) {
        const char *quote = r->at;
        struct str  raw;
        bool        has_escapes;

        if (!json_take_string(r, &raw, &has_escapes))
                return STR_LIT("");
        return has_escapes ? resolve(r, quote, raw, arena) : raw;
}

struct str json_read_string(struct json_reader *r, struct arena *arena) {
        struct str text;

        if (!expect(r, JSON_STRING, "attempt to access JSON non-string as string"))
                return STR_LIT("");
        if (json_take_plain_string(&r->at, r->end, &text))
                return text;
        return read_any_string(r, arena);
}

void json_read_end(struct json_reader *r) {
        if (json_failed(r))
                return;
        if (json_next_char(r) != '\0' || r->at < r->end)
                json_fail_at(r, r->at, "The document root must not be followed by other values.");
        else if (json_blanks_end(behind_mark(r->begin, r->end), r->end) == r->end)
                json_fail_value(r);
}

/* ---- strings ---- */

#define ESCAPE_HEX "Incorrect hex digit after \\u escape in string."
#define ESCAPE_SURROGATE "The surrogate pair in string is invalid."
#define ESCAPE_LETTER "Invalid escape character in string."
#define NO_QUOTE "Missing a closing quotation mark in string."
#define BAD_ENCODING "Invalid encoding in string."

/* Finds the first of: quote, backslash, control character, byte beyond ASCII. */
static const char *plain_end(const char *at, const char *end) {
        const uint64_t ones = 0x0101010101010101, tops = 0x8080808080808080;

        while (end - at >= 8) {
                uint64_t word;

                memcpy(&word, at, sizeof(word));
                uint64_t quotes = word ^ (ones * '"');
                uint64_t slashes = word ^ (ones * '\\');
                /* Borrows change only bytes after the first hit. */
                uint64_t hits = ((quotes - ones) & ~quotes) | ((slashes - ones) & ~slashes) |
                                ((word - ones * 0x20) & ~word) | word;

                hits &= tops;
                if (hits != 0)
                        return at + __builtin_ctzll(hits) / 8;
                at += 8;
        }
        while (at < end && *at != '"' && *at != '\\' && (unsigned char)*at >= 0x20 &&
               (unsigned char)*at < 0x80)
                at++;
        return at;
}

int32_t json_hex4(const char *at, const char *end) {
        int32_t unit = 0;

        if (end - at < 4)
                return -1;
        for (int i = 0; i < 4; i++) {
                int digit = str_hex_digit(at[i]);

                if (digit < 0)
                        return -1;
                unit = unit * 16 + digit;
        }
        return unit;
}

/* `at` is after "\u". Returns the code point and its end, or an error text. */
static const char *take_unicode(const char **at, const char *end, uint32_t *ret_point) {
        int32_t high = json_hex4(*at, end);

        if (high < 0)
                return ESCAPE_HEX;
        *at += 4;
        *ret_point = (uint32_t)high;
        if (high < 0xd800 || high > 0xdfff)
                return NULL;
        if (high > 0xdbff || end - *at < 2 || (*at)[0] != '\\' || (*at)[1] != 'u')
                return ESCAPE_SURROGATE;

        int32_t low = json_hex4(*at + 2, end);

        if (low < 0)
                return ESCAPE_HEX;
        if (low < 0xdc00 || low > 0xdfff)
                return ESCAPE_SURROGATE;
        *at += 6;
        *ret_point = 0x10000 + ((uint32_t)(high - 0xd800) << 10) + (uint32_t)(low - 0xdc00);
        return NULL;
}

/* The letters of the short escapes, and the characters that they represent. */
static const char escape_letters[] = "\"\\/bfnrt";
static const char escape_values[] = "\"\\/\b\f\n\r\t";

/* *at is at the backslash. */
static const char *take_escape(const char **at, const char *end, uint32_t *ret_point) {
        const char *letter;

        if (end - *at < 2)
                return ESCAPE_LETTER;
        *at += 2;
        if ((*at)[-1] == 'u')
                return take_unicode(at, end, ret_point);
        letter = (*at)[-1] != '\0' ? strchr(escape_letters, (*at)[-1]) : NULL;
        if (letter == NULL)
                return ESCAPE_LETTER;
        *ret_point = (uint32_t)escape_values[letter - escape_letters];
        return NULL;
}

/* From after the opening quote, skips escapes and UTF-8 up to the closing quote. */
static bool take_content(struct json_reader *r, const char *at, const char **ret_end,
                         bool *ret_has_escapes) {
        for (;;) {
                at = plain_end(at, r->end);
                if (at == r->end)
                        return json_fail_at(r, at, NO_QUOTE);
                if (*at == '"') {
                        *ret_end = at;
                        return true;
                }
                if (*at == '\\') {
                        const char *backslash = at;
                        uint32_t    point;
                        const char *error_text = take_escape(&at, r->end, &point);

                        if (error_text != NULL)
                                return json_fail_at(r, backslash, error_text);
                        *ret_has_escapes = true;
                        continue;
                }
                if ((unsigned char)*at <
                    0x20) /* the reference server treats a NUL as the end of the text */
                        return json_fail_at(r, at, *at == '\0' ? NO_QUOTE : BAD_ENCODING);

                size_t len = str_utf8_first(str_range(at, (size_t)(r->end - at)));

                if (len == 0)
                        return json_fail_at(r, at, BAD_ENCODING);
                at += len;
        }
}

bool json_take_string(struct json_reader *r, struct str *ret_raw, bool *ret_has_escapes) {
        const char *begin = r->at + 1, *end = begin;

        *ret_has_escapes = false;
        if (!take_content(r, begin, &end, ret_has_escapes))
                return false;
        *ret_raw = str_range(begin, (size_t)(end - begin));
        r->at = end + 1;
        return true;
}

static char *put_utf8(char *out, uint32_t point) {
        if (point < 0x80) {
                *out++ = (char)point;
                return out;
        }
        if (point < 0x800) {
                *out++ = (char)(0xc0 | point >> 6);
        } else {
                if (point < 0x10000) {
                        *out++ = (char)(0xe0 | point >> 12);
                } else {
                        *out++ = (char)(0xf0 | point >> 18);
                        *out++ = (char)(0x80 | (point >> 12 & 0x3f));
                }
                *out++ = (char)(0x80 | (point >> 6 & 0x3f));
        }
        *out++ = (char)(0x80 | (point & 0x3f));
        return out;
}

/* `raw` was checked. Resolved text is never longer: the shortest escape has two characters, and six
 * characters give at most three bytes. */
struct str json_resolve_escapes(struct str raw, char *out) {
        const char *at = raw.ptr, *end = raw.ptr + raw.len;
        char       *to = out;

        while (at < end) {
                const char *backslash = memchr(at, '\\', (size_t)(end - at));
                size_t      n_plain = (size_t)((backslash != NULL ? backslash : end) - at);
                uint32_t    point = 0;

                memcpy(to, at, n_plain);
                to += n_plain;
                at += n_plain;
                if (at < end && take_escape(&at, end, &point) == NULL)
                        to = put_utf8(to, point);
        }
        return str_range(out, (size_t)(to - out));
}
