/* SPDX-License-Identifier: BSD-3-Clause */
#include "call/drain.h"

#include "base/clock.h"
#include "base/log.h"
#include "core_api/core_error.h"
#include "triton/core/neso.h"

#include <stdatomic.h>

void drain_init(struct drain *d) {
        *d = (struct drain){ .away_ns = CLOCK_NEVER };
}

struct error *drain_begin(struct drain *d) {
        uint64_t never = CLOCK_NEVER;

        TRY(core_error_take(NESO_ServerSetDraining(d->core, true)));
        if (atomic_compare_exchange_strong(&d->away_ns, &never, clock_now_ns() + d->delay_ns))
                log_info("Draining: the server is not ready and serves what arrives");
        return NULL;
}

struct error *drain_undo(struct drain *d) {
        TRY(core_error_take(NESO_ServerSetDraining(d->core, false)));
        if (atomic_exchange(&d->away_ns, CLOCK_NEVER) != CLOCK_NEVER)
                log_info("Draining was undone: the server is ready as its models are");
        return NULL;
}

bool drain_sends_away(const struct drain *d, uint64_t now_ns) {
        return d != NULL && now_ns >= atomic_load_explicit(&d->away_ns, memory_order_relaxed);
}
