/* SPDX-License-Identifier: BSD-3-Clause */
/* Time in nanoseconds: a monotonic clock for durations, a wall clock for dates. */
#pragma once

#include <stdint.h>

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)

/* "Never" as an absolute time or a deadline. */
#define CLOCK_NEVER UINT64_MAX

uint64_t clock_now_ns(void);  /* CLOCK_MONOTONIC, the clock of the backend API */
uint64_t clock_wall_ns(void); /* CLOCK_REALTIME, since the epoch */
