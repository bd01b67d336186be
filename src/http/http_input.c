/* SPDX-License-Identifier: BSD-3-Clause */
/* The read buffer of a connection: where the next bytes go. */
#include "http/http_conn.h"

#include "base/buf.h"
#include "http/http_message.h"
#include "net/loop.h"

#include <string.h>

/* Nobody else looks at its bytes: a handler may hold a body in it beyond the call. */
static bool is_sole_owner(const struct buf *b) {
        return atomic_load_explicit(&b->ref.count, memory_order_acquire) == 1;
}

static void give_back(struct http_loop *home, struct buf *b) {
        if (b && b->cap == HTTP_READ_BYTES && is_sole_owner(b) && home->n_spare < HTTP_SPARE_BUFS)
                home->spare[home->n_spare++] = b;
        else
                buf_unref(b);
}

static struct buf *take_spare(struct http_loop *home) {
        if (home->n_spare > 0)
                return home->spare[--home->n_spare];
        return buf_new(loop_buf_pool(home->net.loop), HTTP_READ_BYTES);
}

bool http_input_make_room(struct http_conn *c, size_t room) {
        size_t      used = c->in ? c->in_len - c->in_at : 0;
        struct buf *fresh;

        if (!c->in) {
                c->in = take_spare(c->home);
                c->in_at = c->in_len = 0;
                return c->in != NULL;
        }
        if (c->in->cap - c->in_len >= room)
                return true;
        if (c->in->cap - used >= room && is_sole_owner(c->in)) {
                memmove(c->in->bytes, c->in->bytes + c->in_at, used);
        } else {
                fresh = buf_new(loop_buf_pool(c->home->net.loop), MAX(used + room, 2 * used));
                if (!fresh)
                        return false;
                memcpy(fresh->bytes, c->in->bytes + c->in_at, used);
                give_back(c->home, c->in);
                c->in = fresh;
        }
        c->in_at = 0;
        c->in_len = used;
        return true;
}

void http_input_drop(struct http_conn *c) {
        if (c->in)
                give_back(c->home, c->in);
        c->in = NULL;
        c->in_at = c->in_len = 0;
}

static struct iovec room_in_place(struct http_conn *c) {
        return (struct iovec){ c->in->bytes + c->in_len, c->in->cap - c->in_len };
}

struct iovec http_input_room(struct http_conn *c) {
        const struct iovec none = { NULL, 0 };

        switch (c->state) {
        case HTTP_CONN_HEAD:
                if (http_input_make_room(c, 1))
                        return room_in_place(c);
                break;
        case HTTP_CONN_BODY:
                if (c->body_buf)
                        return (struct iovec){ c->body_buf->bytes + c->body_got,
                                               c->message->content_length - c->body_got };
                return room_in_place(c);
        case HTTP_CONN_LINGER:
                if (c->in && !is_sole_owner(c->in))
                        http_input_drop(c);
                c->in_at = c->in_len = 0;
                if (http_input_make_room(c, 1))
                        return room_in_place(c);
                break;
        case HTTP_CONN_CHUNKS:
        case HTTP_CONN_CALL:
        case HTTP_CONN_WRITE:
                return c->in ? room_in_place(c) : none;
        }
        return none;
}
