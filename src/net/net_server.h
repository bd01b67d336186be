/* SPDX-License-Identifier: BSD-3-Clause */
/* What every server is beneath its protocol: a listening socket, loops, connections that are
 * counted, and the way it ends.
 *
 *     net_server_new -> start -> ... -> stop -> wait (as often as wanted) -> free
 *
 * stop() ends accepting and has each loop say good-bye to its connections. wait() sleeps until the
 * last connection is gone or the deadline has passed. free() ends what is left and then waits for
 * handlers that have not answered: whoever works for them must still be alive, or be cancelled.
 *
 * A protocol has one home per loop, a struct of its own that begins with a struct net_home, and
 * tells by a table of callbacks what happens there.
 *
 * Ownership.  The server owns the homes. A connection that on_accept() was told of is counted until
 * net_home_conn_gone().
 * Threads.  new, start, stop, wait, free: one thread that is no loop. The callbacks of a home: its
 * loop. on_rejected: any loop.
 */
#pragma once

#include "base/error.h"
#include "base/list.h"
#include "net/mailbox.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct conn;
struct conn_ops;
struct loop;
struct net_server;
struct byte_budget;
struct tls_context;

/* What one server has on one loop. */
struct net_home {
        struct net_server *server; /* borrowed: outlives its homes; NULL in tests without sockets */
        struct loop       *loop;   /* borrowed */
        struct list        conns;  /* the protocol's, by whatever node it likes */
        bool               is_draining;
        struct mail        drain, kill;
};

struct net_server_ops {
        size_t home_bytes; /* of the struct that begins with a struct net_home */
        /* Before the first connection, on the thread of net_server_new(); after the last one. */
        void (*on_home)(struct net_home *home, void *owner);
        void (*on_home_done)(struct net_home *home);
        /* Takes the socket; every one is followed by one net_home_conn_gone(). */
        void (*on_accept)(struct net_home *home, int fd);
        void (*on_drain)(struct net_home *home); /* connections end when they have nothing to do */
        void (*on_kill)(struct net_home *home);  /* and now they all end */
};

struct net_server_options {
        const char *name;            /* of the threads; static */
        const char *address;         /* NULL = 0.0.0.0; borrowed for the call */
        uint16_t    port;            /* 0 = any free one */
        bool        reuse_port;
        size_t      n_threads;       /* 0 = one per core */
        size_t      max_connections; /* further ones are closed at once */
        size_t      max_connections_per_address; /* likewise; 0 = any number */
        void       *owner;           /* borrowed: of on_home() */
        struct tls_context *tls;     /* borrowed; NULL = plain */
        uint64_t    handshake_time_ns; /* that a TLS handshake may take */
        struct byte_budget *budget;  /* borrowed; NULL = memory is not counted */

        /* NULL = nobody counts. Must not block. */
        void (*on_rejected)(void *owner, const char *limit);
        void  *rejected_owner; /* borrowed */
};

/* Binds and listens, so that the port is known; accepts nothing yet. `ops` is static. */
struct error *net_server_new(const struct net_server_options *o, const struct net_server_ops *ops,
                             struct net_server **ret) NODISCARD;
void          net_server_start(struct net_server *s);
void          net_server_stop(struct net_server *s);
/* The number of connections left: 0 = all gone before the deadline (monotonic ns). */
size_t        net_server_wait(struct net_server *s, uint64_t deadline_ns);
void          net_server_free(struct net_server *s); /* NULL is fine; stops when needed */

uint16_t net_server_port(const struct net_server *s);
size_t   net_server_n_connections(struct net_server *s);

/* The connection of an accepted socket, as conn_open(), secured when the server speaks TLS. */
struct error *net_home_open(struct net_home *home, int fd, const struct conn_ops *ops, void *owner,
                            struct conn **ret) NODISCARD;
/* A connection that was let in is gone. */
void          net_home_conn_gone(struct net_home *home);
