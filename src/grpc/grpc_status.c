/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/grpc_status.h"

#include "base/clock.h"

#include <string.h>

static const char *const digits[N_GRPC_CODES] = {
        [GRPC_OK] = "0",
        [GRPC_CANCELLED] = "1",
        [GRPC_UNKNOWN] = "2",
        [GRPC_INVALID_ARGUMENT] = "3",
        [GRPC_DEADLINE_EXCEEDED] = "4",
        [GRPC_NOT_FOUND] = "5",
        [GRPC_ALREADY_EXISTS] = "6",
        [GRPC_PERMISSION_DENIED] = "7",
        [GRPC_RESOURCE_EXHAUSTED] = "8",
        [GRPC_FAILED_PRECONDITION] = "9",
        [GRPC_ABORTED] = "10",
        [GRPC_OUT_OF_RANGE] = "11",
        [GRPC_UNIMPLEMENTED] = "12",
        [GRPC_INTERNAL] = "13",
        [GRPC_UNAVAILABLE] = "14",
        [GRPC_DATA_LOSS] = "15",
        [GRPC_UNAUTHENTICATED] = "16",
};

struct str grpc_code_digits(enum grpc_code code) {
        return str_of(digits[(unsigned)code < N_GRPC_CODES ? code : GRPC_UNKNOWN]);
}

enum grpc_code grpc_code_of_error(enum error_code code) {
        switch (code) {
        case ERR_UNKNOWN: return GRPC_UNKNOWN;
        case ERR_INTERNAL: return GRPC_INTERNAL;
        case ERR_NOT_FOUND: return GRPC_NOT_FOUND;
        case ERR_INVALID_ARG: return GRPC_INVALID_ARGUMENT;
        case ERR_UNAVAILABLE: return GRPC_UNAVAILABLE;
        case ERR_UNSUPPORTED: return GRPC_UNIMPLEMENTED;
        case ERR_ALREADY_EXISTS: return GRPC_ALREADY_EXISTS;
        case ERR_CANCELLED: return GRPC_CANCELLED;
        }
        return GRPC_UNKNOWN;
}

static bool is_plain(char c) {
        return c >= ' ' && c <= '~' && c != '%';
}

static size_t count_plain(struct str text) {
        size_t n = 0;

        while (n < text.len && is_plain(text.ptr[n]))
                n++;
        return n;
}

/* Takes one character, or one byte where UTF-8 is malformed. */
static size_t first_character(struct str text) {
        size_t n = str_utf8_first(text);

        return n > 0 ? n : 1;
}

enum grpc_code grpc_code_of_access(enum access_verdict verdict) {
        switch (verdict) {
        case ACCESS_GRANTED: break;
        case ACCESS_NO_HEADER: return GRPC_UNAVAILABLE; /* as in the reference */
        case ACCESS_NO_KEY: return GRPC_UNAUTHENTICATED;
        case ACCESS_NOT_ALLOWED: return GRPC_PERMISSION_DENIED;
        }
        return GRPC_OK;
}

struct str grpc_message_encode(struct arena *a, struct str text) {
        static const char hex[] = "0123456789ABCDEF";
        size_t            len = 0;
        char             *encoded;

        if (text.len <= GRPC_MAX_MESSAGE_TEXT && count_plain(text) == text.len)
                return text;
        encoded = arena_alloc(a, GRPC_MAX_MESSAGE_TEXT);
        while (text.len > 0) {
                size_t n = first_character(text);
                bool   plain = is_plain(text.ptr[0]);

                if (len + (plain ? 1 : 3 * n) > GRPC_MAX_MESSAGE_TEXT)
                        break;
                for (size_t i = 0; i < n; i++) {
                        unsigned char c = (unsigned char)text.ptr[i];

                        if (plain) {
                                encoded[len++] = (char)c;
                                continue;
                        }
                        encoded[len++] = '%';
                        encoded[len++] = hex[c >> 4];
                        encoded[len++] = hex[c & 15];
                }
                text = str_range(text.ptr + n, text.len - n);
        }
        return str_range(encoded, len);
}

/* ---- the timeout ---- */

#define MAX_DIGITS 8

/* Returns 0 for an unknown unit. */
static uint64_t unit_ns(char unit) {
        switch (unit) {
        case 'H': return 3600 * NS_PER_S;
        case 'M': return 60 * NS_PER_S;
        case 'S': return NS_PER_S;
        case 'm': return NS_PER_MS;
        case 'u': return NS_PER_US;
        case 'n': return 1;
        default: return 0;
        }
}

bool grpc_timeout_decode(struct str text, uint64_t *ret_ns) {
        uint64_t number, unit;

        if (text.len < 2 || text.len > MAX_DIGITS + 1)
                return false;
        unit = unit_ns(text.ptr[text.len - 1]);
        if (unit == 0 || !str_to_u64(str_range(text.ptr, text.len - 1), &number))
                return false;
        /* Eight digits of hours are 3.6e20 ns, more than 64 bits; 584 years are enough. */
        if (__builtin_mul_overflow(number, unit, ret_ns))
                *ret_ns = CLOCK_NEVER;
        return true;
}
