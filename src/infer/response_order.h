/* SPDX-License-Identifier: BSD-3-Clause */
/* Responses in the order of requests: preserve_ordering.
 *
 * Each request gets a ticket when a batch takes it. A response waits in the ticket of its request
 * until all earlier tickets have ended. A ticket ends with FINAL, or when its last reference is
 * dropped.
 *
 * Ownership.  The order and its tickets are reference counted: a ticket is held by its request and by
 * the responses created from it.
 * Threads.  Any. The response callbacks are called in order, with no lock held. One thread at a time
 * calls them, and also delivers the responses that other threads add meanwhile.
 */
#pragma once

#include "base/compiler.h"

#include <stdbool.h>
#include <stdint.h>

struct response;
struct response_order;
struct response_ticket;
struct response_source;

struct response_order *response_order_new(void);
void                   response_order_unref(struct response_order *order);

struct response_ticket *response_ticket_new(struct response_order *order);
void                    response_ticket_ref(struct response_ticket *ticket);
void                    response_ticket_unref(struct response_ticket *ticket); /* NULL is fine */

/* Takes the response, whose `next` and `send_flags` are the ticket's until it is delivered. Returns false,
 * and takes nothing, after FINAL. */
bool response_ticket_send(struct response_ticket *ticket, struct response *response, uint32_t flags)
        NODISCARD;
/* Sends flags without a response to the response callback of the ticket's request. FINAL is delivered
 * after all responses that wait in the ticket; other flags alone carry no result and are delivered at
 * once. */
void response_ticket_send_flags(struct response_ticket       *ticket,
                                const struct response_source *source, uint32_t flags);
