/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"

#include "base/compiler.h"

#include <time.h>

static uint64_t now_of(clockid_t id) {
        struct timespec now;

        clock_gettime(id, &now); /* fails only for unknown clocks */
        return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* Not inlined: most callers read the clock on some paths only, and each would have the struct on its stack, and the
 * stack's protection, on all of them. */
NOINLINE uint64_t clock_now_ns(void) {
        return now_of(CLOCK_MONOTONIC);
}

uint64_t clock_wall_ns(void) {
        return now_of(CLOCK_REALTIME);
}
