/* SPDX-License-Identifier: BSD-3-Clause */
/* A listening socket: accepts on one loop and deals each connection to the loop with the fewest.
 *
 * Letting the kernel spread connections (SO_REUSEPORT once per loop) leaves loops idle: with few
 * connections per loop the busiest has up to twice its share. So one loop accepts, and a
 * connection for another loop travels there as a mail. SO_REUSEPORT is set only when the user
 * asks to share the port with other servers.
 *
 * Ownership.  listener_open() gives the listener, already listening but not yet accepting;
 * listener_close() ends it.
 * Threads.  Any but those of the group's loops for open, start and close (they wait for the first
 * loop); on_accept runs on the loop that is to own the connection.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct listener;
struct loop;
struct loop_group;

struct listener_options {
        const char        *address;    /* or host name; NULL = 0.0.0.0; borrowed for the call */
        uint16_t           port;       /* 0 = any free one, see listener_port() */
        bool               reuse_port; /* SO_REUSEPORT */
        struct loop_group *loops;      /* borrowed: outlives the listener */

        /* Takes the non-blocking socket (TCP_NODELAY set). */
        void (*on_accept)(void *owner, struct loop *l, int fd);
        /* Asked on the accepting loop before a connection is dealt; false closes it at once. */
        bool (*can_accept)(void *owner);
        void  *owner; /* borrowed */
};

/* The error names address and port. */
struct error *listener_open(const struct listener_options *o, struct listener **ret) NODISCARD;
void          listener_start(struct listener *ln); /* begins to accept */
/* Returns when nothing more will be accepted and every connection dealt has reached its loop.
 * NULL is fine. */
void          listener_close(struct listener *ln);
uint16_t      listener_port(const struct listener *ln);
