/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/response_burst.h"

#include <string.h>

/* Usually one loop is told; a process has a few of them. */
#define MAX_CALLS 8

struct noted_call {
        response_burst_fn call;
        void             *userp;
};

static _Thread_local struct {
        unsigned          n_begun;
        unsigned          n;
        struct noted_call calls[MAX_CALLS];
} burst;

static void make_calls(void) {
        struct noted_call calls[MAX_CALLS];
        unsigned          n = burst.n;

        burst.n = 0; /* a call may send responses, and ask, as well */
        memcpy(calls, burst.calls, n * sizeof(calls[0]));
        for (unsigned i = 0; i < n; i++)
                calls[i].call(calls[i].userp);
}

void response_burst_begin(void) {
        burst.n_begun++;
}

void response_burst_end(void) {
        if (burst.n_begun > 0 && --burst.n_begun == 0)
                make_calls();
}

void response_burst_flush(void) {
        if (burst.n > 0)
                make_calls();
}

void response_burst_end_all(void) {
        burst.n_begun = 0;
        response_burst_flush();
}

bool response_burst_call_after(response_burst_fn call, void *userp) {
        if (burst.n_begun == 0)
                return false;
        if (burst.n == MAX_CALLS)
                make_calls();
        if (burst.n == MAX_CALLS) /* these asked again */
                return false;
        burst.calls[burst.n++] = (struct noted_call){ call, userp };
        return true;
}
