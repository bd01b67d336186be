/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside src/net only: the struct of a connection, and the operations of a filter (TLS) between it
 * and its socket. conn_tls.c calls conn.c; conn.c knows the table only.
 */
#pragma once

#include "net/conn.h"
#include "net/uv_types.h"

#include <string.h>

/* A write of more parts is not deferred: it is large. */
#define CONN_DEFERRED_PARTS 4

struct conn_tls;
struct conn_filter;
struct peer_entry;
struct peer_table;

/* A write in the batch of its loop. A small one was copied into the batch's memory, the parts of a
 * larger one are in conn->deferred_parts. */
struct deferred_write {
        struct list_node node;  /* in loop->writes until the owner was notified */
        size_t           bytes; /* that wait; 0 = it was sent, or given up */
        char            *copy;  /* borrowed: the batch's; NULL = in parts */
};

/* Each in place of the function of conn.h of that name. */
struct conn_filter {
        enum conn_write (*write)(struct conn *c, const struct iovec *parts, size_t n_parts);
        size_t (*unwritten_bytes)(const struct conn *c);
        bool (*is_shaking_hands)(const struct conn *c);
        void (*read_start)(struct conn *c);
        void (*read_stop)(struct conn *c);
        void (*shutdown)(struct conn *c);
        void (*tick)(struct conn *c, uint64_t now_ns);
        void (*close)(struct conn *c); /* says good-bye, if it can do so at once */
        void (*free)(struct conn *c);  /* the socket is closed */
};

/* What a small request and its answer touch is in front, in the line before the handle and in the
 * first three of the handle itself: between two requests it grows cold. */
struct conn {
        struct deferred_write  deferred;
        struct loop           *loop; /* borrowed: outlives its connections */
        const struct conn_ops *ops;  /* borrowed: static */
        const struct conn_filter
                       *filter; /* borrowed: static; NULL: what is read and written is plain */
        int             fd;     /* the handle's */
        enum conn_write deferred_result : 8; /* of the deferred write, once it was sent */
        bool            is_reading : 1;      /* the owner wants to know what comes */
        bool            is_writing : 1;      /* a write of the owner is pending */
        bool            is_shut_down : 1;
        bool            is_closing : 1;
        bool            has_ended : 1;

        uv_tcp_t           tcp;   /* its `data` is the owner */
        struct conn_tls   *tls;   /* owned: of `filter` */
        struct list_node   node;  /* in loop->conns */
        char              *peer;  /* owned; made when asked for */
        struct peer_table *peers; /* borrowed; NULL = addresses are not counted */
        struct peer_entry *entry; /* in it */
        char              *rest;  /* owned: of a small write, until the socket has taken it */
        struct iovec       deferred_parts[CONN_DEFERRED_PARTS];
        size_t             n_deferred_parts;
        uv_write_t         write;
        uv_shutdown_t      shutdown;
};

/* What follows in the handle is libuv's own business. */
_Static_assert(offsetof(struct conn, tcp) == CACHE_LINE_BYTES, "one line before the handle");

static inline uv_stream_t *conn_stream(const struct conn *c) {
        return (uv_stream_t *)&c->tcp;
}

static inline size_t conn_count_bytes(const struct iovec *parts, size_t n_parts) {
        size_t bytes = 0;

        for (size_t i = 0; i < n_parts; i++)
                bytes += parts[i].iov_len;
        return bytes;
}

/* `to` has room for all of them. */
static inline void conn_copy_parts(char *to, const struct iovec *parts, size_t n_parts) {
        for (size_t i = 0; i < n_parts; to += parts[i++].iov_len)
                if (parts[i].iov_len > 0) /* else it may lie nowhere */
                        memcpy(to, parts[i].iov_base, parts[i].iov_len);
}

/* What the socket takes of `parts`, `bytes` in all, at once: 0 when it is full, -1 when the
 * connection has failed. No write may be pending. */
ssize_t conn_try_send(struct conn *c, const struct iovec *parts, size_t n_parts, size_t bytes);

/* Sends `parts`, `bytes` in all, and queues what the socket does not take: a copy of it when it is
 * at most CONN_SMALL_WRITE bytes. */
enum conn_write conn_send(struct conn *c, const struct iovec *parts, size_t n_parts, size_t bytes);
