/* SPDX-License-Identifier: BSD-3-Clause */
/* From bytes to a complete request in the hands of its handler. */
#include "http/http_conn.h"

#include "base/buf.h"
#include "base/byte_budget.h"
#include "base/reserve.h"
#include "http/http_message.h"
#include "http/http_model_name.h"
#include "http/http_server_private.h"
#include "net/loop.h"

#include <string.h>

/* What must be free behind a head for chunks to be read into. */
#define MIN_CHUNK_ROOM ((size_t)8 << 10)

/* A refusal by the connection itself. What was not read of the request never will be. */
void http_conn_refuse(struct http_conn *c, unsigned status, enum http_limit limit,
                      const char *text) {
        http_conn_count_rejected(c, limit);
        c->out.close = true;
        c->must_linger = true;
        http_conn_enter(c, HTTP_CONN_CALL, HTTP_PHASE_HANDLER, c->now_ns);
        http_call_reply_refusal(&c->call, status, text,
                                c->call.route ? c->call.route->refusal_type : NULL);
}

/* "http://host/path" is as good as "/path" (RFC 9112, 3.2.2); the query is not ours. */
static struct str path_of(struct str target) {
        struct str  path, scheme;
        const char *slash;

        str_split(target, '?', &path);
        if (path.len > 0 && path.ptr[0] == '/')
                return path;
        if (str_starts(path, STR_LIT("http://")))
                scheme = STR_LIT("http://");
        else if (str_starts(path, STR_LIT("https://")))
                scheme = STR_LIT("https://");
        else
                return path;
        path = str_range(path.ptr + scheme.len, path.len - scheme.len);
        slash = memchr(path.ptr, '/', path.len);
        if (!slash)
                return STR_LIT("/");
        return str_range(slash, path.len - (size_t)(slash - path.ptr));
}

static void fill_call(struct http_conn *c) {
        const struct http_message *m = c->message;
        const char                *base = c->in->bytes + c->in_at;
        struct http_call          *call = &c->call;

        call->head = base;
        call->n_headers = m->n_fields;
        call->method = m->method;
        call->path = path_of(http_message_target(m, base));
}

/* A head that is refused for the body it announces: the answer is typed as its route's are. */
static void find_refused_route(struct http_conn *c) {
        const struct http_route *row;
        struct http_captures     found;

        fill_call(c);
        if (http_route_find(&c->server->options.routes, c->call.method, c->call.path, &row,
                            &found) != HTTP_ROUTE_NOT_FOUND)
                c->call.route = row;
}

static void refuse_method(struct http_conn *c, const struct http_route *row) {
        const struct http_route_table *table = &c->server->options.routes;
        bool                           get = false, post = false;
        struct str                     allowed = STR_LIT("GET");

        for (size_t i = 0; i < table->n_rows; i++) {
                if (strcmp(table->rows[i].pattern, row->pattern) != 0)
                        continue;
                get = get || table->rows[i].method == HTTP_METHOD_GET;
                post = post || table->rows[i].method == HTTP_METHOD_POST;
        }
        if (post)
                allowed = get ? STR_LIT("GET, POST") : STR_LIT("POST");
        http_call_reply_wrong_method(&c->call, allowed, row->refusal_type);
}

static void field_at(const void *call, size_t at, struct str *ret_name, struct str *ret_value) {
        const struct http_call  *http = call;
        const struct http_header field = http_message_header(http->conn->message, http->head, at);

        *ret_name = field.name;
        *ret_value = field.value;
}

/* RFC 9110, 15.5.2: a 401 says how to do better. */
static void refuse_access(struct http_call *call, enum access_verdict verdict, const char *message,
                          const char *content_type) {
        static const struct http_header how = { { "WWW-Authenticate", 16 }, { "Bearer", 6 } };
        struct str                      text = http_call_print_error(call, message);
        const struct http_part          part = { text.ptr, text.len, NULL };
        const struct http_reply         reply = {
                        .status = verdict == ACCESS_NO_KEY ? 401 : 403,
                        .content_type = content_type,
                        .headers = &how,
                        .n_headers = verdict == ACCESS_NO_KEY,
                        .parts = &part,
                        .n_parts = 1,
        };

        http_call_reply(call, &reply);
}

/* The one place where a request is let through; else it has been answered. */
static bool may_use(struct http_conn *c, enum endpoint_group group, const char *refusal_type) {
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

        if (LIKELY(verdict == ACCESS_GRANTED))
                return true;
        refuse_access(call, verdict, text, refusal_type);
        return false;
}

/* True when the call may go to its row's handler; else it has been answered. */
static bool check_route(struct http_conn *c) {
        const struct http_route_table *table = &c->server->options.routes;
        struct http_call              *call = &c->call;
        struct http_captures           found = { 0 };
        enum http_route_verdict        verdict;
        const struct http_route       *row = NULL;
        AUTO_ERROR                     fault = NULL;

        verdict = http_route_find(table, call->method, call->path, &row, &found);
        if (verdict == HTTP_ROUTE_NOT_FOUND) {
                if (table->fallback)
                        return may_use(c, table->fallback_group, NULL);
                http_call_reply_refusal(call, 404, "Not Found", NULL);
                return false;
        }
        call->route = row;
        call->model = found.model;
        call->version = found.version;
        call->region = found.region;
        fault = http_model_name_read(found.model, &call->arena, &call->model);
        if (!may_use(c, row->group, row->refusal_type))
                return false;
        if (verdict == HTTP_ROUTE_WRONG_METHOD) {
                refuse_method(c, row);
                return false;
        }
        if (UNLIKELY(fault != NULL)) {
                http_call_reply_error(call, STEAL(fault), row->refusal_type);
                return false;
        }
        return true;
}

/* The request is complete. */
static void hand_out(struct http_conn *c) {
        struct http_call *call = &c->call;

        call->recv_end_ns = c->now_ns;
        c->bytes_in += call->body.len;
        http_conn_enter(c, HTTP_CONN_CALL, HTTP_PHASE_HANDLER, c->now_ns);
        c->was_handed_out = true;
        if (call->route)
                call->route->handler(call);
        else
                c->server->options.routes.fallback(call);
}

/* The body, or what there is of it, is right behind its head. */
static void take_body_in_place(struct http_conn *c, size_t len) {
        c->next_at = c->in_at + c->message->head_bytes + len;
        if (len == 0)
                return;
        buf_ref(c->in);
        c->call.body_buf = c->in;
        c->call.body = str_range(c->in->bytes + c->in_at + c->message->head_bytes, len);
}

/* A buffer for a body that does not fit behind its head; what came of it already moves there. */
static bool begin_large_body(struct http_conn *c) {
        size_t at = c->in_at + c->message->head_bytes;
        size_t have = c->in_len - at;

        c->body_buf = buf_new(loop_buf_pool(c->home->net.loop), c->message->content_length);
        if (!c->body_buf)
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

/* Sent only when the body is wanted. An idle socket always has room for these bytes. */
static bool send_continue(struct http_conn *c) {
        static const char  text[] = "HTTP/1.1 100 Continue\r\n\r\n";
        const struct iovec part = { (void *)text, sizeof(text) - 1 };

        return conn_write(c->net, &part, 1) == CONN_WRITE_DONE;
}

static bool fits_in_place(const struct http_conn *c) {
        return c->message->content_length <= c->in->cap - c->in_at - c->message->head_bytes;
}

/* The budget counts what it refuses itself. */
static void refuse_memory(struct http_conn *c, size_t bytes) {
        const struct buf_pool *pool = loop_buf_pool(c->home->net.loop);
        bool                   fits = byte_budget_fits(buf_pool_budget(pool), bytes);

        http_conn_refuse(c, 503, fits ? HTTP_LIMIT_MEMORY : HTTP_LIMIT_NONE,
                         buf_pool_shortage(pool, bytes));
}

static bool begin_body(struct http_conn *c) {
        const struct http_message *m = c->message;

        bool is_waiting = m->expects_continue && c->in_len == c->in_at + m->head_bytes;

        if (!m->is_chunked && !fits_in_place(c) && !begin_large_body(c)) {
                refuse_memory(c, m->content_length);
                return true;
        }
        http_conn_enter(c, m->is_chunked ? HTTP_CONN_CHUNKS : HTTP_CONN_BODY, HTTP_PHASE_BODY,
                        c->now_ns);
        if (is_waiting && !send_continue(c)) {
                http_conn_close(c);
                return false;
        }
        return true;
}

/* The head is complete: who may, and where does the body go? */
static bool on_head(struct http_conn *c) {
        const struct http_message *m = c->message;

        if (UNLIKELY(reserve_is_short())) {
                http_conn_refuse(c, 503, HTTP_LIMIT_MEMORY, "out of memory");
                return true;
        }
        if (!is_body_here(c) && m->is_chunked && !http_input_make_room(c, MIN_CHUNK_ROOM)) {
                http_conn_refuse(c, 503, HTTP_LIMIT_MEMORY, "out of memory");
                return true;
        }
        fill_call(c);
        c->out.close = !m->keep_alive;
        c->out.is_http10 = m->is_http10;
        c->next_at = c->in_at + m->head_bytes;
        c->bytes_in = m->head_bytes;
        http_conn_enter(c, HTTP_CONN_CALL, HTTP_PHASE_HANDLER, c->now_ns);
        if (!is_body_here(c)) {
                /* Should it be refused, then before its body is read. */
                c->must_linger = true;
                if (!check_route(c))
                        return true;
                c->must_linger = false;
                return begin_body(c);
        }
        take_body_in_place(c, m->content_length);
        if (check_route(c))
                hand_out(c);
        return true;
}

bool http_intake_head(struct http_conn *c) {
        enum http_parse verdict;

        if (!c->in || c->in_at == c->in_len) {
                http_input_drop(c);
                if (c->has_ended)
                        http_conn_close(c);
                else if (c->home->is_leaving)
                        http_conn_leave(c);
                return false;
        }
        if (c->pace.phase == HTTP_PHASE_IDLE) {
                http_pace_enter(&c->pace, HTTP_PHASE_HEAD, c->now_ns);
                c->call.recv_start_ns = c->now_ns;
        }
        verdict = http_message_parse_head(c->message,
                                          str_range(c->in->bytes + c->in_at, c->in_len - c->in_at));
        if (verdict == HTTP_PARSE_DONE)
                return on_head(c);
        if (verdict == HTTP_PARSE_REFUSED) {
                const struct http_refusal *r = &c->message->refusal;

                if (r->limit == HTTP_LIMIT_BODY_BYTES)
                        find_refused_route(c);
                http_conn_refuse(c, r->status, r->limit, r->text);
                return true;
        }
        if (c->has_ended)
                http_conn_close(c);
        return false;
}

bool http_intake_body(struct http_conn *c) {
        size_t want = c->message->content_length;

        if (c->body_buf) {
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

/* Chunks are copied out of the read buffer as they come, so its room behind the head is used
 * again and again; what is left at the end is the next request. */
bool http_intake_chunks(struct http_conn *c) {
        struct http_message *m = c->message;
        size_t               at = c->in_at + m->head_bytes;
        size_t               used;
        enum http_parse      verdict;

        if (at == c->in_len)
                return false;
        verdict = http_message_parse_chunks(m, str_range(c->in->bytes + at, c->in_len - at), &used);
        if (verdict == HTTP_PARSE_REFUSED) {
                http_conn_refuse(c, m->refusal.status, m->refusal.limit, m->refusal.text);
                return true;
        }
        memmove(c->in->bytes + at, c->in->bytes + at + used, c->in_len - at - used);
        c->in_len -= used;
        if (verdict == HTTP_PARSE_MORE)
                return false;
        if (m->body) {
                c->call.body_buf = STEAL(m->body);
                c->call.body = str_range(c->call.body_buf->bytes, c->call.body_buf->len);
        }
        hand_out(c);
        return true;
}
