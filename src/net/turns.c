/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/turns.h"

#include "base/compiler.h"

void turns_init(struct turns *s) {
        *s = (struct turns){ .round = 1 }; /* a zeroed turn is of no round */
        list_init(&s->waiting);
}

bool turns_is_late(struct turns *s, uint64_t now_ns) {
        if (s->end_ns == 0)
                s->end_ns = now_ns + TURNS_ROUND_NS;
        return now_ns >= s->end_ns;
}

bool turns_take(struct turns *s, struct turn *t, uint64_t now_ns) {
        bool is_late = turns_is_late(s, now_ns);

        if (t->round != s->round) {
                t->round = s->round;
                t->n_requests = 0;
        }
        if (t->n_requests > 0 && (t->n_requests >= TURNS_MAX_REQUESTS || is_late))
                return false;
        t->n_requests++;
        return true;
}

void turns_wait(struct turns *s, struct turn *t) {
        if (list_is_linked(&t->node))
                return;
        t->round = s->round;
        list_append(&s->waiting, &t->node);
}

void turns_cancel(struct turn *t) {
        if (list_is_linked(&t->node))
                list_remove(&t->node);
}

bool turns_is_waiting(const struct turn *t) {
        return list_is_linked(&t->node);
}

struct turn *turns_next(struct turns *s, uint64_t now_ns) {
        struct turn *t;

        if (list_is_empty(&s->waiting))
                return NULL;
        t = LIST_ENTRY(list_first(&s->waiting), struct turn, node);
        if (t->round == s->round) /* queued in this round, as are all later ones */
                return NULL;
        if (s->queue_end_ns == 0) {
                s->queue_end_ns = now_ns + TURNS_QUEUE_NS;
                s->end_ns = MAX(s->end_ns, s->queue_end_ns);
        } else if (now_ns >= s->queue_end_ns && now_ns >= s->end_ns) {
                return NULL;
        }
        list_remove(&t->node);
        t->round = s->round;
        t->n_requests = 0;
        return t;
}

bool turns_is_empty(const struct turns *s) {
        return list_is_empty(&s->waiting);
}

void turns_end_round(struct turns *s) {
        s->round++;
        s->end_ns = s->queue_end_ns = 0;
}
