/* SPDX-License-Identifier: BSD-3-Clause */
/* The connections of one loop, in the order in which they make room for new ones: the one that has been idle
 * longest first.
 *
 * To keep the list in the order of activity would cost each request. So it is in the order in which
 * connections were noted: when they were opened, and when leave_order_pick() has looked at them, which puts
 * them at the end. A connection that was used since it was noted stays.
 *
 * A new connection is silent until its first bytes arrive. So it is not idle during its first second
 * (LEAVE_NEW_NS), and keeps its place in the list: it goes only when room is scarce, no other connection can
 * go, and none of those looked at has bytes that wait to be read.
 *
 * Ownership.  A struct leave_place is embedded in its connection, which removes the node before it is freed.
 * Threads.  The loop's thread only.
 */
#pragma once

#include "base/clock.h"
#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

/* Places that leave_order_pick() looks at before it gives up. Each look may cost a system call. */
#define LEAVE_MAX_LOOKS 64
/* Time in which a new connection may be silent; and in which one may send a part of a head. */
#define LEAVE_NEW_NS NS_PER_S

struct leave_place {
        struct list_node node;
        uint64_t         noted_ns; /* when it was put at the end of the list */
};

enum leave_claim {
        LEAVE_STAYS,  /* in use, or used since it was noted, or closing */
        LEAVE_UNREAD, /* idle but for received bytes that the loop has not read yet */
        LEAVE_NEW,    /* has sent nothing yet, in its first LEAVE_NEW_NS */
        LEAVE_IDLE,   /* may be closed */
};

typedef enum leave_claim (*leave_claim_fn)(const struct leave_place *place, uint64_t now_ns);

/* How much a new connection needs the place of an idle one. */
enum leave_need {
        LEAVE_SPARES_NEW, /* there are other free places: new connections stay */
        LEAVE_TAKES_NEW,  /* few are left */
};

/* Returns the connection to close, NULL when none can go. */
struct leave_place *leave_order_pick(struct list *places, enum leave_need need,
                                     leave_claim_fn claim, uint64_t now_ns);
