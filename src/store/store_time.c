/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/store_time.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FORMAT "%Y-%m-%dT%H:%M:%S"
#define LAST_YEAR 2553 /* UINT64_MAX nanoseconds end in 2554 */

/* Takes ".5", or nothing. */
static bool take_fraction(const char **text, uint64_t *ret_ns) {
        size_t n = **text == '.' ? strspn(*text + 1, "0123456789") : 0;

        *ret_ns = 0;
        if (**text != '.')
                return true;
        if (n < 1 || n > 9)
                return false;
        *ret_ns = strtoull(*text + 1, NULL, 10);
        for (size_t i = n; i < 9; i++)
                *ret_ns *= 10;
        *text += 1 + n;
        return true;
}

/* Reads "Z", or an offset from UTC such as "+02:00", in seconds. */
static bool read_zone(const char *text, int64_t *ret_s) {
        struct tm zone = { .tm_hour = 0 };
        char      back[sizeof("02:00")];

        *ret_s = 0;
        if (strcmp(text, "Z") == 0)
                return true;
        if (*text != '+' && *text != '-')
                return false;
        (void)strptime(text + 1, "%H:%M", &zone);
        strftime(back, sizeof(back), "%H:%M", &zone);
        *ret_s = (*text == '-' ? -60 : 60) * (int64_t)(zone.tm_hour * 60 + zone.tm_min);
        return strcmp(text + 1, back) == 0;
}

/* strptime() also takes less digits, blanks, and days that no month has: what was read is printed again and
 * compared. */
bool store_time_read(struct str text, uint64_t *ret_ns) {
        AUTO_CHARS  copy = mem_strndup(text.ptr, text.len);
        char        back[sizeof("2013-05-24T00:00:00")];
        struct tm   date = { .tm_year = 0 };
        const char *rest = strptime(copy, FORMAT, &date);
        uint64_t    fraction_ns;
        int64_t     offset_s, s = timegm(&date);

        if (rest == NULL || date.tm_year + 1900 > LAST_YEAR)
                return false;
        strftime(back, sizeof(back), FORMAT, &date);
        if ((size_t)(rest - copy) != strlen(back) || memcmp(copy, back, strlen(back)) != 0 ||
            !take_fraction(&rest, &fraction_ns) || !read_zone(rest, &offset_s) || s < offset_s)
                return false;
        *ret_ns = (uint64_t)(s - offset_s) * NS_PER_S + fraction_ns;
        return true;
}

static struct tm date_of(uint64_t ns) {
        time_t    s = (time_t)(ns / NS_PER_S);
        struct tm date;

        gmtime_r(&s, &date);
        return date;
}

void store_time_print_aws(uint64_t ns, char ret[STORE_TIME_AWS_BYTES]) {
        struct tm date = date_of(ns);

        strftime(ret, STORE_TIME_AWS_BYTES, "%Y%m%dT%H%M%SZ", &date);
}

/* Not by strftime(): names of days and months depend on the locale of the program. */
void store_time_print_http(uint64_t ns, char ret[STORE_TIME_HTTP_BYTES]) {
        static const char days[] = "SunMonTueWedThuFriSat",
                          months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
        struct tm date = date_of(ns);

        snprintf(ret, STORE_TIME_HTTP_BYTES, "%.3s, %02u %.3s %04u %02u:%02u:%02u GMT",
                 days + 3 * date.tm_wday, (unsigned)date.tm_mday % 100, months + 3 * date.tm_mon,
                 (unsigned)(date.tm_year + 1900) % 10000, (unsigned)date.tm_hour % 100,
                 (unsigned)date.tm_min % 100, (unsigned)date.tm_sec % 100);
}
