/* SPDX-License-Identifier: BSD-3-Clause */
/* The struct of a server, for http_server.c and the connections that belong to it.
 */
#pragma once

#include "base/lock.h"
#include "http/http_conn.h"
#include "http/http_server.h"

struct listener;
struct loop_group;

struct http_server {
        struct http_server_options options;
        struct listener           *listener; /* owned; NULL once stopped */
        struct loop_group         *loops;    /* owned */
        struct http_loop          *homes;    /* owned; one per loop */
        uint16_t                   port;
        size_t                     n_homes;

        struct mutex lock; /* rank LOCK_MAILBOX; guards what follows */
        struct cond  changed;
        size_t       n_conns; /* struct http_conn alive, those dealt included */
        size_t       n_homes_busy; /* loops that have not yet done what they were told */
};

/* A connection that was let in is gone. */
void http_server_conn_gone(struct http_server *s);
