/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads arrays of numbers directly into tensors: the hot path of JSON requests.
 *
 * Two readers take turns. The careful reader handles the whole grammar, brackets, blanks, errors
 * and the end of the text. The quick readers, one for each kind of element, read runs of plain
 * numbers separated by a comma and at most one blank. They need QUICK_ROOM readable bytes, so that
 * they never check for the end, and they stop before any other text. The careful reader would read
 * the same numbers with the same values.
 */
#include "codec/json_number.h"
#include "codec/json_scan.h"
#include "codec/pow10_table.h"

#include <math.h>
#include <string.h>

#define QUICK_ROOM 64

struct tensor_cursor {
        struct json_reader     *reader; /* borrowed */
        enum json_element       element;
        char                   *out; /* borrowed */
        size_t                  n;   /* elements wanted */
        size_t                  n_done;
        unsigned                depth; /* open arrays, counted from the tensor's outermost */
        enum json_tensor_status status;
};

#define SIGNED "attempt to access JSON non-signed-integer as signed-integer"
#define UNSIGNED "attempt to access JSON non-unsigned-integer as unsigned-integer"
#define REAL "attempt to access JSON non-number as double"

static const struct element_kind {
        size_t      bytes;
        const char *type_error;
} element_kinds[] = {
        [JSON_ELEMENT_BOOL] = { 1, "attempt to access JSON non-boolean as boolean" },
        [JSON_ELEMENT_U8] = { 1, UNSIGNED },
        [JSON_ELEMENT_U16] = { 2, UNSIGNED },
        [JSON_ELEMENT_U32] = { 4, UNSIGNED },
        [JSON_ELEMENT_U64] = { 8, UNSIGNED },
        [JSON_ELEMENT_I8] = { 1, SIGNED },
        [JSON_ELEMENT_I16] = { 2, SIGNED },
        [JSON_ELEMENT_I32] = { 4, SIGNED },
        [JSON_ELEMENT_I64] = { 8, SIGNED },
        [JSON_ELEMENT_F32] = { 4, REAL },
        [JSON_ELEMENT_F64] = { 8, REAL },
};

const char *json_tensor_type_error(enum json_element element) {
        return element_kinds[element].type_error;
}

/* A number as the quick readers parse it: at most 19 digits, leading zeros counted. */
struct quick_number {
        uint64_t    mantissa;
        int         exponent;
        const char *end; /* NULL: not plain */
};

/* Number that 1 to 19 digits represent. Their count differs from number to number, so a branch on
 * it would be mispredicted half of the time: up to 16 digits there is none. */
static ALWAYS_INLINE uint64_t quick_digits(const char *at, unsigned n) {
        unsigned n_first = MIN(n, 8), n_second = MIN(n - n_first, 8);
        uint64_t first = json_digits_value_n(json_digits_load(at), n_first);
        uint64_t second = json_digits_load(at + 8) << ((64 - 8 * n_second) & 63);
        uint64_t value = first * pow10_u64[n_second] +
                         (json_digits_value(second) & (0 - (uint64_t)(n_second != 0)));

        if (n > 16)
                value = value * pow10_u64[n - 16] +
                        json_digits_value_n(json_digits_load(at + 16), n - 16);
        return value;
}

/* Number of digits, 32 for "too many". */
static ALWAYS_INLINE unsigned quick_count(const char *at) {
        uint32_t others = json_digits_mask(at) | json_digits_mask(at + 16) << 16;

        return others != 0 ? (unsigned)__builtin_ctz(others) : 32;
}

/* Reads the exponent after the 'e': at most three digits. */
static ALWAYS_INLINE void quick_exponent(const char *at, struct quick_number *q) {
        uint32_t minus = json_minus(at);
        uint64_t word;
        unsigned n;
        int      exponent;

        at += minus;
        if (*at == '+')
                at += 1 - minus;
        word = json_digits_load(at);
        n = json_digits_count(word);
        q->end = NULL;
        if (n == 0 || n > 3)
                return;
        exponent = (int)json_digits_value_n(word, n);
        q->exponent += (exponent ^ -(int)minus) + (int)minus;
        q->end = at + n;
}

/* Any plain number: 19 digits, with or without dot and exponent. */
static ALWAYS_INLINE struct quick_number quick_long(const char *at) {
        struct quick_number q = { .end = NULL };
        const char         *digits = at + json_minus(at);
        unsigned            n = quick_count(digits), n_fraction;

        if (n == 0 || n > DECIMAL_MAX_DIGITS || (*digits == '0' && n > 1))
                return q;
        q.mantissa = quick_digits(digits, n);
        digits += n;
        if (*digits == '.') {
                n_fraction = quick_count(++digits);
                if (n_fraction == 0 || n + n_fraction > DECIMAL_MAX_DIGITS)
                        return q;
                q.mantissa = q.mantissa * pow10_u64[n_fraction] + quick_digits(digits, n_fraction);
                q.exponent = -(int)n_fraction;
                digits += n_fraction;
        }
        q.end = digits;
        return q;
}

/* The frequent shape, "-1.2345678": at most 7 digits, a dot, and digits, 15 characters in all. One
 * load of 16 characters finds both ends. The next number depends on the steps from `at` to the end:
 * they are few, and none of them depends on a value. */
static ALWAYS_INLINE struct quick_number quick_short(const char *at) {
        struct quick_number q = { .end = NULL };
        uint32_t            minus = json_minus(at);
        uint32_t            others = json_digits_mask(at) & ~minus;
        unsigned            dot = (unsigned)__builtin_ctz(others | 0x10000);
        unsigned            stop = (unsigned)__builtin_ctz((others & (others - 1)) | 0x10000);
        const char         *digits = at + minus;
        unsigned            n = dot - minus, n_first, n_second;
        uint64_t            first, before;

        if (n - 1 > 6 || at[dot] != '.' || stop == 16 || stop == dot + 1 ||
            (*digits == '0' && n > 1))
                return q;
        /* Seven digits from the first eight characters, without the dot; up to seven follow. */
        before = (1ull << (8 * n)) - 1;
        first = json_digits_load(digits);
        first = (first & before) | ((first >> 8) & ~before);
        n = stop - minus - 1;
        n_first = MIN(n, 7);
        n_second = n - n_first;
        q.mantissa = json_digits_value_n(first, n_first) * pow10_u64[n_second] +
                     json_digits_value(json_digits_load(digits + 8) << (56 - 8 * n_second) << 8);
        q.exponent = (int)(dot + 1) - (int)stop;
        q.end = at + stop;
        return q;
}

/* Position after a comma and at most one blank; NULL for any other text. */
static ALWAYS_INLINE const char *quick_next(const char *at) {
        if (*at != ',')
                return NULL;
        /* A branch rather than an addition: it is predicted well, and so the address is known
         * early. */
        if (at[1] == ' ')
                return at + 2;
        return at + 1;
}

/* Reads plain numbers from *at on; *at ends after the last one read, or stays when there is none.
 * Returns their count. */
typedef size_t (*quick_run_fn)(const char **at, const char *end, char *out, size_t n);

static ALWAYS_INLINE bool quick_f32(const char *at, const char **ret_end, float *ret) {
        struct quick_number q = quick_short(at);

        if (q.end == NULL)
                q = quick_long(at);
        else if ((*q.end | 0x20) != 'e' && float_parse_exact_f32(q.mantissa, q.exponent, ret)) {
                *ret_end = q.end;
                return true;
        }
        if (q.end != NULL && (*q.end | 0x20) == 'e')
                quick_exponent(q.end + 1, &q);
        *ret_end = q.end;
        return q.end != NULL && float_parse_wide_f32(q.mantissa, q.exponent, ret) && !isinf(*ret);
}

static size_t run_f32(const char **at, const char *end, char *out, size_t n) {
        const char *next = *at, *last = *at;
        size_t      n_done = 0;

        while (n_done < n && next != NULL && end - next >= QUICK_ROOM) {
                uint32_t    minus = json_minus(next);
                const char *number_end;
                float       value;
                uint32_t    bits;

                if (!quick_f32(next, &number_end, &value))
                        break;
                memcpy(&bits, &value, sizeof(bits));
                bits |= minus << 31;
                memcpy(out + 4 * n_done++, &bits, sizeof(bits));
                last = number_end;
                next = quick_next(number_end);
        }
        *at = last;
        return n_done;
}

static ALWAYS_INLINE bool quick_f64(const char *at, const char **ret_end, double *ret) {
        struct quick_number q = quick_short(at);

        if (q.end == NULL)
                q = quick_long(at);
        else if ((*q.end | 0x20) != 'e' && float_parse_exact_f64(q.mantissa, q.exponent, ret)) {
                *ret_end = q.end;
                return true;
        }
        if (q.end != NULL && (*q.end | 0x20) == 'e')
                quick_exponent(q.end + 1, &q);
        *ret_end = q.end;
        return q.end != NULL && float_parse_wide_f64(q.mantissa, q.exponent, ret) && !isinf(*ret);
}

static size_t run_f64(const char **at, const char *end, char *out, size_t n) {
        const char *next = *at, *last = *at;
        size_t      n_done = 0;

        while (n_done < n && next != NULL && end - next >= QUICK_ROOM) {
                uint32_t    minus = json_minus(next);
                const char *number_end;
                double      value;
                uint64_t    bits;

                if (!quick_f64(next, &number_end, &value))
                        break;
                memcpy(&bits, &value, sizeof(bits));
                bits |= (uint64_t)minus << 63;
                memcpy(out + 8 * n_done++, &bits, sizeof(bits));
                last = number_end;
                next = quick_next(number_end);
        }
        *at = last;
        return n_done;
}

/* An integer of at most 19 digits. */
static ALWAYS_INLINE struct quick_number quick_integer(const char *at) {
        struct quick_number q = { .end = NULL };
        unsigned            n = quick_count(at);

        if (n == 0 || n > DECIMAL_MAX_DIGITS || (*at == '0' && n > 1))
                return q;
        q.mantissa = n <= 8 ? json_digits_value_n(json_digits_load(at), n) : quick_digits(at, n);
        q.end = at + n;
        return q;
}

static ALWAYS_INLINE size_t run_integer(const char **at, const char *end, char *out, size_t n,
                                        size_t bytes, bool is_signed) {
        const char *next = *at;
        size_t      n_done = 0;

        while (n_done < n && next != NULL && end - next >= QUICK_ROOM) {
                uint32_t            minus = is_signed ? json_minus(next) : 0;
                struct quick_number q = quick_integer(next + minus);

                if (q.end == NULL || *q.end == '.' || (*q.end | 0x20) == 'e' ||
                    (is_signed && q.mantissa > INT64_MAX))
                        break;
                /* Little-endian: the low bytes are the truncated value. */
                q.mantissa = (q.mantissa ^ (0 - (uint64_t)minus)) + minus;
                memcpy(out, &q.mantissa, bytes);
                out += bytes;
                n_done++;
                *at = q.end;
                next = quick_next(q.end);
        }
        return n_done;
}

#define DEFINE_RUN(name, call)                                                                     \
        static size_t name(const char **at, const char *end, char *out, size_t n) {                \
                return call;                                                                       \
        }
DEFINE_RUN(run_u8, run_integer(at, end, out, n, 1, false))
DEFINE_RUN(run_u16, run_integer(at, end, out, n, 2, false))
DEFINE_RUN(run_u32, run_integer(at, end, out, n, 4, false))
DEFINE_RUN(run_u64, run_integer(at, end, out, n, 8, false))
DEFINE_RUN(run_i8, run_integer(at, end, out, n, 1, true))
DEFINE_RUN(run_i16, run_integer(at, end, out, n, 2, true))
DEFINE_RUN(run_i32, run_integer(at, end, out, n, 4, true))
DEFINE_RUN(run_i64, run_integer(at, end, out, n, 8, true))

static const quick_run_fn quick_runs[] = {
        [JSON_ELEMENT_U8] = run_u8,   [JSON_ELEMENT_U16] = run_u16, [JSON_ELEMENT_U32] = run_u32,
        [JSON_ELEMENT_U64] = run_u64, [JSON_ELEMENT_I8] = run_i8,   [JSON_ELEMENT_I16] = run_i16,
        [JSON_ELEMENT_I32] = run_i32, [JSON_ELEMENT_I64] = run_i64, [JSON_ELEMENT_F32] = run_f32,
        [JSON_ELEMENT_F64] = run_f64, [JSON_ELEMENT_BOOL] = NULL,
};

static bool stop_at(struct tensor_cursor *t, enum json_tensor_status status) {
        t->status = status;
        return false;
}

/* The careful reader. The caller reports failures of the JSON reader itself. */

static bool store_real(struct tensor_cursor *t, const struct json_number_scan *scan) {
        char  *out = t->out + t->n_done * element_kinds[t->element].bytes;
        double f64;
        float  f32;

        if (t->element == JSON_ELEMENT_F32 && json_number_get_f32(scan, &f32))
                memcpy(out, &f32, sizeof(f32));
        else if (t->element == JSON_ELEMENT_F64 && json_number_get_f64(scan, &f64))
                memcpy(out, &f64, sizeof(f64));
        t->n_done++;
        return true;
}

static bool store_integer(struct tensor_cursor *t, const struct json_number_scan *scan) {
        size_t   bytes = element_kinds[t->element].bytes;
        bool     is_signed = t->element >= JSON_ELEMENT_I8;
        bool     is_negative = scan->decimal.is_negative;
        uint64_t magnitude;

        if (!json_number_get_magnitude(scan, &magnitude))
                return stop_at(t, JSON_TENSOR_WRONG_TYPE);
        if (is_signed ? magnitude > (uint64_t)INT64_MAX + is_negative
                      : is_negative && magnitude != 0)
                return stop_at(t, JSON_TENSOR_WRONG_TYPE);
        magnitude = is_negative ? 0 - magnitude : magnitude;
        memcpy(t->out + t->n_done * bytes, &magnitude, bytes);
        t->n_done++;
        return true;
}

static bool take_number(struct tensor_cursor *t) {
        struct json_number_scan scan;
        const char             *begin = t->reader->at;

        if (!json_take_number(t->reader, &scan))
                return false;
        if (t->element >= JSON_ELEMENT_F32)
                return store_real(t, &scan);
        if (store_integer(t, &scan))
                return true;
        t->reader->at = begin; /* skipping starts at the beginning of a value */
        return false;
}

/* At a value that is not an array. */
static bool take_scalar(struct tensor_cursor *t, enum json_type type) {
        enum json_type wanted = t->element == JSON_ELEMENT_BOOL ? JSON_BOOL : JSON_NUMBER;

        if (type == JSON_INVALID)
                return json_fail_value(t->reader);
        if (t->n_done == t->n)
                return stop_at(t, JSON_TENSOR_TOO_MANY);
        if (type != wanted)
                return stop_at(t, JSON_TENSOR_WRONG_TYPE);
        if (type == JSON_NUMBER)
                return take_number(t);
        t->out[t->n_done++] = json_read_bool(t->reader) ? 1 : 0;
        return !json_failed(t->reader);
}

/* At a value: opens arrays up to an element, and reads it and, quickly, the elements after it. */
static bool take_value(struct tensor_cursor *t) {
        struct json_reader *r = t->reader;
        quick_run_fn        run = quick_runs[t->element];
        size_t              n_quick = 0;

        while (json_next_char(r) == '[') {
                if (t->depth == JSON_MAX_DEPTH)
                        return json_fail_depth(r);
                t->depth++;
                r->at++;
                if (json_next_char(r) == ']')
                        return true; /* empty: the caller consumes the bracket */
        }
        if (run != NULL && t->n_done < t->n)
                n_quick = run(&r->at, r->end, t->out + t->n_done * element_kinds[t->element].bytes,
                              t->n - t->n_done);
        t->n_done += n_quick;
        return n_quick > 0 || take_scalar(t, json_peek(r));
}

/* After a value: consumes closing brackets and the comma before the next value. */
static bool take_separator(struct tensor_cursor *t) {
        struct json_reader *r = t->reader;

        for (; t->depth > 0; t->depth--) {
                char c = json_next_char(r);

                if (c == ']') {
                        r->at++;
                        continue;
                }
                if (c != ',')
                        return json_fail_at(r, r->at, JSON_NO_COMMA_IN_ARRAY);
                r->at++;
                return true;
        }
        return true;
}

static enum json_tensor_status tensor_status(struct tensor_cursor *t) {
        struct json_reader *r = t->reader;

        /* Syntax errors of the rest take precedence over errors of the tensor: read on. */
        if (t->status != JSON_TENSOR_OK && !json_failed(r))
                json_skip_arrays(r, t->depth);
        if (json_failed(r))
                return r->is_too_deep ? JSON_TENSOR_TOO_DEEP : JSON_TENSOR_SYNTAX;
        if (t->status == JSON_TENSOR_OK && t->n_done < t->n)
                return JSON_TENSOR_TOO_FEW;
        return t->status;
}

enum json_tensor_status json_read_tensor(struct json_reader *r, enum json_element element,
                                         void *out, size_t n) {
        struct tensor_cursor t = { .reader = r, .element = element, .out = out, .n = n };
        enum json_type       type = json_peek(r);

        if (type == JSON_INVALID) {
                if (!json_failed(r))
                        json_fail_value(r);
                return JSON_TENSOR_SYNTAX;
        }
        if (type != JSON_ARRAY)
                t.status = JSON_TENSOR_WRONG_TYPE;
        while (t.status == JSON_TENSOR_OK && take_value(&t) && take_separator(&t) && t.depth > 0)
                continue;
        return tensor_status(&t);
}
