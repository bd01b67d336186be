/* SPDX-License-Identifier: BSD-3-Clause */
/* One stream connection on one loop: bytes in, bytes out, and when it ended.
 *
 * The protocol above gives a table of callbacks and says before each read where the bytes go, so
 * a large body is read straight into its place. A write is tried at once with one send or sendmsg; only
 * what the socket did not take is queued, and then the bytes must stay where they are until
 * on_written(), except those of a small write, which are copied. There is one write at a time.
 *
 * Ownership.  conn_open() gives a connection; it lives until on_closed() returns. Whoever opened
 * it must conn_close() it, at the latest in on_end().
 * Threads.  All on the loop's thread.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct conn;
struct loop;
struct peer_table;
struct tls_context;

/* A write of at most so many bytes in all needs neither its parts nor their bytes any more when the
 * call returns: what is not sent by then was copied. */
#define CONN_SMALL_WRITE ((size_t)1024)

struct conn_ops {
        /* Where the next bytes go; must not close or stop the connection itself. With iov_len 0 it
         * stops reading and calls on_no_room (which may be NULL). */
        struct iovec (*on_room)(struct conn *c);
        void (*on_no_room)(struct conn *c);
        void (*on_read)(struct conn *c, size_t n_bytes);
        /* The peer sends no more (is_reset false), or the connection failed. Once at most. */
        void (*on_end)(struct conn *c, bool is_reset);
        /* The end of a write that conn_write() called pending. */
        void (*on_written)(struct conn *c, bool is_ok);
        void (*on_tick)(struct conn *c, uint64_t now_ns);
        /* The last call; the connection is freed when it returns. */
        void (*on_closed)(struct conn *c);
};

enum conn_write {
        CONN_WRITE_DONE,
        CONN_WRITE_PENDING, /* on_written() follows */
        CONN_WRITE_FAILED,  /* nothing follows; close it */
};

/* Takes the socket, on failure too (closed then). Does not start to read. */
struct error *conn_open(struct loop *l, int fd, const struct conn_ops *ops, void *owner,
                        struct conn **ret) NODISCARD;
/* Counts it among those of its address until it is freed; false when there are enough of these. */
bool conn_count_peer(struct conn *c, struct peer_table *peers) NODISCARD;
/* Speaks TLS from the first byte on: to be called at once, before reading begins. The handshake
 * goes on while the connection reads; what is written before its end is pending until then. A
 * handshake that fails, or takes longer than it may, is logged and counted here, and is an
 * on_end() to the owner. A peer's own good-bye (close_notify) is an end, too. */
struct conn_security {
        struct tls_context *context;           /* borrowed: outlives the connection */
        uint64_t            handshake_time_ns;
        /* NULL = nobody counts: "tls_handshake", "tls_handshake_time". Must not block. */
        void (*on_rejected)(void *owner, const char *limit);
        void  *owner; /* borrowed */
};

/* Borrows `how` until the connection is closed. */
struct error *conn_secure(struct conn *c, const struct conn_security *how) NODISCARD;

/* May be called more than once; on_closed() comes later, from the loop. A pending write is given
 * up, and on_written() is called for it first. */
void conn_close(struct conn *c);
/* Closes a connection at once, before it has read anything; nobody is called any more. */
void conn_abandon(struct conn *c);
bool conn_is_closing(const struct conn *c);

void         *conn_owner(const struct conn *c);
/* "127.0.0.1:34567", "[::1]:34567"; made on the first call, lives as long as the connection. */
const char   *conn_peer(struct conn *c);

void conn_read_start(struct conn *c); /* nothing when it reads already */
void conn_read_stop(struct conn *c);

/* No write may be pending. The array `parts` is used during the call only. Fails after
 * conn_shutdown(). */
enum conn_write conn_write(struct conn *c, const struct iovec *parts, size_t n_parts) NODISCARD;
/* The same, but while the loop delivers several mails, the write is deferred to the write phase of the
 * round and sent with those of other connections: it is pending until then. For callers that do not
 * depend on the end of the write at once. */
enum conn_write conn_write_soon(struct conn *c, const struct iovec *parts,
                                size_t n_parts) NODISCARD;
bool            conn_is_writing(const struct conn *c);
size_t          conn_unwritten_bytes(const struct conn *c); /* of the pending write */

/* A TLS handshake has not ended: nobody has said anything yet. */
bool conn_is_shaking_hands(const struct conn *c);

/* What the socket has taken and the peer has not acknowledged: it is slow when that stays. */
size_t conn_unacknowledged_bytes(const struct conn *c);
/* Something came that was not read: closing the socket now would take from the peer what it was
 * sent and has not read. */
bool conn_has_unread(const struct conn *c);
/* Sends FIN once what is queued is written; reading goes on. */
void conn_shutdown(struct conn *c);
