/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/leave_order.h"

/* Puts it at the end; returns the next to look at, which is the same one when it was the last. */
static struct list_node *note(struct list *places, struct leave_place *p, uint64_t now_ns) {
        struct list_node *next = list_next(places, &p->node);

        p->noted_ns = now_ns;
        list_remove(&p->node);
        list_append(places, &p->node);
        return next != NULL ? next : &p->node;
}

struct leave_place *leave_order_pick(struct list *places, enum leave_need need,
                                     leave_claim_fn claim, uint64_t now_ns) {
        struct leave_place *oldest_new = NULL;
        bool                takes_new = need == LEAVE_TAKES_NEW;
        struct list_node   *node = list_first(places);

        for (int i = 0; i < LEAVE_MAX_LOOKS && node != NULL; i++) {
                struct leave_place *p = LIST_ENTRY(node, struct leave_place, node);
                enum leave_claim    found = claim(p, now_ns);

                if (found == LEAVE_NEW) {
                        oldest_new = oldest_new != NULL ? oldest_new : p;
                        node = list_next(places, node);
                        continue;
                }
                node = note(places, p, now_ns);
                if (found == LEAVE_IDLE)
                        return p;
                /* It may be able to go once it was read, in this round. */
                if (found == LEAVE_UNREAD)
                        takes_new = false;
        }
        return takes_new ? oldest_new : NULL;
}
