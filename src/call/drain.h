/* SPDX-License-Identifier: BSD-3-Clause */
/* A server that is about to leave its balancer. At once it is not ready, for clients that ask and for those that
 * watch. When the balancer has had time to see that, it also sends its clients away: HTTP answers carry
 * "Connection: close", gRPC connections get GOAWAY. It serves all that arrives, and goes on until it is stopped or
 * the drain is undone.
 *
 * Ownership.  The owner embeds the struct; the core is borrowed.
 * Threads.  Any. A loop asks with a clock that it has read.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct TRITONSERVER_Server;

struct drain {
        _Atomic uint64_t
                 away_ns; /* clients are sent away from then on; CLOCK_NEVER: they are not */
        uint64_t delay_ns;
        bool     is_offered;              /* to clients, by the endpoint */
        struct TRITONSERVER_Server *core; /* borrowed; NULL before the server has started */
};

void drain_init(struct drain *d);
/* A second begin does not start the delay again. The error is that of the core. */
struct error *drain_begin(struct drain *d) NODISCARD;
struct error *drain_undo(struct drain *d) NODISCARD;
/* `d` may be NULL: a server without. */
bool drain_sends_away(const struct drain *d, uint64_t now_ns);
