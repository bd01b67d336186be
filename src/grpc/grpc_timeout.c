/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/grpc_timeout.h"

#include "base/clock.h"

#define MAX_DIGITS 8

/* 0 when there is no such unit. */
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
        /* Eight digits of hours are 3.6e20 ns: more than 64 bits, and 584 years will do. */
        if (__builtin_mul_overflow(number, unit, ret_ns))
                *ret_ns = CLOCK_NEVER;
        return true;
}
