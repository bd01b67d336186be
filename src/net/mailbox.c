/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/mailbox.h"

#include "net/uv_types.h"

/* The order of delivery is the reverse of the links, here and in the stack. */
static struct mail *reverse(struct mail *m) {
        struct mail *reversed = NULL;

        while (m) {
                struct mail *next = m->next;

                m->next = reversed;
                reversed = m;
                m = next;
        }
        return reversed;
}

static void on_wake_up(uv_async_t *async) {
        struct mailbox *box = CONTAINER_OF(async, struct mailbox, wake_up);
        struct mail    *m;

        m = reverse(atomic_exchange_explicit(&box->newest, NULL, memory_order_acquire));
        while (m) {
                struct mail *next = m->next; /* the mail is its owner's once delivered */

                m->next = NULL;
                m->deliver(m);
                m = next;
        }
}

void mailbox_init(struct mailbox *box, uv_loop_t *uv) {
        atomic_init(&box->newest, NULL);
        uv_async_init(uv, &box->wake_up, on_wake_up);
}

void mailbox_close(struct mailbox *box) {
        uv_close((uv_handle_t *)&box->wake_up, NULL);
}

/* `top` .. `bottom` are linked by `next`; the bottom is delivered first. */
static void push(struct mailbox *box, struct mail *top, struct mail *bottom) {
        struct mail *newest = atomic_load_explicit(&box->newest, memory_order_relaxed);

        do {
                bottom->next = newest;
        } while (!atomic_compare_exchange_weak_explicit(&box->newest, &newest, top,
                                                        memory_order_release,
                                                        memory_order_relaxed));
        /* Whoever finds the stack empty wakes the loop; the others ride along. */
        if (!newest)
                uv_async_send(&box->wake_up);
}

void mailbox_post(struct mailbox *box, struct mail *m) {
        push(box, m, m);
}

void mailbox_post_chain(struct mailbox *box, struct mail *first, struct mail *last) {
        last->next = NULL;
        reverse(first);
        push(box, last, first);
}
