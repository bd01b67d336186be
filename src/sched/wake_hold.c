/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/wake_hold.h"

#include "infer/model.h"

/* Models that one round of a loop submits to; more of them are woken at once. */
#define MAX_HELD 8

struct held_wake {
        void         *scheduler; /* lives as long as the model */
        struct model *model;     /* ref */
        wake_hold_fn  wake;
};

static _Thread_local struct {
        bool             is_on;
        unsigned         n;
        uint64_t         since_ns; /* 0 = not known yet */
        struct held_wake wakes[MAX_HELD];
} held;

bool wake_hold_add(void *scheduler, struct model *model, wake_hold_fn wake) {
        if (!held.is_on)
                return false;
        for (unsigned i = 0; i < held.n; i++)
                if (held.wakes[i].scheduler == scheduler)
                        return true;
        if (held.n == MAX_HELD)
                return false;
        model_ref(model);
        held.wakes[held.n++] = (struct held_wake){ scheduler, model, wake };
        return true;
}

void wake_hold_check(uint64_t now_ns) {
        if (held.n == 0)
                return;
        if (held.since_ns == 0)
                held.since_ns = now_ns;
        else if (now_ns - held.since_ns > WAKE_HOLD_NS)
                wake_hold_flush();
}

void wake_hold_flush(void) {
        unsigned n = held.n;

        held.is_on = true;
        held.n = 0;
        held.since_ns = 0;
        for (unsigned i = 0; i < n; i++) {
                held.wakes[i].wake(held.wakes[i].scheduler);
                model_unref(held.wakes[i].model);
        }
}
