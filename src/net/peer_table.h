/* SPDX-License-Identifier: BSD-3-Clause */
/* How many connections each address has, so that one client cannot take all that there may be.
 *
 * An address is that of IPv4, or the first 64 bits of IPv6: what a site gets and can fill at will.
 * Addresses of IPv4 that come over a socket of IPv6 are those of IPv4.
 *
 * Ownership.  peer_table_enter() gives an entry, which peer_table_leave() takes back.
 * Threads.  Any.
 */
#pragma once

#include <stddef.h>

struct peer_entry;
struct peer_table;
struct sockaddr;

struct peer_table *peer_table_new(size_t max_of_each);
void               peer_table_free(struct peer_table *t); /* NULL is fine; nobody is inside */

/* NULL when that address has as many as it may. */
struct peer_entry *peer_table_enter(struct peer_table *t, const struct sockaddr *address);
void               peer_table_leave(struct peer_table *t, struct peer_entry *e);
size_t             peer_table_n_addresses(struct peer_table *t);
