/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/grpc_call.h"

#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "grpc/grpc_stream.h"
#include "grpc/h2_conn.h"
#include "grpc/h2_session.h"
#include "net/loop.h"

/* Of one added name or value: trailers beyond 8 KiB are refused by clients. */
#define MAX_ADDED_BYTES 1024
/* Parts up to this many are compressed without an array of their own. */
#define FEW_PARTS 16

/* Of an arena that stays as it is until the client has read its answer. */
#define KEPT_ARENA_BYTES ((size_t)64 << 10)

static const struct str status_ok = STR_LIT("200");

struct str grpc_call_metadata(const struct grpc_call *call, const char *name) {
        struct str wanted = str_of(name);

        for (size_t i = 0; i < call->n_metadata; i++)
                if (str_equal(call->metadata[i].name, wanted))
                        return call->metadata[i].value;
        return str_range(NULL, 0);
}

/* ---- fields of the answer ---- */

static bool is_name(struct str s) {
        if (s.len == 0 || s.len > MAX_ADDED_BYTES || str_starts(s, STR_LIT("grpc-")))
                return false;
        for (size_t i = 0; i < s.len; i++) {
                char ch = s.ptr[i];

                if (!(ch >= 'a' && ch <= 'z') && !(ch >= '0' && ch <= '9') && ch != '-' &&
                    ch != '_' && ch != '.')
                        return false;
        }
        return true;
}

static bool is_value(struct str s) {
        if (s.len > MAX_ADDED_BYTES)
                return false;
        for (size_t i = 0; i < s.len; i++)
                if (s.ptr[i] < ' ' || s.ptr[i] > '~')
                        return false;
        return true;
}

static void add(struct grpc_call *call, struct grpc_added *to, struct str name, struct str value) {
        if (to->n == GRPC_MAX_ADDED || !is_name(name) || !is_value(value))
                return;
        to->fields[to->n++] = (struct grpc_header){
                .name = str_range(arena_str(&call->arena, name), name.len),
                .value = str_range(arena_str(&call->arena, value), value.len),
        };
}

void grpc_call_add_initial(struct grpc_call *call, struct str name, struct str value) {
        add(call, &call->stream->initial, name, value);
}

void grpc_call_add_trailing(struct grpc_call *call, struct str name, struct str value) {
        add(call, &call->stream->trailing, name, value);
}

static struct grpc_header static_header(struct str name, struct str value) {
        return (struct grpc_header){ name, value, true };
}

static struct grpc_header copied_header(struct str name, struct str value) {
        return (struct grpc_header){ name, value, false };
}

static size_t append(const struct grpc_added *from, struct grpc_header *fields, size_t n) {
        for (size_t i = 0; i < from->n; i++)
                fields[n++] = from->fields[i];
        return n;
}

size_t grpc_stream_trailers(const struct grpc_stream *st, struct grpc_header *fields) {
        size_t n = 0;

        fields[n++] = static_header(STR_LIT("grpc-status"), grpc_code_digits(st->code));
        if (st->text.len > 0)
                fields[n++] = copied_header(STR_LIT("grpc-message"), st->text);
        return append(&st->trailing, fields, n);
}

/* The first headers; with all trailers, when there is nothing between them. What we accept is the
 * same for every call: the first answer of a connection tells it, and each refusal, which may be
 * for that. */
static void respond(struct grpc_stream *st, struct str http_status, bool has_body) {
        struct grpc_header fields[4 + GRPC_MAX_ADDED + GRPC_MAX_TRAILERS];
        size_t             n = 0;

        fields[n++] = (struct grpc_header){ STR_LIT(":status"), http_status,
                                            http_status.ptr == status_ok.ptr };
        fields[n++] = static_header(STR_LIT("content-type"), STR_LIT("application/grpc"));
        if (!st->conn->has_told_encodings || !has_body)
                fields[n++] = static_header(STR_LIT("grpc-accept-encoding"),
                                            STR_LIT(GRPC_ACCEPTED_ENCODINGS));
        st->conn->has_told_encodings = true;
        if (has_body && st->encoding_out != GRPC_ENCODING_IDENTITY)
                fields[n++] = static_header(STR_LIT("grpc-encoding"),
                                            grpc_encoding_name(st->encoding_out));
        n = append(&st->initial, fields, n);
        if (!has_body)
                n += grpc_stream_trailers(st, fields + n);
        st->has_responded = true;
        if (!h2_session_respond(st, fields, n, has_body))
                h2_conn_kill(st->conn);
}

static void flush_soon(struct grpc_stream *st) {
        struct h2_conn *c = st->conn;

        h2_conn_flush_soon(c, c->n_streams == 1 &&
                                      !(st->call.method && st->call.method->is_server_stream));
}

/* Only traces ask. */
static void note_send_start(struct grpc_stream *st) {
        if (UNLIKELY(st->call.on_sent != NULL) && st->call.send_start_ns == 0)
                st->call.send_start_ns = clock_now_ns();
}

/* Whatever was sent goes first; then the trailers. The caller sees to the flush: a flush may close
 * the stream, and then it may be gone. */
static void settle(struct grpc_stream *st, enum grpc_code code, struct str text,
                   struct str http_status) {
        note_send_start(st);
        st->code = code;
        st->text = grpc_message_encode(&st->call.arena, text);
        st->is_answered = true;
        loop_timer_cancel(&st->deadline);
        st->progress_ns = st->conn->now_ns;
        st->progress_bytes = st->bytes_out;
        if (!st->has_responded)
                respond(st, http_status, false);
        else if (!h2_session_wake(st))
                h2_conn_kill(st->conn);
}

void grpc_stream_refuse(struct grpc_stream *st, enum grpc_code code, const char *text) {
        if (st->is_answered || st->id == 0)
                return;
        settle(st, code, str_of(text), status_ok);
        h2_conn_flush_soon(st->conn, false);
}

void grpc_stream_refuse_http(struct grpc_stream *st, unsigned status, const char *text) {
        if (st->is_answered)
                return;
        settle(st, GRPC_UNKNOWN, str_of(text), str_of(arena_printf(&st->call.arena, "%u", status)));
        h2_conn_flush_soon(st->conn, false);
}

void grpc_stream_abort(struct grpc_stream *st, enum grpc_abort reason) {
        grpc_call_fn on_abort;

        if (!st->is_given || st->is_finished || st->call.abort_reason != GRPC_ABORT_NONE)
                return;
        st->call.abort_reason = reason;
        st->is_answered = true;
        on_abort = st->call.method->on_abort;
        if (on_abort)
                on_abort(&st->call);
}

bool grpc_call_is_aborted(const struct grpc_call *call) {
        return call->abort_reason != GRPC_ABORT_NONE;
}

/* ---- messages ---- */

static void drop_parts(const struct grpc_part *parts, size_t n) {
        for (size_t i = 0; i < n; i++)
                buf_unref(parts[i].buf);
}

static bool put_prefix(struct send_queue *q, bool is_compressed, size_t len) {
        const char prefix[GRPC_PREFIX_BYTES] = { is_compressed ? 1 : 0, (char)(len >> 24),
                                                 (char)(len >> 16), (char)(len >> 8), (char)len };

        return send_queue_put(q, prefix, sizeof(prefix));
}

/* Takes the parts' buffers. */
static bool put_parts(struct send_queue *q, const struct grpc_part *parts, size_t n) {
        bool is_fine = true;

        for (size_t i = 0; i < n; i++) {
                if (!is_fine)
                        buf_unref(parts[i].buf);
                else if (parts[i].buf)
                        is_fine = send_queue_put_buf(q, parts[i].ptr, parts[i].len, parts[i].buf);
                else
                        is_fine = send_queue_put(q, parts[i].ptr, parts[i].len);
        }
        return is_fine;
}

bool grpc_call_wants_packing(const struct grpc_call *call) {
        return call->stream->encoding_out != GRPC_ENCODING_IDENTITY;
}

bool grpc_call_pack(const struct grpc_call *call, const struct grpc_part *parts, size_t n_parts,
                    struct grpc_part *ret) {
        const struct grpc_stream *st = call->stream;
        struct iovec              few[FEW_PARTS], *iov = few, *many = NULL;
        struct buf               *packed;
        bool                      is_packed;

        if (st->encoding_out == GRPC_ENCODING_IDENTITY || n_parts == 0)
                return false;
        if (n_parts > FEW_PARTS)
                iov = many = try_alloc(n_parts * sizeof(*iov));
        if (!iov)
                return false;
        for (size_t i = 0; i < n_parts; i++)
                iov[i] = (struct iovec){ (void *)(uintptr_t)parts[i].ptr, parts[i].len };
        is_packed = grpc_compress(st->encoding_out, iov, n_parts, st->conn->home->pool, &packed);
        free(many);
        if (!is_packed)
                return false;
        drop_parts(parts, n_parts);
        *ret = (struct grpc_part){ packed->bytes, packed->len, packed };
        return true;
}

/* What a message is sent as; each part's buf is taken. */
struct outgoing {
        const struct grpc_part *parts;
        size_t                  n;
        size_t                  len;
        bool                    is_packed;
};

static bool queue_message(struct grpc_stream *st, const struct outgoing *m) {
        struct send_queue *q = &st->out;
        struct grpc_part   packed;
        bool               is_fine;

        if (m->is_packed || !grpc_call_pack(&st->call, m->parts, m->n, &packed)) {
                is_fine = put_prefix(q, m->is_packed, m->len);
                return put_parts(q, m->parts, m->n) && is_fine;
        }
        is_fine = put_prefix(q, true, packed.len);
        return send_queue_put_buf(q, packed.ptr, packed.len, packed.buf) && is_fine;
}

static bool put_message(struct grpc_stream *st, const struct outgoing *m) {
        size_t before = st->out.bytes;
        bool   is_fine = queue_message(st, m);

        st->conn->unsent_bytes += st->out.bytes - before;
        return is_fine;
}

/* What the client has not taken is more than may wait, or there is no memory for it. */
static void overflow(struct grpc_stream *st, enum grpc_limit limit) {
        h2_conn_count_rejected(st->conn, limit);
        st->is_answered = st->is_reset = true;
        if (!h2_session_reset(st, H2_ENHANCE_YOUR_CALM)) /* clients read it as RESOURCE_EXHAUSTED */
                h2_conn_kill(st->conn);
        h2_conn_flush_soon(st->conn, false);
        grpc_stream_abort(st, GRPC_ABORT_OVERFLOW);
}

static void refuse_too_large(struct grpc_stream *st, size_t len) {
        grpc_stream_refuse(st, GRPC_INVALID_ARGUMENT,
                           arena_printf(&st->call.arena,
                                        "Response has byte size %zu which exceeds gRPC's byte "
                                        "size limit %d.",
                                        len, INT_MAX));
        grpc_stream_abort(st, GRPC_ABORT_OVERFLOW);
}

/* False, and the parts are gone, when it will not be sent. */
static bool check_send(struct grpc_stream *st, const struct grpc_part *parts, size_t n,
                       size_t *ret_len) {
        size_t max = h2_conn_limits(st->conn)->unsent_bytes;
        size_t len = 0;

        for (size_t i = 0; i < n; i++)
                if (!size_add(len, parts[i].len, &len))
                        len = SIZE_MAX;
        *ret_len = len;
        if (!st->is_answered && len <= INT_MAX &&
            (st->out.bytes == 0 || (st->out.bytes < max && len <= max - st->out.bytes)))
                return true;
        drop_parts(parts, n);
        if (st->is_answered)
                return false;
        if (len > INT_MAX)
                refuse_too_large(st, len);
        else
                overflow(st, GRPC_LIMIT_UNSENT_BYTES);
        return false;
}

static void put(struct grpc_stream *st, const struct grpc_part *parts, size_t n, bool is_packed) {
        struct outgoing m = { .parts = parts, .n = n, .is_packed = is_packed };

        if (!check_send(st, parts, n, &m.len))
                return;
        note_send_start(st);
        if (!put_message(st, &m)) {
                overflow(st, GRPC_LIMIT_MEMORY);
                return;
        }
        if (!st->has_responded)
                respond(st, status_ok, true);
        else if (!h2_session_wake(st))
                h2_conn_kill(st->conn);
        if (st->out.bytes > h2_conn_limits(st->conn)->unsent_pause_bytes)
                grpc_stream_set_pause(st, GRPC_PAUSE_UNSENT, true);
}

static void send_message(struct grpc_call *call, const struct grpc_part *parts, size_t n_parts,
                         bool is_packed) {
        put(call->stream, parts, n_parts, is_packed);
        if (!call->stream->is_answered)
                flush_soon(call->stream);
}

void grpc_call_send(struct grpc_call *call, const struct grpc_part *parts, size_t n_parts) {
        send_message(call, parts, n_parts, false);
}

void grpc_call_send_packed(struct grpc_call *call, const struct grpc_part *packed) {
        send_message(call, packed, 1, true);
}

size_t grpc_call_unsent_bytes(const struct grpc_call *call) {
        return call->stream->out.bytes;
}

uint64_t grpc_call_written_bytes(const struct grpc_call *call) {
        return call->stream->bytes_out;
}

static struct str copy_text(struct arena *to, struct str s) {
        return str_range(arena_str(to, s), s.len);
}

static void copy_added(struct arena *to, struct grpc_added *added) {
        for (size_t i = 0; i < added->n; i++) {
                added->fields[i].name = copy_text(to, added->fields[i].name);
                added->fields[i].value = copy_text(to, added->fields[i].value);
        }
}

static void copy_answer(struct arena *to, struct grpc_stream *st, struct str *text) {
        *text = copy_text(to, *text);
        copy_added(to, &st->initial);
        copy_added(to, &st->trailing);
}

/* The handler has answered: what it took of the arena goes, before the client has read the answer.
 * What is still to be sent of it, at most some KiB, gets new places. */
static COLD void shed_arena(struct grpc_stream *st, struct str *text) {
        struct arena kept;

        arena_init(&kept, NULL, 0, 0);
        copy_answer(&kept, st, text);
        arena_cut(&st->call.arena, st->before);
        copy_answer(&st->call.arena, st, text);
        arena_done(&kept);
}

/* No more than is sent: it may quote what a peer has sent. */
static struct str keep_message(struct grpc_call *call, const char *message) {
        size_t len = strnlen(message, GRPC_MAX_MESSAGE_TEXT + 1);

        return copy_text(&call->arena, str_range(message, len));
}

void grpc_call_conclude(struct grpc_call *call, enum grpc_code code, const char *message) {
        struct grpc_stream *st = call->stream;

        if (st->id == 0 || st->is_answered)
                return;
        settle(st, code, message ? keep_message(call, message) : STR_LIT(""), status_ok);
        h2_conn_flush_soon(st->conn, false);
}

void grpc_call_finish(struct grpc_call *call, enum grpc_code code, const char *message) {
        struct grpc_stream *st = call->stream;
        struct str          text = STR_LIT("");

        st->is_finished = true;
        st->conn->given_bytes -= st->given_bytes;
        st->given_bytes = 0;
        if (st->id == 0) {
                h2_conn_flush_soon(st->conn, false); /* the window may open again */
                if (!st->is_unpacking)
                        h2_conn_recycle(st);
                return;
        }
        if (st->is_answered)
                return;
        if (message)
                text = keep_message(call, message);
        if (UNLIKELY(call->arena.used_bytes > KEPT_ARENA_BYTES && !call->method->is_client_stream))
                shed_arena(st, &text);
        settle(st, code, text, status_ok);
        flush_soon(st);
}

static void reply(struct grpc_call *call, const struct grpc_part *parts, size_t n_parts,
                  bool is_packed) {
        call->stream->is_finished = true; /* should the message not do, nobody is told any more */
        put(call->stream, parts, n_parts, is_packed);
        grpc_call_finish(call, GRPC_OK, NULL);
}

void grpc_call_reply(struct grpc_call *call, const struct grpc_part *parts, size_t n_parts) {
        reply(call, parts, n_parts, false);
}

void grpc_call_reply_packed(struct grpc_call *call, const struct grpc_part *packed) {
        reply(call, packed, 1, true);
}

void grpc_call_fail(struct grpc_call *call, struct error *err) {
        AUTO_ERROR gone = err;

        grpc_call_finish(call, grpc_code_of_error(gone->code), gone->message);
}

/* ---- what the session asks for ---- */

size_t grpc_stream_pull(struct grpc_stream *st, size_t max, bool *ret_is_last) {
        size_t n = send_queue_fit(&st->out, max);

        *ret_is_last = st->is_answered && !st->is_reset && n == st->out.bytes;
        st->is_waiting = n == 0 && !*ret_is_last;
        return n;
}

void grpc_stream_emit(struct grpc_stream *st, size_t n, struct h2_out *out) {
        const struct grpc_limits *l = h2_conn_limits(st->conn);
        bool                      may_resume;

        send_queue_take(&st->out, n, out);
        st->conn->unsent_bytes -= n;
        st->bytes_out += n;
        may_resume = (st->pauses & GRPC_PAUSE_UNSENT) && st->out.bytes <= l->unsent_pause_bytes / 2;
        if (st->call.on_written)
                st->has_written = true;
        if (may_resume || st->has_written)
                st->is_due = st->conn->has_due = true;
}

/* ---- the rest of a handler's door ---- */

void grpc_call_pause(struct grpc_call *call) {
        grpc_stream_set_pause(call->stream, GRPC_PAUSE_HANDLER, true);
}

void grpc_call_resume(struct grpc_call *call) {
        grpc_stream_set_pause(call->stream, GRPC_PAUSE_HANDLER, false);
}

const char *grpc_call_peer(const struct grpc_call *call) {
        struct conn *net = call->stream->conn->net;

        return net ? conn_peer(net) : "unknown";
}

static void on_posted(struct mail *m) {
        struct grpc_call *call = CONTAINER_OF(m, struct grpc_call, mail);

        call->posted(call);
}

void grpc_call_post(struct grpc_call *call, grpc_call_fn fn) {
        call->posted = fn;
        call->mail.deliver = on_posted;
        mailbox_post(grpc_call_mailbox(call), &call->mail);
}

struct mailbox *grpc_call_mailbox(const struct grpc_call *call) {
        return call->stream->conn->home->mailbox;
}

struct loop *grpc_call_loop(const struct grpc_call *call) {
        return call->stream->conn->home->net.loop;
}

bool grpc_call_is_on_loop(const struct grpc_call *call) {
        return loop_is_current(grpc_call_loop(call));
}

struct buf_pool *grpc_call_buf_pool(const struct grpc_call *call) {
        return call->stream->conn->home->pool;
}

void grpc_call_start_work_thread(struct grpc_call *call, struct loop_work *work) {
        loop_start_work_thread(call->stream->conn->home->net.loop, work);
}

void grpc_call_compute(struct grpc_call *call, struct loop_work *work) {
        loop_compute(call->stream->conn->home->net.loop, work);
}

void grpc_call_compute_cancel(struct grpc_call *call UNUSED, struct loop_work *work) {
        loop_compute_cancel(work);
}
