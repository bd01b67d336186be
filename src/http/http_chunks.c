/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers in pieces. Each piece is queued; what is queued goes out with one write whenever the one
 * before has ended. */
#include "http/http_call.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "http/http_conn.h"
#include "http/http_server_private.h"

#include <stdio.h>
#include <string.h>

/* Pieces in one write. */
#define MAX_CHUNKS_PER_WRITE 21

struct http_chunk {
        struct list_node node; /* in out->chunks, later in out->sending */
        const char      *ptr;
        size_t           len;
        struct buf      *buf;      /* ref; NULL when the bytes are in `copy` */
        char             size[20]; /* "<hex>\r\n" */
        char             copy[];
};

/* Their number. */
static size_t free_all(struct list *chunks) {
        size_t n = 0;

        LIST_FOR_EACH(chunks, node) {
                struct http_chunk *k = LIST_ENTRY(node, struct http_chunk, node);

                list_remove(node);
                buf_unref(k->buf);
                free(k);
                n++;
        }
        return n;
}

void http_chunks_drop(struct http_conn *c) {
        free_all(&c->out.chunks);
        free_all(&c->out.sending);
        c->out.unsent_bytes = 0;
}

static size_t add_iovecs(const struct http_conn *c, struct http_chunk *k, struct iovec *iov) {
        const struct iovec body = { (void *)(uintptr_t)k->ptr, k->len };
        size_t             n = 0;

        if (c->out.is_http10) {
                iov[n++] = body;
                return n;
        }
        iov[n++] = (struct iovec){ k->size, strlen(k->size) };
        iov[n++] = body;
        iov[n++] = (struct iovec){ (void *)(uintptr_t) "\r\n", 2 };
        return n;
}

/* Moves what fits into one write to out->sending. */
static enum conn_write write_some(struct http_conn *c) {
        struct iovec iov[3 * MAX_CHUNKS_PER_WRITE + 1];
        size_t       n = 0;

        for (int i = 0; i < MAX_CHUNKS_PER_WRITE && !list_is_empty(&c->out.chunks); i++) {
                struct list_node  *node = list_first(&c->out.chunks);
                struct http_chunk *k = LIST_ENTRY(node, struct http_chunk, node);

                list_remove(node);
                list_append(&c->out.sending, node);
                n += add_iovecs(c, k, iov + n);
                c->out.unsent_bytes -= k->len;
        }
        if (c->out.is_last_queued && list_is_empty(&c->out.chunks) && !c->out.is_http10)
                iov[n++] = (struct iovec){ (void *)(uintptr_t) "0\r\n\r\n", 5 };
        for (size_t i = 0; i < n; i++)
                c->out.bytes += iov[i].iov_len;
        return conn_write(c->net, iov, n);
}

static void count_written(struct http_conn *c) {
        c->out.n_chunks_written += free_all(&c->out.sending);
}

static void end(struct http_conn *c) {
        http_chunks_drop(c);
        c->out.in_chunks = false;
        c->out.is_last_queued = false;
        http_conn_end_call(c);
}

static bool is_gone(const struct http_conn *c) {
        return !c->net || conn_is_closing(c->net);
}

/* While the handler works, a peer is slow only if something waits to be read by it. */
static void watch_reader(struct http_conn *c) {
        enum http_phase phase = conn_is_writing(c->net) ? HTTP_PHASE_WRITE : HTTP_PHASE_HANDLER;

        if (c->state == HTTP_CONN_CALL && c->pace.phase != phase)
                http_pace_enter(&c->pace, phase, clock_now_ns());
}

void http_chunks_flush(struct http_conn *c) {
        enum conn_write rc = CONN_WRITE_DONE;
        uint64_t        before = c->out.n_chunks_written;

        if (is_gone(c)) {
                http_chunks_drop(c);
                if (c->out.is_last_queued)
                        end(c);
                return;
        }
        while (rc == CONN_WRITE_DONE && !conn_is_writing(c->net)) {
                bool is_last;

                count_written(c);
                if (c->out.is_last_sent) {
                        end(c);
                        return;
                }
                if (list_is_empty(&c->out.chunks) && !c->out.is_last_queued)
                        break;
                rc = write_some(c);
                is_last = c->out.is_last_queued && list_is_empty(&c->out.chunks);
                c->out.is_last_sent = is_last;
        }
        if (rc == CONN_WRITE_FAILED) {
                http_conn_close(c);
                http_chunks_flush(c);
                return;
        }
        watch_reader(c);
        if (c->out.n_chunks_written > before && c->call.on_written && !c->out.is_last_queued)
                c->call.on_written(&c->call);
}

void http_call_begin_chunks(struct http_call *call, const struct http_reply *reply) {
        struct http_conn *c = call->conn;
        struct http_reply head = *reply;

        call->send_start_ns = clock_now_ns();
        c->out.status = reply->status;
        c->out.close = c->out.close || reply->close || c->out.is_http10 ||
                       c->home->net.is_draining || c->has_ended;
        c->out.in_chunks = true;
        c->out.is_last_queued = c->out.is_last_sent = false;
        c->out.n_chunks_sent = c->out.n_chunks_written = 0;
        head.n_parts = 0;
        if (http_answer_write(c, &head, true) == CONN_WRITE_FAILED)
                http_conn_close(c);
        for (size_t i = 0; i < reply->n_parts; i++)
                http_call_send_chunk(call, &reply->parts[i]);
}

/* NULL when memory is short: a piece is as large as a model makes it. */
static struct http_chunk *new_chunk(const struct http_part *part) {
        size_t             copied = part->buf ? 0 : part->len;
        struct http_chunk *k = try_alloc(sizeof(*k) + copied); /* len is within a limit */

        if (!k)
                return NULL;
        k->ptr = part->buf ? part->ptr : k->copy;
        k->len = part->len;
        k->buf = part->buf;
        if (copied > 0)
                memcpy(k->copy, part->ptr, copied);
        snprintf(k->size, sizeof(k->size), "%zx\r\n", k->len);
        return k;
}

static void refuse(struct http_conn *c, const struct http_part *part, enum http_limit limit) {
        buf_unref(part->buf);
        http_conn_count_rejected(c, limit);
        http_conn_close(c);
}

void http_call_send_chunk(struct http_call *call, const struct http_part *part) {
        struct http_conn  *c = call->conn;
        struct http_chunk *k;

        if (is_gone(c) || part->len == 0) { /* an empty chunk would end the answer */
                buf_unref(part->buf);
                return;
        }
        if (part->len > c->server->options.limits.unsent_bytes - c->out.unsent_bytes) {
                refuse(c, part, HTTP_LIMIT_UNSENT_BYTES);
                return;
        }
        k = new_chunk(part);
        if (!k) {
                refuse(c, part, HTTP_LIMIT_MEMORY);
                return;
        }
        list_append(&c->out.chunks, &k->node);
        c->out.n_chunks_sent++;
        c->out.unsent_bytes += k->len;
        http_chunks_flush(c);
}

void http_call_end_chunks(struct http_call *call) {
        struct http_conn *c = call->conn;

        c->out.is_last_queued = true;
        http_conn_enter(c, HTTP_CONN_WRITE, HTTP_PHASE_WRITE, clock_now_ns());
        http_chunks_flush(c);
        http_conn_run(c);
}

uint64_t http_call_chunks_sent(const struct http_call *call) {
        return call->conn->out.n_chunks_sent;
}

uint64_t http_call_chunks_written(const struct http_call *call) {
        return call->conn->out.n_chunks_written;
}
