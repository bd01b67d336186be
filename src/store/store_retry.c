/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/store_retry.h"

#include "base/clock.h"
#include "base/str.h"

#include <time.h>

#define FIRST_PAUSE_NS (200 * NS_PER_MS)
#define MAX_PAUSE_NS (10 * NS_PER_S)
#define MAX_DOUBLINGS 6 /* the next one would exceed MAX_PAUSE_NS */
#define MAX_WAIT_S (24 * 60 * 60)

void store_retry_init(struct store_retry *r, uint64_t budget_ns) {
        *r = (struct store_retry){ .budget_ns = budget_ns };
}

void store_retry_progress(struct store_retry *r) {
        r->end_ns = 0;
        r->n = 0;
}

/* A random time between half of the pause and all of it, so that clients that failed together do not return
 * together. */
static uint64_t pause_ns(unsigned n, uint32_t random) {
        uint64_t whole = FIRST_PAUSE_NS << (n < MAX_DOUBLINGS ? n : MAX_DOUBLINGS);

        if (whole > MAX_PAUSE_NS)
                whole = MAX_PAUSE_NS;
        return whole / 2 + (whole / 2) / 1024 * (random % 1025);
}

bool store_retry_next(struct store_retry *r, uint64_t now_ns, uint64_t wait_ns, uint32_t random,
                      uint64_t *ret_ns) {
        uint64_t pause = pause_ns(r->n, random);

        if (r->end_ns == 0)
                r->end_ns = now_ns + r->budget_ns;
        r->n++;
        if (pause < wait_ns)
                pause = wait_ns;
        if (now_ns + pause > r->end_ns)
                return false;
        *ret_ns = now_ns + pause;
        return true;
}

bool store_retry_is_transient(int status) {
        return status == 408 || status == 429 || status == 500 || (status >= 502 && status <= 504);
}

/* "Sun, 06 Nov 1994 08:49:37 GMT" */
static bool read_date(const char *value, uint64_t *ret_s) {
        struct tm   tm = { 0 };
        const char *end = strptime(value, "%a, %d %b %Y %H:%M:%S GMT", &tm);
        time_t      seconds;

        if (end == NULL || *end != '\0')
                return false;
        seconds = timegm(&tm);
        if (seconds < 0)
                return false;
        *ret_s = (uint64_t)seconds;
        return true;
}

uint64_t store_retry_after_ns(const char *value, uint64_t wall_ns) {
        uint64_t seconds, now_s = wall_ns / NS_PER_S;

        if (!str_to_u64(str_of(value), &seconds)) {
                if (!read_date(value, &seconds) || seconds <= now_s)
                        return 0;
                seconds -= now_s;
        }
        return (seconds < MAX_WAIT_S ? seconds : MAX_WAIT_S) * NS_PER_S;
}
