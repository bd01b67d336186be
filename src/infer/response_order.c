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
        struct list  slots;         /* struct response_ticket, oldest first */
        bool         is_delivering; /* a thread is delivering responses */
};

/* An item to deliver: a response, or flags alone. */
struct departure {
        response_complete_fn    on_response; /* NULL: nothing to deliver */
        void                   *userp;
        struct response        *response;
        uint32_t                flags;
        struct response_ticket *slot; /* ref, for flags alone: a response holds its slot itself */
};

struct response_ticket {
        struct ref             ref;
        struct response_order *order; /* ref */
        struct list_node       node;  /* in order->slots until the slot has ended */
        struct response       *first; /* owned: responses that wait */
        struct response       *last;
        struct departure       final_flags; /* waits until the responses are delivered */
        bool                   has_ended;   /* FINAL was sent, or no sender is left */
};

struct response_order *response_order_new(void) {
        struct response_order *order = mem_zalloc(sizeof(*order));

        ref_init(&order->ref);
        mutex_init(&order->lock, LOCK_ORDER);
        list_init(&order->slots);
        return order;
}

void response_order_unref(struct response_order *order) {
        if (order == NULL || !ref_put(&order->ref))
                return;
        mutex_done(&order->lock);
        free(order);
}

struct response_ticket *response_ticket_new(struct response_order *order) {
        struct response_ticket *slot = mem_zalloc(sizeof(*slot));

        ref_init(&slot->ref);
        ref_get(&order->ref);
        slot->order = order;
        MUTEX_GUARD(&order->lock);
        list_append(&order->slots, &slot->node);
        return slot;
}

void response_ticket_ref(struct response_ticket *slot) {
        ref_get(&slot->ref);
}

/* Takes the next item that may be delivered; removes ended slots at the front. False: there is none. */
static bool take_locked(struct response_order *order, struct departure *ret) {
        struct list_node *node;

        while ((node = list_first(&order->slots)) != NULL) {
                struct response_ticket *slot = LIST_ENTRY(node, struct response_ticket, node);

                if (slot->first != NULL) {
                        struct response *r = slot->first;

                        slot->first = r->next;
                        if (slot->first == NULL)
                                slot->last = NULL;
                        r->next = NULL;
                        *ret = (struct departure){ r->source.on_response,
                                                   r->source.on_response_userp, r, r->send_flags,
                                                   NULL };
                        return true;
                }
                if (!slot->has_ended)
                        return false;
                list_remove(&slot->node);
                if (slot->final_flags.on_response != NULL) {
                        *ret = slot->final_flags;
                        return true;
                }
        }
        return false;
}

/* Delivers all items that are ready. One thread at a time delivers; others only add. */
static void deliver(struct response_order *order) {
        mutex_lock(&order->lock);
        if (!order->is_delivering) {
                struct departure d;

                order->is_delivering = true;
                while (take_locked(order, &d)) {
                        mutex_unlock(&order->lock);
                        d.on_response(d.response, d.flags, d.userp);
                        response_ticket_unref(d.slot);
                        mutex_lock(&order->lock);
                }
                order->is_delivering = false;
        }
        mutex_unlock(&order->lock);
}

void response_ticket_unref(struct response_ticket *slot) {
        if (slot == NULL || !ref_put(&slot->ref))
                return;

        struct response_order *order = slot->order;

        /* Items that wait in a slot hold it, so none waits here. */
        mutex_lock(&order->lock);
        if (list_is_linked(&slot->node))
                list_remove(&slot->node);
        mutex_unlock(&order->lock);
        free(slot);
        deliver(order);
        response_order_unref(order);
}

void response_ticket_send(struct response_ticket *slot, struct response *response, uint32_t flags) {
        struct response_order *order = slot->order;

        mutex_lock(&order->lock);
        if (UNLIKELY(slot->has_ended)) { /* no response is expected after FINAL */
                mutex_unlock(&order->lock);
                response_free(response);
                return;
        }
        ref_get(&order->ref); /* delivering may end the slot, which holds the order */
        response->send_flags = flags;
        response->next = NULL;
        if (slot->last != NULL)
                slot->last->next = response;
        else
                slot->first = response;
        slot->last = response;
        if ((flags & RESPONSE_FINAL) != 0)
                slot->has_ended = true;
        mutex_unlock(&order->lock);
        deliver(order);
        response_order_unref(order);
}

void response_ticket_send_flags(struct response_ticket *slot, const struct response_source *s,
                                uint32_t flags) {
        struct response_order *order = slot->order;

        if ((flags & RESPONSE_FINAL) == 0) {
                s->on_response(NULL, flags, s->on_response_userp);
                return;
        }
        mutex_lock(&order->lock);
        if (UNLIKELY(slot->has_ended)) {
                mutex_unlock(&order->lock);
                return;
        }
        ref_get(&order->ref);
        response_ticket_ref(slot);
        slot->final_flags =
                (struct departure){ s->on_response, s->on_response_userp, NULL, flags, slot };
        slot->has_ended = true;
        mutex_unlock(&order->lock);
        deliver(order);
        response_order_unref(order);
}
