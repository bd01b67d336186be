/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads with names.
 */
#pragma once

#include "base/error.h"

#include <pthread.h>

struct thread {
        pthread_t native;
        bool      is_started;
};

typedef void (*thread_fn)(void *arg);

/* `name` is cut to 15 bytes (the kernel's limit). All signals are blocked in the new thread. */
struct error *thread_start(struct thread *t, const char *name, thread_fn run, void *arg) NODISCARD;
/* Waits for its end; nothing when it was never started. */
void thread_join(struct thread *t);
unsigned thread_cpu_count(void); /* that this process may use; at least 1 */
