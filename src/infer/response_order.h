/* SPDX-License-Identifier: BSD-3-Clause */
/* Responses in the order of requests: preserve_ordering.
 *
 * Each request gets a slot when it is taken into a batch. What is sent into a slot waits there until all
 * slots before it have got their final response. A slot ends with FINAL.
 *
 * Ownership.  The order and its slots are counted: a slot is held by its request and by the
 * responses made from it. Threads.  Any; completions are called with no lock held, in order (the
 * thread that is delivering goes on with what others add meanwhile).
 */
#pragma once

#include <stdint.h>

struct response;
struct response_order;
struct response_ticket;
struct response_source;

struct response_order *response_order_new(void);
void                   response_order_unref(struct response_order *order);

struct response_ticket *response_ticket_new(struct response_order *order);
void                    response_ticket_ref(struct response_ticket *slot);
void                    response_ticket_unref(struct response_ticket *slot); /* NULL is fine */

/* Takes the response. */
void response_ticket_send(struct response_ticket *slot, struct response *response, uint32_t flags);
/* Flags without a response, for the completion of the slot's request. FINAL comes after all that waits in
 * the slot; other flags alone say nothing and come at once. */
void response_ticket_send_flags(struct response_ticket *slot, const struct response_source *source,
                                uint32_t flags);
