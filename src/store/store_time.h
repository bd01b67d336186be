/* SPDX-License-Identifier: BSD-3-Clause */
/* Moments in the forms that stores and servers of tokens write. All are nanoseconds since the epoch, by the
 * wall clock, and in UTC.
 *
 * Ownership.  Nothing is allocated.
 * Threads.  Any.
 */
#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

#define STORE_TIME_AWS_BYTES 17  /* "20130524T000000Z" and a NUL */
#define STORE_TIME_HTTP_BYTES 30 /* "Fri, 24 May 2013 00:00:00 GMT" and a NUL */

/* ISO 8601, "2013-05-24T00:00:00Z", with a fraction of up to nine digits; "+00:00" may stand for "Z", and
 * other offsets are applied. False for anything else, and for years before 1970 and after 2553. */
bool store_time_read(struct str text, uint64_t *ret_ns);

void store_time_print_aws(uint64_t ns, char ret[STORE_TIME_AWS_BYTES]);
void store_time_print_http(uint64_t ns, char ret[STORE_TIME_HTTP_BYTES]);
