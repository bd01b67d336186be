/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/conn.h"

#include "base/mem.h"
#include "net/conn_private.h"
#include "net/peer_table.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* uv_buf_t is documented to have the layout of struct iovec on Unix. */
_Static_assert(sizeof(uv_buf_t) == sizeof(struct iovec), "uv_buf_t is an iovec");
_Static_assert(offsetof(uv_buf_t, base) == offsetof(struct iovec, iov_base),
               "uv_buf_t is an iovec");
_Static_assert(offsetof(uv_buf_t, len) == offsetof(struct iovec, iov_len), "uv_buf_t is an iovec");

/* The connection's write in the batch, if it has one. _send() sends it now and _give_up() drops it; in
 * both cases the owner is notified later, with the rest of the batch. _notify() notifies the owner
 * now. */
static void deferred_send(struct conn *c);
static void deferred_give_up(struct conn *c);
static void deferred_notify(struct conn *c);

static const struct loop_conn_ops conn_loop_ops;

static void on_closed(uv_handle_t *native) {
        struct conn *c = CONTAINER_OF(native, struct conn, tcp);

        list_remove(&c->node);
        loop_conn_removed(c->loop);
        if (c->filter != NULL)
                c->filter->free(c);
        if (c->entry != NULL)
                peer_table_leave(c->peers, c->entry);
        if (list_is_linked(&c->deferred.node))
                deferred_notify(c);
        c->ops->on_closed(c);
        free(c->peer);
        free(c->rest);
        free(c->connecting);
        free(c);
}

static void ignore_closed(struct conn *c) {
        (void)c;
}

/* For an abandoned connection: its owner is not called any more, but the loop still has to close its
 * handle. */
static const struct conn_ops unopened_ops = { .on_closed = ignore_closed };

void conn_abandon(struct conn *c) {
        c->ops = &unopened_ops;
        conn_close(c);
}

static void flush_batch(struct loop_task *task);

static void write_batch_init(struct write_batch *b) {
        *b = (struct write_batch){ .flush.run = flush_batch };
        list_init(&b->conns);
        b->memory = mem_alloc(WRITE_BATCH_BYTES);
}

static struct conn *conn_new(struct loop *l, int fd, const struct conn_ops *ops, void *owner) {
        struct conn *c = mem_aligned_alloc(CACHE_LINE_BYTES, sizeof(*c));

        memset(c, 0, sizeof(*c));
        uv_tcp_init(&l->uv, &c->tcp); /* cannot fail when it creates no socket */
        c->fd = fd;
        c->loop = l;
        c->ops = ops;
        c->tcp.data = owner;
        list_append(&l->conns, &c->node);
        l->conn_ops = &conn_loop_ops;
        if (l->writes.memory == NULL)
                write_batch_init(&l->writes);
        loop_conn_added(l);
        return c;
}

struct error *conn_open(struct loop *l, int fd, const struct conn_ops *ops, void *owner,
                        struct conn **ret) {
        struct conn *c = conn_new(l, fd, ops, owner);
        int          rc = uv_tcp_open(&c->tcp, fd);

        if (rc < 0) {
                close(fd);
                conn_abandon(c);
                return error_new(ERR_INTERNAL, "unable to watch a socket: %s", uv_strerror(rc));
        }
        *ret = c;
        return NULL;
}

static void on_connected(uv_connect_t *request, int status) {
        struct conn *c = request->data;

        if (c->is_closing)
                return;
        if (status < 0) {
                c->has_ended = true;
                c->ops->on_end(c, true);
        } else {
                c->ops->on_connected(c);
        }
}

struct error *conn_connect(struct loop *l, const struct sockaddr *address,
                           const struct conn_ops *ops, void *owner, struct conn **ret) {
        int          fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        int          on = 1;
        struct conn *c;
        int          rc;

        if (fd < 0)
                return error_errno(errno, "unable to create a socket");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* a failure only delays */
        TRY(conn_open(l, fd, ops, owner, &c));
        c->connecting = mem_zalloc(sizeof(*c->connecting));
        c->connecting->data = c;
        rc = uv_tcp_connect(c->connecting, &c->tcp, address, on_connected);
        if (rc < 0) {
                conn_abandon(c);
                return error_new(ERR_UNAVAILABLE, "unable to connect: %s", uv_strerror(rc));
        }
        *ret = c;
        return NULL;
}

void conn_close(struct conn *c) {
        if (c->is_closing)
                return;
        if (c->filter != NULL)
                c->filter->close(c);
        c->is_closing = true;
        c->is_reading = false;
        deferred_give_up(c);
        uv_close((uv_handle_t *)&c->tcp, on_closed);
}

bool conn_is_closing(const struct conn *c) {
        return c->is_closing;
}

void *conn_owner(const struct conn *c) {
        return c->tcp.data;
}

static char *print_address(const struct sockaddr_storage *address) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
        const struct sockaddr_in  *v4 = (const struct sockaddr_in *)address;
        char                       host[INET6_ADDRSTRLEN];

        if (address->ss_family == AF_INET &&
            inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host)) != NULL)
                return mem_printf("%s:%u", host, ntohs(v4->sin_port));
        if (address->ss_family == AF_INET6 &&
            inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host)) != NULL)
                return mem_printf("[%s]:%u", host, ntohs(v6->sin6_port));
        return mem_strdup("unknown");
}

static struct sockaddr_storage find_address(const struct conn *c) {
        struct sockaddr_storage address = { 0 };
        int                     len = sizeof(address);

        if (uv_tcp_getpeername(&c->tcp, (struct sockaddr *)&address, &len) < 0)
                address.ss_family = AF_UNSPEC; /* the peer is gone already */
        return address;
}

const char *conn_peer(struct conn *c) {
        if (c->peer == NULL) {
                struct sockaddr_storage address = find_address(c);

                c->peer = print_address(&address);
        }
        return c->peer;
}

bool conn_count_peer(struct conn *c, struct peer_table *peers) {
        struct sockaddr_storage address = find_address(c);

        c->peers = peers;
        c->entry = peer_table_enter(peers, (const struct sockaddr *)&address);
        return c->entry != NULL;
}

static void on_room(uv_handle_t *native, size_t suggested, uv_buf_t *ret) {
        struct conn *c = CONTAINER_OF(native, struct conn, tcp);
        struct iovec room = c->ops->on_room(c);

        (void)suggested;
        *ret = uv_buf_init(room.iov_base, (unsigned)MIN(room.iov_len, (size_t)1 << 30));
}

static void on_read(uv_stream_t *native, ssize_t n, const uv_buf_t *room) {
        struct conn *c = CONTAINER_OF(native, struct conn, tcp);

        (void)room;
        if (n > 0) {
                c->ops->on_read(c, (size_t)n);
                return;
        }
        if (n == 0) /* libuv: nothing to read, and not the end */
                return;
        conn_read_stop(c);
        if (c->is_closing)
                return;
        if (n == UV_ENOBUFS) {
                if (c->ops->on_no_room != NULL)
                        c->ops->on_no_room(c);
                return;
        }
        c->has_ended = true;
        c->ops->on_end(c, n != UV_EOF);
}

void conn_read_start(struct conn *c) {
        if (c->is_reading || c->is_closing || c->has_ended)
                return;
        c->is_reading = true;
        if (c->filter != NULL)
                c->filter->read_start(c);
        else
                uv_read_start(conn_stream(c), on_room, on_read);
}

void conn_read_stop(struct conn *c) {
        if (!c->is_reading)
                return;
        c->is_reading = false;
        if (c->filter != NULL)
                c->filter->read_stop(c);
        else
                uv_read_stop(conn_stream(c));
}

static void on_written(uv_write_t *request, int status) {
        struct conn *c = CONTAINER_OF(request, struct conn, write);

        free(c->rest);
        c->rest = NULL;
        c->is_writing = false;
        c->ops->on_written(c, status == 0);
}

static enum conn_write queue_write(struct conn *c, const uv_buf_t *parts, size_t n) {
        if (uv_write(&c->write, conn_stream(c), parts, (unsigned)n, on_written) < 0)
                return CONN_WRITE_FAILED;
        c->is_writing = true;
        return CONN_WRITE_PENDING;
}

/* Queues a copy of the rest of a small write: the owner may free its bytes before they are sent. */
static enum conn_write queue_copy(struct conn *c, const struct iovec *parts, size_t n,
                                  size_t bytes) {
        uv_buf_t whole = uv_buf_init(try_alloc(bytes), (unsigned)bytes);

        if (whole.base == NULL)
                return CONN_WRITE_FAILED;
        conn_copy_parts(whole.base, parts, n);
        c->rest = whole.base; /* on_written() frees it; on_closed() when it is not called */
        return queue_write(c, &whole, 1);
}

/* Queues the rest of the write after `skip` bytes. libuv copies the array, not the bytes. */
static enum conn_write queue_rest(struct conn *c, const struct iovec *parts, size_t n, size_t skip,
                                  size_t bytes) {
        enum conn_write rc;
        struct iovec   *rest;

        bytes -= skip;
        while (skip >= parts->iov_len) {
                skip -= parts->iov_len;
                parts++;
                n--;
        }
        rest = try_alloc(n * sizeof(*rest)); /* no overflow: the caller's array has this size */
        if (rest == NULL)
                return CONN_WRITE_FAILED;
        memcpy(rest, parts, n * sizeof(*rest));
        rest->iov_base = (char *)rest->iov_base + skip;
        rest->iov_len -= skip;
        rc = bytes <= CONN_SMALL_WRITE ? queue_copy(c, rest, n, bytes)
                                       : queue_write(c, (uv_buf_t *)rest, n);
        free(rest);
        return rc;
}

ssize_t conn_try_send(struct conn *c, const struct iovec *parts, size_t n_parts, size_t bytes) {
        char          gathered[CONN_SMALL_WRITE]; /* cheaper than the kernel's list of parts */
        const int     flags = MSG_NOSIGNAL | MSG_DONTWAIT;
        struct msghdr message = { .msg_iov = (struct iovec *)(uintptr_t)parts,
                                  .msg_iovlen = MIN(n_parts, (size_t)IOV_MAX) };
        const void   *whole = gathered;
        ssize_t       n;

        if (n_parts == 1)
                whole = parts->iov_base;
        else if (bytes > sizeof(gathered))
                whole = NULL;
        else
                conn_copy_parts(gathered, parts, n_parts);
        do {
                n = whole != NULL ? send(c->fd, whole, bytes, flags)
                                  : sendmsg(c->fd, &message, flags);
        } while (n < 0 && errno == EINTR);
        if (n < 0)
                return errno == EAGAIN || errno == ENOBUFS ? 0 : -1;
        return n;
}

/* Sends `parts`, `bytes` in total, and queues what the socket does not take; a rest of at most
 * CONN_SMALL_WRITE bytes is copied. */
static enum conn_write conn_send(struct conn *c, const struct iovec *parts, size_t n_parts,
                                 size_t bytes) {
        ssize_t n = conn_try_send(c, parts, n_parts, bytes);

        if (n < 0)
                return CONN_WRITE_FAILED;
        if ((size_t)n == bytes)
                return CONN_WRITE_DONE;
        return queue_rest(c, parts, n_parts, (size_t)n, bytes);
}

enum conn_write conn_write(struct conn *c, const struct iovec *parts, size_t n_parts) {
        size_t total = conn_count_bytes(parts, n_parts);

        assert(!c->is_writing);
        if (c->is_closing || c->is_shut_down)
                return CONN_WRITE_FAILED;
        if (total == 0)
                return CONN_WRITE_DONE;
        if (c->filter != NULL)
                return c->filter->write(c, parts, n_parts);
        return conn_send(c, parts, n_parts, total);
}

/* ---- write batches: conn_write_soon() ----
 *
 * The answers of a batch of requests reach a loop together. If the loop wrote each answer as it produces
 * it, it would alternate between its own code and the kernel, and a client on the same machine would sleep
 * between two answers and be woken for each. So the loop first produces all answers, then writes them
 * all, and then notifies the owners of the connections.
 *
 * Small writes are the usual case. They are copied one after the other into one block, which
 * the loop reuses for each batch, so that a batch touches little memory of its connections. */

static void deferred_send(struct conn *c) {
        size_t bytes = c->deferred.bytes;

        if (bytes == 0)
                return;
        c->deferred.bytes = 0;
        if (c->deferred.copy != NULL)
                c->deferred_result =
                        conn_send(c, &(struct iovec){ c->deferred.copy, bytes }, 1, bytes);
        else
                c->deferred_result = conn_send(c, c->deferred_parts, c->n_deferred_parts, bytes);
}

static void deferred_give_up(struct conn *c) {
        if (c->deferred.bytes == 0)
                return;
        c->deferred.bytes = 0;
        c->deferred_result = CONN_WRITE_FAILED;
}

static void deferred_notify(struct conn *c) {
        list_remove(&c->deferred.node);
        if (c->deferred_result == CONN_WRITE_PENDING)
                return; /* libuv's on_written() follows */
        c->is_writing = false;
        c->ops->on_written(c, c->deferred_result == CONN_WRITE_DONE && !c->is_closing);
}

static void send_all(struct write_batch *b) {
        LIST_FOR_EACH(&b->conns, node) {
                deferred_send(LIST_ENTRY(node, struct conn, deferred.node));
        }
        b->used = 0;
}

static void flush_batch(struct loop_task *task) {
        struct write_batch *b = CONTAINER_OF(task, struct write_batch, flush);

        send_all(b);
        while (!list_is_empty(&b->conns))
                deferred_notify(LIST_ENTRY(list_first(&b->conns), struct conn, deferred.node));
}

/* Reserves `bytes` of the batch's memory; when it is full, the batch is sent first. */
static char *batch_reserve(struct write_batch *b, size_t bytes) {
        char *at;

        if (bytes > WRITE_BATCH_BYTES - b->used)
                send_all(b);
        at = b->memory + b->used;
        b->used += bytes;
        return at;
}

_Static_assert(CONN_SMALL_WRITE <= WRITE_BATCH_BYTES, "a batch has room for a small write");

enum conn_write conn_write_soon(struct conn *c, const struct iovec *parts, size_t n_parts) {
        struct write_batch *batch = &c->loop->writes;
        size_t              bytes;

        if (!c->loop->delivers_several || c->filter != NULL || c->is_closing || c->is_shut_down ||
            n_parts > CONN_DEFERRED_PARTS)
                return conn_write(c, parts, n_parts);
        assert(!c->is_writing);
        bytes = conn_count_bytes(parts, n_parts);
        if (bytes == 0)
                return CONN_WRITE_DONE;
        if (bytes <= CONN_SMALL_WRITE) {
                c->deferred.copy = batch_reserve(batch, bytes);
                conn_copy_parts(c->deferred.copy, parts, n_parts);
        } else {
                c->deferred.copy = NULL;
                memcpy(c->deferred_parts, parts, n_parts * sizeof(*parts));
                c->n_deferred_parts = n_parts;
        }
        c->deferred.bytes = bytes;
        list_append(&batch->conns, &c->deferred.node);
        loop_defer(c->loop, LOOP_WRITE, &batch->flush);
        c->is_writing = true;
        return CONN_WRITE_PENDING;
}

bool conn_is_writing(const struct conn *c) {
        return c->is_writing;
}

bool conn_is_in_handshake(const struct conn *c) {
        return c->filter != NULL && c->filter->is_in_handshake(c);
}

size_t conn_unwritten_bytes(const struct conn *c) {
        if (c->filter != NULL)
                return c->filter->unwritten_bytes(c);
        return c->deferred.bytes + uv_stream_get_write_queue_size(conn_stream(c));
}

size_t conn_unacknowledged_bytes(const struct conn *c) {
        int n;

        return ioctl(c->fd, SIOCOUTQ, &n) == 0 ? (size_t)n
                                               : 0; /* fails unless it is a TCP socket */
}

bool conn_has_unread(const struct conn *c) {
        int n;

        if (c->filter != NULL && c->filter->has_unread(c))
                return true;
        return ioctl(c->fd, FIONREAD, &n) == 0 && n > 0;
}

void conn_shutdown(struct conn *c) {
        if (c->is_shut_down || c->is_closing)
                return;
        c->is_shut_down = true;
        deferred_send(c);
        if (c->filter != NULL)
                c->filter->shutdown(c);
        else
                uv_shutdown(&c->shutdown, conn_stream(c), NULL); /* on_end() or the tick follows */
}

static void tick_all(struct loop *l, uint64_t now_ns) {
        LIST_FOR_EACH(&l->conns, node) {
                struct conn *c = LIST_ENTRY(node, struct conn, node);

                if (!c->is_closing && c->filter != NULL)
                        c->filter->tick(c, now_ns);
                if (!c->is_closing)
                        c->ops->on_tick(c, now_ns);
        }
}

static const struct loop_conn_ops conn_loop_ops = { .tick = tick_all };
