/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/step_limit.h"

#include <assert.h>

void step_limit_init(struct step_limit *l, uint32_t max) {
        mutex_init(&l->lock, LOCK_RATE_LIMITER);
        list_init(&l->line);
        l->max = max;
        l->n = 0;
}

void step_limit_done(struct step_limit *l) {
        assert(l->n == 0 && list_is_empty(&l->line));
        mutex_done(&l->lock);
}

bool step_limit_enter(struct step_limit *l, struct list_node *n) {
        if (l->max == 0)
                return true;
        MUTEX_GUARD(&l->lock);
        if (l->n == l->max) {
                list_append(&l->line, n);
                return false;
        }
        l->n++;
        return true;
}

struct list_node *step_limit_leave(struct step_limit *l) {
        struct list_node *first;

        if (l->max == 0)
                return NULL;
        MUTEX_GUARD(&l->lock);
        first = list_first(&l->line);
        if (first != NULL)
                list_remove(first);
        else
                l->n--;
        return first;
}

bool step_limit_withdraw(struct step_limit *l, struct list_node *n) {
        if (l->max == 0)
                return false;
        MUTEX_GUARD(&l->lock);
        if (!list_is_linked(n))
                return false;
        list_remove(n);
        return true;
}
