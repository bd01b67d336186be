/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels of HTTP/1.1: one call at a time. */
#include "base/clock.h"
#include "codec/json_find.h"
#include "load/channel_private.h"

static void on_open(struct channel *ch) {
        http_response_init(&ch->response);
}

static bool has_room(const struct channel *ch) {
        return ch->current == NULL;
}

/* finish_call() ends a connection after its last answer. */
static bool is_over(const struct channel *ch) {
        (void)ch;
        return false;
}

static void send_call(struct channel *ch, struct call *c) {
        const struct wire_message *m = c->message;
        struct iovec               parts[3];
        size_t                     n = 0;

        parts[n++] = (struct iovec){ (char *)(uintptr_t)m->before.ptr, m->before.len };
        if (c->n_patch > 0)
                parts[n++] = (struct iovec){ c->patch, c->n_patch };
        if (m->after.len > 0)
                parts[n++] = (struct iovec){ (char *)(uintptr_t)m->after.ptr, m->after.len };
        ch->current = c;
        ch->event_at = 0;
        ch->failed_at = SIZE_MAX;
        c->sent_ns = clock_now_ns();
        switch (conn_write(ch->conn, parts, n)) {
        case CONN_WRITE_DONE: c->written_ns = clock_now_ns(); break;
        case CONN_WRITE_PENDING: break;
        case CONN_WRITE_FAILED: conn_shutdown(ch->conn); break; /* on_end() follows */
        }
}

static void on_written(struct channel *ch) {
        if (ch->current != NULL && ch->current->written_ns == 0)
                ch->current->written_ns = clock_now_ns();
}

static struct call *take_call(struct channel *ch) {
        struct call *c = ch->current;

        ch->current = NULL;
        return c;
}

static void on_closed(struct channel *ch) {
        http_response_done(&ch->response);
}

/* The text of {"error": "..."} or {"error": {"message": "..."}}, without escapes, or the body as it is. */
static struct str reason_of(struct str body, struct arena *arena) {
        struct str text = json_find_text(body, "error", arena);

        if (text.len == 0)
                text = json_find_text(body, "error.message", arena);
        return text.len > 0 ? text : body;
}

/* ---- server-sent events ------------------------------------------------------------------------ */

/* The lines of an event, with the blank line that ends it; NULL: it is not complete. Lines end with LF, or with CR and
 * LF. */
static struct str event_at(struct str body, size_t at) {
        const char *begin = body.ptr + at, *end = body.ptr + body.len, *lf = begin;

        for (; (lf = memchr(lf, '\n', (size_t)(end - lf))) != NULL; lf++) {
                if (end - lf > 1 && lf[1] == '\n')
                        return str_range(begin, (size_t)(lf + 2 - begin));
                if (end - lf > 2 && lf[1] == '\r' && lf[2] == '\n')
                        return str_range(begin, (size_t)(lf + 3 - begin));
        }
        return (struct str){ 0 };
}

/* The text after "data:", which other lines of the event may precede. Several such lines are lines of one text
 * (HTML, 9.2.6), which is valid until the next call. */
static struct str event_json(struct channel *ch, struct str event) {
        struct str name = STR_LIT("data:"), text = { 0 };

        strbuf_clear(&ch->event);
        STR_FOR_EACH(event, '\n', line) {
                struct str here;

                if (!str_starts(line, name))
                        continue;
                line.len -= line.ptr[line.len - 1] == '\r';
                here = str_trim(str_skip(line, name.len));
                if (text.ptr == NULL) {
                        text = here;
                        continue;
                }
                if (ch->event.len == 0)
                        strbuf_put(&ch->event, text.ptr, text.len);
                strbuf_putc(&ch->event, '\n');
                strbuf_put(&ch->event, here.ptr, here.len);
        }
        return ch->event.len > 0 ? strbuf_str(&ch->event) : text;
}

static bool has_error(struct str json) {
        struct str error = json_find(json, "error");

        return error.ptr != NULL && !STR_IS(error, "null");
}

/* Reports the events of the body that are complete. An event with an error, which may come after the status,
 * is the reason of the refusal at the end. */
static void take_events(struct channel *ch, struct call *c, struct str body) {
        struct answer a = { .kind = ANSWER_OK };
        struct str    event;

        while (ch->event_at < body.len && (event = event_at(body, ch->event_at)).ptr != NULL) {
                a.text = event_json(ch, event);
                if (has_error(a.text)) {
                        ch->failed_at = ch->event_at;
                } else if (a.text.len > 0 && c->ops->on_response != NULL) {
                        c->response_ns = ch->read_ns;
                        c->ops->on_response(c, &a);
                }
                ch->event_at += event.len;
        }
}

static void end_events(struct channel *ch, struct call *c, struct answer *a, struct arena *arena) {
        if (!c->message->is_events || a->kind != ANSWER_OK)
                return;
        take_events(ch, c, a->text);
        a->is_empty = true; /* each event was a response */
        if (ch->failed_at == SIZE_MAX)
                return;
        a->kind = ANSWER_REFUSED;
        a->text = reason_of(event_json(ch, event_at(a->text, ch->failed_at)), arena);
}

static void finish_call(struct channel *ch) {
        struct http_response *r = &ch->response;
        struct call          *c = take_call(ch);
        bool                  closes = r->is_last || conn_is_writing(ch->conn);
        AUTO_ARENA            arena = arena_of(0); /* the answer's text may be in it */
        struct answer         a = { .kind = r->status == 200 ? ANSWER_OK : ANSWER_REFUSED,
                                    .code = r->status,
                                    .text = r->body,
                                    .header_length = r->header_length };

        if (a.kind == ANSWER_REFUSED && json_find(a.text, "error").ptr != NULL)
                a.text = reason_of(a.text, &arena);
        end_events(ch, c, &a, &arena);
        /* An answer before the end of the request: the server does not read the rest. */
        if (closes) {
                ch->state = CHANNEL_IDLE;
                conn_close(STEAL(ch->conn));
        }
        channel_finish(ch, c, &a);
        if (closes)
                on_closed(ch); /* not before: the answer is a range of the response */
}

static const char *on_read(struct channel *ch, struct str in) {
        struct conn *conn = ch->conn;

        while (in.len > 0) {
                if (ch->current == NULL)
                        return "the server sent a response to no request";
                if (ch->current->first_ns == 0)
                        ch->current->first_ns = ch->read_ns;
                switch (http_response_read(&ch->response, &in)) {
                case HTTP_RESPONSE_MORE:
                        if (ch->current->message->is_events && ch->response.status == 200)
                                take_events(ch, ch->current, strbuf_str(&ch->response.whole));
                        break;
                case HTTP_RESPONSE_BAD: return ch->response.wrong;
                case HTTP_RESPONSE_DONE:
                        finish_call(ch);
                        if (ch->conn != conn)
                                return NULL;
                }
        }
        return NULL;
}

const struct channel_protocol channel_http = {
        .on_open = on_open,
        .send = send_call,
        .has_room = has_room,
        .is_over = is_over,
        .on_read = on_read,
        .on_written = on_written,
        .take_call = take_call,
        .on_closed = on_closed,
};
