/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts the connections of each peer address, so that one client cannot use up the server's limit of
 * connections.
 *
 * The key of a peer is its IPv4 address, or the first 64 bits of its IPv6 address, because a site
 * usually gets a whole /64 and may use any address in it. An IPv4-mapped IPv6 address counts as the
 * IPv4 address.
 *
 * Ownership.  peer_table_enter() returns an entry, which peer_table_leave() takes back.
 * Threads.  Any.
 */
#pragma once

#include <stddef.h>

struct peer_entry;
struct peer_table;
struct sockaddr;

struct peer_table *peer_table_new(size_t max_per_address);
void               peer_table_free(struct peer_table *t); /* NULL is fine; no entry may be in use */

/* Counts one more connection of the address; NULL when the address is at its limit. */
struct peer_entry *peer_table_enter(struct peer_table *t, const struct sockaddr *address);
void               peer_table_leave(struct peer_table *t, struct peer_entry *e);
size_t             peer_table_n_addresses(struct peer_table *t);
