/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_conn.h"

#include "base/buf.h"
#include "base/byte_budget.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/reserve.h"
#include "call/drain.h"
#include "call/service.h"
#include "http/http_head.h"
#include "http/http_message.h"
#include "http/http_reply.h"
#include "http/http_route.h"
#include "net/loop.h"

#include <stdio.h>
#include <string.h>

/* Room that a chunked body needs behind the head. */
#define MIN_CHUNK_ROOM ((size_t)8 << 10)
/* An answer of up to this many parts needs no allocation. */
#define INLINE_PARTS 15
/* Chunks of an answer in one write. */
#define MAX_CHUNKS_PER_WRITE 21
/* A copied chunk beyond this is charged to the memory budget. Those of the usual token are smaller, and the
 * responses that they are made of are charged. */
#define UNCHARGED_CHUNK_BYTES ((size_t)4 << 10)
/* An arena, or a body's own buffer, up to this size is kept until the client has read the answer. */
#define KEPT_BYTES ((size_t)64 << 10)

/* A queued chunk of an answer. */
struct http_chunk {
        struct list_node node; /* in out->chunks, later in out->sending */
        const char      *ptr;
        size_t           len;
        struct buf      *buf;           /* ref; NULL when the bytes are in `copy` */
        size_t           charged_bytes; /* of the copy, to the memory budget */
        char             size[20];      /* "<hex>\r\n" */
        char             copy[];
};

/* Takes one step after the other until nothing is left to do. May free the connection. */
static void run_conn(struct http_conn *c);

static struct buf_pool *pool_of(const struct http_conn *c) {
        return loop_buf_pool(c->shard->net.loop);
}

static void enter_state(struct http_conn *c, enum http_conn_state state, enum http_phase phase,
                        uint64_t now_ns) {
        c->state = state;
        http_rate_watch_enter(&c->rate_watch, phase, now_ns);
}

static void count_rejected(struct http_conn *c, enum http_limit limit) {
        const struct http_server_options *o = &c->server->options;

        if (limit != HTTP_LIMIT_NONE && o->net.on_rejected != NULL)
                o->net.on_rejected(o->net.rejected_owner, http_limit_name(limit));
}

static void stop_waiting(struct http_conn *c) {
        if (!c->is_waiting)
                return;
        c->is_waiting = false;
        list_remove(&c->waiting);
}

void http_conn_close(struct http_conn *c) {
        stop_waiting(c);
        if (c->net != NULL)
                conn_close(c->net);
}

static bool is_with_handler(const struct http_conn *c) {
        return c->state == HTTP_CONN_CALL && c->was_handed_out;
}

/* Bytes were read that run_conn() has not parsed yet; it does so before the loop sleeps, in this round or in
 * the connection's turn. Until then the state is out of date. */
static bool has_unparsed(const struct http_conn *c) {
        return list_is_linked(&c->parse_task.node) || turns_is_waiting(&c->turn);
}

static bool is_idle(const struct http_conn *c) {
        return c->state == HTTP_CONN_HEAD && c->rate_watch.phase == HTTP_PHASE_IDLE &&
               !has_unparsed(c);
}

/* Reports to the handler, once, that the client closed the connection. */
static void abort_call(struct http_conn *c) {
        http_call_fn on_abort = c->call.on_abort;

        if (!is_with_handler(c) || c->call.is_aborted)
                return;
        c->call.is_aborted = true;
        c->call.on_abort = NULL;
        if (on_abort != NULL)
                on_abort(&c->call);
}

/* ---- the read buffer ---- */

/* A handler may keep a reference to a body in it beyond the call. */
static bool is_sole_owner(const struct buf *b) {
        return atomic_load_explicit(&b->ref.count, memory_order_acquire) == 1;
}

static void put_spare(struct http_shard *shard, struct buf *b) {
        if (b != NULL && b->cap == HTTP_READ_BYTES && is_sole_owner(b) &&
            shard->n_spare < HTTP_SPARE_BUFS)
                shard->spare[shard->n_spare++] = b;
        else
                buf_unref(b);
}

static struct buf *take_spare(struct http_shard *shard) {
        if (shard->n_spare > 0)
                return shard->spare[--shard->n_spare];
        if (byte_budget_is_tight(buf_pool_budget(loop_buf_pool(shard->net.loop))))
                return NULL;
        return buf_new(loop_buf_pool(shard->net.loop), HTTP_READ_BYTES);
}

/* Puts the current request where `room` more bytes fit. Only before its head is complete, since ranges
 * point into the buffer afterwards. False when memory is short. */
static bool make_room(struct http_conn *c, size_t room) {
        size_t      used = c->in != NULL ? c->in_len - c->in_at : 0;
        struct buf *fresh;

        if (c->in == NULL) {
                c->in = take_spare(c->shard);
                c->in_at = c->in_len = 0;
                return c->in != NULL;
        }
        if (c->in->cap - c->in_len >= room)
                return true;
        if (c->in->cap - used >= room && is_sole_owner(c->in)) {
                memmove(c->in->bytes, c->in->bytes + c->in_at, used);
        } else {
                fresh = buf_new(pool_of(c), MAX(used + room, 2 * used));
                if (fresh == NULL)
                        return false;
                memcpy(fresh->bytes, c->in->bytes + c->in_at, used);
                put_spare(c->shard, c->in);
                c->in = fresh;
        }
        c->in_at = 0;
        c->in_len = used;
        return true;
}

static void drop_input(struct http_conn *c) {
        if (c->in != NULL)
                put_spare(c->shard, c->in);
        c->in = NULL;
        c->in_at = c->in_len = 0;
}

static struct iovec room_in_place(struct http_conn *c) {
        return (struct iovec){ c->in->bytes + c->in_len, c->in->cap - c->in_len };
}

/* Moves the current request to a smaller buffer where it has room for `bytes`, if that saves much. Only
 * before its head is complete, or when it has just been read. */
static void shrink_input(struct http_conn *c, size_t bytes) {
        size_t      used = c->in_len - c->in_at;
        struct buf *small;

        if (bytes > c->in->cap / 4)
                return;
        small = buf_new(pool_of(c), bytes);
        if (small == NULL)
                return;
        memcpy(small->bytes, c->in->bytes + c->in_at, used);
        put_spare(c->shard, c->in);
        c->in = small;
        c->in_at = 0;
        c->in_len = used;
}

static struct iovec scratch_room(struct http_conn *c) {
        c->in_scratch = true;
        return (struct iovec){ c->shard->scratch, HTTP_READ_BYTES };
}

/* How much of the body its buffer has room for now. */
static size_t body_room(const struct http_conn *c) {
        return MIN(c->body_buf->cap, c->message->content_length);
}

/* Returns the place for the next bytes. */
static struct iovec input_room(struct http_conn *c) {
        const struct iovec none = { NULL, 0 };

        c->in_scratch = false; /* no read may have followed the last call */
        switch (c->state) {
        case HTTP_CONN_HEAD:
                if (make_room(c, 1))
                        return room_in_place(c);
                return c->in != NULL ? none : scratch_room(c);
        case HTTP_CONN_BODY:
                if (c->body_buf != NULL)
                        return (struct iovec){ c->body_buf->bytes + c->body_got,
                                               body_room(c) - c->body_got };
                return room_in_place(c);
        case HTTP_CONN_LINGER: return scratch_room(c);
        case HTTP_CONN_CHUNKS:
        case HTTP_CONN_CALL:
        case HTTP_CONN_WRITE: return c->in != NULL ? room_in_place(c) : none;
        }
        return none;
}

/* ---- the end of a call ---- */

static void log_access(struct http_conn *c) {
        const struct service   *service = &c->server->options.service;
        const struct http_call *call = &c->call;
        struct access_entry     entry;

        if (service->on_access == NULL)
                return;
        entry = (struct access_entry){
                .peer = c->peer,
                .method = call->head != NULL ? str_of(c->message->method_text) : (struct str){ 0 },
                .path = call->path,
                .model = call->model,
                .key = access_key_name(&call->access),
                .status = c->out.status,
                .bytes_in = c->bytes_in,
                .bytes_out = c->out.bytes,
                .duration_ns = clock_now_ns() - call->recv_start_ns,
                .is_aborted = call->is_aborted,
        };
        service->on_access(service->access_owner, &entry);
}

/* Fields that only some requests set. */
static void clear_rare_fields(struct http_call *call) {
        if (call->access.policy != NULL) {
                access_done(&call->access);
                call->access = (struct access){ 0 };
        }
        if (call->region.len > 0)
                call->region = (struct str){ 0 };
}

/* The fields of the call that belong to one request. Others keep what they were opened with, or are
 * written before they are read. */
static void clear_call(struct http_conn *c) {
        struct http_call *call = &c->call;

        buf_unref(call->body_buf);
        arena_reset(&call->arena);
        clear_rare_fields(call);
        call->method = HTTP_METHOD_GET;
        call->is_aborted = false;
        call->path = call->model = call->version = call->body = (struct str){ 0 };
        call->body_buf = NULL;
        call->route = NULL;
        call->head = NULL;
        call->headers = NULL;
        call->n_headers = 0;
        call->recv_start_ns = call->recv_end_ns = call->send_start_ns = 0;
        call->pending = NULL;
        call->on_abort = call->on_written = call->on_sent = NULL;
        call->trace = NULL;
        c->was_handed_out = false;
        c->bytes_in = 0;
}

/* The rest of a refused request may still be arriving. Closing now would reset the connection before
 * the peer has read the answer. */
static void linger(struct http_conn *c) {
        conn_shutdown(c->net);
        drop_input(c);
        enter_state(c, HTTP_CONN_LINGER, HTTP_PHASE_LINGER, c->now_ns);
}

/* The client sent further requests before it learned that this answer is the last. */
static bool has_more(const struct http_conn *c) {
        return c->in_at < c->in_len || conn_has_unread(c->net);
}

/* The peer sends no more, and no request of it is left behind the current one. */
static bool is_last_request(const struct http_conn *c) {
        return c->has_ended && c->next_at == c->in_len;
}

static void hold_buf(struct http_conn *c, struct buf *b) {
        struct http_out *out = &c->out;

        if (out->n_held < HTTP_HELD_BUFS)
                out->held[out->n_held++] = b;
        else
                out->more_held[out->n_held++ - HTTP_HELD_BUFS] = b;
}

static void hold_parts(struct http_conn *c, const struct http_part *parts, size_t n) {
        if (n > HTTP_HELD_BUFS)
                c->out.more_held = arena_alloc(&c->call.arena, n * sizeof(struct buf *));
        for (size_t i = 0; i < n; i++)
                if (parts[i].buf != NULL)
                        hold_buf(c, parts[i].buf);
}

static void release_held(struct http_conn *c) {
        struct http_out *out = &c->out;

        for (size_t i = 0; i < out->n_held; i++)
                buf_unref(i < HTTP_HELD_BUFS ? out->held[i] : out->more_held[i - HTTP_HELD_BUFS]);
        out->n_held = 0;
}

/* The answer is written or given up: gets ready for the next request, whose time begins now. */
static void end_call(struct http_conn *c, uint64_t now_ns) {
        c->call.is_aborted = c->call.is_aborted || c->net == NULL || conn_is_closing(c->net);
        if (c->call.on_sent != NULL)
                c->call.on_sent(&c->call);
        log_access(c);
        release_held(c);
        c->out.bytes = 0;
        c->now_ns = now_ns;
        clear_call(c);
        http_message_reset(c->message);
        enter_state(c, HTTP_CONN_HEAD, HTTP_PHASE_IDLE, now_ns);
        c->in_at = c->next_at;
        if (c->net == NULL || conn_is_closing(c->net))
                return;
        if (!c->has_ended && (c->must_linger || (c->out.close && has_more(c))))
                linger(c);
        else if (c->out.close || (c->has_ended && c->in_at == c->in_len))
                http_conn_close(c);
}

/* ---- an answer ---- */

static size_t body_bytes_of(const struct http_reply *reply) {
        size_t bytes = 0;

        for (size_t i = 0; i < reply->n_parts; i++)
                bytes += reply->parts[i].len;
        return bytes;
}

/* A part that must stay valid after the call that gave it has returned. */
static struct iovec keep_part(struct http_conn *c, const struct http_reply *reply, size_t i) {
        const struct http_part *part = &reply->parts[i];
        void                   *bytes = (void *)(uintptr_t)part->ptr;

        if (reply->is_brief && part->buf == NULL)
                bytes = arena_strndup(&c->call.arena, part->ptr, part->len);
        return (struct iovec){ bytes, part->len };
}

/* Lists the parts in `iov`, after the head. */
static void list_parts(struct http_conn *c, const struct http_reply *reply, bool is_small,
                       struct iovec *iov) {
        for (size_t i = 0; i < reply->n_parts; i++)
                iov[1 + i] = is_small ? (struct iovec){ (void *)(uintptr_t)reply->parts[i].ptr,
                                                        reply->parts[i].len }
                                      : keep_part(c, reply, i);
}

/* Writes head and parts; takes the parts' buffers. With `is_chunked` the head announces chunks, and the
 * parts, if any, are framed already. The head of a small answer is printed on the stack: conn_write_soon()
 * copies what it cannot send at once. */
static enum conn_write write_reply(struct http_conn *c, const struct http_reply *reply,
                                   bool is_chunked) {
        struct http_framing f = {
                .content_type =
                        str_of(reply->content_type != NULL ? reply->content_type : "text/plain"),
                .content_length = body_bytes_of(reply),
                .is_chunked = is_chunked,
                .is_http10 = c->out.is_http10,
                .closes = c->out.close,
        };
        struct iovec some[1 + INLINE_PARTS], *iov = some;
        char         small[CONN_SMALL_WRITE], *head = small;
        size_t       head_bytes = http_reply_measure_head(reply, f.content_type);
        bool         is_small = head_bytes + f.content_length <= sizeof(small);
        size_t       n = 1 + reply->n_parts;

        hold_parts(c, reply->parts, reply->n_parts);
        if (c->net == NULL || conn_is_closing(c->net))
                return CONN_WRITE_FAILED;
        if (reply->n_parts > INLINE_PARTS)
                iov = arena_alloc(&c->call.arena, n * sizeof(*iov));
        if (!is_small)
                head = arena_alloc(&c->call.arena, head_bytes);
        if (c->call.method == HTTP_METHOD_HEAD) /* never a body: RFC 9112, 6.3 */
                n = 1;
        else
                list_parts(c, reply, is_small, iov);
        iov[0].iov_base = head;
        iov[0].iov_len = (size_t)(http_reply_print_head(reply, &f, head) - head);
        c->out.bytes = iov[0].iov_len + (n > 1 ? f.content_length : 0);
        return conn_write_soon(c->net, iov, n);
}

/* Writes parts that are already compressed, with Content-Encoding in the head. */
static enum conn_write write_packed(struct http_conn *c, const struct http_reply *reply,
                                    const char *encoding) {
        struct http_reply   changed = *reply;
        struct http_header *headers;

        headers = arena_alloc(&c->call.arena, (reply->n_headers + 1) * sizeof(*headers));
        if (reply->n_headers > 0)
                memcpy(headers, reply->headers, reply->n_headers * sizeof(*headers));
        headers[reply->n_headers] =
                (struct http_header){ STR_LIT("Content-Encoding"), str_of(encoding) };
        changed.headers = headers;
        changed.n_headers = reply->n_headers + 1;
        return write_reply(c, &changed, false);
}

static bool compress(struct http_call *call, const struct http_part *parts, size_t n_parts,
                     enum http_encoding encoding, struct http_part *ret) {
        return http_reply_compress(parts, n_parts, encoding, &call->arena, pool_of(call->conn),
                                   ret);
}

static enum conn_write write_compressed(struct http_conn *c, const struct http_reply *reply,
                                        enum http_encoding encoding) {
        struct http_reply changed = *reply;
        struct http_part  part;

        if (!compress(&c->call, reply->parts, reply->n_parts, encoding, &part))
                return write_reply(c, reply, false);
        changed.parts = &part;
        changed.n_parts = 1;
        return write_packed(c, &changed, http_encoding_name(encoding));
}

/* Writes the whole body as one chunk, followed by the last chunk. */
static enum conn_write write_one_chunk(struct http_conn *c, const struct http_reply *reply) {
        struct arena     *arena = &c->call.arena;
        struct http_reply changed = *reply;
        struct http_part *parts = arena_alloc(arena, (reply->n_parts + 2) * sizeof(*parts));
        size_t            bytes = 0, n = 1;

        for (size_t i = 0; i < reply->n_parts; i++) {
                parts[n++] = reply->parts[i];
                bytes += reply->parts[i].len;
        }
        parts[0].ptr = arena_printf(arena, "%zx\r\n", bytes);
        parts[0].len = strlen(parts[0].ptr);
        parts[0].buf = NULL;
        parts[n++] = (struct http_part){ "\r\n0\r\n\r\n", sizeof("\r\n0\r\n\r\n") - 1, NULL };
        changed.parts = parts;
        changed.n_parts = n;
        return write_reply(c, &changed, true);
}

static enum conn_write write_plain(struct http_conn *c, const struct http_reply *reply) {
        if (reply->is_chunked && reply->n_parts > 0 && !c->out.is_http10)
                return write_one_chunk(c, reply);
        return write_reply(c, reply, false);
}

static bool holds_much(const struct http_conn *c) {
        const struct http_call *call = &c->call;

        return call->arena.used_bytes > KEPT_BYTES ||
               (call->body_buf != NULL && call->body_buf->cap > KEPT_BYTES);
}

/* A name that was decoded, or that the body has, is in the memory that is freed; the access log reads it. */
static void reset_arena(struct http_call *call) {
        char *model = try_alloc(call->model.len + 1);

        if (model != NULL && call->model.len > 0)
                memcpy(model, call->model.ptr, call->model.len);
        arena_reset(&call->arena);
        call->model.ptr = NULL;
        if (model != NULL)
                call->model.ptr = arena_try_str(&call->arena, str_range(model, call->model.len));
        if (call->model.ptr == NULL)
                call->model.len = 0;
        free(model);
}

/* Frees the handler's memory before the client has read its answer. */
static COLD const struct http_reply *free_request_memory(struct http_conn        *c,
                                                         const struct http_reply *reply,
                                                         struct http_gathered    *memory,
                                                         struct buf             **ret_holder) {
        struct http_call *call = &c->call;

        if (!http_reply_gather(reply, pool_of(c), memory))
                return reply;
        reset_arena(call);
        call->headers = NULL;
        call->pending = NULL;
        if (call->body_buf != c->in) {
                buf_unref(STEAL(call->body_buf));
                call->body = (struct str){ 0 };
        }
        *ret_holder = memory->holder; /* of headers, until they are printed */
        return &memory->reply;
}

static enum http_encoding accepted_encoding(const struct http_call *call) {
        const struct http_message  *m = call->conn->message;
        struct http_encoding_choice choice = { 0 };

        if (call->head == NULL || m->known[HTTP_NAME_ACCEPT_ENCODING] == 0)
                return HTTP_ENCODING_IDENTITY;
        for (size_t i = m->known[HTTP_NAME_ACCEPT_ENCODING] - 1; i < m->n_fields; i++) {
                struct http_header h = http_message_header(m, call->head, i);

                if (http_head_find_name(h.name) == HTTP_NAME_ACCEPT_ENCODING)
                        http_encoding_consider(&choice, h.value);
        }
        return choice.best;
}

bool http_call_wants_packing(const struct http_call *call) {
        return accepted_encoding(call) != HTTP_ENCODING_IDENTITY;
}

const char *http_call_pack(struct http_call *call, struct http_part *parts, size_t *n_parts) {
        enum http_encoding encoding = accepted_encoding(call);
        struct http_part   packed;

        if (encoding == HTTP_ENCODING_IDENTITY || *n_parts == 0 ||
            !compress(call, parts, *n_parts, encoding, &packed))
                return NULL;
        parts[0] = packed;
        *n_parts = 1;
        return http_encoding_name(encoding);
}

static enum conn_write write_answer(struct http_conn *c, const struct http_reply *reply) {
        enum http_encoding encoding = HTTP_ENCODING_IDENTITY;

        if (reply->packed_as != NULL)
                return write_packed(c, reply, reply->packed_as);
        if (reply->is_compressible)
                encoding = accepted_encoding(&c->call);
        return encoding == HTTP_ENCODING_IDENTITY ? write_plain(c, reply)
                                                  : write_compressed(c, reply, encoding);
}

void http_call_reply(struct http_call *call, const struct http_reply *reply) {
        struct http_conn    *c = call->conn;
        struct http_gathered memory; /* mostly untouched */
        struct buf          *holder = NULL;
        enum conn_write      rc;

        call->send_start_ns = clock_now_ns();
        c->out.status = reply->status;
        c->out.close = c->out.close || reply->close || c->must_linger ||
                       c->shard->net.is_draining || is_last_request(c) ||
                       drain_sends_away(call->service->drain, call->send_start_ns);
        if (holds_much(c))
                reply = free_request_memory(c, reply, &memory, &holder);
        rc = write_answer(c, reply);
        buf_unref(holder);
        if (rc == CONN_WRITE_PENDING) {
                enter_state(c, HTTP_CONN_WRITE, HTTP_PHASE_WRITE, call->send_start_ns);
                return;
        }
        if (rc == CONN_WRITE_FAILED)
                http_conn_close(c);
        end_call(c, call->send_start_ns); /* all was written at once */
        run_conn(c);
}

/* The path of the request; that of a head which the parser has refused is still in the buffer. */
static struct str path_so_far(const struct http_conn *c) {
        struct str head, method;

        if (c->call.path.len > 0 || c->in == NULL)
                return c->call.path;
        head = str_range(c->in->bytes + c->in_at, c->in_len - c->in_at);
        return http_route_path(str_split(head, ' ', &method));
}

static bool speaks_openai(const struct http_conn *c) {
        return http_route_is_openai(&c->server->options.routes, path_so_far(c));
}

void http_call_reply_with_error(struct http_call *call, struct http_reply reply,
                                const char *message) {
        bool       is_openai = speaks_openai(call->conn);
        struct str text = is_openai ? http_reply_openai_error(&call->arena, reply.status, message)
                                    : http_reply_error_text(&call->arena, message);
        const struct http_part part = { text.ptr, text.len, NULL };

        if (is_openai)
                reply.content_type = HTTP_JSON;
        reply.parts = &part;
        reply.n_parts = 1;
        http_call_reply(call, &reply);
}

void http_call_reply_refusal(struct http_call *call, unsigned status, const char *message,
                             const char *content_type) {
        http_call_reply_with_error(call,
                                   (struct http_reply){ .status = status,
                                                        .content_type = content_type },
                                   message);
}

void http_call_reply_wrong_method(struct http_call *call, struct str allowed,
                                  const char *content_type) {
        const struct http_header allow = { STR_LIT("Allow"), allowed };

        http_call_reply_with_error(call,
                                   (struct http_reply){ .status = 405,
                                                        .content_type = content_type,
                                                        .headers = &allow,
                                                        .n_headers = 1 },
                                   "Method Not Allowed");
}

/* ---- an answer in chunks ---- */

static void free_chunk(struct http_conn *c, struct http_chunk *k) {
        if (k->charged_bytes > 0)
                byte_budget_give(buf_pool_budget(pool_of(c)), k->charged_bytes);
        buf_unref(k->buf);
        free(k);
}

/* Returns their number. */
static size_t free_all(struct http_conn *c, struct list *chunks) {
        size_t n = 0;

        LIST_FOR_EACH(chunks, node) {
                struct http_chunk *k = LIST_ENTRY(node, struct http_chunk, node);

                list_remove(node);
                free_chunk(c, k);
                n++;
        }
        return n;
}

/* What a client that has gone did not take counts as written, so that no handler waits for it. */
static void drop_chunks(struct http_conn *c) {
        free_all(c, &c->out.chunks);
        free_all(c, &c->out.sending);
        c->out.unsent_bytes = 0;
        c->out.n_chunks_written = c->out.n_chunks_sent;
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

/* Writes the next chunks and moves them to out->sending. */
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
        c->out.n_chunks_written += free_all(c, &c->out.sending);
}

static void end_chunks(struct http_conn *c) {
        drop_chunks(c);
        c->out.in_chunks = false;
        c->out.is_last_queued = false;
        c->out.is_held = false;
        end_call(c, clock_now_ns());
}

static bool is_gone(const struct http_conn *c) {
        return c->net == NULL || conn_is_closing(c->net);
}

/* While the handler works, the peer is slow only if a write to it is pending. */
static void watch_reader(struct http_conn *c) {
        enum http_phase phase = conn_is_writing(c->net) ? HTTP_PHASE_WRITE : HTTP_PHASE_HANDLER;

        if (c->state == HTTP_CONN_CALL && c->rate_watch.phase != phase)
                http_rate_watch_enter(&c->rate_watch, phase, clock_now_ns());
}

/* The client has its whole answer, and the handler still has the call. */
static void shut_held(struct http_conn *c) {
        conn_shutdown(c->net);
        watch_reader(c);
}

/* Sends queued chunks while no write is pending. */
static void flush_chunks(struct http_conn *c) {
        enum conn_write rc = CONN_WRITE_DONE;
        uint64_t        before = c->out.n_chunks_written;

        if (is_gone(c)) {
                drop_chunks(c);
                if (c->out.is_last_queued && !c->out.is_held)
                        end_chunks(c);
                return;
        }
        while (rc == CONN_WRITE_DONE && !conn_is_writing(c->net)) {
                bool is_last;

                count_written(c);
                if (c->out.is_last_sent) {
                        if (c->out.is_held)
                                shut_held(c);
                        else
                                end_chunks(c);
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
                flush_chunks(c);
                return;
        }
        watch_reader(c);
        if (c->out.n_chunks_written > before && c->call.on_written != NULL &&
            !c->out.is_last_queued)
                c->call.on_written(&c->call);
}

void http_call_begin_chunks(struct http_call *call, const struct http_reply *reply) {
        struct http_conn *c = call->conn;
        struct http_reply head = *reply;

        call->send_start_ns = clock_now_ns();
        c->out.status = reply->status;
        c->out.close = c->out.close || reply->close || c->out.is_http10 ||
                       c->shard->net.is_draining || is_last_request(c) ||
                       drain_sends_away(call->service->drain, call->send_start_ns);
        c->out.in_chunks = true;
        c->out.is_last_queued = c->out.is_last_sent = c->out.is_held = false;
        c->out.n_chunks_sent = c->out.n_chunks_written = 0;
        head.n_parts = 0;
        if (write_reply(c, &head, true) == CONN_WRITE_FAILED)
                http_conn_close(c);
        for (size_t i = 0; i < reply->n_parts; i++)
                http_call_send_chunk(call, &reply->parts[i]);
}

/* False when the memory budget has no room for a copy. */
static bool charge_copy(struct http_conn *c, size_t copied, size_t *ret_charged) {
        struct byte_budget *budget = buf_pool_budget(pool_of(c));

        *ret_charged = budget != NULL && copied > UNCHARGED_CHUNK_BYTES ? copied : 0;
        if (*ret_charged == 0 || byte_budget_take(budget, copied))
                return true;
        byte_budget_refused(budget);
        return false;
}

/* Returns NULL when memory is short: a chunk is as large as the model makes it. */
static struct http_chunk *new_chunk(struct http_conn *c, const struct http_part *part) {
        size_t             copied = part->buf != NULL ? 0 : part->len, charged;
        struct http_chunk *k;

        if (!charge_copy(c, copied, &charged))
                return NULL;
        k = try_alloc(sizeof(*k) + copied); /* len is limited */
        if (k == NULL) {
                if (charged > 0)
                        byte_budget_give(buf_pool_budget(pool_of(c)), charged);
                return NULL;
        }
        k->charged_bytes = charged;
        k->ptr = part->buf != NULL ? part->ptr : k->copy;
        k->len = part->len;
        k->buf = part->buf;
        if (copied > 0)
                memcpy(k->copy, part->ptr, copied);
        snprintf(k->size, sizeof(k->size), "%zx\r\n", k->len);
        return k;
}

static void refuse_chunk(struct http_conn *c, const struct http_part *part, enum http_limit limit) {
        buf_unref(part->buf);
        count_rejected(c, limit);
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
                refuse_chunk(c, part, HTTP_LIMIT_UNSENT_BYTES);
                return;
        }
        k = new_chunk(c, part);
        if (k == NULL) {
                refuse_chunk(c, part, HTTP_LIMIT_MEMORY);
                return;
        }
        list_append(&c->out.chunks, &k->node);
        c->out.n_chunks_sent++;
        c->out.unsent_bytes += k->len;
        flush_chunks(c);
}

void http_call_end_chunks(struct http_call *call) {
        struct http_conn *c = call->conn;

        c->out.is_last_queued = true;
        c->out.is_held = false;
        enter_state(c, HTTP_CONN_WRITE, HTTP_PHASE_WRITE, clock_now_ns());
        flush_chunks(c);
        run_conn(c);
}

void http_call_finish_chunks(struct http_call *call) {
        struct http_conn *c = call->conn;

        c->out.close = true;
        c->out.is_held = true;
        c->out.is_last_queued = true;
        flush_chunks(c);
}

uint64_t http_call_chunks_sent(const struct http_call *call) {
        return call->conn->out.n_chunks_sent;
}

uint64_t http_call_chunks_written(const struct http_call *call) {
        return call->conn->out.n_chunks_written;
}

/* ---- refusals and access ---- */

/* Answers a request that the connection refuses itself. The rest of the request is not read. */
static void refuse_as(struct http_conn *c, unsigned status, enum http_limit limit, const char *text,
                      const char *content_type) {
        stop_waiting(c);
        c->is_beyond = false;
        count_rejected(c, limit);
        if (limit == HTTP_LIMIT_BODY_BYTES && speaks_openai(c))
                status = 413;
        c->out.close = true;
        c->must_linger = true;
        buf_unref(STEAL(c->body_buf));
        enter_state(c, HTTP_CONN_CALL, HTTP_PHASE_HANDLER, c->now_ns);
        http_call_reply_refusal(&c->call, status, text, content_type);
}

static void refuse_request(struct http_conn *c, unsigned status, enum http_limit limit,
                           const char *text) {
        refuse_as(c, status, limit, text,
                  c->call.route != NULL ? c->call.route->refusal_type : NULL);
}

static void fill_call(struct http_conn *c) {
        const struct http_message *m = c->message;
        const char                *base = c->in->bytes + c->in_at;
        struct http_call          *call = &c->call;

        call->head = base;
        call->headers = NULL; /* the input may have moved since they were listed */
        call->n_headers = m->n_fields;
        call->method = m->method;
        call->path = http_route_path(http_message_target(m, base));
}

struct str http_call_query(const struct http_call *call) {
        struct str path;
        struct str query =
                str_split(http_message_target(call->conn->message, call->head), '?', &path);

        return query.ptr != NULL ? query : STR_LIT("");
}

/* The number that the reference server logs for a method: that of its HTTP library. */
static unsigned method_number(const char *method) {
        static const char *const methods[] = {
                "GET",     "HEAD",     "POST",      "PUT",  "DELETE", "MKCOL", "COPY",    "MOVE",
                "OPTIONS", "PROPFIND", "PROPPATCH", "LOCK", "UNLOCK", "TRACE", "CONNECT", "PATCH",
        };
        unsigned at = 0;

        while (at < ARRAY_LEN(methods) && strcmp(methods[at], method) != 0)
                at++;
        return at;
}

/* Logged as the reference server logs it, which people search the log for. */
static COLD void log_arrival(const struct http_conn *c) {
        log_verbose(1, "HTTP request: %u %.*s", method_number(c->message->method_text),
                    STR_ARG(c->call.path));
}

static enum http_route_verdict find_route(struct http_conn *c, const struct http_route **ret_row,
                                          struct http_captures *ret_captures) {
        const struct http_route_table *table = &c->server->options.routes;

        if (table->find != NULL)
                return table->find(table, &c->call, ret_row, ret_captures);
        return http_route_find(table, c->call.method, c->call.path, ret_row, ret_captures);
}

/* Finds the route of a head that is refused because of its body, for the content type of the answer. */
static void find_refused_route(struct http_conn *c) {
        const struct http_route *row;
        struct http_captures     found;

        fill_call(c);
        if (find_route(c, &row, &found) != HTTP_ROUTE_NOT_FOUND)
                c->call.route = row;
}

static void field_at(const void *call, size_t at, struct str *ret_name, struct str *ret_value) {
        const struct http_call  *http = call;
        const struct http_header field = http_message_header(http->conn->message, http->head, at);

        *ret_name = field.name;
        *ret_value = field.value;
}

/* RFC 9110, 15.5.2: a 401 names the scheme to authenticate with. */
void http_call_refuse_access(struct http_call *call, enum access_verdict verdict,
                             const char *message, const char *content_type) {
        static const struct http_header how = { { "WWW-Authenticate", 16 }, { "Bearer", 6 } };

        http_call_reply_with_error(call,
                                   (struct http_reply){
                                           .status = verdict == ACCESS_NO_KEY ? 401 : 403,
                                           .content_type = content_type,
                                           .headers = &how,
                                           .n_headers = verdict == ACCESS_NO_KEY,
                                   },
                                   message);
}

/* The only access check of HTTP. Returns false after answering a refusal. */
static bool check_access(struct http_conn *c, enum endpoint_group group, const char *refusal_type) {
        struct http_call            *call = &c->call;
        const struct access_question question = {
                .group = group,
                .knows_model = true,
                .model = call->model,
                .noun = "API",
                .field = field_at,
                .call = call,
                .n_fields = call->n_headers,
                .arena = &call->arena,
        };
        const char         *text;
        enum access_verdict verdict =
                access_check(c->server->options.service.policy, &question, &call->access, &text);

        if (verdict == ACCESS_GRANTED)
                return true;
        http_call_refuse_access(call, verdict, text, refusal_type);
        return false;
}

/* Finds the route and checks access. Returns false after answering a refusal. */
static bool check_route(struct http_conn *c) {
        const struct http_route_table *table = &c->server->options.routes;
        struct http_call              *call = &c->call;
        struct http_captures           found = { 0 };
        enum http_route_verdict        verdict;
        const struct http_route       *row = NULL;
        AUTO_ERROR                     fault = NULL;

        verdict = find_route(c, &row, &found);
        if (verdict == HTTP_ROUTE_NOT_FOUND) {
                if (table->fallback != NULL)
                        return check_access(c, table->fallback_group, NULL);
                http_call_reply_refusal(call, 404, "Not Found", NULL);
                return false;
        }
        call->route = row;
        call->model = found.model;
        call->version = found.version;
        call->region = found.region;
        fault = found.model_is_encoded
                        ? http_route_decode_model(found.model, &call->arena, &call->model)
                        : http_route_read_model(found.model, &call->arena, &call->model);
        if (!check_access(c, row->group, row->refusal_type))
                return false;
        if (verdict == HTTP_ROUTE_WRONG_METHOD) {
                http_call_reply_wrong_method(call, http_route_allowed(table, row),
                                             row->refusal_type);
                return false;
        }
        if (fault != NULL) {
                http_call_reply_refusal(call, http_status_of_code(fault->code), fault->message,
                                        row->refusal_type);
                return false;
        }
        return true;
}

/* ---- a request: head, then body ---- */

/* Calls the handler of a complete request. */
static void hand_out(struct http_conn *c) {
        struct http_call *call = &c->call;

        call->recv_end_ns = c->now_ns;
        c->bytes_in += call->body.len;
        enter_state(c, HTTP_CONN_CALL, HTTP_PHASE_HANDLER, c->now_ns);
        c->was_handed_out = true;
        if (call->route != NULL)
                call->route->handler(call);
        else
                c->server->options.routes.fallback(call);
        if (c->has_ended) /* a client that left, or that only closed its sending side */
                abort_call(c);
}

/* Takes a body that is in the read buffer, behind its head. */
static void take_body_in_place(struct http_conn *c, size_t len) {
        c->next_at = c->in_at + c->message->head_bytes + len;
        if (len == 0)
                return;
        buf_ref(c->in);
        c->call.body_buf = c->in;
        c->call.body = str_range(c->in->bytes + c->in_at + c->message->head_bytes, len);
}

/* Allocates a buffer for a body that does not fit behind its head, and moves the bytes that have already
 * arrived. */
static bool begin_large_body(struct http_conn *c) {
        size_t at = c->in_at + c->message->head_bytes;
        size_t have = c->in_len - at;

        c->body_buf = buf_new_growing(pool_of(c), c->message->content_length, have);
        if (c->body_buf == NULL)
                return false;
        memcpy(c->body_buf->bytes, c->in->bytes + at, have);
        c->body_got = have;
        c->in_len = at;
        return true;
}

static bool is_body_here(const struct http_conn *c) {
        const struct http_message *m = c->message;

        return !m->is_chunked && c->in_len - c->in_at - m->head_bytes >= m->content_length;
}

/* Called only when the body is wanted. An idle socket always has room for these bytes. */
static bool send_continue(struct http_conn *c) {
        static const char  text[] = "HTTP/1.1 100 Continue\r\n\r\n";
        const struct iovec part = { (void *)text, sizeof(text) - 1 };

        return conn_write(c->net, &part, 1) == CONN_WRITE_DONE;
}

static bool fits_in_place(const struct http_conn *c) {
        return c->message->content_length <= c->in->cap - c->in_at - c->message->head_bytes;
}

/* The budget has counted its own refusal, so the limit is counted only when the allocator failed. */
static void refuse_memory(struct http_conn *c, size_t bytes) {
        const struct buf_pool *pool = pool_of(c);
        bool                   fits = byte_budget_fits(buf_pool_budget(pool), bytes);

        refuse_request(c, 503, fits ? HTTP_LIMIT_MEMORY : HTTP_LIMIT_NONE,
                       buf_pool_shortage(pool, bytes));
}

/* True for what is answered even when the budget is used up: it takes next to nothing, and says how the
 * server is. */
static bool is_vital(struct http_conn *c) {
        const struct http_route *route;

        find_refused_route(c);
        route = c->call.route;
        return route != NULL && is_body_here(c) &&
               (route->group == ENDPOINT_HEALTH || route->group == ENDPOINT_METRICS);
}

/* Answers 503 to connections of the loop that hold a part of a head, the longest first, until there is
 * room. One with bytes that were not parsed yet is left alone, since its request may be complete. */
static COLD void free_waiting(struct http_shard *shard, uint64_t now_ns) {
        struct buf_pool *pool = loop_buf_pool(shard->net.loop);

        while (!list_is_empty(&shard->waiting) && buf_pool_is_tight(pool)) {
                struct http_conn *c =
                        LIST_ENTRY(list_first(&shard->waiting), struct http_conn, waiting);

                stop_waiting(c);
                if (has_unparsed(c) || c->state != HTTP_CONN_HEAD)
                        continue;
                c->now_ns = now_ns;
                refuse_request(c, 503, HTTP_LIMIT_MEMORY, BYTE_BUDGET_USED_UP);
        }
}

/* A part of a head is kept until the rest arrives: in as little memory as it needs, and in place of the
 * oldest others when there is no room. */
static void keep_part_of_head(struct http_conn *c) {
        shrink_input(c, c->in_len - c->in_at);
        if (c->is_waiting)
                return;
        if (buf_pool_is_tight(pool_of(c)))
                free_waiting(c->shard, c->now_ns);
        list_append(&c->shard->waiting, &c->waiting);
        c->is_waiting = true;
}

/* True, after answering 503, when the budget is too tight to wait for a body. */
static bool refuse_to_wait(struct http_conn *c) {
        const struct http_message *m = c->message;
        struct byte_budget        *budget = buf_pool_budget(pool_of(c));

        if (!byte_budget_is_half_used(budget))
                return false;
        if (buf_pool_is_tight(pool_of(c))) {
                free_waiting(c->shard, c->now_ns);
                if (buf_pool_is_tight(pool_of(c))) {
                        find_refused_route(c);
                        refuse_request(c, 503, HTTP_LIMIT_MEMORY, BYTE_BUDGET_USED_UP);
                        return true;
                }
        }
        if (!m->is_chunked && fits_in_place(c))
                shrink_input(c, m->head_bytes + m->content_length);
        return false;
}

/* Answers 413 to a body of which the budget could never have room. */
static bool check_budget(struct http_conn *c) {
        size_t     largest = buf_pool_largest(pool_of(c));
        AUTO_CHARS text = NULL;

        if (c->message->content_length <= largest)
                return true;
        text = mem_printf("request body of %llu bytes exceeds the maximum of %zu bytes that the "
                          "server's memory budget (--memory-budget) permits",
                          (unsigned long long)c->message->content_length, largest);
        refuse_request(c, 413, HTTP_LIMIT_BODY_BYTES, text);
        return false;
}

struct error *http_call_body_too_large(uint64_t bytes, size_t max) {
        return error_new(ERR_INVALID_ARG,
                         "request body of %llu bytes exceeds the maximum allowed input size of "
                         "%zu bytes. Use --http-max-input-size to increase the limit.",
                         (unsigned long long)bytes, max);
}

/* Answers a request whose body is too large; for a chunked one, sets its limit. */
static bool check_body(struct http_conn *c) {
        const struct http_limits      *limits = &c->server->options.limits;
        const struct http_route_table *table = &c->server->options.routes;
        struct http_message           *m = c->message;
        const struct http_route       *row = c->call.route;
        struct http_body_limit         limit = { http_limits_body_bytes(limits),
                                         row != NULL ? row->refusal_type : NULL };
        AUTO_ERROR                     err = NULL;

        if (m->content_length <= limit.max_bytes && !m->is_chunked)
                return true;
        if (row != NULL && table->check_body != NULL)
                err = table->check_body(&c->call, m->content_length, &limit);
        if (err == NULL && m->content_length > limit.max_bytes)
                err = http_call_body_too_large(m->content_length, limits->input_bytes);
        if (err != NULL) {
                refuse_as(c, http_status_of_code(err->code), HTTP_LIMIT_BODY_BYTES, err->message,
                          limit.refusal_type);
                return false;
        }
        if (m->is_chunked)
                http_message_limit_body(m, limit.max_bytes);
        return true;
}

static bool begin_body(struct http_conn *c) {
        const struct http_message *m = c->message;

        bool is_waiting = m->expects_continue && c->in_len == c->in_at + m->head_bytes;

        if (!m->is_chunked && !fits_in_place(c)) {
                if (!check_budget(c))
                        return true;
                if (!begin_large_body(c)) {
                        refuse_memory(c, m->content_length);
                        return true;
                }
        }
        enter_state(c, m->is_chunked ? HTTP_CONN_CHUNKS : HTTP_CONN_BODY, HTTP_PHASE_BODY,
                    c->now_ns);
        if (is_waiting && !send_continue(c)) {
                http_conn_close(c);
                return false;
        }
        return true;
}

/* The head is complete: checks the route and access, then decides where the body goes. */
static bool on_head(struct http_conn *c) {
        const struct http_message *m = c->message;

        stop_waiting(c);
        if (c->is_beyond && !is_vital(c)) {
                refuse_request(c, 503, HTTP_LIMIT_MEMORY, BYTE_BUDGET_USED_UP);
                return true;
        }
        c->is_beyond = false;
        if (reserve_is_short()) {
                refuse_request(c, 503, HTTP_LIMIT_MEMORY, "out of memory");
                return true;
        }
        if (!is_body_here(c) && refuse_to_wait(c))
                return true;
        if (!is_body_here(c) && m->is_chunked && !make_room(c, MIN_CHUNK_ROOM)) {
                refuse_request(c, 503, HTTP_LIMIT_MEMORY, "out of memory");
                return true;
        }
        fill_call(c);
        if (log_is_verbose(1))
                log_arrival(c);
        c->out.close = !m->keep_alive;
        c->out.is_http10 = m->is_http10;
        c->next_at = c->in_at + m->head_bytes;
        c->bytes_in = m->head_bytes;
        enter_state(c, HTTP_CONN_CALL, HTTP_PHASE_HANDLER, c->now_ns);
        if (!is_body_here(c)) {
                /* A refusal must not wait for the body. */
                c->must_linger = true;
                if (!check_route(c) || !check_body(c))
                        return true;
                c->must_linger = false;
                return begin_body(c);
        }
        take_body_in_place(c, m->content_length);
        if (check_route(c) && check_body(c))
                hand_out(c);
        return true;
}

static bool take_head(struct http_conn *c) {
        enum http_parse verdict;

        if (c->in == NULL || c->in_at == c->in_len) {
                drop_input(c);
                if (c->has_ended)
                        http_conn_close(c);
                else if (c->shard->is_leaving)
                        http_conn_leave(c);
                return false;
        }
        if (c->rate_watch.phase == HTTP_PHASE_IDLE) {
                http_rate_watch_enter(&c->rate_watch, HTTP_PHASE_HEAD, c->now_ns);
                c->call.recv_start_ns = c->now_ns;
        }
        verdict = http_message_parse_head(c->message,
                                          str_range(c->in->bytes + c->in_at, c->in_len - c->in_at));
        if (verdict == HTTP_PARSE_DONE)
                return on_head(c);
        if (verdict == HTTP_PARSE_REFUSED) {
                const struct http_refusal *r = &c->message->refusal;

                refuse_request(c, r->status, r->limit, r->text);
                return true;
        }
        if (c->has_ended)
                http_conn_close(c);
        else
                keep_part_of_head(c);
        return false;
}

/* True when run_conn() must parse before more can be read. */
static bool is_full(const struct http_conn *c) {
        if (c->state == HTTP_CONN_BODY && c->body_buf != NULL)
                return c->body_got == body_room(c);
        return c->in_len == c->in->cap;
}

static bool take_body(struct http_conn *c) {
        size_t want = c->message->content_length;

        if (c->body_buf != NULL) {
                if (c->body_got < want && is_full(c) && !buf_grow(&c->body_buf, want)) {
                        refuse_memory(c, want);
                        return true;
                }
                if (c->body_got < want)
                        return false;
                c->body_buf->len = want;
                c->call.body_buf = STEAL(c->body_buf);
                c->call.body = str_range(c->call.body_buf->bytes, want);
        } else {
                if (!is_body_here(c))
                        return false;
                take_body_in_place(c, want);
        }
        hand_out(c);
        return true;
}

/* Chunks are copied out of the read buffer when they arrive, so the space after the head is reused. Bytes
 * after the last chunk belong to the next request. */
static bool take_chunks(struct http_conn *c) {
        struct http_message *m = c->message;
        size_t               at = c->in_at + m->head_bytes;
        size_t               used;
        enum http_parse      verdict;

        if (at == c->in_len)
                return false;
        verdict = http_message_parse_chunks(m, str_range(c->in->bytes + at, c->in_len - at), &used);
        if (verdict == HTTP_PARSE_REFUSED) {
                refuse_request(c, m->refusal.status, m->refusal.limit, m->refusal.text);
                return true;
        }
        memmove(c->in->bytes + at, c->in->bytes + at + used, c->in_len - at - used);
        c->in_len -= used;
        if (verdict == HTTP_PARSE_MORE)
                return false;
        if (m->body != NULL) {
                c->call.body_buf = STEAL(m->body);
                c->call.body = str_range(c->call.body_buf->bytes, c->call.body_buf->len);
        }
        hand_out(c);
        return true;
}

/* ---- from one state to the next ---- */

static void free_conn(struct http_conn *c) {
        struct net_shard *shard = &c->shard->net;

        list_remove(&c->place.node);
        stop_waiting(c);
        if (list_is_linked(&c->parse_task.node))
                list_remove(&c->parse_task.node);
        turns_cancel(&c->turn);
        drop_input(c);
        release_held(c);
        drop_chunks(c);
        buf_unref(c->body_buf);
        buf_unref(c->call.body_buf);
        access_done(&c->call.access);
        arena_done(&c->call.arena);
        http_message_free(c->message);
        free(c->peer);
        free(c);
        net_shard_conn_gone(shard);
}

static bool step_conn(struct http_conn *c) {
        if (c->net == NULL || conn_is_closing(c->net))
                return false;
        switch (c->state) {
        case HTTP_CONN_HEAD: return take_head(c);
        case HTTP_CONN_BODY: return take_body(c);
        case HTTP_CONN_CHUNKS: return take_chunks(c);
        case HTTP_CONN_LINGER:
                c->in_at = c->in_len = 0; /* discard */
                break;
        case HTTP_CONN_CALL:
        case HTTP_CONN_WRITE: break;
        }
        return false;
}

/* True when the next step begins a request. */
static bool is_before_request(const struct http_conn *c) {
        return c->state == HTTP_CONN_HEAD && c->rate_watch.phase == HTTP_PHASE_IDLE &&
               c->in_at < c->in_len;
}

/* False when the connection has to wait for its turn. The time of a request's answer is the time at which
 * the next one begins. */
static bool may_step(struct http_conn *c) {
        struct loop *l = c->shard->net.loop;

        if (turns_is_waiting(&c->turn))
                return false;
        if (c->net == NULL || conn_is_closing(c->net) || !is_before_request(c) ||
            loop_take_share(l, &c->turn, c->now_ns))
                return true;
        loop_wait_turn(l, &c->turn);
        return false;
}

static void run_conn(struct http_conn *c) {
        if (c->is_running)
                return;
        c->is_running = true;
        while (may_step(c) && step_conn(c))
                ;
        if (c->has_ended && (c->state == HTTP_CONN_BODY || c->state == HTTP_CONN_CHUNKS))
                http_conn_close(c); /* the rest of the body does not come */
        c->is_running = false;
        if (c->net != NULL && turns_is_waiting(&c->turn))
                conn_read_stop(c->net);
        else if (c->net != NULL)
                conn_read_start(c->net);
        else if (!is_with_handler(c))
                free_conn(c);
}

/* ---- what the socket reports ---- */

static struct iovec on_room(struct conn *net) {
        return input_room(conn_owner(net));
}

/* While a request is handled its buffer may be full; reading continues afterwards. */
static void on_no_room(struct conn *net) {
        struct http_conn *c = conn_owner(net);

        if (c->state == HTTP_CONN_HEAD)
                refuse_request(c, 503, HTTP_LIMIT_MEMORY,
                               buf_pool_shortage(pool_of(c), HTTP_READ_BYTES));
}

/* Takes the bytes that were read into the loop's scratch memory, because there was no room for a read
 * buffer: into memory of their size, which those that hold parts of heads give up when necessary. Without
 * any, only vital requests are answered other than with 503. */
static COLD void take_scratch(struct http_conn *c, size_t n) {
        c->in_scratch = false;
        if (c->state != HTTP_CONN_HEAD) /* it discards what it reads */
                return;
        if (buf_pool_is_tight(pool_of(c)))
                free_waiting(c->shard, c->now_ns);
        c->in = buf_new(pool_of(c), n);
        if (c->in == NULL) {
                c->is_beyond = true;
                c->in = buf_new_beyond(pool_of(c), n);
        }
        if (c->in == NULL) {
                count_rejected(c, HTTP_LIMIT_MEMORY);
                http_conn_close(c);
                return;
        }
        memcpy(c->in->bytes, c->shard->scratch, n);
        c->in_at = 0;
        c->in_len = n;
        run_conn(c);
        if (c->is_beyond && c->state == HTTP_CONN_HEAD && c->in != NULL && !has_unparsed(c))
                refuse_request(c, 503, HTTP_LIMIT_MEMORY, BYTE_BUDGET_USED_UP);
}

/* The client has its whole answer, though the handler has the call. */
static bool is_finished(const struct http_conn *c) {
        return c->out.is_held && c->out.is_last_sent && !conn_is_writing(c->net);
}

/* Bytes that arrive now belong to the next request, which waits. */
static bool is_answering(const struct http_conn *c) {
        return c->state == HTTP_CONN_CALL || c->state == HTTP_CONN_WRITE;
}

static void on_read(struct conn *net, size_t n_bytes) {
        struct http_conn *c = conn_owner(net);

        c->now_ns = clock_now_ns();
        if (c->in_scratch) {
                take_scratch(c, n_bytes);
                return;
        }
        if (c->state == HTTP_CONN_BODY && c->body_buf != NULL)
                c->body_got += n_bytes;
        else
                c->in_len += n_bytes;
        if (is_answering(c))
                return;
        if (is_full(c))
                run_conn(c);
        else
                loop_defer(c->shard->net.loop, LOOP_HANDLE, &c->parse_task);
}

static void on_parse(struct loop_task *task) {
        struct http_conn *c = CONTAINER_OF(task, struct http_conn, parse_task);

        if (!is_answering(c))
                run_conn(c);
}

static void on_turn(struct turn *turn) {
        struct http_conn *c = CONTAINER_OF(turn, struct http_conn, turn);

        c->now_ns = clock_now_ns();
        run_conn(c);
}

/* Runs the deferred parsing now. */
static void run_deferred_parse(struct http_conn *c) {
        if (!list_is_linked(&c->parse_task.node))
                return;
        list_remove(&c->parse_task.node);
        on_parse(&c->parse_task);
}

static void on_conn_end(struct conn *net, bool is_reset) {
        struct http_conn *c = conn_owner(net);

        run_deferred_parse(c);
        c->has_ended = true;
        if (is_reset || is_finished(c) || (!is_answering(c) && !turns_is_waiting(&c->turn)))
                http_conn_close(c);
        /* A peer that only closed its sending side may still read, so the answer is sent. */
        abort_call(c);
}

static void on_written(struct conn *net, bool is_ok) {
        struct http_conn *c = conn_owner(net);

        release_held(c);
        if (!is_ok) {
                drop_chunks(c);
                http_conn_close(c);
                abort_call(c);
        }
        if (c->out.in_chunks)
                flush_chunks(c);
        else if (c->state == HTTP_CONN_WRITE)
                end_call(c, clock_now_ns());
        run_conn(c);
}

static void on_closed(struct conn *net) {
        struct http_conn *c = conn_owner(net);

        c->is_running = true; /* an answer given now must not free the connection */
        abort_call(c);
        c->is_running = false;
        c->net = NULL;
        run_conn(c);
}

/* Returns the number of bytes that moved in the current phase of the rate watch. Bytes of an answer count
 * only when the peer has acknowledged them, because the socket buffers megabytes for a peer that reads
 * nothing. */
static uint64_t moved_bytes(const struct http_conn *c) {
        switch (c->rate_watch.phase) {
        case HTTP_PHASE_BODY:
                if (c->body_buf != NULL)
                        return c->body_got;
                if (c->state == HTTP_CONN_CHUNKS)
                        return c->message->body != NULL ? c->message->body->len : 0;
                return c->in_len - c->in_at;
        case HTTP_PHASE_WRITE:
                return c->out.bytes - conn_unwritten_bytes(c->net) -
                       conn_unacknowledged_bytes(c->net);
        case HTTP_PHASE_IDLE:
        case HTTP_PHASE_HEAD:
        case HTTP_PHASE_HANDLER:
        case HTTP_PHASE_LINGER: break;
        }
        return 0;
}

static void on_tick(struct conn *net, uint64_t now_ns) {
        struct http_conn *c = conn_owner(net);
        enum http_limit   limit;

        if (has_unparsed(c))
                return;
        if (is_idle(c) && c->in_at == c->in_len)
                drop_input(c); /* on_room() took a buffer, and no read followed */
        limit = http_rate_watch_check(&c->rate_watch, &c->server->options.limits, now_ns,
                                      moved_bytes(c));
        switch (limit) {
        case HTTP_LIMIT_NONE: break;
        case HTTP_LIMIT_HEADER_TIME:
                c->now_ns = now_ns;
                refuse_request(c, 408, limit, "request header was not received in time");
                break;
        case HTTP_LIMIT_BODY_RATE:
                c->now_ns = now_ns;
                refuse_request(c, 408, limit, "request body was received too slowly");
                break;
        case HTTP_LIMIT_WRITE_STALL:
        case HTTP_LIMIT_WRITE_RATE:
                count_rejected(c, limit);
                http_conn_close(c);
                break;
        default: /* idle, or lingered long enough: not counted as a refusal */
                http_conn_close(c);
                break;
        }
}

static const struct conn_ops conn_ops = {
        .on_room = on_room,
        .on_no_room = on_no_room,
        .on_read = on_read,
        .on_end = on_conn_end,
        .on_written = on_written,
        .on_tick = on_tick,
        .on_closed = on_closed,
};

/* ---- opening and closing ---- */

void http_conn_open(struct http_shard *shard, int fd) {
        struct http_conn *c = mem_aligned_alloc(CACHE_LINE_BYTES, sizeof(*c));
        struct error     *err;

        memset(c, 0, offsetof(struct http_conn, arena_bytes));
        err = net_shard_open(&shard->net, fd, &conn_ops, c, &c->net);
        if (err !=
            NULL) { /* out of memory or descriptors: as if the connection had not been accepted */
                error_free(err);
                free(c);
                net_shard_conn_gone(&shard->net);
                return;
        }
        c->parse_task.run = on_parse;
        c->turn.run = on_turn;
        c->server = shard->server;
        c->shard = shard;
        if (c->server->options.service.on_access != NULL)
                c->peer = mem_strdup(conn_peer(c->net));
        list_append(&shard->net.conns, &c->place.node);
        list_init(&c->out.chunks);
        list_init(&c->out.sending);
        c->message =
                http_message_new(&shard->server->options.limits, loop_buf_pool(shard->net.loop));
        arena_init(&c->call.arena, c->arena_bytes, sizeof(c->arena_bytes), HTTP_MAX_ARENA_BYTES);
        arena_set_budget(&c->call.arena, buf_pool_budget(loop_buf_pool(shard->net.loop)));
        c->call.conn = c;
        c->call.service = &c->server->options.service;
        c->call.core = c->server->options.service.core;
        c->place.noted_ns = clock_now_ns();
        enter_state(c, HTTP_CONN_HEAD, HTTP_PHASE_IDLE, c->place.noted_ns);
        if (shard->is_leaving)
                http_conn_close(c);
        else
                conn_read_start(c->net);
}

void http_conn_leave(struct http_conn *c) {
        if (c->net == NULL || conn_is_closing(c->net) || !is_idle(c) || conn_has_unread(c->net))
                return;
        c->now_ns = clock_now_ns();
        if (conn_is_in_handshake(c->net))
                http_conn_close(c);
        else
                linger(c);
}

bool http_conn_is_quiet(const struct http_conn *c, uint64_t now_ns, uint64_t time_ns) {
        bool has_answered = c->out.status != 0;

        return has_answered && is_idle(c) && now_ns - c->rate_watch.since_ns >= time_ns;
}

bool http_conn_has_left(const struct http_conn *c, uint64_t now_ns, uint64_t time_ns) {
        return c->state == HTTP_CONN_LINGER && !c->must_linger &&
               now_ns - c->rate_watch.since_ns >= time_ns;
}

void http_conn_give_up(struct http_conn *c, uint64_t now_ns, uint64_t time_ns) {
        if (is_idle(c) || http_conn_has_left(c, now_ns, time_ns))
                http_conn_close(c);
}

/* What an idle connection may claim; the phase began when it was opened or when its last answer ended. */
static enum leave_claim idle_claim(const struct http_conn *c, uint64_t now_ns) {
        uint64_t since_ns = c->rate_watch.since_ns;

        if (since_ns > c->place.noted_ns)
                return LEAVE_STAYS;
        if (since_ns == c->place.noted_ns && now_ns - since_ns < LEAVE_NEW_NS)
                return LEAVE_NEW; /* not noted since it was opened, and without a request */
        return LEAVE_IDLE;
}

static enum leave_claim phase_claim(const struct http_conn *c, uint64_t now_ns) {
        switch (c->rate_watch.phase) {
        case HTTP_PHASE_IDLE: return idle_claim(c, now_ns);
        case HTTP_PHASE_HEAD:
                return now_ns - c->rate_watch.since_ns > LEAVE_NEW_NS ? LEAVE_IDLE : LEAVE_STAYS;
        case HTTP_PHASE_LINGER: return LEAVE_IDLE;
        case HTTP_PHASE_BODY:
        case HTTP_PHASE_HANDLER:
        case HTTP_PHASE_WRITE: break;
        }
        return LEAVE_STAYS;
}

static enum leave_claim claim_of(const struct leave_place *place, uint64_t now_ns) {
        const struct http_conn *c = CONTAINER_OF(place, struct http_conn, place);
        enum leave_claim        claim;

        if (c->net == NULL || conn_is_closing(c->net) || has_unparsed(c))
                return LEAVE_STAYS;
        claim = phase_claim(c, now_ns);
        return claim != LEAVE_STAYS && conn_has_unread(c->net) ? LEAVE_UNREAD : claim;
}

bool http_shard_make_room(struct http_shard *shard, enum leave_need need) {
        struct leave_place *place =
                leave_order_pick(&shard->net.conns, need, claim_of, clock_now_ns());

        if (place != NULL)
                http_conn_close(CONTAINER_OF(place, struct http_conn, place));
        return place != NULL;
}
