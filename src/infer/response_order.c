/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/response_order.h"

#include "base/list.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/ref.h"
#include "infer/response.h"

struct response_order {
        struct ref   ref;
        struct mutex lock;          /* rank LOCK_ORDER; guards the fields below */
        struct list  tickets;       /* struct response_ticket, oldest first */
        bool         is_delivering; /* a thread is delivering responses */
};

/* An item to deliver: a response, or flags alone. */
struct delivery {
        response_complete_fn on_response; /* NULL: nothing to deliver */
        void                *userp;
        struct response     *response;
        uint32_t             flags;
        struct response_ticket
                *ticket; /* ref, for flags alone: a response holds its ticket itself */
};

struct response_ticket {
        struct ref             ref;
        struct response_order *order; /* ref */
        struct list_node       node;  /* in order->tickets until the ticket has ended */
        struct response       *first; /* owned: responses that wait */
        struct response       *last;
        struct delivery        final_flags; /* waits until the responses are delivered */
        bool                   has_ended;   /* FINAL was sent, or no sender is left */
};

struct response_order *response_order_new(void) {
        struct response_order *order = mem_zalloc(sizeof(*order));

        ref_init(&order->ref);
        mutex_init(&order->lock, LOCK_ORDER);
        list_init(&order->tickets);
        return order;
}

void response_order_unref(struct response_order *order) {
        if (order == NULL || !ref_put(&order->ref))
                return;
        mutex_done(&order->lock);
        free(order);
}

struct response_ticket *response_ticket_new(struct response_order *order) {
        struct response_ticket *ticket = mem_zalloc(sizeof(*ticket));

        ref_init(&ticket->ref);
        ref_get(&order->ref);
        ticket->order = order;
        MUTEX_GUARD(&order->lock);
        list_append(&order->tickets, &ticket->node);
        return ticket;
}

void response_ticket_ref(struct response_ticket *ticket) {
        ref_get(&ticket->ref);
}

/* Takes the next item that may be delivered; removes ended tickets at the front. False: there is none. */
static bool take_locked(struct response_order *order, struct delivery *ret) {
        struct list_node *node;

        while ((node = list_first(&order->tickets)) != NULL) {
                struct response_ticket *ticket = LIST_ENTRY(node, struct response_ticket, node);

                if (ticket->first != NULL) {
                        struct response *r = ticket->first;

                        ticket->first = r->next;
                        if (ticket->first == NULL)
                                ticket->last = NULL;
                        r->next = NULL;
                        *ret = (struct delivery){ r->source.on_response,
                                                  r->source.on_response_userp, r, r->send_flags,
                                                  NULL };
                        return true;
                }
                if (!ticket->has_ended)
                        return false;
                list_remove(&ticket->node);
                if (ticket->final_flags.on_response != NULL) {
                        *ret = ticket->final_flags;
                        return true;
                }
        }
        return false;
}

/* Delivers all items that are ready. One thread at a time delivers; others only add. */
static void deliver_responses(struct response_order *order) {
        mutex_lock(&order->lock);
        if (!order->is_delivering) {
                struct delivery d;

                order->is_delivering = true;
                while (take_locked(order, &d)) {
                        mutex_unlock(&order->lock);
                        d.on_response(d.response, d.flags, d.userp);
                        response_ticket_unref(d.ticket);
                        mutex_lock(&order->lock);
                }
                order->is_delivering = false;
        }
        mutex_unlock(&order->lock);
}

void response_ticket_unref(struct response_ticket *ticket) {
        if (ticket == NULL || !ref_put(&ticket->ref))
                return;

        struct response_order *order = ticket->order;

        /* Items that wait in a ticket hold it, so none waits here. */
        mutex_lock(&order->lock);
        if (list_is_linked(&ticket->node))
                list_remove(&ticket->node);
        mutex_unlock(&order->lock);
        free(ticket);
        deliver_responses(order);
        response_order_unref(order);
}

bool response_ticket_send(struct response_ticket *ticket, struct response *response,
                          uint32_t flags) {
        struct response_order *order = ticket->order;

        mutex_lock(&order->lock);
        if (ticket->has_ended) { /* no response is expected after FINAL */
                mutex_unlock(&order->lock);
                return false;
        }
        ref_get(&order->ref); /* delivering may end the ticket, which holds the order */
        response->send_flags = flags;
        response->next = NULL;
        if (ticket->last != NULL)
                ticket->last->next = response;
        else
                ticket->first = response;
        ticket->last = response;
        if ((flags & RESPONSE_FINAL) != 0)
                ticket->has_ended = true;
        mutex_unlock(&order->lock);
        deliver_responses(order);
        response_order_unref(order);
        return true;
}

void response_ticket_send_flags(struct response_ticket *ticket, const struct response_source *s,
                                uint32_t flags) {
        struct response_order *order = ticket->order;

        if ((flags & RESPONSE_FINAL) == 0) {
                s->on_response(NULL, flags, s->on_response_userp);
                return;
        }
        mutex_lock(&order->lock);
        if (ticket->has_ended) {
                mutex_unlock(&order->lock);
                return;
        }
        ref_get(&order->ref);
        response_ticket_ref(ticket);
        ticket->final_flags =
                (struct delivery){ s->on_response, s->on_response_userp, NULL, flags, ticket };
        ticket->has_ended = true;
        mutex_unlock(&order->lock);
        deliver_responses(order);
        response_order_unref(order);
}
