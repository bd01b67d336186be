/* SPDX-License-Identifier: BSD-3-Clause */
/* A note of the plug-in call that a thread is executing, for reports of crashes.
 *
 * Each call into a plug-in is framed by PLUGIN_CALL(), which notes the plug-in, the function and
 * the model for the thread. That is two stores before the call and two after it; only
 * base/crash_report.h reads them, in the handler of a fatal signal. Calls nest: a backend that
 * submits a request may cause another backend to run on its thread.
 *
 * Ownership.  The place belongs to the caller and outlives the call; the function's name is static.
 * Threads.  Each thread has its own note. Threads that a plug-in starts have none.
 */
#pragma once

#include "base/compiler.h"

#include <stdatomic.h>
#include <stdint.h>

struct plugin_place {
        const char *library; /* path */
        const char *model;   /* NULL: the call is not about one model */
        int64_t     version; /* version of the model; 0: the call is about all versions */
};

struct plugin_call {
        const struct plugin_place *place; /* NULL: the thread is in no plug-in */
        const char                *function;
};

extern _Thread_local TLS_EARLY struct plugin_call plugin_call_now;

static inline struct plugin_call plugin_call_begin_(const struct plugin_place *place,
                                                    const char                *function) {
        struct plugin_call before = plugin_call_now;

        plugin_call_now = (struct plugin_call){ place, function };
        atomic_signal_fence(memory_order_seq_cst); /* stops the compiler from reordering; emits no
                                                    * instruction */
        return before;
}

static inline void plugin_call_end_(const struct plugin_call *before) {
        atomic_signal_fence(memory_order_seq_cst);
        plugin_call_now = *before;
}

#define PLUGIN_PASTE2_(a, b) a##b
#define PLUGIN_PASTE_(a, b) PLUGIN_PASTE2_(a, b)

/* Notes that this thread is in the plug-in's `function` until the end of the scope. */
#define PLUGIN_CALL(place, function)                                                               \
        UNUSED CLEANUP(plugin_call_end_) const struct plugin_call PLUGIN_PASTE_(call_, __LINE__) = \
                plugin_call_begin_(place, function)
