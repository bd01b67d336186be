/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/grpc_call.h"

#include "base/byte_budget.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/reserve.h"
#include "grpc/grpc_compress.h"
#include "grpc/grpc_frame.h"
#include "grpc/grpc_server.h"
#include "grpc/h2_conn.h"
#include "grpc/h2_fields.h"
#include "grpc/send_queue.h"
#include "net/loop.h"
#include "net/loop_timer.h"

#include <assert.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Limit of one added name or value; clients refuse trailers beyond 8 KiB. */
#define MAX_ADDED_BYTES 1024
/* Up to this many parts are compressed without an allocated array. */
#define FEW_PARTS 16

/* An arena up to this size is kept until the client has read its answer. */
#define KEPT_ARENA_BYTES ((size_t)64 << 10)

/* First size of the array of header fields; most calls have fewer. */
#define FEW_FIELDS 24

/* First part of each call's arena, inside the struct: metadata and the handler's data. */
#define GRPC_ARENA_BYTES 8192
/* Limit of a call's arena. Data decoded from a message is also limited by the size of that message. */
#define GRPC_MAX_ARENA_BYTES ((size_t)1 << 30)
/* Limit of the metadata that a handler adds, initial and trailing each. */
#define GRPC_MAX_ADDED 8
#define MAX_TRAILERS (2 + GRPC_MAX_ADDED)
_Static_assert(4 + GRPC_MAX_ADDED + MAX_TRAILERS <= H2_MAX_FIELDS, "an answer without a message");

enum grpc_pause {
        GRPC_PAUSE_HANDLER = 1,
        GRPC_PAUSE_UNSENT = 2,
        GRPC_PAUSE_UNPACK = 4, /* a compute thread decompresses a message; later ones wait */
        GRPC_PAUSE_TURN = 8,   /* the connection has used its share of the round */
};

struct grpc_added {
        struct h2_header fields[GRPC_MAX_ADDED]; /* in arena */
        size_t           n;
};

/* Received bytes of a paused stream that are not parsed. */
struct grpc_stash {
        struct buf *buf; /* ref; NULL when empty */
        size_t      at;  /* first byte not yet consumed */
};

/* A message that a compute thread decompresses because it becomes large. The stream is not recycled before the
 * work has ended. */
struct grpc_unpacking {
        struct loop_work    work;
        struct grpc_message message;   /* as received; owned */
        size_t              max_bytes; /* limit of the decompressed size */
        enum gzip_status    status;
        struct buf         *plain; /* owned; set with GZIP_OK */
};

/* A call and its handler. A call that ends before its handler has it is recycled without it:
 *
 *     NOT_GIVEN -> GIVEN      give(), before the handler's first callback
 *     GIVEN     -> FINISHED   finish_handling(), called by the handler
 */
enum grpc_handling { GRPC_NOT_GIVEN, GRPC_GIVEN, GRPC_FINISHED };

/* A call with the state that the connection and the client need. It has two owners and is recycled when both
 * have released it: the connection until the HTTP/2 stream is closed (h2.id becomes 0), and the handler
 * from its first callback to finish. A compute thread that decompresses a message is a third owner for that
 * time. */
struct grpc_stream {
        struct h2_stream h2; /* first */
        struct grpc_call call;

        enum grpc_handling handling;

        bool is_answered;   /* the status is set: no further message is sent or delivered */
        bool has_ended;     /* the client has half-closed */
        bool has_responded; /* response headers are submitted */
        bool is_delivering; /* inside the loop over its messages */
        bool is_unpacking;  /* a compute thread has `unpacking` */
        bool has_written;   /* bytes were sent since on_written was last called */

        /* Request headers. */
        bool                  is_post;
        struct str            content_type, timeout, encoding, accept_encoding;
        struct grpc_metadata *fields; /* in arena; call.metadata when complete */
        size_t                n_fields, cap_fields;
        enum grpc_limit       refused; /* limit that the headers exceed */

        /* Request messages. */
        enum grpc_encoding  encoding_in;
        struct grpc_frame   frame;
        struct grpc_message only; /* method without client stream: its message until half-close */
        bool                has_only;
        const struct arena_block *before; /* borrowed: the arena's newest block when the handler got
                                           * its message; later blocks are freed at the end */
        size_t            given_bytes;    /* counted in conn->given_bytes until the handler ends */
        unsigned          pauses;         /* set of enum grpc_pause */
        struct grpc_stash stash;

        /* The answer. */
        enum grpc_encoding encoding_out;
        enum grpc_code     code;
        struct str         text; /* in arena, encoded */
        uint64_t           bytes_in, bytes_out;
        uint64_t           progress_ns;    /* start of the current window */
        uint64_t           progress_bytes; /* bytes_out at that time */
        struct loop_timer  deadline; /* armed at call.deadline_ns until the call is answered */

        /* on_open() does not clear the fields from here on as a whole. */
        struct send_queue     out;
        struct grpc_added     initial, trailing;
        struct grpc_unpacking unpacking; /* in use while is_unpacking */
        _Alignas(16) char arena_bytes[GRPC_ARENA_BYTES];
};

static void give(struct grpc_stream *st) {
        assert(st->handling != GRPC_FINISHED);
        st->handling = GRPC_GIVEN;
}

/* May be called again: a reply finishes the call before it is sent. */
static void finish_handling(struct grpc_stream *st) {
        assert(st->handling != GRPC_NOT_GIVEN);
        st->handling = GRPC_FINISHED;
}

static const struct str status_ok = STR_LIT("200");

static struct grpc_stream *stream_of(struct h2_stream *h2) {
        return CONTAINER_OF(h2, struct grpc_stream, h2);
}

static void on_deadline(struct loop_timer *t);

/* ---- the end of a call ---- */

static void log_access(const struct grpc_stream *st) {
        const struct service *service = &st->h2.conn->shard->options->service;
        struct access_entry   entry;

        if (service->on_access == NULL)
                return;
        entry = (struct access_entry){
                .peer = h2_conn_peer(st->h2.conn),
                .method = STR_LIT("GRPC"),
                .path = st->call.path,
                .key = access_key_name(&st->call.access),
                .status = st->code,
                .bytes_in = st->bytes_in,
                .bytes_out = st->bytes_out,
                .duration_ns = clock_now_ns() - st->call.recv_start_ns,
                .is_aborted = st->call.abort_reason == GRPC_ABORT_CANCELLED,
        };
        service->on_access(service->access_owner, &entry);
}

/* Recycles a call that neither the connection nor a handler owns. */
static void recycle(struct grpc_stream *st) {
        if (st->call.on_sent != NULL)
                st->call.on_sent(&st->call);
        log_access(st);
        access_done(&st->call.access);
        arena_done(&st->call.arena);
        h2_stream_recycle(&st->h2);
}

/* Records the time for traces only. */
static void note_send_start(struct grpc_stream *st) {
        if (st->call.on_sent != NULL && st->call.send_start_ns == 0)
                st->call.send_start_ns = clock_now_ns();
}

/* ---- fields of the answer ---- */

struct str grpc_call_metadata(const struct grpc_call *call, const char *name) {
        struct str wanted = str_of(name);

        for (size_t i = 0; i < call->n_metadata; i++)
                if (str_equal(call->metadata[i].name, wanted))
                        return call->metadata[i].value;
        return str_range(NULL, 0);
}

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

static void add_metadata(struct grpc_call *call, struct grpc_added *to, struct str name,
                         struct str value) {
        if (to->n == GRPC_MAX_ADDED || !is_name(name) || !is_value(value))
                return;
        to->fields[to->n++] = (struct h2_header){
                .name = str_range(arena_str(&call->arena, name), name.len),
                .value = str_range(arena_str(&call->arena, value), value.len),
        };
}

void grpc_call_add_initial(struct grpc_call *call, struct str name, struct str value) {
        add_metadata(call, &call->stream->initial, name, value);
}

void grpc_call_add_trailing(struct grpc_call *call, struct str name, struct str value) {
        add_metadata(call, &call->stream->trailing, name, value);
}

static struct h2_header static_header(struct str name, struct str value) {
        return (struct h2_header){ name, value, true };
}

static struct h2_header copied_header(struct str name, struct str value) {
        return (struct h2_header){ name, value, false };
}

static size_t append_fields(const struct grpc_added *from, struct h2_header *fields, size_t n) {
        for (size_t i = 0; i < from->n; i++)
                fields[n++] = from->fields[i];
        return n;
}

static size_t put_trailers(const struct grpc_stream *st, struct h2_header *fields) {
        size_t n = 0;

        fields[n++] = static_header(STR_LIT("grpc-status"), grpc_code_digits(st->code));
        if (st->text.len > 0)
                fields[n++] = copied_header(STR_LIT("grpc-message"), st->text);
        return append_fields(&st->trailing, fields, n);
}

static size_t trailers(struct h2_stream *h2, struct h2_header *fields) {
        return put_trailers(stream_of(h2), fields);
}

/* Sends the response headers, together with the trailers when there is no message. The accepted encodings
 * are the same for every call, so only the first answer of a connection names them, and each refusal,
 * because the encoding may be its reason. */
static void send_headers(struct grpc_stream *st, struct str http_status, bool has_body) {
        struct h2_header fields[4 + GRPC_MAX_ADDED + MAX_TRAILERS];
        size_t           n = 0;

        fields[n++] = (struct h2_header){ STR_LIT(":status"), http_status,
                                          http_status.ptr == status_ok.ptr };
        fields[n++] = static_header(STR_LIT("content-type"), STR_LIT("application/grpc"));
        if (!st->h2.conn->has_sent_encodings || !has_body)
                fields[n++] = static_header(STR_LIT("grpc-accept-encoding"),
                                            STR_LIT(GRPC_ACCEPTED_ENCODINGS));
        st->h2.conn->has_sent_encodings = true;
        if (has_body && st->encoding_out != GRPC_ENCODING_IDENTITY)
                fields[n++] = static_header(STR_LIT("grpc-encoding"),
                                            grpc_encoding_name(st->encoding_out));
        n = append_fields(&st->initial, fields, n);
        if (!has_body)
                n += put_trailers(st, fields + n);
        st->has_responded = true;
        if (!h2_stream_respond(&st->h2, fields, n, has_body))
                h2_conn_kill(st->h2.conn);
}

static void flush_soon(struct grpc_stream *st) {
        struct h2_conn *c = st->h2.conn;

        h2_conn_flush_soon(c, c->n_streams == 1 && !(st->call.method != NULL &&
                                                     st->call.method->is_server_stream));
}

/* ---- statuses ---- */

/* Sets the status, which is sent after the queued messages. The caller flushes: a flush may close and free
 * the stream. */
static void set_status(struct grpc_stream *st, enum grpc_code code, struct str text,
                       struct str http_status) {
        note_send_start(st);
        st->code = code;
        st->text = grpc_message_encode(&st->call.arena, text);
        st->is_answered = true;
        loop_timer_cancel(&st->deadline);
        st->progress_ns = st->h2.conn->now_ns;
        st->progress_bytes = st->bytes_out;
        if (!st->has_responded)
                send_headers(st, http_status, false);
        else if (!h2_stream_wake(&st->h2))
                h2_conn_kill(st->h2.conn);
}

static void refuse_call(struct grpc_stream *st, enum grpc_code code, const char *text) {
        if (st->is_answered || st->h2.id == 0)
                return;
        set_status(st, code, str_of(text), status_ok);
        h2_conn_flush_soon(st->h2.conn, false);
}

static void refuse_http(struct grpc_stream *st, unsigned status, const char *text) {
        if (st->is_answered)
                return;
        set_status(st, GRPC_UNKNOWN, str_of(text),
                   str_of(arena_printf(&st->call.arena, "%u", status)));
        h2_conn_flush_soon(st->h2.conn, false);
}

static void abort_call(struct grpc_stream *st, enum grpc_abort reason) {
        grpc_call_fn on_abort;

        if (st->handling != GRPC_GIVEN || st->call.abort_reason != GRPC_ABORT_NONE)
                return;
        st->call.abort_reason = reason;
        st->is_answered = true;
        on_abort = st->call.method->on_abort;
        if (on_abort != NULL)
                on_abort(&st->call);
}

bool grpc_call_is_aborted(const struct grpc_call *call) {
        return call->abort_reason != GRPC_ABORT_NONE;
}

static void reset(struct grpc_stream *st, enum h2_code code) {
        st->is_answered = st->h2.is_reset = true;
        if (!h2_stream_reset(&st->h2, code))
                h2_conn_kill(st->h2.conn);
}

static void on_malformed(struct h2_stream *h2) {
        struct grpc_stream *st = stream_of(h2);

        reset(st, H2_PROTOCOL_ERROR);
}

/* ---- headers ---- */

static void on_open(struct h2_stream *h2) {
        struct grpc_stream *st = stream_of(h2);
        struct h2_shard    *shard = h2->conn->shard;

        memset(&st->call, 0,
               offsetof(struct grpc_stream, out) - offsetof(struct grpc_stream, call));
        st->initial.n = st->trailing.n = 0;
        arena_init(&st->call.arena, st->arena_bytes, sizeof(st->arena_bytes), GRPC_MAX_ARENA_BYTES);
        arena_set_budget(&st->call.arena, buf_pool_budget(shard->pool));
        send_queue_init(&st->out, shard->pool);
        grpc_frame_init(&st->frame, shard->options->limits.message_bytes, shard->pool);
        st->call.stream = st;
        st->call.service = &shard->options->service;
        st->call.core = shard->options->service.core;
        st->call.deadline_ns = CLOCK_NEVER;
        loop_timer_init(&st->deadline, on_deadline);
        st->call.recv_start_ns = h2->conn->now_ns;
}

static void refuse_headers(struct grpc_stream *st, enum grpc_limit limit) {
        if (st->refused == GRPC_LIMIT_NONE)
                st->refused = limit;
}

static const struct grpc_method *find_method(const struct h2_shard *shard, struct str path,
                                             struct str *ret_path) {
        const struct grpc_method_table *table = &shard->options->methods;

        for (size_t i = 0; i < table->n_rows; i++) {
                if (str_equal(shard->paths[i], path)) {
                        *ret_path = shard->paths[i];
                        return &table->rows[i];
                }
        }
        return NULL;
}

/* Finds the method. Only an unknown path is copied; a known one is in the table. */
static void on_path(struct grpc_stream *st, struct str path) {
        char *copy;

        st->call.method = find_method(st->h2.conn->shard, path, &st->call.path);
        if (st->call.method)
                return;
        copy = arena_try_str(&st->call.arena, path);
        if (copy != NULL)
                st->call.path = str_range(copy, path.len);
        else
                refuse_headers(st, GRPC_LIMIT_MEMORY);
}

static void remember(struct grpc_stream *st, enum h2_field field, struct str value) {
        switch (field) {
        case H2_FIELD_CONTENT_TYPE: st->content_type = value; break;
        case H2_FIELD_GRPC_TIMEOUT: st->timeout = value; break;
        case H2_FIELD_GRPC_ENCODING: st->encoding = value; break;
        case H2_FIELD_GRPC_ACCEPT_ENCODING: st->accept_encoding = value; break;
        default: break;
        }
}

/* Returns NULL when memory is short. */
static struct grpc_metadata *add_field(struct grpc_stream *st) {
        if (st->n_fields == st->cap_fields) {
                size_t                cap = st->cap_fields > 0 ? 2 * st->cap_fields : FEW_FIELDS;
                struct grpc_metadata *grown =
                        arena_try_alloc(&st->call.arena, cap * sizeof(*grown));

                if (grown == NULL)
                        return NULL;
                if (st->n_fields > 0)
                        memcpy(grown, st->fields, st->n_fields * sizeof(*grown));
                st->fields = grown;
                st->cap_fields = cap;
        }
        return &st->fields[st->n_fields++];
}

/* Copies `s` and appends a NUL; ptr NULL when memory is short. */
static struct str copy_str(struct grpc_stream *st, struct str s) {
        char *copy = arena_try_alloc(&st->call.arena, s.len + 1);

        if (copy == NULL)
                return str_range(NULL, 0);
        memcpy(copy, s.ptr, s.len);
        copy[s.len] = '\0';
        return str_range(copy, s.len);
}

static void on_metadata(struct grpc_stream *st, enum h2_field field, struct str name,
                        struct str value) {
        struct grpc_metadata *m = add_field(st);

        if (m != NULL) {
                m->name = field == H2_FIELD_OTHER ? copy_str(st, name) : h2_field_name(field);
                m->value = copy_str(st, value);
        }
        if (m == NULL || m->name.ptr == NULL || m->value.ptr == NULL)
                refuse_headers(st, GRPC_LIMIT_MEMORY);
        else
                remember(st, field, m->value);
}

static void on_header(struct h2_stream *h2, enum h2_field field, struct str name,
                      struct str value) {
        struct grpc_stream       *st = stream_of(h2);
        const struct grpc_limits *l = h2_conn_limits(st->h2.conn);

        if (st->h2.conn->head_bytes > l->header_bytes)
                refuse_headers(st, GRPC_LIMIT_HEADER_BYTES);
        else if (st->n_fields >= l->header_fields)
                refuse_headers(st, GRPC_LIMIT_HEADER_FIELDS);
        if (st->refused != GRPC_LIMIT_NONE)
                return;
        switch (field) {
        case H2_FIELD_PATH: on_path(st, value); break;
        case H2_FIELD_METHOD: st->is_post = STR_IS(value, "POST"); break;
        case H2_FIELD_SCHEME:
        case H2_FIELD_AUTHORITY: break; /* not used */
        default: on_metadata(st, field, name, value); break;
        }
}

/* True for "application/grpc", optionally followed by "+proto" or "; charset=utf-8". */
static bool is_grpc(struct str content_type) {
        static const char wanted[] = "application/grpc";
        size_t            n = sizeof(wanted) - 1;

        return content_type.len >= n && memcmp(content_type.ptr, wanted, n) == 0 &&
               (content_type.len == n || content_type.ptr[n] == '+' || content_type.ptr[n] == ';');
}

static void field_at(const void *of, size_t at, struct str *ret_name, struct str *ret_value) {
        const struct grpc_call *call = of;

        *ret_name = call->metadata[at].name;
        *ret_value = call->metadata[at].value;
}

/* The only check of access to a method. Returns false after refusing the call. */
static bool check_access(struct grpc_stream *st) {
        struct grpc_call            *call = &st->call;
        const struct access_question question = {
                .group = call->method->group,
                .noun = "protocol",
                .field = field_at,
                .call = call,
                .n_fields = call->n_metadata,
                .arena = &call->arena,
        };
        const char         *text;
        enum access_verdict verdict =
                access_check(call->service->policy, &question, &call->access, &text);

        if (verdict == ACCESS_GRANTED)
                return true;
        refuse_call(st, grpc_code_of_access(verdict), text);
        return false;
}

static bool check_timeout(struct grpc_stream *st) {
        struct loop *loop = st->h2.conn->shard->net.loop;
        uint64_t     timeout_ns;

        if (st->timeout.ptr == NULL)
                return true;
        if (!grpc_timeout_decode(st->timeout, &timeout_ns)) {
                refuse_call(st, GRPC_INTERNAL, "malformed grpc-timeout");
                return false;
        }
        if (timeout_ns == 0) { /* expired at once: nothing runs */
                refuse_call(st, GRPC_DEADLINE_EXCEEDED, "Deadline Exceeded");
                return false;
        }
        if (timeout_ns < CLOCK_NEVER - st->h2.conn->now_ns)
                st->call.deadline_ns = st->h2.conn->now_ns + timeout_ns;
        if (loop == NULL || loop_timer_arm(loop, &st->deadline, st->call.deadline_ns))
                return true;
        h2_conn_count_rejected(st->h2.conn, GRPC_LIMIT_MEMORY);
        refuse_call(st, GRPC_RESOURCE_EXHAUSTED, "not enough memory for the deadline");
        return false;
}

/* Longest part of an unknown method's path that the error message quotes. */
#define MAX_QUOTED_BYTES 256

static void refuse_method(struct grpc_stream *st) {
        struct str path = st->call.path;

        path.len = MIN(path.len, MAX_QUOTED_BYTES);
        refuse_call(st, GRPC_UNIMPLEMENTED,
                    arena_printf(&st->call.arena, "unknown method '%.*s'", STR_ARG(path)));
}

static bool check_encoding(struct grpc_stream *st) {
        if (grpc_encoding_find(st->encoding, &st->encoding_in))
                return true;
        refuse_call(st, GRPC_UNIMPLEMENTED,
                    arena_printf(&st->call.arena, "unsupported grpc-encoding '%.*s'",
                                 STR_ARG(st->encoding)));
        return false;
}

static bool check_request(struct grpc_stream *st) {
        if (st->refused != GRPC_LIMIT_NONE) {
                h2_conn_count_rejected(st->h2.conn, st->refused);
                refuse_call(st, GRPC_RESOURCE_EXHAUSTED, "received metadata is too large");
                return false;
        }
        if (!st->is_post) {
                refuse_http(st, 405, "a call has the method POST");
                return false;
        }
        if (!is_grpc(st->content_type)) {
                refuse_http(st, 415, "a call has the content-type application/grpc");
                return false;
        }
        if (st->h2.conn->shard->net.is_draining) {
                refuse_call(st, GRPC_UNAVAILABLE,
                            "GRPC server is shutting down and has stopped accepting new "
                            "requests.");
                return false;
        }
        return true;
}

/* Logged as the reference server logs it, which people search the log for. It names the methods for
 * inferences after its handlers. */
static COLD void log_arrival(const struct grpc_stream *st) {
        const char *path = st->call.method->path;
        const char *name = strrchr(path, '/') + 1;
        bool        is_inference =
                strcmp(name, "ModelInfer") == 0 || strcmp(name, "ModelStreamInfer") == 0;

        log_verbose(1, "Process for %s%s, rpc_ok=1, %d step START", name,
                    is_inference ? "Handler" : "", (int)st->h2.id);
}

static void on_headers(struct h2_stream *h2) {
        struct grpc_stream *st = stream_of(h2);
        struct grpc_call   *call = &st->call;

        call->metadata = st->fields;
        call->n_metadata = st->n_fields;
        if (!check_request(st))
                return;
        if (call->method == NULL) {
                refuse_method(st);
                return;
        }
        if (!check_access(st) || !check_encoding(st) || !check_timeout(st))
                return;
        if (log_is_verbose(1))
                log_arrival(st);
        if (call->method->is_compressible)
                st->encoding_out = grpc_encoding_choose(st->h2.conn->shard->options->compression,
                                                        st->accept_encoding);
        if (call->method->on_open != NULL) {
                give(st);
                call->method->on_open(call);
        }
}

/* ---- receiving messages ---- */

static void refuse_message(struct grpc_stream *st, enum grpc_code code, const char *text) {
        refuse_call(st, code, text);
        abort_call(st, GRPC_ABORT_REFUSED);
}

static void refuse_too_large(struct grpc_stream *st, size_t bytes) {
        size_t max = h2_conn_limits(st->h2.conn)->message_bytes;

        h2_conn_count_rejected(st->h2.conn, GRPC_LIMIT_MESSAGE_BYTES);
        refuse_message(st, GRPC_RESOURCE_EXHAUSTED,
                       arena_printf(&st->call.arena,
                                    "Received message larger than max (%zu vs. %zu)", bytes, max));
}

/* Refuses a message for which a buffer of `bytes` was not allocated. The byte budget has counted its own
 * refusals. */
static void refuse_no_memory(struct grpc_stream *st, size_t bytes) {
        const struct buf_pool *pool = st->h2.conn->shard->pool;

        if (byte_budget_fits(buf_pool_budget(pool), bytes)) {
                h2_conn_count_rejected(st->h2.conn, GRPC_LIMIT_MEMORY);
                refuse_message(st, GRPC_RESOURCE_EXHAUSTED, "not enough memory for the message");
        } else {
                refuse_message(st, GRPC_RESOURCE_EXHAUSTED, BYTE_BUDGET_USED_UP);
        }
}

static void refuse_compressed(struct grpc_stream *st, enum gzip_status status, size_t max) {
        if (status == GZIP_NO_MEMORY) {
                refuse_no_memory(st, 0);
                return;
        }
        if (status == GZIP_OVER_BUDGET) {
                refuse_message(st, GRPC_RESOURCE_EXHAUSTED,
                               "unable to decompress a message: " BYTE_BUDGET_USED_UP);
                return;
        }
        if (status != GZIP_TOO_LARGE) {
                refuse_message(st, GRPC_INTERNAL, "a compressed message is damaged");
                return;
        }
        h2_conn_count_rejected(st->h2.conn, GRPC_LIMIT_MESSAGE_BYTES);
        refuse_message(st, GRPC_RESOURCE_EXHAUSTED,
                       arena_printf(&st->call.arena,
                                    "Received message larger than max (%zu), decompressed", max));
}

static size_t max_decompressed(const struct grpc_stream *st) {
        const struct grpc_limits *l = h2_conn_limits(st->h2.conn);

        return MIN(l->message_bytes, l->decompressed_bytes);
}

static void run_unpacking(struct loop_work *work) {
        struct grpc_unpacking *u = CONTAINER_OF(work, struct grpc_unpacking, work);
        struct grpc_stream    *st = CONTAINER_OF(u, struct grpc_stream, unpacking);

        u->status = grpc_decompress(u->message.bytes, u->max_bytes, st->h2.conn->shard->pool,
                                    &u->plain);
}

static void on_unpacked(struct loop_work *work);

/* Decompresses the message on a compute thread; takes the message. */
static void start_unpacking(struct grpc_stream *st, const struct grpc_message *m, size_t max) {
        st->unpacking =
                (struct grpc_unpacking){ .work = { .run = run_unpacking, .done = on_unpacked },
                                         .message = *m,
                                         .max_bytes = max };
        st->is_unpacking = true;
        st->pauses |= GRPC_PAUSE_UNPACK;
        loop_compute(st->h2.conn->shard->net.loop, &st->unpacking.work);
}

/* Replaces the message by its decompressed bytes. Returns false after refusing the call and freeing the
 * message. */
static bool take_plain(struct grpc_stream *st, struct grpc_message *m, enum gzip_status status,
                       struct buf *plain) {
        buf_unref(m->owner);
        if (status == GZIP_OK) {
                *m = (struct grpc_message){ .bytes = str_range(plain->bytes, plain->len),
                                            .owner = plain };
                return true;
        }
        refuse_compressed(st, status, max_decompressed(st));
        return false;
}

/* Decompresses the message if necessary. Returns false and takes the message when a compute thread does it, or
 * when the call is refused. */
static bool unpack(struct grpc_stream *st, struct grpc_message *m) {
        size_t           max, here;
        enum gzip_status status = GZIP_TOO_LARGE;
        struct buf      *plain = NULL;

        if (!m->is_compressed)
                return true;
        max = max_decompressed(st);
        here = st->h2.conn->shard->net.loop != NULL ? MIN(max, LOOP_MAX_WORK_BYTES) : max;
        /* Compressed bytes beyond the limit: do not even try. */
        if (m->bytes.len <= here)
                status = grpc_decompress(m->bytes, here, st->h2.conn->shard->pool, &plain);
        if (status == GZIP_TOO_LARGE && here < max) {
                start_unpacking(st, m, max);
                return false;
        }
        return take_plain(st, m, status, plain);
}

static void hand_over(struct grpc_stream *st, struct grpc_message *m) {
        give(st);
        if (!st->call.method->is_client_stream) {
                st->before = st->call.arena.blocks;
                st->given_bytes = m->bytes.len;
                st->h2.conn->given_bytes += st->given_bytes;
        }
        st->call.method->on_message(&st->call, m->bytes, m->owner);
        buf_unref(m->owner);
}

/* Delivers a message to the handler. Decompression starts only now, when the handler can take it. */
static void deliver_message(struct grpc_stream *st, struct grpc_message *m) {
        if (unpack(st, m))
                hand_over(st, m);
}

static bool check_compression(struct grpc_stream *st, const struct grpc_message *m) {
        if (!m->is_compressed || st->encoding_in != GRPC_ENCODING_IDENTITY)
                return true;
        buf_unref(m->owner);
        refuse_message(st, GRPC_INTERNAL,
                       "a message is compressed, but the call has no grpc-encoding");
        return false;
}

static void take_message(struct grpc_stream *st, struct grpc_message *m) {
        if (!check_compression(st, m))
                return;
        st->call.recv_end_ns = st->h2.conn->now_ns;
        if (st->call.method->is_client_stream) {
                deliver_message(st, m);
                return;
        }
        if (st->has_only) {
                buf_unref(m->owner);
                refuse_message(st, GRPC_UNIMPLEMENTED, "the method takes one message, not several");
                return;
        }
        st->only = *m;
        st->has_only = true;
}

/* Reads messages until the bytes are consumed, the stream is paused, or the call is answered. */
static void read_messages(struct grpc_stream *st, struct str *in, struct buf *owner) {
        struct grpc_message m;

        st->is_delivering = true;
        while (in->len > 0 && !st->pauses && !st->is_answered) {
                switch (grpc_frame_read(&st->frame, in, owner, &m)) {
                case GRPC_FRAME_MORE: break;
                case GRPC_FRAME_MESSAGE:
                        if (st->call.method->is_client_stream && !h2_stream_take_share(&st->h2))
                                st->pauses |= GRPC_PAUSE_TURN; /* after this one */
                        take_message(st, &m);
                        break;
                case GRPC_FRAME_TOO_LARGE: refuse_too_large(st, st->frame.len); break;
                case GRPC_FRAME_BAD_FLAG:
                        refuse_message(st, GRPC_INTERNAL, "malformed message prefix");
                        break;
                case GRPC_FRAME_NO_MEMORY: refuse_no_memory(st, st->frame.len); break;
                }
        }
        st->is_delivering = false;
}

static void drop_stash(struct grpc_stream *st) {
        struct h2_conn *c = st->h2.conn;

        if (st->stash.buf == NULL)
                return;
        c->stashed_bytes -= st->stash.buf->len - st->stash.at;
        buf_unref(st->stash.buf);
        st->stash = (struct grpc_stash){ NULL, 0 };
}

/* Keeps bytes of a paused stream. The stream's window limits them, because no window update has returned
 * these bytes to the client. */
static bool stash(struct grpc_stream *st, struct str bytes) {
        struct buf *b = st->stash.buf;
        size_t      used = b != NULL ? b->len - st->stash.at : 0;

        if (b == NULL || b->cap - b->len < bytes.len) {
                b = buf_new(st->h2.conn->shard->pool, 2 * used + bytes.len);
                if (b == NULL)
                        return false;
                if (used > 0)
                        memcpy(b->bytes, st->stash.buf->bytes + st->stash.at, used);
                b->len = used;
                buf_unref(st->stash.buf);
                st->stash = (struct grpc_stash){ b, 0 };
        }
        memcpy(b->bytes + b->len, bytes.ptr, bytes.len);
        b->len += bytes.len;
        st->h2.conn->stashed_bytes += bytes.len;
        return true;
}

static size_t on_bytes(struct h2_stream *h2, struct str bytes, struct buf *owner) {
        struct grpc_stream *st = stream_of(h2);
        size_t              len = bytes.len;

        st->bytes_in += len;
        st->h2.conn->pace_bytes += len;
        if (st->stash.buf == NULL)
                read_messages(st, &bytes, owner);
        if (st->is_answered || bytes.len == 0)
                return len; /* bytes after the answer are discarded */
        if (!stash(st, bytes)) {
                refuse_no_memory(st, bytes.len);
                return len;
        }
        return len - bytes.len;
}

static void end_of_messages(struct grpc_stream *st) {
        struct grpc_message m = st->only;

        if (grpc_frame_is_partial(&st->frame)) {
                refuse_message(st, GRPC_INTERNAL, "the last message is incomplete");
        } else if (st->call.method->is_client_stream) {
                give(st);
                st->call.method->on_half_close(&st->call);
        } else if (!st->has_only) {
                refuse_message(st, GRPC_UNIMPLEMENTED, "the method takes one message, not none");
        } else {
                st->has_only = false;
                deliver_message(st, &m);
        }
}

static void on_stream_end(struct h2_stream *h2) {
        struct grpc_stream *st = stream_of(h2);

        st->has_ended = true;
        if (!st->is_answered && st->stash.buf == NULL && !st->is_unpacking)
                end_of_messages(st);
}

static struct iovec room(struct h2_stream *h2) {
        struct grpc_stream *st = stream_of(h2);

        if (st->is_answered || st->pauses || st->stash.buf != NULL)
                return (struct iovec){ NULL, 0 };
        return grpc_frame_room(&st->frame);
}

/* True when the client owes the rest of a message, or the half-close after the only one. */
static bool is_partial(struct h2_stream *h2) {
        const struct grpc_stream *st = stream_of(h2);

        return !st->is_answered && !st->pauses && st->stash.buf == NULL &&
               (grpc_frame_is_partial(&st->frame) || (st->has_only && !st->has_ended));
}

/* A whole message without the half-close that must follow is quiet, too: no handler has it. */
static bool is_quiet(struct h2_stream *h2) {
        const struct grpc_stream *st = stream_of(h2);

        if (st->out.bytes > 0 || st->is_unpacking || st->stash.buf != NULL ||
            st->frame.gathered != NULL)
                return false;
        switch (st->handling) {
        case GRPC_NOT_GIVEN: return !st->has_ended && !st->is_answered;
        case GRPC_GIVEN:
                return st->call.method->is_quiet != NULL && st->call.method->is_quiet(&st->call);
        case GRPC_FINISHED: break;
        }
        return false;
}

/* A call whose message is slow gets a status: nginx takes a stream without an answer for a fault of the server, and
 * leaves the server out for all of its clients. */
static void stop(struct h2_stream *h2, enum grpc_limit limit) {
        struct grpc_stream *st = stream_of(h2);

        h2_conn_count_rejected(st->h2.conn, limit);
        if (limit == GRPC_LIMIT_MESSAGE_RATE)
                refuse_message(st, GRPC_RESOURCE_EXHAUSTED, "the message comes too slowly");
        else
                reset(st, H2_CANCEL);
}

/* ---- pauses ---- */

static void unstash(struct grpc_stream *st) {
        struct h2_conn *c = st->h2.conn;
        struct buf     *b = st->stash.buf;
        struct str      in = str_range(b->bytes + st->stash.at, b->len - st->stash.at);
        size_t          before = in.len;

        read_messages(st, &in, b);
        if (st->is_answered)
                in.len = 0;
        c->stashed_bytes -= before - in.len;
        st->stash.at = b->len - in.len;
        h2_stream_consumed(&st->h2, before - in.len);
        h2_conn_release_window(c);
        if (in.len > 0)
                return;
        drop_stash(st);
        if (st->has_ended && !st->is_answered && !st->is_unpacking)
                end_of_messages(st);
}

static void set_pause(struct grpc_stream *st, enum grpc_pause pause, bool is_on) {
        struct h2_conn *c = st->h2.conn;
        bool            was_busy = c->is_busy;

        if (is_on) {
                st->pauses |= pause;
                return;
        }
        st->pauses &= ~(unsigned)pause;
        if (st->pauses || st->is_delivering || st->stash.buf == NULL || st->h2.id == 0)
                return;
        c->is_busy = true; /* a flush could free the stream */
        unstash(st);
        c->is_busy = was_busy;
        h2_conn_flush_soon(c, false);
}

static void on_turn(struct h2_stream *h2) {
        set_pause(stream_of(h2), GRPC_PAUSE_TURN, false);
}

static void deliver_unpacked(struct h2_stream *h2) {
        struct grpc_stream *st = stream_of(h2);
        struct grpc_message m = st->unpacking.message;
        bool                had_stash = st->stash.buf != NULL;
        bool                is_fine;

        st->is_delivering = true;
        is_fine = take_plain(st, &m, st->unpacking.status, st->unpacking.plain);
        if (is_fine)
                hand_over(st, &m);
        st->is_delivering = false;
        set_pause(st, GRPC_PAUSE_UNPACK, false);
        if (is_fine && !had_stash && st->has_ended && !st->is_answered &&
            st->call.method->is_client_stream)
                end_of_messages(st); /* the half-close arrived meanwhile */
}

static void on_unpacked(struct loop_work *work) {
        struct grpc_unpacking *u = CONTAINER_OF(work, struct grpc_unpacking, work);
        struct grpc_stream    *st = CONTAINER_OF(u, struct grpc_stream, unpacking);

        st->is_unpacking = false;
        if (!st->is_answered && st->h2.id != 0) {
                h2_conn_run_stream(st->h2.conn, &st->h2, deliver_unpacked);
                return;
        }
        if (u->status == GZIP_TOO_LARGE) /* counted even if the client has closed the stream */
                h2_conn_count_rejected(st->h2.conn, GRPC_LIMIT_MESSAGE_BYTES);
        buf_unref(u->message.owner);
        buf_unref(u->plain);
        if (st->h2.id == 0 && st->handling != GRPC_GIVEN)
                recycle(st);
}

/* ---- sending messages ---- */

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
                else if (parts[i].buf != NULL)
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
        if (iov == NULL)
                return false;
        for (size_t i = 0; i < n_parts; i++)
                iov[i] = (struct iovec){ (void *)(uintptr_t)parts[i].ptr, parts[i].len };
        is_packed =
                grpc_compress(st->encoding_out, iov, n_parts, st->h2.conn->shard->pool, &packed);
        free(many);
        if (!is_packed)
                return false;
        drop_parts(parts, n_parts);
        *ret = (struct grpc_part){ packed->bytes, packed->len, packed };
        return true;
}

/* A message to send; the buf of each part is taken. */
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

        st->h2.conn->unsent_bytes += st->out.bytes - before;
        return is_fine;
}

/* Aborts a call whose unsent bytes exceed the limit or do not fit into memory. */
static void overflow(struct grpc_stream *st, enum grpc_limit limit) {
        h2_conn_count_rejected(st->h2.conn, limit);
        st->is_answered = st->h2.is_reset = true;
        if (!h2_stream_reset(&st->h2, H2_ENHANCE_YOUR_CALM)) /* RESOURCE_EXHAUSTED for clients */
                h2_conn_kill(st->h2.conn);
        h2_conn_flush_soon(st->h2.conn, false);
        abort_call(st, GRPC_ABORT_OVERFLOW);
}

static void refuse_answer(struct grpc_stream *st, size_t len) {
        refuse_call(st, GRPC_INVALID_ARGUMENT,
                    arena_printf(&st->call.arena,
                                 "Response has byte size %zu which exceeds gRPC's byte "
                                 "size limit %d.",
                                 len, INT_MAX));
        abort_call(st, GRPC_ABORT_OVERFLOW);
}

/* Returns false and frees the parts when the message must not be sent. */
static bool check_send(struct grpc_stream *st, const struct grpc_part *parts, size_t n,
                       size_t *ret_len) {
        size_t max = h2_conn_limits(st->h2.conn)->unsent_bytes;
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
                refuse_answer(st, len);
        else
                overflow(st, GRPC_LIMIT_UNSENT_BYTES);
        return false;
}

static void queue_parts(struct grpc_stream *st, const struct grpc_part *parts, size_t n,
                        bool is_packed) {
        struct outgoing m = { .parts = parts, .n = n, .is_packed = is_packed };

        if (!check_send(st, parts, n, &m.len))
                return;
        note_send_start(st);
        if (!put_message(st, &m)) {
                overflow(st, GRPC_LIMIT_MEMORY);
                return;
        }
        if (!st->has_responded)
                send_headers(st, status_ok, true);
        else if (!h2_stream_wake(&st->h2))
                h2_conn_kill(st->h2.conn);
        if (st->out.bytes > h2_conn_limits(st->h2.conn)->unsent_pause_bytes)
                set_pause(st, GRPC_PAUSE_UNSENT, true);
}

static void send_message(struct grpc_call *call, const struct grpc_part *parts, size_t n_parts,
                         bool is_packed) {
        queue_parts(call->stream, parts, n_parts, is_packed);
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

static size_t pull(struct h2_stream *h2, size_t max, bool *ret_is_last) {
        struct grpc_stream *st = stream_of(h2);
        size_t              n = send_queue_fit(&st->out, max);

        *ret_is_last = st->is_answered && !st->h2.is_reset && n == st->out.bytes;
        st->h2.is_waiting = n == 0 && !*ret_is_last;
        return n;
}

static void emit(struct h2_stream *h2, size_t n, struct h2_out *out) {
        struct grpc_stream       *st = stream_of(h2);
        const struct grpc_limits *l = h2_conn_limits(st->h2.conn);
        bool                      may_resume;

        send_queue_take(&st->out, n, out);
        st->h2.conn->unsent_bytes -= n;
        st->bytes_out += n;
        may_resume = (st->pauses & GRPC_PAUSE_UNSENT) && st->out.bytes <= l->unsent_pause_bytes / 2;
        if (st->call.on_written != NULL)
                st->has_written = true;
        if (may_resume || st->has_written)
                st->h2.is_due = st->h2.conn->has_due = true;
}

static void on_due(struct h2_stream *h2) {
        struct grpc_stream *st = stream_of(h2);
        bool                has_written = st->has_written;

        st->h2.is_due = st->has_written = false;
        if (has_written && st->call.on_written != NULL && !st->is_answered)
                st->call.on_written(&st->call);
        if ((st->pauses & GRPC_PAUSE_UNSENT) &&
            st->out.bytes <= h2_conn_limits(st->h2.conn)->unsent_pause_bytes / 2)
                set_pause(st, GRPC_PAUSE_UNSENT, false);
}

/* The minimum that a call's client must take in a window; the calls of a connection share it. */
static size_t window_bytes(const struct h2_conn *c) {
        return MAX(h2_conn_limits(c)->write_window_bytes / MAX(c->n_open, 1), 1);
}

static enum grpc_limit check_progress(struct h2_stream *h2, uint64_t now_ns) {
        struct grpc_stream *st = stream_of(h2);
        uint64_t            gained = st->bytes_out - st->progress_bytes;

        if (st->h2.id == 0 || st->h2.is_reset || !st->is_answered || st->out.bytes == 0 ||
            now_ns <= st->progress_ns ||
            now_ns - st->progress_ns < h2_conn_limits(st->h2.conn)->write_stall_ns)
                return GRPC_LIMIT_NONE;
        if (gained < window_bytes(st->h2.conn))
                return gained > 0 ? GRPC_LIMIT_WRITE_RATE : GRPC_LIMIT_WRITE_STALL;
        st->progress_ns = now_ns;
        st->progress_bytes = st->bytes_out;
        return GRPC_LIMIT_NONE;
}

/* ---- how a handler ends its call ---- */

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

/* Frees the handler's part of the arena after its answer, before the client has read it. The metadata to be
 * sent, at most some KiB, is copied. */
static COLD void free_handler_memory(struct grpc_stream *st, struct str *text) {
        struct arena kept;

        arena_init(&kept, NULL, 0, 0);
        copy_answer(&kept, st, text);
        arena_cut(&st->call.arena, st->before);
        copy_answer(&st->call.arena, st, text);
        arena_done(&kept);
}

/* Copies the message, cut to the length that can be sent: it may quote bytes of a peer. */
static struct str keep_message(struct grpc_call *call, const char *message) {
        size_t len = strnlen(message, GRPC_MAX_MESSAGE_TEXT + 1);

        return copy_text(&call->arena, str_range(message, len));
}

void grpc_call_conclude(struct grpc_call *call, enum grpc_code code, const char *message) {
        struct grpc_stream *st = call->stream;

        if (st->h2.id == 0 || st->is_answered)
                return;
        set_status(st, code, message != NULL ? keep_message(call, message) : STR_LIT(""),
                   status_ok);
        h2_conn_flush_soon(st->h2.conn, false);
}

void grpc_call_finish(struct grpc_call *call, enum grpc_code code, const char *message) {
        struct grpc_stream *st = call->stream;
        struct str          text = STR_LIT("");

        finish_handling(st);
        st->h2.conn->given_bytes -= st->given_bytes;
        st->given_bytes = 0;
        if (st->h2.id == 0) {
                h2_conn_flush_soon(st->h2.conn, false); /* the window may open again */
                if (!st->is_unpacking)
                        recycle(st);
                return;
        }
        if (st->is_answered)
                return;
        if (message != NULL)
                text = keep_message(call, message);
        if (call->arena.used_bytes > KEPT_ARENA_BYTES && !call->method->is_client_stream)
                free_handler_memory(st, &text);
        set_status(st, code, text, status_ok);
        flush_soon(st);
}

static void send_reply(struct grpc_call *call, const struct grpc_part *parts, size_t n_parts,
                       bool is_packed) {
        finish_handling(call->stream); /* so a message that cannot be sent causes no on_abort */
        queue_parts(call->stream, parts, n_parts, is_packed);
        grpc_call_finish(call, GRPC_OK, NULL);
}

void grpc_call_reply(struct grpc_call *call, const struct grpc_part *parts, size_t n_parts) {
        send_reply(call, parts, n_parts, false);
}

void grpc_call_reply_packed(struct grpc_call *call, const struct grpc_part *packed) {
        send_reply(call, packed, 1, true);
}

void grpc_call_fail(struct grpc_call *call, struct error *err) {
        AUTO_ERROR gone = err;

        grpc_call_finish(call, grpc_code_of_error(gone->code), gone->message);
}

/* ---- how a call ends by itself ---- */

static void on_closed(struct h2_stream *h2) {
        struct grpc_stream *st = stream_of(h2);

        loop_timer_cancel(&st->deadline);
        grpc_frame_done(&st->frame);
        drop_stash(st);
        st->h2.conn->unsent_bytes -= st->out.bytes;
        send_queue_done(&st->out);
        if (st->h2.conn->state != H2_RELEASED)
                h2_conn_release_window(st->h2.conn);
        if (st->has_only)
                buf_unref(st->only.owner);
        st->has_only = false;
        st->h2.is_due = false;
        if (st->is_unpacking)
                loop_compute_cancel(&st->unpacking.work);
        if (st->handling != GRPC_GIVEN) {
                if (!st->is_unpacking)
                        recycle(st);
                return;
        }
        abort_call(st, GRPC_ABORT_CANCELLED);
}

static void expire(struct h2_stream *h2) {
        struct grpc_stream *st = stream_of(h2);

        if (st->is_answered)
                return;
        if (st->out.bytes > 0) /* part of a message is sent: trailers cannot follow it */
                reset(st, H2_CANCEL);
        else
                refuse_call(st, GRPC_DEADLINE_EXCEEDED, "Deadline Exceeded");
        abort_call(st, GRPC_ABORT_DEADLINE);
}

static void on_deadline(struct loop_timer *t) {
        struct grpc_stream *st = CONTAINER_OF(t, struct grpc_stream, deadline);

        h2_conn_run_stream(st->h2.conn, &st->h2, expire);
}

const struct h2_stream_ops grpc_call_stream_ops = {
        .stream_bytes = sizeof(struct grpc_stream),
        .on_open = on_open,
        .on_header = on_header,
        .on_headers = on_headers,
        .on_bytes = on_bytes,
        .on_turn = on_turn,
        .on_end = on_stream_end,
        .on_malformed = on_malformed,
        .on_due = on_due,
        .on_closed = on_closed,
        .pull = pull,
        .emit = emit,
        .trailers = trailers,
        .room = room,
        .is_partial = is_partial,
        .is_quiet = is_quiet,
        .check_progress = check_progress,
        .stop = stop,
};

/* ---- other functions for handlers ---- */

void grpc_call_pause(struct grpc_call *call) {
        set_pause(call->stream, GRPC_PAUSE_HANDLER, true);
}

void grpc_call_resume(struct grpc_call *call) {
        set_pause(call->stream, GRPC_PAUSE_HANDLER, false);
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
        return call->stream->h2.conn->shard->mailbox;
}

struct loop *grpc_call_loop(const struct grpc_call *call) {
        return call->stream->h2.conn->shard->net.loop;
}

struct buf_pool *grpc_call_buf_pool(const struct grpc_call *call) {
        return call->stream->h2.conn->shard->pool;
}

bool grpc_call_charge(struct grpc_call *call, size_t bytes) {
        struct byte_account *account = &call->stream->h2.conn->shard->blocks.account;

        if (byte_account_take(account, bytes))
                return true;
        byte_budget_refused(account->budget);
        return false;
}

void grpc_call_discharge(struct grpc_call *call, size_t bytes) {
        byte_account_give(&call->stream->h2.conn->shard->blocks.account, bytes);
}

void grpc_call_start_work_thread(struct grpc_call *call, struct loop_work *work) {
        loop_start_work_thread(call->stream->h2.conn->shard->net.loop, work);
}

void grpc_call_compute(struct grpc_call *call, struct loop_work *work) {
        loop_compute(call->stream->h2.conn->shard->net.loop, work);
}

void grpc_call_compute_cancel(struct grpc_call *call, struct loop_work *work) {
        (void)call;
        loop_compute_cancel(work);
}
