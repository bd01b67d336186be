/* SPDX-License-Identifier: BSD-3-Clause */
/* Skips a value of any kind, checked as if it were read, without recursion.
 *
 * Open arrays and objects are a stack of bits. A value that is skipped, or read as a tensor, may
 * itself nest JSON_MAX_DEPTH deep wherever it stands: the reference counts the depth of a tensor's
 * "data" from its outermost bracket.
 */
#include "codec/json_number.h"
#include "codec/json_scan.h"

struct nesting {
        uint64_t is_object[2]; /* one bit per level, outermost first */
        unsigned depth;
};

_Static_assert(JSON_MAX_DEPTH <= 128, "the levels have a bit each");

static bool push_level(struct json_reader *r, struct nesting *n, bool is_object) {
        uint64_t bit = 1ull << (n->depth % 64);

        if (n->depth == JSON_MAX_DEPTH)
                return json_fail_depth(r);
        if (is_object)
                n->is_object[n->depth / 64] |= bit;
        else
                n->is_object[n->depth / 64] &= ~bit;
        n->depth++;
        r->at++;
        return true;
}

static bool is_in_object(const struct nesting *n) {
        return n->is_object[(n->depth - 1) / 64] >> ((n->depth - 1) % 64) & 1;
}

static bool skip_key(struct json_reader *r) {
        struct str raw;
        bool       has_escapes;

        return json_take_key(r, &raw, &has_escapes);
}

/* Bytes that must be readable to scan a whole number without checking for the end. */
#define PLAIN_ROOM 33

/* End of a number without exponent and of at most 31 characters; NULL for any other. */
static ALWAYS_INLINE const char *plain_number_end(const char *at) {
        uint32_t minus = json_minus(at);
        uint32_t others = (json_digits_mask(at) | json_digits_mask(at + 16) << 16) & ~minus;
        unsigned stop;

        if (others == 0)
                return NULL;
        stop = (unsigned)__builtin_ctz(others);
        if (stop == minus || (at[minus] == '0' && stop > minus + 1))
                return NULL;
        if (at[stop] == '.') {
                unsigned dot = stop;

                others &= others - 1;
                if (others == 0)
                        return NULL;
                stop = (unsigned)__builtin_ctz(others);
                if (stop == dot + 1)
                        return NULL;
        }
        return (at[stop] | 0x20) == 'e' ? NULL : at + stop;
}

/* In an array, skips consecutive plain numbers, each with a comma and at most one blank in between;
 * r->at ends after the last one, or stays. */
static bool skip_plain_numbers(struct json_reader *r) {
        const char *at = r->at;
        bool        has_any = false;

        while (r->end - at >= PLAIN_ROOM) {
                at = plain_number_end(at);
                if (at == NULL)
                        break;
                r->at = at;
                has_any = true;
                if (*at != ',')
                        break;
                at += at[1] == ' ' ? 2 : 1;
        }
        return has_any;
}

static bool skip_number(struct json_reader *r, const struct nesting *n) {
        struct json_number_scan scan;

        if (n->depth > 0 && !is_in_object(n) && skip_plain_numbers(r))
                return true;
        return json_take_number(r, &scan);
}

static bool skip_scalar(struct json_reader *r, const struct nesting *n, char first) {
        struct str raw;
        bool       has_escapes;

        switch (first) {
        case '"': return json_take_string(r, &raw, &has_escapes);
        case 't': return json_take_literal(r, "true");
        case 'f': return json_take_literal(r, "false");
        case 'n': return json_take_literal(r, "null");
        default: return r->at < r->end ? skip_number(r, n) : json_fail_value(r);
        }
}

/* After a value: consumes closing brackets, and the comma (and key) before the next value.
 * ret_is_done: all brackets are closed. */
static bool skip_to_next(struct json_reader *r, struct nesting *n, bool *ret_is_done) {
        for (; n->depth > 0; n->depth--) {
                bool in_object = is_in_object(n);
                char c = json_next_char(r);

                if (c == ',') {
                        r->at++;
                        return !in_object || skip_key(r);
                }
                if (c != (in_object ? '}' : ']'))
                        return json_fail_at(r, r->at,
                                            in_object ? JSON_NO_COMMA_IN_OBJECT
                                                      : JSON_NO_COMMA_IN_ARRAY);
                r->at++;
        }
        *ret_is_done = true;
        return true;
}

/* Enters a bracket. *ret_is_empty: it was closed at once. */
static bool skip_into(struct json_reader *r, struct nesting *n, bool *ret_is_empty) {
        bool is_object = *r->at == '{';

        if (!push_level(r, n, is_object))
                return false;
        *ret_is_empty = json_next_char(r) == (is_object ? '}' : ']');
        if (*ret_is_empty) {
                r->at++;
                n->depth--;
                return true;
        }
        return !is_object || skip_key(r);
}

/* r->at is at the start of a value. */
static bool skip_values(struct json_reader *r, struct nesting *n) {
        bool is_done = false;

        while (!is_done) {
                char c = json_next_char(r);
                bool is_behind_value = true;

                if (c == '{' || c == '[') {
                        if (!skip_into(r, n, &is_behind_value))
                                return false;
                } else if (!skip_scalar(r, n, c)) {
                        return false;
                }
                if (is_behind_value && !skip_to_next(r, n, &is_done))
                        return false;
        }
        return true;
}

bool json_skip_arrays(struct json_reader *r, unsigned n_arrays) {
        struct nesting n = { .depth = n_arrays };

        return skip_values(r, &n);
}

struct str json_skip(struct json_reader *r) {
        struct nesting n = { .depth = 0 };
        const char    *begin;

        if (json_failed(r))
                return STR_LIT("");
        json_next_char(r);
        begin = r->at;
        if (!skip_values(r, &n))
                return STR_LIT("");
        return str_range(begin, (size_t)(r->at - begin));
}
