/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of a server that HTTP and gRPC share: listening socket, loops, connection limits, and
 * shutdown.
 *
 * net_server_new -> start -> ... -> stop -> wait (any number of times) -> free
 *
 * stop() ends accepting and makes each loop drain its connections. wait() sleeps until the last
 * connection is gone or the deadline has passed. free() closes the remaining connections and then
 * waits for handlers that have not answered. So the threads that compute their answers must still run,
 * or the requests must be cancelled.
 *
 * A shard is the state of one server on one loop: the connections that the loop serves for it, and what
 * they share. It is a struct of the protocol that begins with a struct net_shard. The protocol supplies
 * a table of callbacks (struct net_server_ops).
 *
 * Ownership.  The server owns the shards. A connection that was passed to on_accept() is counted until
 * net_shard_conn_gone().
 * Threads.  new, start, stop, wait, free: one thread, which runs no loop. on_accept, on_drain and
 * on_kill: the thread of the shard's loop. on_rejected: the thread of any loop.
 */
#pragma once

#include "base/error.h"
#include "base/list.h"
#include "net/leave_order.h"
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

/* State of one server on one loop. */
struct net_shard {
        struct net_server *server; /* borrowed: outlives it; NULL in tests without sockets */
        struct loop       *loop;   /* borrowed */
        struct list        conns;  /* struct leave_place, embedded in the protocol's connections */
        bool               is_draining;
        struct mail        drain, kill, probe;
};

struct net_server_ops {
        size_t shard_bytes; /* size of the struct that begins with a struct net_shard */
        /* on_shard() initialises a shard, before the first connection. on_shard_done() frees its members,
         * after the last connection. Both run on the thread of net_server_new() and net_server_free(). */
        void (*on_shard)(struct net_shard *shard, void *owner);
        void (*on_shard_done)(struct net_shard *shard);
        /* Takes ownership of the socket. The protocol must call net_shard_conn_gone() once for each
         * call. */
        void (*on_accept)(struct net_shard *shard, int fd);
        /* Closes the connection of the shard that has been idle longest, and no other; false when it finds
         * none. Called before on_accept() when few places are left. NULL = none is closed. */
        bool (*on_make_room)(struct net_shard *shard, enum leave_need need);
        void (*on_drain)(struct net_shard *shard); /* close each connection once it is idle */
        void (*on_kill)(struct net_shard *shard);  /* close all connections now */
};

/* Limits of a server's connections, whatever the protocol. Beyond nine tenths of `connections` each new
 * one takes the place of an idle one, if its loop has any; since a connection goes to the loop with the
 * fewest, each loop answers for its share. In the second half of the last tenth, it may take the place of
 * one that is new itself (net/leave_order.h). */
struct net_limits {
        size_t   connections;             /* further connections are closed at once; 16384 */
        size_t   connections_per_address; /* closed likewise; 0 = no limit, the default */
        uint64_t handshake_time_ns;       /* of a TLS handshake; 10 s */
};

struct net_server_options {
        const char         *name;    /* prefix of thread names; static */
        const char         *address; /* NULL = 0.0.0.0; borrowed for the call */
        uint16_t            port;    /* 0 = any free port */
        const char         *set_by;  /* see struct listener_options; borrowed for the call */
        bool                reuse_port;
        int                 inherited_fd; /* see struct listener_options; 0 = none */
        size_t              n_threads;    /* 0 = one per core */
        struct net_limits   limits;
        void               *owner;  /* borrowed: argument of on_shard() */
        struct tls_context *tls;    /* borrowed; NULL = no TLS */
        struct byte_budget *budget; /* borrowed; NULL = memory is not counted */

        /* NULL = rejections are not counted. Must not block. */
        void (*on_rejected)(void *owner, const char *limit);
        void *rejected_owner; /* borrowed */
};

void net_limits_init(struct net_limits *l); /* the defaults above */

/* Binds and listens, so the port is known; does not accept yet. `ops` is static. */
struct error *net_server_new(const struct net_server_options *o, const struct net_server_ops *ops,
                             struct net_server **ret) NODISCARD;
void          net_server_start(struct net_server *s);
void          net_server_stop(struct net_server *s);
/* Returns the number of connections left; 0 = all were gone before the deadline (monotonic ns). */
size_t net_server_wait(struct net_server *s, uint64_t deadline_ns);
void   net_server_free(struct net_server *s); /* NULL is fine; stops first when necessary */

/* Whether every loop has done a round since the last call, which asked it to; asks again if so. Never blocks. The
 * first call is true. Not after net_server_stop(). */
bool net_server_probe(struct net_server *s);

uint16_t net_server_port(const struct net_server *s);
size_t   net_server_n_connections(struct net_server *s);
size_t   net_server_n_loops(const struct net_server *s);

/* Opens the connection of an accepted socket as conn_open() does, with TLS when the server has it. */
struct error *net_shard_open(struct net_shard *shard, int fd, const struct conn_ops *ops,
                             void *owner, struct conn **ret) NODISCARD;
/* To be called once for each on_accept(), after its connection has ended. */
void net_shard_conn_gone(struct net_shard *shard);
