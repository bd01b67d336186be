/* SPDX-License-Identifier: BSD-3-Clause */
/* A listening socket. One loop accepts, and gives each connection to the loop with the fewest
 * connections.
 *
 * The kernel could spread connections over one socket per loop (SO_REUSEPORT), but does so unevenly:
 * with few connections per loop, the busiest loop gets up to twice its share, and others are idle. So
 * one loop accepts, and passes connections to the other loops as mails. SO_REUSEPORT is set only when
 * the user wants to share the port with other servers.
 *
 * Ownership.  listener_open() creates a listener that listens but does not accept yet;
 * listener_close() frees it.
 * Threads.  listener_open(), _start() and _close(): any thread that runs no loop of the group, because
 * _close() waits for the first loop. on_accept runs on the loop that will own the connection.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct listener;
struct loop;
struct loop_group;

struct listener_options {
        const char        *address;    /* or a host name; NULL = 0.0.0.0; borrowed for the call */
        uint16_t           port;       /* 0 = any free port, see listener_port() */
        bool               reuse_port; /* SO_REUSEPORT */
        int                inherited_fd; /* a listening TCP socket of the process's parent, in place of address and port; owned by
                           * the listener from listener_open() on, also when that fails; 0 = none */
        const char        *set_by; /* options that set address and port, for errors; NULL: none */
        struct loop_group *loops;  /* borrowed: outlives the listener */

        /* Takes ownership of the socket, which is non-blocking and has TCP_NODELAY. */
        void (*on_accept)(void *owner, struct loop *l, int fd);
        /* Called on the accepting loop before the connection is given to a loop; false: there is no place.
         * While loops still open earlier ones, whose arrival may free a place, the listener asks again after
         * each. Then it calls on_refused() and closes the connection. NULL: any number; nothing to call. */
        bool (*can_accept)(void *owner);
        void (*on_refused)(void *owner);
        void *owner; /* borrowed */
};

/* The error text contains address, port and the options that set them. */
struct error *listener_open(const struct listener_options *o, struct listener **ret) NODISCARD;
void          listener_start(struct listener *ln); /* starts to accept */
/* Returns after accepting has stopped and every accepted connection has reached its loop. NULL is
 * fine. */
void     listener_close(struct listener *ln);
uint16_t listener_port(const struct listener *ln);
