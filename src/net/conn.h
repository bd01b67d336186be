/* SPDX-License-Identifier: BSD-3-Clause */
/* One stream connection on one loop: reading, writing, and the notification of its end.
 *
 * The protocol (HTTP, HTTP/2) supplies a table of callbacks. Before each read its on_room() returns
 * the buffer for the next bytes, so a large body is read straight into its buffer. A write is tried at
 * once with one send or sendmsg. Bytes that the socket did not take are queued, and their memory must
 * stay valid until on_written(); the bytes of a small write are copied instead. At most one write is
 * pending.
 *
 * Ownership.  conn_open() creates a connection, which is freed after on_closed() returns. Its owner
 * must call conn_close(), at the latest in on_end().
 * Threads.  The loop's thread only.
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
struct sockaddr;
struct tls_context;

/* Largest small write, in bytes of all parts. Its parts and their bytes are borrowed during the call
 * only: bytes that the socket did not take are copied. */
#define CONN_SMALL_WRITE ((size_t)1024)

struct conn_ops {
        /* Returns the buffer for the next bytes. A read need not follow: the socket may have none, and with
         * TLS a part of a record yields none. Must neither close the connection nor stop reading; to
         * stop, it returns iov_len 0: reading stops, and on_no_room (which may be NULL) is called. */
        struct iovec (*on_room)(struct conn *c);
        void (*on_no_room)(struct conn *c);
        void (*on_read)(struct conn *c, size_t n_bytes);
        /* The peer sends no more (is_reset false), or the connection failed. Called at most once. */
        void (*on_end)(struct conn *c, bool is_reset);
        /* A write for which conn_write() returned CONN_WRITE_PENDING has ended. */
        void (*on_written)(struct conn *c, bool is_ok);
        void (*on_tick)(struct conn *c, uint64_t now_ns);
        /* The connection of conn_connect() is established, TLS excluded. NULL when there is none. */
        void (*on_connected)(struct conn *c);
        /* The last callback; the connection is freed when it returns. */
        void (*on_closed)(struct conn *c);
};

enum conn_write {
        CONN_WRITE_DONE,
        CONN_WRITE_PENDING, /* on_written() follows */
        CONN_WRITE_FAILED,  /* no callback follows; close the connection */
};

/* Takes ownership of `fd`; on failure it is closed. Does not start to read. */
struct error *conn_open(struct loop *l, int fd, const struct conn_ops *ops, void *owner,
                        struct conn **ret) NODISCARD;
/* Connects to the address. on_connected() follows, or on_end() when the connection fails; no other function
 * may be called before, except conn_secure() and conn_close(). */
struct error *conn_connect(struct loop *l, const struct sockaddr *address,
                           const struct conn_ops *ops, void *owner, struct conn **ret) NODISCARD;
/* Counts the connection for its peer's address until it is freed; false when the address is at its
 * limit. */
bool conn_count_peer(struct conn *c, struct peer_table *peers) NODISCARD;
/* Settings of TLS on a connection. */
struct conn_security {
        struct tls_context *context; /* borrowed: outlives the connection */
        uint64_t            handshake_time_ns;
        /* `limit`: "tls_handshake", "tls_handshake_time" or "tls_record". Must not block. NULL =
         * failures are not counted. */
        void (*on_rejected)(void *owner, const char *limit);
        void *owner; /* borrowed */
};

/* Starts TLS, on the side of the context. To be called directly after conn_open() or conn_connect(), before
 * reading begins; on the client's side the first conn_read_start() sends the first message. The handshake
 * makes progress only while the connection reads; a write before its end stays pending. A handshake that
 * fails or times out is logged and counted here, and the owner receives on_end(), as it does when the
 * peer sends close_notify. Borrows `how` until the connection is closed. */
struct error *conn_secure(struct conn *c, const struct conn_security *how) NODISCARD;

/* May be called more than once; the loop calls on_closed() later. A pending write is dropped, and
 * on_written() is called for it first. */
void conn_close(struct conn *c);
/* Closes a connection that has read nothing yet, without any further callback, not even on_closed(). */
void conn_abandon(struct conn *c);
bool conn_is_closing(const struct conn *c);

void *conn_owner(const struct conn *c);
/* The peer's address: "127.0.0.1:34567", "[::1]:34567". Valid as long as the connection. */
const char *conn_peer(struct conn *c);

void conn_read_start(struct conn *c); /* does nothing when it reads already */
void conn_read_stop(struct conn *c);

/* No write may be pending. The array `parts` is borrowed during the call only. Fails after
 * conn_shutdown(). */
enum conn_write conn_write(struct conn *c, const struct iovec *parts, size_t n_parts) NODISCARD;
/* As conn_write(), but may defer the write: while the loop delivers several mails, the write stays
 * pending until the write phase of the round, and is then sent together with those of other
 * connections. */
enum conn_write conn_write_soon(struct conn *c, const struct iovec *parts, size_t n_parts)
        NODISCARD;
bool   conn_is_writing(const struct conn *c);
size_t conn_unwritten_bytes(const struct conn *c); /* of the pending write */

/* True while the TLS handshake is under way; no byte of the protocol was exchanged yet. */
bool conn_is_in_handshake(const struct conn *c);

/* Bytes in the socket's send buffer that the peer has not acknowledged. A value that stays high means
 * a slow peer. */
size_t conn_unacknowledged_bytes(const struct conn *c);
/* True when received bytes were not read. Closing the socket now would send RST, and the peer would
 * lose the bytes that it has not read yet. */
bool conn_has_unread(const struct conn *c);
/* Sends FIN after the queued bytes; reading continues. */
void conn_shutdown(struct conn *c);
