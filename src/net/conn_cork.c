/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes that wait for each other: conn_write_soon().
 *
 * The answers of a batch come to a loop in a row. Writing each as it is made goes back and forth
 * between making and the kernel, and a peer on the same machine falls asleep between two of them and
 * has to be woken for each. So they are made first, then sent in one go, then their owners are told.
 *
 * Small ones, which most are, are copied one behind the other into memory of the loop: it is used
 * again for each row, and neither the row's making nor its sending touches memory of the connections
 * that nobody needs before the next one.
 */
#include "net/conn.h"

#include "net/conn_private.h"

#include <assert.h>
#include <string.h>

/* Room for so many bytes at the end of what waits; NULL when it must be sent first. */
static char *take_room(struct loop *l, size_t bytes) {
        char *at = l->cork_room + l->cork_used;

        if (bytes > LOOP_CORK_BYTES - l->cork_used)
                return NULL;
        l->cork_used += bytes;
        return at;
}

static void send_all(struct loop *l) {
        LIST_FOR_EACH(&l->corked, node) {
                conn_cork_send(LIST_ENTRY(node, struct conn, cork.node));
        }
        l->cork_used = 0;
}

/* A row may be longer than the room: then it is sent in several goes. */
static char *make_room(struct loop *l, size_t bytes) {
        char *at = take_room(l, bytes);

        if (at)
                return at;
        send_all(l);
        return take_room(l, bytes);
}

enum conn_write conn_write_soon(struct conn *c, const struct iovec *parts, size_t n_parts) {
        size_t bytes;

        if (!c->loop->is_corking || c->tls || c->is_closing || c->is_shut_down ||
            n_parts > CONN_CORKED_PARTS)
                return conn_write(c, parts, n_parts);
        assert(!c->is_writing);
        bytes = conn_count_bytes(parts, n_parts);
        if (bytes == 0)
                return CONN_WRITE_DONE;
        c->cork.copy = bytes <= CONN_SMALL_WRITE ? make_room(c->loop, bytes) : NULL;
        if (c->cork.copy) {
                conn_copy_parts(c->cork.copy, parts, n_parts);
        } else {
                memcpy(c->corked_parts, parts, n_parts * sizeof(*parts));
                c->n_corked_parts = n_parts;
        }
        c->cork.bytes = bytes;
        list_append(&c->loop->corked, &c->cork.node);
        c->is_writing = true;
        return CONN_WRITE_PENDING;
}

void conn_cork_send(struct conn *c) {
        size_t bytes = c->cork.bytes;

        if (bytes == 0)
                return;
        c->cork.bytes = 0;
        if (c->cork.copy)
                c->cork_result = conn_send(c, &(struct iovec){ c->cork.copy, bytes }, 1, bytes);
        else
                c->cork_result = conn_send(c, c->corked_parts, c->n_corked_parts, bytes);
}

static void tell(struct conn *c) {
        list_remove(&c->cork.node);
        if (c->cork_result == CONN_WRITE_PENDING)
                return; /* the event loop will */
        c->is_writing = false;
        c->ops->on_written(c, c->cork_result == CONN_WRITE_DONE && !c->is_closing);
}

void conn_cork_close(struct conn *c) {
        if (c->cork.bytes == 0)
                return;
        c->cork.bytes = 0;
        c->cork_result = CONN_WRITE_FAILED;
}

void conn_cork_done(struct conn *c) {
        if (list_is_linked(&c->cork.node))
                tell(c);
}

void loop_uncork(struct loop *l) {
        send_all(l);
        while (!list_is_empty(&l->corked))
                tell(LIST_ENTRY(list_first(&l->corked), struct conn, cork.node));
}
