/* SPDX-License-Identifier: BSD-3-Clause */
/* The times of renewals, and a clock that tests set. For store_credentials.c and its tests only.
 *
 * Threads.  The clock is set before the first request.
 */
#pragma once

#include "store/store_credentials.h"

#include <stdint.h>

/* Keys are renewed so long before they expire; keys with a shorter life after half of it. */
#define CREDENTIALS_RENEW_S 300
/* Time until the next try, after a renewal of keys failed that are still valid. */
#define CREDENTIALS_RETRY_S 30
/* Least time between two renewals because of refusals: a store that refuses every object must not cause a
 * flood of requests to the token server. */
#define CREDENTIALS_REFUSAL_S 10

/* `now` is the wall clock; before the first request is signed. */
void store_credentials_set_clock(struct store_credentials *c, uint64_t (*now)(void));
