/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes that wait for each other: conn_write_soon().
 *
 * The answers of a batch come to a loop in a row. Writing each as it is made goes back and forth
 * between making and the kernel, and a peer on the same machine falls asleep between two of them and
 * has to be woken for each. So they are made first, then sent in one go, then their owners are told.
 */
#include "net/conn.h"

#include "net/conn_private.h"

#include <assert.h>
#include <string.h>

size_t conn_cork_bytes(const struct conn *c) {
        size_t bytes = 0;

        for (size_t i = 0; i < c->cork.n_parts; i++)
                bytes += c->cork.parts[i].iov_len;
        return bytes;
}

enum conn_write conn_write_soon(struct conn *c, const struct iovec *parts, size_t n_parts) {
        if (!c->loop->is_corking || c->tls || c->is_closing || c->is_shut_down || n_parts == 0 ||
            n_parts > CONN_CORKED_PARTS)
                return conn_write(c, parts, n_parts);
        assert(!c->is_writing);
        memcpy(c->cork.parts, parts, n_parts * sizeof(*parts));
        c->cork.n_parts = n_parts;
        list_append(&c->loop->corked, &c->cork.node);
        c->is_writing = true;
        return CONN_WRITE_PENDING;
}

void conn_cork_send(struct conn *c) {
        struct conn_cork *cork = &c->cork;

        if (cork->n_parts == 0)
                return;
        cork->result = conn_send(c, cork->parts, cork->n_parts, conn_cork_bytes(c));
        cork->n_parts = 0;
}

static void tell(struct conn *c) {
        list_remove(&c->cork.node);
        if (c->cork.result == CONN_WRITE_PENDING)
                return; /* the event loop will */
        c->is_writing = false;
        c->ops->on_written(c, c->cork.result == CONN_WRITE_DONE && !c->is_closing);
}

void conn_cork_close(struct conn *c) {
        if (c->cork.n_parts == 0)
                return;
        c->cork.n_parts = 0;
        c->cork.result = CONN_WRITE_FAILED;
}

void conn_cork_done(struct conn *c) {
        if (list_is_linked(&c->cork.node))
                tell(c);
}

void loop_uncork(struct loop *l) {
        LIST_FOR_EACH(&l->corked, node) {
                conn_cork_send(LIST_ENTRY(node, struct conn, cork.node));
        }
        while (!list_is_empty(&l->corked))
                tell(LIST_ENTRY(list_first(&l->corked), struct conn, cork.node));
}
