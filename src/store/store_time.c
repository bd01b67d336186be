/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/store_time.h"

#include "base/clock.h"

#include <stdio.h>
#include <time.h>

#define LAST_YEAR 2553 /* UINT64_MAX nanoseconds end in 2554 */

/* Takes exactly n digits from the front. */
static bool take_number(struct str *s, size_t n, unsigned *ret) {
        unsigned value = 0;

        if (s->len < n)
                return false;
        for (size_t i = 0; i < n; i++) {
                if (s->ptr[i] < '0' || s->ptr[i] > '9')
                        return false;
                value = 10 * value + (unsigned)(s->ptr[i] - '0');
        }
        *s = str_range(s->ptr + n, s->len - n);
        *ret = value;
        return true;
}

static bool take_char(struct str *s, char c) {
        if (s->len == 0 || s->ptr[0] != c)
                return false;
        *s = str_range(s->ptr + 1, s->len - 1);
        return true;
}

static unsigned days_of_month(unsigned year, unsigned month) {
        static const unsigned char days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
        bool                       is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

        return month == 2 && is_leap ? 29 : days[month - 1];
}

static bool take_date(struct str *s, struct tm *ret) {
        unsigned year, month, day;

        if (!take_number(s, 4, &year) || !take_char(s, '-') || !take_number(s, 2, &month) ||
            !take_char(s, '-') || !take_number(s, 2, &day))
                return false;
        if (year < 1970 || year > LAST_YEAR || month < 1 || month > 12 || day < 1 ||
            day > days_of_month(year, month))
                return false;
        ret->tm_year = (int)year - 1900;
        ret->tm_mon = (int)month - 1;
        ret->tm_mday = (int)day;
        return true;
}

static bool take_clock(struct str *s, struct tm *ret) {
        unsigned hour, minute, second;

        if (!take_number(s, 2, &hour) || !take_char(s, ':') || !take_number(s, 2, &minute) ||
            !take_char(s, ':') || !take_number(s, 2, &second))
                return false;
        if (hour > 23 || minute > 59 || second > 59)
                return false;
        ret->tm_hour = (int)hour;
        ret->tm_min = (int)minute;
        ret->tm_sec = (int)second;
        return true;
}

/* Takes ".5", or nothing. */
static bool take_fraction(struct str *s, uint64_t *ret_ns) {
        uint64_t unit = NS_PER_S / 10, ns = 0;
        unsigned digit;

        if (take_char(s, '.')) {
                if (!take_number(s, 1, &digit))
                        return false;
                do {
                        ns += digit * unit;
                        unit /= 10;
                } while (unit > 0 && take_number(s, 1, &digit));
        }
        *ret_ns = ns;
        return true;
}

/* Takes the rest: "Z", or an offset from UTC, in seconds. */
static bool take_zone(struct str *s, int64_t *ret_s) {
        unsigned hours, minutes;
        int64_t  sign;

        *ret_s = 0;
        if (take_char(s, 'Z'))
                return s->len == 0;
        sign = take_char(s, '-') ? -1 : take_char(s, '+') ? 1 : 0;
        if (sign == 0 || !take_number(s, 2, &hours) || !take_char(s, ':') ||
            !take_number(s, 2, &minutes) || hours > 23 || minutes > 59)
                return false;
        *ret_s = sign * (int64_t)(hours * 3600 + minutes * 60);
        return s->len == 0;
}

bool store_time_read(struct str text, uint64_t *ret_ns) {
        struct tm date = { .tm_year = 0 };
        uint64_t  fraction_ns;
        int64_t   offset_s, s;

        if (!take_date(&text, &date) || !take_char(&text, 'T') || !take_clock(&text, &date) ||
            !take_fraction(&text, &fraction_ns) || !take_zone(&text, &offset_s))
                return false;
        s = (int64_t)timegm(&date) - offset_s;
        if (s < 0)
                return false;
        *ret_ns = (uint64_t)s * NS_PER_S + fraction_ns;
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
