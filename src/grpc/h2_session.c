/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/h2_session.h"

#include <nghttp2/nghttp2.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "grpc/h2_blocks.h"
#include "grpc/h2_conn.h"
#include "grpc/h2_out.h"

/* A read straight into a message has to be worth a system call of its own. */
#define MIN_DIRECT_BYTES ((size_t)8 << 10)
/* A stream's client is told of this many bytes at a time, so that of a small message it is told
 * nothing: its stream ends. Far below half the window, at which the library sends an update. */
#define TOLD_BYTES (H2_STREAM_WINDOW / 8)
/* A header list this many times its limit is not refused call by call: the connection ends. */
#define HEADER_BOMB_FACTOR 8

static struct grpc_stream *find_stream(struct h2_conn *c, int32_t id) {
        return nghttp2_session_get_stream_user_data(c->session, id);
}

/* ---- what arrives ---- */

static int verdict(bool is_fine) {
        return is_fine ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static bool is_ack(const nghttp2_frame_hd *hd) {
        return hd->flags & NGHTTP2_FLAG_ACK;
}

static bool check_continuations(struct h2_conn *c) {
        if (++c->n_continuations <= h2_conn_limits(c)->continuations)
                return true;
        h2_conn_calm(c, GRPC_LIMIT_CONTINUATIONS, "too_many_continuations");
        return false;
}

static int on_begin_frame(nghttp2_session *session UNUSED, const nghttp2_frame_hd *hd,
                          void *owner) {
        struct h2_conn *c = owner;

        c->frame_left = 0;
        switch (hd->type) {
        case NGHTTP2_DATA:
                c->frame_id = hd->stream_id;
                if (!(hd->flags & NGHTTP2_FLAG_PADDED))
                        c->frame_left = hd->length;
                if (hd->length > 0 || (hd->flags & NGHTTP2_FLAG_END_STREAM))
                        return 0;
                return verdict(h2_conn_on_control_frame(c));
        case NGHTTP2_HEADERS:
                c->n_continuations = 0;
                c->head_bytes = 0;
                c->head = NULL;
                c->head_ns = c->now_ns;
                return 0;
        case NGHTTP2_CONTINUATION:
                return verdict(check_continuations(c));
        case NGHTTP2_PING:
        case NGHTTP2_SETTINGS:
                return is_ack(hd) ? 0 : verdict(h2_conn_on_control_frame(c));
        case NGHTTP2_PRIORITY:
        case NGHTTP2_RST_STREAM:
                return verdict(h2_conn_on_control_frame(c));
        default:
                return 0;
        }
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *owner) {
        struct h2_conn     *c = owner;
        int32_t             id = frame->hd.stream_id;
        struct grpc_stream *st;

        h2_fields_init(&c->fields, frame->headers.cat != NGHTTP2_HCAT_REQUEST);
        if (c->fields.is_trailer)
                return 0;
        st = h2_conn_on_stream(c, id);
        if (!st)
                return verdict(nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id,
                                                         NGHTTP2_REFUSED_STREAM) == 0);
        c->head = st;
        return verdict(nghttp2_session_set_stream_user_data(session, id, st) == 0);
}

/* The stream is reset, and the rest of what is on its way thrown away. False: the connection is to
 * end, too. */
static bool refuse_stream(struct h2_conn *c, int32_t id) {
        struct grpc_stream *st = find_stream(c, id);

        if (st && !st->is_reset)
                grpc_stream_on_malformed(st);
        return h2_conn_on_reset(c);
}

static NOINLINE int refuse_block(struct h2_conn *c, int32_t id) {
        c->head = NULL;
        c->head_ns = 0; /* on_frame() is not called */
        return refuse_stream(c, id) ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE
                                    : NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* The signature of nghttp2's nghttp2_on_header_callback. */
static int on_header(nghttp2_session *session UNUSED, const nghttp2_frame *frame,
                     const uint8_t *name_bytes, size_t name_len, const uint8_t *value_bytes,
                     size_t value_len, uint8_t flags UNUSED, void *owner) {
        struct h2_conn *c = owner;
        struct str      name = str_range((const char *)name_bytes, name_len);
        struct str      value = str_range((const char *)value_bytes, value_len);
        enum h2_field   field;

        c->head_bytes += name.len + value.len + 32; /* as RFC 9113, 6.5.2 counts */
        if (c->head_bytes > HEADER_BOMB_FACTOR * h2_conn_limits(c)->header_bytes) {
                h2_conn_calm(c, GRPC_LIMIT_HEADER_BYTES, "too_many_header_bytes");
                return NGHTTP2_ERR_CALLBACK_FAILURE;
        }
        field = h2_fields_read(&c->fields, name, value);
        if (UNLIKELY(field == H2_FIELD_MALFORMED))
                return refuse_block(c, frame->hd.stream_id);
        if (c->head && field != H2_FIELD_LEFT_OUT)
                grpc_stream_on_header(c->head, field, name, value);
        return 0;
}

/* False when the block breaks the rules. */
static bool end_block(struct h2_conn *c, const nghttp2_frame *frame) {
        struct grpc_stream *st = STEAL(c->head);

        c->head_ns = 0;
        if (c->fields.is_trailer)
                return frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
        if (!h2_fields_are_complete(&c->fields))
                return false;
        if (!st)
                return true;
        st->body_left = c->fields.content_length;
        grpc_stream_on_headers(st);
        return true;
}

/* False when it is shorter than announced. */
static bool end_stream(struct h2_conn *c, int32_t id) {
        struct grpc_stream *st = find_stream(c, id);

        if (!st)
                return true;
        if (UNLIKELY(st->body_left > 0))
                return false;
        grpc_stream_on_end(st);
        return true;
}

static int on_frame(nghttp2_session *session UNUSED, const nghttp2_frame *frame, void *owner) {
        struct h2_conn *c = owner;

        switch (frame->hd.type) {
        case NGHTTP2_HEADERS:
                if (UNLIKELY(!end_block(c, frame)))
                        return verdict(refuse_stream(c, frame->hd.stream_id));
                /* fall through */
        case NGHTTP2_DATA:
                if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) &&
                    UNLIKELY(!end_stream(c, frame->hd.stream_id)))
                        return verdict(refuse_stream(c, frame->hd.stream_id));
                return 0;
        case NGHTTP2_SETTINGS:
                c->has_settings = true;
                return 0;
        case NGHTTP2_PING:
                if (!is_ack(&frame->hd))
                        return verdict(h2_conn_on_ping(c));
                h2_conn_on_ping_ack(c, (const char *)frame->ping.opaque_data);
                return 0;
        default:
                return 0;
        }
}

/* False when there is more than announced. */
static bool count_body(struct grpc_stream *st, size_t len) {
        if (LIKELY(st->body_left < 0))
                return true;
        if (len > (uint64_t)st->body_left)
                return false;
        st->body_left -= (int64_t)len;
        return true;
}

static int on_data(nghttp2_session *session UNUSED, uint8_t flags UNUSED, int32_t id,
                   const uint8_t *bytes, size_t len, void *owner) {
        struct h2_conn     *c = owner;
        struct grpc_stream *st = find_stream(c, id);
        size_t              used = len;

        c->frame_left -= MIN(c->frame_left, len);
        if (st && UNLIKELY(!count_body(st, len)) && !refuse_stream(c, id))
                return NGHTTP2_ERR_CALLBACK_FAILURE;
        if (st)
                used = grpc_stream_on_bytes(st, str_range((const char *)bytes, len),
                                            c->feed_owner);
        if (h2_conn_holds_much(c))
                c->withheld_bytes += len;
        else
                c->fed_bytes += len;
        if (st)
                h2_session_consumed(st, used);
        return verdict(!c->is_condemned);
}

/* A frame that breaks the rules costs its stream, and counts like a reset. */
static int on_invalid_frame(nghttp2_session *session UNUSED, const nghttp2_frame *frame UNUSED,
                            int code UNUSED, void *owner) {
        return verdict(h2_conn_on_reset(owner));
}

static int on_stream_closed(nghttp2_session *session UNUSED, int32_t id, uint32_t code,
                            void *owner) {
        struct h2_conn     *c = owner;
        struct grpc_stream *st = find_stream(c, id);
        bool                counts = code != NGHTTP2_NO_ERROR && (!st || !st->is_reset);

        if (c->head == st)
                c->head = NULL;
        if (st)
                grpc_stream_on_closed(st);
        if (!counts || c->is_condemned || h2_conn_on_reset(c))
                return 0;
        return verdict(c->gathering != NULL); /* what is to be sent, the last word too, is sent */
}

/* ---- what is sent ---- */

/* Who ends an answer before it has the whole request says that the rest is not wanted (RFC 9113,
 * 8.1). */
static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *owner) {
        struct h2_conn *c = owner;
        int32_t         id = frame->hd.stream_id;

        switch (frame->hd.type) {
        case NGHTTP2_HEADERS:
        case NGHTTP2_DATA:
        case NGHTTP2_WINDOW_UPDATE:
                h2_conn_on_payload_sent(c);
                break;
        default:
                return 0;
        }
        if (frame->hd.type == NGHTTP2_WINDOW_UPDATE ||
            !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM) ||
            nghttp2_session_get_stream_remote_close(session, id) != 0)
                return 0;
        return verdict(nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id,
                                                 NGHTTP2_NO_ERROR) == 0);
}

static nghttp2_nv nv_of(const struct grpc_header *h) {
        return (nghttp2_nv){ .name = (uint8_t *)(uintptr_t)h->name.ptr,
                             .namelen = h->name.len,
                             .value = (uint8_t *)(uintptr_t)h->value.ptr,
                             .valuelen = h->value.len,
                             .flags = h->is_static ? NGHTTP2_NV_FLAG_NO_COPY_NAME |
                                                             NGHTTP2_NV_FLAG_NO_COPY_VALUE
                                                   : NGHTTP2_NV_FLAG_NONE };
}

static ssize_t on_frame_length(nghttp2_session *session UNUSED, uint8_t type UNUSED,
                               int32_t id UNUSED, int32_t connection_window,
                               int32_t stream_window, uint32_t max_frame, void *owner UNUSED) {
        size_t window = (size_t)MAX(0, MIN(connection_window, stream_window));

        return (ssize_t)MIN(MIN(window, max_frame), H2_MAX_SENT_FRAME_BYTES);
}

static int submit_trailers(nghttp2_session *session, struct grpc_stream *st) {
        struct grpc_header fields[GRPC_MAX_TRAILERS];
        nghttp2_nv         nv[GRPC_MAX_TRAILERS];
        size_t             n = grpc_stream_trailers(st, fields);

        for (size_t i = 0; i < n; i++)
                nv[i] = nv_of(&fields[i]);
        return nghttp2_submit_trailer(session, st->id, nv, n);
}

static ssize_t on_pull(nghttp2_session *session, int32_t id UNUSED, uint8_t *bytes UNUSED,
                       size_t max, uint32_t *flags, nghttp2_data_source *source,
                       void *owner UNUSED) {
        struct grpc_stream *st = source->ptr;
        bool                is_last;
        size_t              n = grpc_stream_pull(st, max, &is_last);

        if (n == 0 && !is_last)
                return NGHTTP2_ERR_DEFERRED;
        if (n > 0)
                *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
        if (is_last) {
                *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
                if (submit_trailers(session, st) != 0)
                        return NGHTTP2_ERR_CALLBACK_FAILURE;
        }
        return (ssize_t)n;
}

static int on_emit(nghttp2_session *session UNUSED, nghttp2_frame *frame UNUSED,
                   const uint8_t *header, size_t len, nghttp2_data_source *source, void *owner) {
        struct h2_conn *c = owner;

        if (!h2_out_has_room(c->gathering)) {
                c->is_full = true;
                return NGHTTP2_ERR_WOULDBLOCK;
        }
        h2_out_copy(c->gathering, header, 9); /* a frame header: RFC 9113, 4.1 */
        grpc_stream_emit(source->ptr, len, c->gathering);
        return 0;
}

/* Serialised by the library: headers and control frames. */
static bool put_frame(struct h2_conn *c, const uint8_t *bytes, size_t len) {
        struct buf *own;

        if (len <= H2_OUT_FRAME_COPIED_BYTES) {
                h2_out_copy(c->gathering, bytes, len);
                return true;
        }
        own = buf_new(c->home->pool, len);
        if (!own)
                return false;
        memcpy(own->bytes, bytes, len);
        h2_out_refer(c->gathering, own->bytes, len, own);
        buf_unref(own);
        return true;
}

static enum h2_gathered gather(struct h2_conn *c, struct h2_out *out) {
        const uint8_t *bytes;
        ssize_t        n;

        do {
                if (!h2_out_has_room(out))
                        return out->n_bytes > 0 ? H2_GATHERED_FULL : H2_GATHERED_FAILED;
                n = nghttp2_session_mem_send(c->session, &bytes);
                if (n < 0 || (n > 0 && !put_frame(c, bytes, (size_t)n)))
                        return H2_GATHERED_FAILED;
        } while (n > 0);
        return c->is_full ? H2_GATHERED_FULL : H2_GATHERED_ALL;
}

enum h2_gathered h2_session_gather(struct h2_conn *c, struct h2_out *out) {
        enum h2_gathered gathered;

        c->gathering = out;
        c->is_full = false;
        gathered = gather(c, out);
        c->gathering = NULL;
        return gathered;
}

/* ---- the session ---- */

static void set_callbacks(nghttp2_session_callbacks *cb) {
        nghttp2_session_callbacks_set_on_begin_frame_callback(cb, on_begin_frame);
        nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
        nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
        nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
        nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(cb, on_invalid_frame);
        nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_closed);
        nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_frame_sent);
        nghttp2_session_callbacks_set_data_source_read_length_callback(cb, on_frame_length);
        nghttp2_session_callbacks_set_send_data_callback(cb, on_emit);
}

static void set_options(nghttp2_option *o) {
        nghttp2_option_set_no_auto_window_update(o, 1);
        nghttp2_option_set_no_closed_streams(o, 1);
        nghttp2_option_set_no_http_messaging(o, 1); /* h2_fields.h does */
        /* Ours counts instead, and says what for. */
        nghttp2_option_set_stream_reset_rate_limit(o, UINT32_MAX, UINT32_MAX);
}

static bool send_settings(struct h2_conn *c) {
        const struct grpc_limits    *l = h2_conn_limits(c);
        const nghttp2_settings_entry entries[] = {
                { NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, l->streams },
                { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, H2_STREAM_WINDOW },
                { NGHTTP2_SETTINGS_MAX_FRAME_SIZE, H2_MAX_FRAME_BYTES },
                { NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
                  (uint32_t)MIN(l->header_bytes, (size_t)UINT32_MAX) },
                { NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1 },
        };

        return nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, entries,
                                       ARRAY_LEN(entries)) == 0 &&
               nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0,
                                                     H2_CONNECTION_WINDOW) == 0;
}

bool h2_session_open(struct h2_conn *c) {
        nghttp2_mem mem = { &c->home->blocks, h2_blocks_alloc, h2_blocks_free, h2_blocks_zalloc,
                            h2_blocks_realloc };
        nghttp2_session_callbacks *callbacks = NULL;
        nghttp2_option            *options = NULL;
        bool                       is_fine;

        is_fine = nghttp2_session_callbacks_new(&callbacks) == 0 &&
                  nghttp2_option_new(&options) == 0;
        if (is_fine) {
                set_callbacks(callbacks);
                set_options(options);
                is_fine = nghttp2_session_server_new3(&c->session, callbacks, c, options,
                                                      &mem) == 0;
        }
        nghttp2_session_callbacks_del(callbacks);
        nghttp2_option_del(options);
        return is_fine && send_settings(c);
}

void h2_session_close(struct h2_conn *c) {
        if (c->session)
                nghttp2_session_del(STEAL(c->session));
}

bool h2_session_receive(struct h2_conn *c, struct str bytes, struct buf *owner) {
        ssize_t n;

        c->feed_owner = owner;
        n = nghttp2_session_mem_recv(c->session, (const uint8_t *)bytes.ptr, bytes.len);
        if (n >= 0 && c->fed_bytes > 0)
                h2_session_release(c, c->fed_bytes);
        c->fed_bytes = 0;
        if (n == NGHTTP2_ERR_FLOODED)
                h2_conn_calm(c, GRPC_LIMIT_CONTROL_FRAMES, "too_many_control_frames");
        return n >= 0 && (size_t)n == bytes.len && !c->is_condemned;
}

struct iovec h2_session_room(struct h2_conn *c) {
        const struct iovec  none = { NULL, 0 };
        struct grpc_stream *st;
        struct iovec        room;

        if (c->frame_left < MIN_DIRECT_BYTES)
                return none;
        st = find_stream(c, c->frame_id);
        if (!st || st->is_answered || st->pauses || st->stash.buf)
                return none;
        room = grpc_frame_room(&st->frame);
        room.iov_len = MIN(room.iov_len, c->frame_left);
        return room.iov_len < MIN_DIRECT_BYTES ? none : room;
}

bool h2_session_is_over(const struct h2_conn *c) {
        return nghttp2_session_want_read(c->session) == 0 &&
               nghttp2_session_want_write(c->session) == 0;
}

bool h2_session_respond(struct grpc_stream *st, const struct grpc_header *fields, size_t n,
                        bool has_body) {
        nghttp2_data_provider body = { .source.ptr = st, .read_callback = on_pull };
        nghttp2_nv            nv[8 + 2 * GRPC_MAX_ADDED];

        for (size_t i = 0; i < n; i++)
                nv[i] = nv_of(&fields[i]);
        return nghttp2_submit_response(st->conn->session, st->id, nv, n,
                                       has_body ? &body : NULL) == 0;
}

bool h2_session_wake(struct grpc_stream *st) {
        int rc = 0;

        if (st->is_waiting)
                rc = nghttp2_session_resume_data(st->conn->session, st->id);
        st->is_waiting = false;
        return rc == 0 || rc == NGHTTP2_ERR_INVALID_ARGUMENT; /* the stream is closing */
}

bool h2_session_reset(struct grpc_stream *st, enum h2_code code) {
        return nghttp2_submit_rst_stream(st->conn->session, NGHTTP2_FLAG_NONE, st->id,
                                         (uint32_t)code) == 0;
}

void h2_session_consumed(struct grpc_stream *st, size_t n) {
        struct h2_conn *c = st->conn;

        st->used += n;
        if (st->used < TOLD_BYTES)
                return;
        if (nghttp2_session_consume_stream(c->session, st->id, st->used) != 0)
                c->is_condemned = true;
        st->used = 0;
}

void h2_session_release(struct h2_conn *c, size_t n) {
        if (nghttp2_session_consume_connection(c->session, n) != 0)
                c->is_condemned = true;
}

void h2_session_ping(struct h2_conn *c, const char opaque[H2_PING_BYTES]) {
        if (nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, (const uint8_t *)opaque) != 0)
                c->is_condemned = true;
}

void h2_session_announce_goaway(struct h2_conn *c) {
        if (nghttp2_submit_shutdown_notice(c->session) != 0)
                c->is_condemned = true;
}

void h2_session_goaway(struct h2_conn *c, const char *text) {
        int32_t last = nghttp2_session_get_last_proc_stream_id(c->session);

        if (nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR,
                                  (const uint8_t *)text, strlen(text)) != 0)
                c->is_condemned = true;
}

void h2_session_terminate(struct h2_conn *c, enum h2_code code, const char *text) {
        int32_t last = nghttp2_session_get_last_proc_stream_id(c->session);

        c->is_condemned = true;
        nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE, last, (uint32_t)code,
                              (const uint8_t *)text, strlen(text));
}
