/* SPDX-License-Identifier: BSD-3-Clause */
/* For the tests of credentials: a clock of their own. */
#pragma once

#include "store/store_credentials.h"

#include <stdint.h>

/* Before the keys have expired, by this much. Of keys with a shorter life, half of it. */
#define CREDENTIALS_RENEW_S 300
/* After a failure to renew keys that are still valid. */
#define CREDENTIALS_RETRY_S 30
/* Between two renewals because of refusals: a store that refuses every object must not flood the server of
 * tokens. */
#define CREDENTIALS_REFUSAL_S 10

/* `now` is the wall clock; before the first request is signed. */
void store_credentials_set_clock(struct store_credentials *c, uint64_t (*now)(void));
