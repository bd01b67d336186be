/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/json_number.h"

#include <math.h>
#include <stddef.h>

/* An exponent beyond this decides the value by itself: no text has as many digits. */
#define MAX_WRITTEN_EXPONENT 100000000000000000

static bool is_digit_at(const char *at, const char *end) {
        return at < end && (unsigned char)(*at - '0') <= 9;
}

static void fail_at(struct json_number_scan *scan, const char *at, const char *text) {
        scan->kind = JSON_NUMBER_BAD;
        scan->at = at;
        scan->error_text = text;
}

/* Reads a run of digits; `step` is -1 after the dot, where each digit lowers the exponent. */
static const char *take_digits(const char *at, const char *end, int step, struct decimal *d,
                               unsigned *n_significant) {
        while (end - at >= 8 && d->mantissa != 0 && *n_significant + 8 <= DECIMAL_MAX_DIGITS) {
                uint64_t word = json_digits_load(at);

                if (json_digits_count(word) < 8)
                        break;
                d->mantissa = d->mantissa * 100000000 + json_digits_value(word);
                d->exponent += 8 * step;
                *n_significant += 8;
                at += 8;
        }
        for (; is_digit_at(at, end); at++) {
                if (*n_significant == DECIMAL_MAX_DIGITS) {
                        d->is_cut = true;
                        d->exponent += 1 + step;
                        continue;
                }
                d->mantissa = d->mantissa * 10 + (uint64_t)(*at - '0');
                d->exponent += step;
                *n_significant += d->mantissa != 0;
        }
        return at;
}

static bool take_word(const char **at, const char *end, const char *word) {
        size_t len = strlen(word);

        if ((size_t)(end - *at) < len || memcmp(*at, word, len) != 0)
                return false;
        *at += len;
        return true;
}

static bool scan_literal(const char *at, const char *end, struct json_number_scan *ret) {
        if (take_word(&at, end, "NaN"))
                ret->kind = JSON_NUMBER_NAN;
        else if (take_word(&at, end, "Infinity") || take_word(&at, end, "Inf"))
                ret->kind = JSON_NUMBER_INFINITY;
        else
                return false;
        ret->at = at;
        return true;
}

static const char *scan_exponent(const char *at, const char *end, struct json_number_scan *ret) {
        bool    is_negative = false;
        int64_t exponent = 0;

        if (at < end && (*at == '+' || *at == '-'))
                is_negative = *at++ == '-';
        if (!is_digit_at(at, end)) {
                fail_at(ret, at, "Miss exponent in number.");
                return NULL;
        }
        for (; is_digit_at(at, end); at++) {
                if (exponent < MAX_WRITTEN_EXPONENT)
                        exponent = exponent * 10 + (*at - '0');
        }
        ret->decimal.shift = is_negative ? -exponent : exponent;
        ret->decimal.exponent += ret->decimal.shift;
        return at;
}

void json_number_scan(const char *at, const char *end, struct json_number_scan *ret) {
        struct decimal *d = &ret->decimal;
        unsigned        n_significant = 0;

        *ret = (struct json_number_scan){ .kind = JSON_NUMBER_INTEGER };
        if (at < end && *at == '-') {
                d->is_negative = true;
                at++;
        }
        d->digits = at;
        if (!is_digit_at(at, end)) {
                if (!scan_literal(at, end, ret))
                        fail_at(ret, at, "Invalid value.");
                return;
        }
        if (*at == '0')
                at++;
        else
                at = take_digits(at, end, 0, d, &n_significant);
        if (at < end && *at == '.') {
                ret->kind = JSON_NUMBER_REAL;
                if (!is_digit_at(++at, end)) {
                        fail_at(ret, at, "Miss fraction part in number.");
                        return;
                }
                at = take_digits(at, end, -1, d, &n_significant);
        }
        d->digits_end = at;
        if (at < end && (*at == 'e' || *at == 'E')) {
                ret->kind = JSON_NUMBER_REAL;
                at = scan_exponent(at + 1, end, ret);
                if (at == NULL)
                        return;
        }
        ret->at = at;
}

static double special_value(const struct json_number_scan *scan) {
        double value = scan->kind == JSON_NUMBER_NAN ? (double)NAN : (double)INFINITY;

        return scan->decimal.is_negative ? -value : value;
}

bool json_number_get_f64(const struct json_number_scan *scan, double *ret) {
        if (scan->kind == JSON_NUMBER_INFINITY || scan->kind == JSON_NUMBER_NAN) {
                *ret = special_value(scan);
                return true;
        }
        *ret = float_parse_f64(&scan->decimal);
        return !isinf(*ret);
}

bool json_number_get_f32(const struct json_number_scan *scan, float *ret) {
        double wide;

        if (scan->kind == JSON_NUMBER_INFINITY || scan->kind == JSON_NUMBER_NAN) {
                *ret = (float)special_value(scan);
                return true;
        }
        *ret = float_parse_f32(&scan->decimal);
        return !isinf(*ret) || json_number_get_f64(scan, &wide);
}

bool json_number_get_magnitude(const struct json_number_scan *scan, uint64_t *ret) {
        const struct decimal *d = &scan->decimal;
        uint64_t              magnitude = 0;

        if (scan->kind != JSON_NUMBER_INTEGER)
                return false;
        if (!d->is_cut) {
                *ret = d->mantissa;
                return true;
        }
        for (const char *p = d->digits; p < d->digits_end; p++) { /* 20 digits may or may not fit */
                if (__builtin_mul_overflow(magnitude, 10u, &magnitude) ||
                    __builtin_add_overflow(magnitude, (uint64_t)(*p - '0'), &magnitude))
                        return false;
        }
        *ret = magnitude;
        return true;
}
