/* SPDX-License-Identifier: BSD-3-Clause */
/* For src/net only: the struct of a connection, and the operations of a filter (TLS) between the
 * connection and its socket. conn_tls.c calls functions of conn.c; conn.c calls conn_tls.c only
 * through the table. */
#pragma once

#include "net/conn.h"
#include "net/uv_types.h"

#include <string.h>

/* A write with more parts than this is not deferred. */
#define CONN_DEFERRED_PARTS 4

struct conn_tls;
struct conn_filter;
struct peer_entry;
struct peer_table;

/* A write in the loop's write batch. The bytes of a small write are copied into the batch's memory;
 * for a larger one, conn->deferred_parts points to the bytes. */
struct deferred_write {
        struct list_node node;  /* in loop->writes.conns until the owner was notified */
        size_t           bytes; /* still to be sent; 0 = sent or dropped */
        char            *copy;  /* borrowed from the batch; NULL: see deferred_parts */
};

/* Each replaces the function of conn.h with that name. */
struct conn_filter {
        enum conn_write (*write)(struct conn *c, const struct iovec *parts, size_t n_parts);
        size_t (*unwritten_bytes)(const struct conn *c);
        bool (*is_in_handshake)(const struct conn *c);
        /* True when bytes that were read from the socket wait in the filter. */
        bool (*has_unread)(const struct conn *c);
        void (*read_start)(struct conn *c);
        void (*read_stop)(struct conn *c);
        void (*shutdown)(struct conn *c);
        void (*tick)(struct conn *c, uint64_t now_ns);
        void (*close)(struct conn *c); /* sends close_notify if the socket can take it at once */
        void (*free)(struct conn *c);  /* called after the socket was closed */
};

/* Between two requests, the fields leave the CPU's cache. So the fields that a small request and its
 * answer use are close together: in the cache line before the handle and in the handle's first three
 * lines. */
struct conn {
        struct deferred_write     deferred;
        struct loop              *loop;      /* borrowed: outlives its connections */
        const struct conn_ops    *ops;       /* borrowed: static */
        const struct conn_filter *filter;    /* borrowed: static; NULL: bytes are plain */
        int                       fd;        /* owned by the handle */
        enum conn_write deferred_result : 8; /* result of the deferred write after it was sent */
        bool            is_reading : 1;      /* the owner wants to read */
        bool            is_writing : 1;      /* a write of the owner is pending */
        bool            is_shut_down : 1;
        bool            is_closing : 1;
        bool            has_ended : 1;

        uv_tcp_t           tcp;   /* the libuv handle; `data` points to the owner */
        struct conn_tls   *tls;   /* owned: state of `filter` */
        struct list_node   node;  /* in loop->conns */
        char              *peer;  /* owned; created on first use */
        struct peer_table *peers; /* borrowed; NULL = connections per address are not counted */
        struct peer_entry *entry; /* its entry in `peers` */
        char              *rest;  /* owned: unsent bytes of a small write */
        uv_connect_t *connecting; /* owned: request of conn_connect(), freed with the connection */
        struct iovec  deferred_parts[CONN_DEFERRED_PARTS];
        size_t        n_deferred_parts;
        uv_write_t    write;
        uv_shutdown_t shutdown;
};

/* The layout of the rest of the handle is private to libuv. */
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

/* `to` has room for all parts. */
static inline void conn_copy_parts(char *to, const struct iovec *parts, size_t n_parts) {
        for (size_t i = 0; i < n_parts; to += parts[i++].iov_len)
                if (parts[i].iov_len > 0) /* the base of an empty part may be invalid */
                        memcpy(to, parts[i].iov_base, parts[i].iov_len);
}

/* Sends as much of `parts`, `bytes` in total, as the socket takes at once. Returns 0 when the socket is
 * full, -1 when the connection has failed. No write may be pending. */
ssize_t conn_try_send(struct conn *c, const struct iovec *parts, size_t n_parts, size_t bytes);
