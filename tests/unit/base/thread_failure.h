/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts the threads that are started, and makes starting them fail.
 *
 * Programs with this are linked with -Wl,--wrap=thread_start.
 */
#pragma once

/* The n-th thread_start() from now (1 = the next) fails, and every later one; 0: none. Counts
 * from 0 again. */
void     thread_failure_after(unsigned n);
unsigned thread_failure_n_started(void);

#define THREAD_FAILURE_TEXT "no more threads"
