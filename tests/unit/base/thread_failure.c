/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/thread_failure.h"

#include "base/thread.h"

#include <stdatomic.h>

/* Names that the linker makes. */
struct error *__real_thread_start(struct thread *t, const char *name, thread_fn run, void *arg);
struct error *__wrap_thread_start(struct thread *t, const char *name, thread_fn run, void *arg);

static atomic_uint fails_at; /* 0: never */
static atomic_uint n_calls;
static atomic_uint n_started;

void thread_failure_after(unsigned n) {
        atomic_store(&n_calls, 0);
        atomic_store(&n_started, 0);
        atomic_store(&fails_at, n);
}

unsigned thread_failure_n_started(void) {
        return atomic_load(&n_started);
}

struct error *__wrap_thread_start(struct thread *t, const char *name, thread_fn run, void *arg) {
        unsigned number = atomic_fetch_add(&n_calls, 1) + 1;
        unsigned limit = atomic_load(&fails_at);

        if (limit > 0 && number >= limit)
                return error_new(ERR_INTERNAL, THREAD_FAILURE_TEXT);
        atomic_fetch_add(&n_started, 1);
        return __real_thread_start(t, name, run, arg);
}
