/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/h2_conn.h"

#include "base/buf.h"
#include "base/byte_budget.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "base/reserve.h"
#include "call/drain.h"
#include "grpc/h2_blocks.h"
#include "grpc/h2_out.h"
#include "net/loop.h"

#include <assert.h>
#include <nghttp2/nghttp2.h>
#include <string.h>
#include <unistd.h>

/* Smallest rest of a message that is read directly into it, which costs a system call of its own. */
#define MIN_DIRECT_BYTES ((size_t)8 << 10)
/* A stream's window is updated once for this many consumed bytes. A small message causes no update, because
 * its stream ends before. Far below half the window, at which nghttp2 sends an update by itself. */
#define WINDOW_UPDATE_BYTES (H2_STREAM_WINDOW / 8)
/* A header list of this many times its limit closes the connection instead of being refused. */
#define HEADER_BOMB_FACTOR 8

/* The final GOAWAY follows after this time when the client does not answer the ping of the notice. */
#define NOTICE_NS NS_PER_S

static const char goaway_ping[H2_PING_BYTES] = "goodbye";
static const char keepalive_ping[H2_PING_BYTES] = "alive?";

static const struct h2_stream_ops *ops_of(const struct h2_stream *st) {
        return st->conn->shard->ops;
}

const struct grpc_limits *h2_conn_limits(const struct h2_conn *c) {
        return c->shard->limits;
}

static void count_rejected(const struct h2_shard *shard, enum grpc_limit limit) {
        if (limit != GRPC_LIMIT_NONE && shard->on_rejected != NULL)
                shard->on_rejected(shard->rejected_owner, grpc_limit_name(limit));
}

void h2_conn_count_rejected(struct h2_conn *c, enum grpc_limit limit) {
        count_rejected(c->shard, limit);
}

const char *h2_conn_peer(const struct h2_conn *c) {
        return c->net != NULL ? conn_peer(c->net) : "unknown";
}

/* ---- making room ---- */

/* True when no call is at work, and each waits for its client, or only watches. */
static bool is_quiet(const struct h2_conn *c) {
        LIST_FOR_EACH(&c->streams, node) {
                struct h2_stream *st = LIST_ENTRY(node, struct h2_stream, node);

                if (st->id == 0 || !ops_of(st)->is_quiet(st))
                        return false;
        }
        return true;
}

/* Control frames are no use: a peer could send one a second on each of many connections. */
static enum leave_claim claim_since(const struct h2_conn *c, uint64_t now_ns, uint64_t stuck_ns) {
        bool has_block = c->head_ns != 0;

        if (has_block && now_ns - c->head_ns > stuck_ns &&
            c->n_streams == (c->head != NULL ? 1 : 0))
                return LEAVE_IDLE;
        if (has_block || c->used_ns > c->place.noted_ns)
                return LEAVE_STAYS;
        /* The message of a call may be on its way. */
        if (c->n_streams > 0 && (now_ns - c->used_ns < LEAVE_NEW_NS || !is_quiet(c)))
                return LEAVE_STAYS;
        if (nghttp2_session_get_last_proc_stream_id(c->session) == 0 &&
            now_ns - c->opened_ns < LEAVE_NEW_NS)
                return LEAVE_NEW;
        return LEAVE_IDLE;
}

/* `stuck_ns`: the connection that sends its only header block for longer may be closed. */
static enum leave_claim claim_of(const struct leave_place *place, uint64_t now_ns,
                                 uint64_t stuck_ns) {
        const struct h2_conn *c = CONTAINER_OF(place, struct h2_conn, place);
        enum leave_claim      claim;

        /* A busy one is the connection whose call needs the room. */
        if (c->net == NULL || c->is_busy || c->is_flushing || conn_is_closing(c->net) ||
            turns_is_waiting(&c->turn))
                return LEAVE_STAYS;
        claim = claim_since(c, now_ns, stuck_ns);
        return claim != LEAVE_STAYS && conn_has_unread(c->net) ? LEAVE_UNREAD : claim;
}

static enum leave_claim claim_of_place(const struct leave_place *place, uint64_t now_ns) {
        return claim_of(place, now_ns, LEAVE_NEW_NS);
}

static enum leave_claim claim_of_memory(const struct leave_place *place, uint64_t now_ns) {
        return claim_of(place, now_ns, 0);
}

static void release_conn(struct h2_conn *c);

/* What the closed connection held is free when this returns, so that many connections that arrive in one
 * round do not use up the budget. */
static bool make_room(struct h2_shard *shard, enum leave_need need, leave_claim_fn claim) {
        struct leave_place *place =
                leave_order_pick(&shard->net.conns, need, claim, clock_now_ns());
        struct h2_conn *c;

        if (place == NULL)
                return false;
        c = CONTAINER_OF(place, struct h2_conn, place);
        h2_conn_drain(c); /* the client learns that no call was lost */
        h2_conn_kill(c);
        release_conn(c);
        return true;
}

bool h2_shard_make_room(struct h2_shard *shard, enum leave_need need) {
        return make_room(shard, need, claim_of_place);
}

/* Under pressure connections whose calls, if they have any, are quiet, and those with a part of a header block, are
 * closed in favour of new ones. */
static void make_room_when_tight(struct h2_shard *shard) {
        const struct byte_budget *budget = shard->blocks.account.budget;

        if (byte_budget_is_tight(budget))
                make_room(shard,
                          byte_budget_is_nearly_used(budget) ? LEAVE_TAKES_NEW : LEAVE_SPARES_NEW,
                          claim_of_memory);
}

/* ---- requests to the session ---- */

static nghttp2_nv nv_of(const struct h2_header *h) {
        return (nghttp2_nv){ .name = (uint8_t *)(uintptr_t)h->name.ptr,
                             .namelen = h->name.len,
                             .value = (uint8_t *)(uintptr_t)h->value.ptr,
                             .valuelen = h->value.len,
                             .flags = h->is_static ? NGHTTP2_NV_FLAG_NO_COPY_NAME |
                                                             NGHTTP2_NV_FLAG_NO_COPY_VALUE
                                                   : NGHTTP2_NV_FLAG_NONE };
}

static void set_state(struct h2_conn *c, enum h2_state to) {
        assert(to > c->state);
        c->state = to;
}

/* The connection cannot continue. */
static void fail_conn(struct h2_conn *c) {
        if (c->state < H2_FAILED)
                set_state(c, H2_FAILED);
}

static bool takes_input(const struct h2_conn *c) {
        return c->state < H2_FAILED;
}

static void session_release(struct h2_conn *c, size_t n) {
        if (nghttp2_session_consume_connection(c->session, n) != 0)
                fail_conn(c);
}

static void session_ping(struct h2_conn *c, const char opaque[H2_PING_BYTES]) {
        if (nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, (const uint8_t *)opaque) != 0)
                fail_conn(c);
}

static void session_announce_goaway(struct h2_conn *c) {
        if (nghttp2_submit_shutdown_notice(c->session) != 0)
                fail_conn(c);
}

static void session_goaway(struct h2_conn *c, const char *text) {
        int32_t last = nghttp2_session_get_last_proc_stream_id(c->session);

        if (nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR,
                                  (const uint8_t *)text, strlen(text)) != 0)
                fail_conn(c);
}

static void session_terminate(struct h2_conn *c, enum h2_code code, const char *text) {
        int32_t last = nghttp2_session_get_last_proc_stream_id(c->session);

        fail_conn(c);
        nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE, last, (uint32_t)code,
                              (const uint8_t *)text, strlen(text));
}

static void session_close(struct h2_conn *c) {
        if (c->session != NULL)
                nghttp2_session_del(STEAL(c->session));
}

static bool session_is_over(const struct h2_conn *c) {
        return nghttp2_session_want_read(c->session) == 0 &&
               nghttp2_session_want_write(c->session) == 0;
}

/* ---- streams ---- */

static struct h2_stream *find_stream(struct h2_conn *c, int32_t id) {
        return nghttp2_session_get_stream_user_data(c->session, id);
}

/* Allocates a stream, which the budget is charged with until it is freed. */
static struct h2_stream *new_stream(struct h2_shard *shard) {
        size_t            bytes = shard->ops->stream_bytes;
        struct h2_stream *st;

        if (reserve_is_short())
                return NULL;
        make_room_when_tight(shard);
        if (!byte_account_take(&shard->blocks.account, bytes)) {
                byte_budget_refused(shard->blocks.account.budget);
                return NULL;
        }
        st = try_alloc(bytes);
        if (st == NULL)
                byte_account_give(&shard->blocks.account, bytes);
        return st;
}

static void free_stream(struct h2_shard *shard, struct h2_stream *st) {
        byte_account_give(&shard->blocks.account, shard->ops->stream_bytes);
        free(st);
}

/* Returns NULL when the stream must be refused. */
static struct h2_stream *open_stream(struct h2_conn *c, int32_t id) {
        struct h2_stream *st = NULL;

        if (c->n_streams >= h2_conn_limits(c)->calls)
                h2_conn_count_rejected(c, GRPC_LIMIT_STREAMS);
        else if ((st = new_stream(c->shard)) == NULL)
                h2_conn_count_rejected(c, GRPC_LIMIT_MEMORY);
        if (st == NULL)
                return NULL;
        *st = (struct h2_stream){ .conn = c, .id = id, .body_left = -1 };
        c->shard->ops->on_open(st);
        list_append(&c->streams, &st->node);
        c->n_streams++;
        c->n_open++;
        return st;
}

static void close_stream(struct h2_stream *st) {
        st->id = 0;
        st->conn->n_open--;
        ops_of(st)->on_closed(st);
}

static void free_conn(struct h2_conn *c) {
        struct h2_shard *shard = c->shard;

        list_remove(&c->place.node);
        if (list_is_linked(&c->unflushed_node))
                list_remove(&c->unflushed_node);
        turns_cancel(&c->turn);
        buf_unref(c->rest_owner);
        h2_out_free(c->writing);
        free(c);
        if (shard->net.server != NULL)
                net_shard_conn_gone(&shard->net);
}

void h2_stream_recycle(struct h2_stream *st) {
        struct h2_conn  *c = st->conn;
        struct h2_shard *shard = c->shard;

        list_remove(&st->node);
        c->n_streams--;
        free_stream(shard, st);
        if (c->state == H2_CLOSED && c->n_streams == 0)
                free_conn(c);
}

/* ---- rate limits ---- */

static void enhance_your_calm(struct h2_conn *c, enum grpc_limit limit, const char *text) {
        if (!takes_input(c))
                return;
        h2_conn_count_rejected(c, limit);
        session_terminate(c, H2_ENHANCE_YOUR_CALM, text);
}

static bool count_control_frame(struct h2_conn *c) {
        const struct grpc_limits *l = h2_conn_limits(c);

        if (grpc_token_bucket_take(&c->control_frames, l->control_frames_at_once,
                                   l->control_frames_per_s, c->now_ns))
                return true;
        enhance_your_calm(c, GRPC_LIMIT_CONTROL_FRAMES, "too_many_control_frames");
        return false;
}

/* False behind a proxy that shares its connections: the calls of all its clients may be reset on one of them. */
static bool limits_resets(const struct h2_conn *c) {
        return h2_conn_limits(c)->resets_at_once > 0;
}

static bool count_reset(struct h2_conn *c) {
        const struct grpc_limits *l = h2_conn_limits(c);

        if (!limits_resets(c))
                return true;
        if (grpc_token_bucket_take(&c->resets, l->resets_at_once, l->resets_per_s, c->now_ns))
                return true;
        enhance_your_calm(c, GRPC_LIMIT_RESETS, "too_many_resets");
        return false;
}

static bool count_ping(struct h2_conn *c) {
        if (grpc_pings_on_ping(&c->pings, h2_conn_limits(c), c->n_open > 0, c->now_ns))
                return true;
        enhance_your_calm(c, GRPC_LIMIT_PINGS, "too_many_pings");
        return false;
}

static void on_payload_sent(struct h2_conn *c) {
        grpc_pings_on_payload_sent(&c->pings);
        grpc_token_bucket_refill(&c->control_frames);
}

/* ---- graceful shutdown ---- */

static void send_final_goaway(struct h2_conn *c) {
        if (c->leaving == H2_LEAVING_FINAL)
                return;
        c->leaving = H2_LEAVING_FINAL;
        session_goaway(c, "");
}

static void send_notice(struct h2_conn *c) {
        if (c->leaving != H2_STAYING)
                return;
        c->leaving = H2_LEAVING_NOTICE;
        c->notice_ns = c->now_ns;
        session_announce_goaway(c);
        session_ping(c, goaway_ping);
}

static void on_ping_ack(struct h2_conn *c, const char opaque[8]) {
        if (memcmp(opaque, goaway_ping, sizeof(goaway_ping)) == 0 && c->leaving != H2_STAYING)
                send_final_goaway(c);
        else if (memcmp(opaque, keepalive_ping, sizeof(keepalive_ping)) == 0)
                grpc_pings_on_ack(&c->pings);
}

/* ---- receiving frames ---- */

/* Counts a request or a message; false when the connection has to wait before the next one. Each costs up to a
 * millisecond, so the clock is read for each. */
static bool take_share(struct h2_conn *c) {
        struct loop *l = c->shard->net.loop;

        if (l == NULL || c->net == NULL) /* in tests */
                return true;
        if (turns_is_waiting(&c->turn))
                return false;
        if (loop_take_share(l, &c->turn, clock_now_ns()))
                return true;
        loop_wait_turn(l, &c->turn);
        return false;
}

bool h2_stream_take_share(struct h2_stream *st) {
        st->waits_turn = !take_share(st->conn);
        return !st->waits_turn;
}

/* The result of a callback that nghttp2 may pause after. */
static int pause_or_go_on(const struct h2_conn *c) {
        return turns_is_waiting(&c->turn) ? NGHTTP2_ERR_PAUSE : 0;
}

static bool holds_much(const struct h2_conn *c) {
        return c->stashed_bytes + c->given_bytes + c->unsent_bytes > H2_MAX_HELD_BYTES;
}

static int callback_result(bool is_fine) {
        return is_fine ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static bool is_ack(const nghttp2_frame_hd *hd) {
        return hd->flags & NGHTTP2_FLAG_ACK;
}

static bool check_continuations(struct h2_conn *c) {
        if (++c->n_continuations <= h2_conn_limits(c)->continuations)
                return true;
        enhance_your_calm(c, GRPC_LIMIT_CONTINUATIONS, "too_many_continuations");
        return false;
}

/* Only a block whose end nghttp2 reports with on_frame() has a time limit. It discards those of streams that are
 * refused or over, such as trailers that come after the answer, and keeps nothing of them. */
static void begin_head(struct h2_conn *c, int32_t id, struct h2_stream *st) {
        c->head = st;
        c->head_id = id;
        c->head_ns = c->now_ns;
}

static void end_head(struct h2_conn *c) {
        c->head = NULL;
        c->head_id = 0;
        c->head_ns = 0;
}

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *owner) {
        struct h2_conn *c = owner;

        (void)session;
        c->frame_left = 0;
        if (!takes_input(c)) /* the frame before was one too many */
                return NGHTTP2_ERR_CALLBACK_FAILURE;
        switch (hd->type) {
        case NGHTTP2_DATA:
                c->frame_id = hd->stream_id;
                if (!(hd->flags & NGHTTP2_FLAG_PADDED))
                        c->frame_left = hd->length;
                if (hd->length > 0 || (hd->flags & NGHTTP2_FLAG_END_STREAM))
                        return 0;
                return callback_result(count_control_frame(c));
        case NGHTTP2_HEADERS:
                c->n_continuations = 0;
                c->head_bytes = 0;
                end_head(c);
                return 0;
        case NGHTTP2_CONTINUATION: return callback_result(check_continuations(c));
        case NGHTTP2_PING:
        case NGHTTP2_SETTINGS: return is_ack(hd) ? 0 : callback_result(count_control_frame(c));
        case NGHTTP2_PRIORITY: return callback_result(count_control_frame(c));
        case NGHTTP2_RST_STREAM:
                return callback_result(!limits_resets(c) || count_control_frame(c));
        default: return 0;
        }
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *owner) {
        struct h2_conn   *c = owner;
        int32_t           id = frame->hd.stream_id;
        struct h2_stream *st;

        h2_fields_init(&c->fields, frame->headers.cat != NGHTTP2_HCAT_REQUEST);
        if (c->fields.is_trailer) {
                begin_head(c, id, NULL);
                return 0;
        }
        take_share(c); /* the next callback that can pause does so */
        st = open_stream(c, id);
        if (st == NULL)
                return callback_result(nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id,
                                                                 NGHTTP2_REFUSED_STREAM) == 0);
        c->used_ns = c->now_ns;
        begin_head(c, id, st);
        return callback_result(nghttp2_session_set_stream_user_data(session, id, st) == 0);
}

/* Resets a stream; the rest of its bytes is discarded. Returns false when the connection must end as well. */
static bool refuse_stream(struct h2_conn *c, int32_t id) {
        struct h2_stream *st = find_stream(c, id);

        if (st != NULL && !st->is_reset)
                ops_of(st)->on_malformed(st);
        return count_reset(c);
}

static NOINLINE int refuse_block(struct h2_conn *c, int32_t id) {
        end_head(c); /* nghttp2 does not call on_frame() */
        return refuse_stream(c, id) ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE
                                    : NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* The signature of nghttp2's nghttp2_on_header_callback. */
static int on_header(nghttp2_session *session, const nghttp2_frame *frame,
                     const uint8_t *name_bytes, size_t name_len, const uint8_t *value_bytes,
                     size_t value_len, uint8_t flags, void *owner) {
        struct h2_conn *c = owner;
        struct str      name = str_range((const char *)name_bytes, name_len);
        struct str      value = str_range((const char *)value_bytes, value_len);
        enum h2_field   field;

        (void)session;
        (void)flags;
        c->head_bytes += name.len + value.len + 32; /* counted as in RFC 9113, 6.5.2 */
        if (c->head_bytes > HEADER_BOMB_FACTOR * h2_conn_limits(c)->header_bytes) {
                enhance_your_calm(c, GRPC_LIMIT_HEADER_BYTES, "too_many_header_bytes");
                return NGHTTP2_ERR_CALLBACK_FAILURE;
        }
        field = h2_fields_read(&c->fields, name, value);
        if (field == H2_FIELD_MALFORMED)
                return refuse_block(c, frame->hd.stream_id);
        if (c->head != NULL && field != H2_FIELD_LEFT_OUT)
                c->shard->ops->on_header(c->head, field, name, value);
        return pause_or_go_on(c);
}

/* Returns false when the header block is malformed. */
static bool end_block(struct h2_conn *c, const nghttp2_frame *frame) {
        struct h2_stream *st = c->head;

        end_head(c);
        if (c->fields.is_trailer)
                return frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
        if (!h2_fields_are_complete(&c->fields))
                return false;
        if (st == NULL)
                return true;
        st->body_left = c->fields.content_length;
        ops_of(st)->on_headers(st);
        return true;
}

/* Returns false when the body is shorter than its content-length. */
static bool end_stream(struct h2_conn *c, int32_t id) {
        struct h2_stream *st = find_stream(c, id);

        if (st == NULL)
                return true;
        if (st->body_left > 0)
                return false;
        ops_of(st)->on_end(st);
        return true;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *owner) {
        struct h2_conn *c = owner;

        (void)session;
        switch (frame->hd.type) {
        case NGHTTP2_HEADERS:
                if (!end_block(c, frame))
                        return callback_result(refuse_stream(c, frame->hd.stream_id));
                /* fall through */
        case NGHTTP2_DATA:
                if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) &&
                    !end_stream(c, frame->hd.stream_id))
                        return callback_result(refuse_stream(c, frame->hd.stream_id));
                return 0;
        case NGHTTP2_SETTINGS:
                if (c->state == H2_OPENING)
                        set_state(c, H2_OPEN);
                return 0;
        case NGHTTP2_PING:
                if (!is_ack(&frame->hd))
                        return callback_result(count_ping(c));
                on_ping_ack(c, (const char *)frame->ping.opaque_data);
                return 0;
        default: return 0;
        }
}

/* Returns false when the body is longer than its content-length. */
static bool count_body(struct h2_stream *st, size_t len) {
        if (st->body_left < 0)
                return true;
        if (len > (uint64_t)st->body_left)
                return false;
        st->body_left -= (int64_t)len;
        return true;
}

void h2_stream_consumed(struct h2_stream *st, size_t n) {
        struct h2_conn *c = st->conn;

        st->used += n;
        if (st->used < WINDOW_UPDATE_BYTES)
                return;
        if (nghttp2_session_consume_stream(c->session, st->id, st->used) != 0)
                fail_conn(c);
        st->used = 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t len, void *owner) {
        struct h2_conn   *c = owner;
        struct h2_stream *st = find_stream(c, id);
        size_t            used = len;

        (void)session;
        (void)flags;
        c->frame_left -= MIN(c->frame_left, len);
        if (st != NULL && !count_body(st, len) && !refuse_stream(c, id))
                return NGHTTP2_ERR_CALLBACK_FAILURE;
        if (st != NULL) {
                c->used_ns = c->now_ns;
                used = ops_of(st)->on_bytes(st, str_range((const char *)bytes, len), c->feed_owner);
        }
        if (holds_much(c))
                c->withheld_bytes += len;
        else
                c->fed_bytes += len;
        if (st != NULL)
                h2_stream_consumed(st, used);
        return takes_input(c) ? pause_or_go_on(c) : NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* nghttp2 has reset the stream of an invalid frame; this counts as a reset. */
static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int code,
                            void *owner) {
        (void)session;
        (void)frame;
        (void)code;
        return callback_result(count_reset(owner));
}

static int on_stream_closed(nghttp2_session *session, int32_t id, uint32_t code, void *owner) {
        struct h2_conn   *c = owner;
        struct h2_stream *st = find_stream(c, id);
        bool              counts = code != NGHTTP2_NO_ERROR && (st == NULL || !st->is_reset);

        (void)session;
        if (c->head_id == id)
                end_head(c); /* the rest of its block is discarded */
        if (code == NGHTTP2_NO_ERROR)
                c->has_served = true;
        if (st != NULL)
                close_stream(st);
        /* Never a failure: nghttp2 would keep the stream, whose user data is freed, and send what is queued for it. */
        if (counts && takes_input(c))
                count_reset(c);
        return 0;
}

/* ---- sending frames ---- */

/* A server that ends its answer before it has received the whole request resets the stream without an error,
 * which asks the client not to send the rest (RFC 9113, 8.1). */
static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *owner) {
        struct h2_conn *c = owner;
        int32_t         id = frame->hd.stream_id;

        switch (frame->hd.type) {
        case NGHTTP2_HEADERS:
        case NGHTTP2_DATA:
        case NGHTTP2_WINDOW_UPDATE: on_payload_sent(c); break;
        default: return 0;
        }
        if (frame->hd.type == NGHTTP2_WINDOW_UPDATE ||
            !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM) ||
            nghttp2_session_get_stream_remote_close(session, id) != 0)
                return 0;
        return callback_result(
                nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR) == 0);
}

static ssize_t on_frame_length(nghttp2_session *session, uint8_t type, int32_t id,
                               int32_t connection_window, int32_t stream_window, uint32_t max_frame,
                               void *owner) {
        size_t window = (size_t)MAX(0, MIN(connection_window, stream_window));

        (void)session;
        (void)type;
        (void)id;
        (void)owner;
        return (ssize_t)MIN(MIN(window, max_frame), H2_MAX_SENT_FRAME_BYTES);
}

static int submit_trailers(nghttp2_session *session, struct h2_stream *st) {
        struct h2_header fields[H2_MAX_FIELDS];
        nghttp2_nv       nv[H2_MAX_FIELDS];
        size_t           n = ops_of(st)->trailers(st, fields);

        for (size_t i = 0; i < n; i++)
                nv[i] = nv_of(&fields[i]);
        return nghttp2_submit_trailer(session, st->id, nv, n);
}

static ssize_t on_pull(nghttp2_session *session, int32_t id, uint8_t *bytes, size_t max,
                       uint32_t *flags, nghttp2_data_source *source, void *owner) {
        struct h2_stream *st = source->ptr;
        bool              is_last;
        size_t            n = ops_of(st)->pull(st, max, &is_last);

        (void)id;
        (void)bytes;
        (void)owner;
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

static int on_emit(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *header,
                   size_t len, nghttp2_data_source *source, void *owner) {
        struct h2_conn *c = owner;

        (void)session;
        (void)frame;
        if (!h2_out_has_room(c->gathering)) {
                c->is_full = true;
                return NGHTTP2_ERR_WOULDBLOCK;
        }
        h2_out_copy(c->gathering, header, 9); /* a frame header (RFC 9113, 4.1) */
        c->shard->ops->emit(source->ptr, len, c->gathering);
        return 0;
}

bool h2_stream_respond(struct h2_stream *st, const struct h2_header *fields, size_t n,
                       bool has_body) {
        nghttp2_data_provider body = { .source.ptr = st, .read_callback = on_pull };
        nghttp2_nv            nv[H2_MAX_FIELDS];

        for (size_t i = 0; i < n; i++)
                nv[i] = nv_of(&fields[i]);
        return nghttp2_submit_response(st->conn->session, st->id, nv, n, has_body ? &body : NULL) ==
               0;
}

bool h2_stream_wake(struct h2_stream *st) {
        int rc = 0;

        if (st->is_waiting)
                rc = nghttp2_session_resume_data(st->conn->session, st->id);
        st->is_waiting = false;
        return rc == 0 || rc == NGHTTP2_ERR_INVALID_ARGUMENT; /* the stream is closing */
}

bool h2_stream_reset(struct h2_stream *st, enum h2_code code) {
        return nghttp2_submit_rst_stream(st->conn->session, NGHTTP2_FLAG_NONE, st->id,
                                         (uint32_t)code) == 0;
}

/* Gathers a frame that nghttp2 has serialised: headers and control frames. */
static bool gather_frame(struct h2_conn *c, const uint8_t *bytes, size_t len) {
        struct buf *own;

        if (len <= H2_OUT_FRAME_COPIED_BYTES) {
                h2_out_copy(c->gathering, bytes, len);
                return true;
        }
        own = buf_new(c->shard->pool, len);
        if (own == NULL)
                return false;
        memcpy(own->bytes, bytes, len);
        h2_out_refer(c->gathering, own->bytes, len, own);
        buf_unref(own);
        return true;
}

enum h2_gathered {
        H2_GATHERED_ALL,
        H2_GATHERED_FULL,   /* there may be more */
        H2_GATHERED_FAILED, /* the connection cannot go on */
};

static enum h2_gathered gather_frames(struct h2_conn *c, struct h2_out *out) {
        const uint8_t *bytes;
        ssize_t        n;

        do {
                if (!h2_out_has_room(out))
                        return out->n_bytes > 0 ? H2_GATHERED_FULL : H2_GATHERED_FAILED;
                n = nghttp2_session_mem_send(c->session, &bytes);
                if (n < 0 || (n > 0 && !gather_frame(c, bytes, (size_t)n)))
                        return H2_GATHERED_FAILED;
        } while (n > 0);
        return c->is_full ? H2_GATHERED_FULL : H2_GATHERED_ALL;
}

static enum h2_gathered session_gather(struct h2_conn *c, struct h2_out *out) {
        enum h2_gathered gathered;

        c->gathering = out;
        c->is_full = false;
        gathered = gather_frames(c, out);
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
        nghttp2_option_set_no_http_messaging(o, 1); /* h2_fields.h checks them */
        /* `control_frames` limits these instead, and counts them under a name. */
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

static bool session_open(struct h2_conn *c) {
        nghttp2_mem mem = { &c->shard->blocks, h2_blocks_alloc, h2_blocks_free, h2_blocks_zalloc,
                            h2_blocks_realloc };
        nghttp2_session_callbacks *callbacks = NULL;
        nghttp2_option            *options = NULL;
        bool                       is_fine;

        h2_scan_init(&c->scan);
        is_fine =
                nghttp2_session_callbacks_new(&callbacks) == 0 && nghttp2_option_new(&options) == 0;
        if (is_fine) {
                set_callbacks(callbacks);
                set_options(options);
                is_fine =
                        nghttp2_session_server_new3(&c->session, callbacks, c, options, &mem) == 0;
        }
        nghttp2_session_callbacks_del(callbacks);
        nghttp2_option_del(options);
        return is_fine && send_settings(c);
}

static void drop_rest(struct h2_conn *c) {
        buf_unref(STEAL(c->rest_owner));
        c->rest = (struct str){ 0 };
}

/* Returns a buffer with a copy of the bytes, NULL when there is no room. */
static struct buf *copy_of(const struct h2_conn *c, struct str bytes) {
        struct buf *b = buf_new(c->shard->pool, bytes.len);

        if (b != NULL)
                memcpy(b->bytes, bytes.ptr, bytes.len);
        return b;
}

/* Keeps what nghttp2 has not taken before it paused. Bytes without an owner were read into a message, which
 * ends with them, so nothing of them is left; or into shard->scratch, out of which they are copied. */
static bool keep_rest(struct h2_conn *c, struct str rest, struct buf *owner) {
        if (rest.len > 0 && owner == NULL) {
                owner = copy_of(c, rest);
                if (owner == NULL)
                        return false;
                rest.ptr = owner->bytes;
        } else if (rest.len > 0) {
                buf_ref(owner);
        }
        drop_rest(c);
        if (rest.len > 0) {
                c->rest_owner = owner;
                c->rest = rest;
        }
        if (c->net != NULL)
                conn_read_stop(c->net);
        return true;
}

static bool session_feed(struct h2_conn *c, struct str bytes, struct buf *owner, size_t *ret_n) {
        ssize_t n;

        c->feed_owner = owner;
        n = nghttp2_session_mem_recv(c->session, (const uint8_t *)bytes.ptr, bytes.len);
        if (n >= 0 && c->fed_bytes > 0)
                session_release(c, c->fed_bytes);
        c->fed_bytes = 0;
        if (n == NGHTTP2_ERR_FLOODED)
                enhance_your_calm(c, GRPC_LIMIT_CONTROL_FRAMES, "too_many_control_frames");
        *ret_n = n > 0 ? (size_t)n : 0;
        return n >= 0 && takes_input(c);
}

/* Also with no bytes: nghttp2 goes on where it paused. */
static bool session_receive(struct h2_conn *c, struct str bytes, struct buf *owner) {
        bool is_first = true;

        for (; bytes.len > 0 || is_first; is_first = false) {
                struct h2_scan  before = c->scan;
                struct h2_piece piece = h2_scan_take(&c->scan, bytes);
                size_t          n = 0;

                if (piece.is_stray && limits_resets(c) && !count_control_frame(c))
                        return false;
                if ((piece.feed.len > 0 || bytes.len == 0) &&
                    !session_feed(c, piece.feed, owner, &n))
                        return false;
                if (n < piece.feed.len && !turns_is_waiting(&c->turn))
                        return false;
                if (n < piece.feed.len) {
                        h2_scan_take_back(&c->scan, &before, piece.feed, n);
                        piece.n_used = n;
                }
                bytes = str_skip(bytes, piece.n_used);
                if (turns_is_waiting(&c->turn))
                        return keep_rest(c, bytes, owner);
        }
        return true;
}

static struct iovec session_room(struct h2_conn *c) {
        const struct iovec none = { NULL, 0 };
        struct h2_stream  *st;
        struct iovec       room;

        if (c->frame_left < MIN_DIRECT_BYTES)
                return none;
        st = find_stream(c, c->frame_id);
        if (st == NULL)
                return none;
        room = ops_of(st)->room(st);
        room.iov_len = MIN(room.iov_len, c->frame_left);
        return room.iov_len < MIN_DIRECT_BYTES ? none : room;
}

/* ---- closing ---- */

static struct h2_stream *find_open(struct h2_conn *c) {
        LIST_FOR_EACH(&c->streams, node) {
                struct h2_stream *st = LIST_ENTRY(node, struct h2_stream, node);

                if (st->id != 0)
                        return st;
        }
        return NULL;
}

/* Closes all streams. Those that handlers own stay valid until they finish. */
static void end_streams(struct h2_conn *c) {
        struct h2_stream *st;

        while ((st = find_open(c)) != NULL)
                close_stream(st);
}

/* Frees streams and session, while the connection itself waits for its socket or for handlers. */
static void release_conn(struct h2_conn *c) {
        /* Handlers that finish now do not free the connection, since it is not CLOSED. */
        if (c->state < H2_RELEASED)
                set_state(c, H2_RELEASED);
        end_streams(c);
        session_close(c);
}

void h2_conn_end(struct h2_conn *c) {
        release_conn(c);
        c->net = NULL;
        set_state(c, H2_CLOSED);
        if (c->n_streams == 0)
                free_conn(c);
}

void h2_conn_kill(struct h2_conn *c) {
        fail_conn(c);
        if (c->net != NULL)
                conn_close(c->net);
}

static void linger(struct h2_conn *c) {
        set_state(c, H2_LINGERING);
        c->linger_ns = c->now_ns;
        end_streams(c);
        if (c->net != NULL)
                conn_shutdown(c->net);
}

/* ---- writing ---- */

static bool can_write(const struct h2_conn *c) {
        return c->session != NULL && c->state < H2_LINGERING &&
               (c->net == NULL || (!conn_is_closing(c->net) && !conn_is_writing(c->net)));
}

/* Writes the gathered frames. Returns true when there may be more to write now. */
static bool write_some(struct h2_conn *c, enum h2_gathered gathered) {
        struct h2_out  *out = c->shard->out;
        enum conn_write rc = CONN_WRITE_DONE;

        c->written_bytes += out->n_bytes;
        if (out->n_bytes > 0 && c->net != NULL)
                rc = conn_write(c->net, out->parts, out->n_parts);
        if (rc == CONN_WRITE_PENDING) {
                c->writing = STEAL(c->shard->out);
                return false;
        }
        h2_out_clear(out);
        if (rc == CONN_WRITE_FAILED)
                h2_conn_kill(c);
        return rc == CONN_WRITE_DONE && gathered == H2_GATHERED_FULL;
}

static bool gather_and_write(struct h2_conn *c) {
        enum h2_gathered gathered;

        if (c->shard->out == NULL)
                c->shard->out = h2_out_new(c->shard->pool);
        if (c->shard->out == NULL) {
                h2_conn_kill(c);
                return false;
        }
        gathered = session_gather(c, c->shard->out);
        if (gathered != H2_GATHERED_FAILED)
                return write_some(c, gathered);
        h2_out_clear(c->shard->out);
        h2_conn_kill(c);
        return false;
}

static struct h2_stream *find_due(struct h2_conn *c) {
        LIST_FOR_EACH(&c->streams, node) {
                struct h2_stream *st = LIST_ENTRY(node, struct h2_stream, node);

                if (st->is_due)
                        return st;
        }
        return NULL;
}

static void call_due(struct h2_conn *c) {
        struct h2_stream *st;

        if (!c->has_due)
                return;
        c->has_due = false;
        while ((st = find_due(c)) != NULL)
                ops_of(st)->on_due(st);
}

static bool is_over(const struct h2_conn *c) {
        return !takes_input(c) || (c->leaving == H2_LEAVING_FINAL && c->n_open == 0) ||
               session_is_over(c);
}

void h2_conn_release_window(struct h2_conn *c) {
        if (c->withheld_bytes == 0 || holds_much(c))
                return;
        session_release(c, c->withheld_bytes);
        c->withheld_bytes = 0;
        c->wants_flush = true; /* the update has to be sent */
}

static void flush(struct h2_conn *c) {
        if (c->is_flushing || !can_write(c))
                return;
        c->is_flushing = true;
        do {
                c->wants_flush = false;
                while (gather_and_write(c))
                        ;
                h2_conn_release_window(c);
                call_due(c);
        } while (c->wants_flush && can_write(c));
        c->is_flushing = false;
        if (can_write(c) && is_over(c))
                linger(c);
}

void h2_conn_flush_soon(struct h2_conn *c, bool is_alone) {
        struct h2_shard *shard = c->shard;

        c->wants_flush = true;
        if (c->is_busy || c->is_flushing || c->net == NULL)
                return;
        if (is_alone) {
                flush(c);
                return;
        }
        if (!list_is_linked(&c->unflushed_node))
                list_append(&shard->unflushed, &c->unflushed_node);
        loop_defer(shard->net.loop, LOOP_WRITE, &shard->flush);
}

static void on_flush(struct loop_task *task) {
        struct h2_shard *shard = CONTAINER_OF(task, struct h2_shard, flush);

        while (!list_is_empty(&shard->unflushed)) {
                struct h2_conn *c =
                        LIST_ENTRY(list_first(&shard->unflushed), struct h2_conn, unflushed_node);

                list_remove(&c->unflushed_node);
                flush(c);
        }
}

static void on_written(struct conn *net, bool is_ok) {
        struct h2_conn *c = conn_owner(net);

        h2_out_clear(c->writing);
        if (c->shard->out != NULL)
                h2_out_free(c->writing);
        else
                c->shard->out = c->writing;
        c->writing = NULL;
        if (is_ok)
                flush(c);
        else
                h2_conn_kill(c);
}

/* ---- reading ---- */

/* True when no handler holds a message in the buffer. */
static bool is_sole_owner(const struct buf *b) {
        return atomic_load_explicit(&b->ref.count, memory_order_acquire) == 1;
}

/* The place of a read when there is no room for a buffer: memory of the loop, out of which messages are
 * copied. */
static COLD struct iovec scratch_room(struct h2_conn *c) {
        struct h2_shard *shard = c->shard;

        if (shard->scratch == NULL)
                shard->scratch = try_alloc(H2_MIN_READ_ROOM);
        c->is_direct = true;
        c->read_at = shard->scratch;
        return (struct iovec){ shard->scratch, shard->scratch != NULL ? H2_MIN_READ_ROOM : 0 };
}

static struct iovec on_room(struct conn *net) {
        struct h2_conn  *c = conn_owner(net);
        struct h2_shard *shard = c->shard;
        struct iovec     room = { NULL, 0 };

        if (takes_input(c))
                room = session_room(c);
        c->is_direct = room.iov_len > 0;
        c->read_at = room.iov_base;
        if (c->is_direct)
                return room;
        if (shard->in != NULL && is_sole_owner(shard->in))
                shard->in_len = 0;
        if (shard->in == NULL || shard->in->cap - shard->in_len < H2_MIN_READ_ROOM) {
                buf_unref(shard->in);
                shard->in = buf_new(shard->pool, H2_READ_BYTES);
                shard->in_len = 0;
        }
        if (shard->in == NULL)
                return scratch_room(c);
        c->read_at = shard->in->bytes + shard->in_len;
        return (struct iovec){ c->read_at, shard->in->cap - shard->in_len };
}

static void on_no_room(struct conn *net) {
        struct h2_conn *c = conn_owner(net);

        h2_conn_count_rejected(c, GRPC_LIMIT_MEMORY);
        h2_conn_kill(c);
}

void h2_conn_feed(struct h2_conn *c, struct str bytes, struct buf *owner) {
        if (!takes_input(c))
                return;
        c->is_busy = true;
        if (bytes.len > 0 && !session_receive(c, bytes, owner))
                fail_conn(c);
        c->is_busy = false;
        flush(c);
}

/* Streams that wait, the one that has waited longest first. */
static void run_streams(struct h2_conn *c) {
        size_t n = c->n_streams;

        for (size_t i = 0; i < n && !list_is_empty(&c->streams); i++) {
                struct h2_stream *st = LIST_ENTRY(list_first(&c->streams), struct h2_stream, node);

                list_remove(&st->node);
                list_append(&c->streams, &st->node);
                if (!st->waits_turn || st->id == 0 || turns_is_waiting(&c->turn) || !takes_input(c))
                        continue;
                st->waits_turn = false;
                ops_of(st)->on_turn(st);
        }
}

/* nghttp2 goes on where it paused, with or without further bytes. */
static void run_rest(struct h2_conn *c) {
        struct buf *owner = STEAL(c->rest_owner);
        struct str  rest = owner != NULL ? c->rest : str_of("");

        c->rest = (struct str){ 0 };
        if (!session_receive(c, rest, owner))
                fail_conn(c);
        buf_unref(owner);
}

static void on_turn(struct turn *turn) {
        struct h2_conn *c = CONTAINER_OF(turn, struct h2_conn, turn);

        if (c->net == NULL || c->session == NULL || conn_is_closing(c->net))
                return;
        c->now_ns = clock_now_ns();
        if (!takes_input(c)) {
                drop_rest(c);
        } else {
                c->is_busy = true;
                run_streams(c);
                if (!turns_is_waiting(&c->turn) && takes_input(c))
                        run_rest(c);
                c->is_busy = false;
                flush(c);
        }
        if (c->net != NULL && !turns_is_waiting(&c->turn))
                conn_read_start(c->net);
}

static void on_read(struct conn *net, size_t n_bytes) {
        struct h2_conn  *c = conn_owner(net);
        struct h2_shard *shard = c->shard;

        c->now_ns = clock_now_ns();
        grpc_pings_on_read(&c->pings, c->now_ns);
        if (!c->is_direct)
                shard->in_len += n_bytes;
        h2_conn_feed(c, str_range(c->read_at, n_bytes), c->is_direct ? NULL : shard->in);
}

/* A half-closed connection is useless, so a client that closes its sending side ends the connection. */
static void on_conn_end(struct conn *net, bool is_reset) {
        (void)is_reset;
        h2_conn_kill(conn_owner(net));
}

static void on_closed(struct conn *net) {
        h2_conn_end(conn_owner(net));
}

/* ---- time ---- */

/* Checks the time of the preface and of header blocks. Returns false when it refuses the connection. One that
 * was refused before passes: the checks of writes then end it when the client does not take its GOAWAY. */
static bool check_heads(struct h2_conn *c) {
        uint64_t limit_ns = h2_conn_limits(c)->header_time_ns;

        if (!takes_input(c))
                return true;
        if ((c->state != H2_OPENING || c->now_ns - c->opened_ns < limit_ns) &&
            (c->head_ns == 0 || c->now_ns - c->head_ns < limit_ns))
                return true;
        enhance_your_calm(c, GRPC_LIMIT_HEADER_TIME, "headers_too_slow");
        return false;
}

static bool is_partial(const struct h2_conn *c, struct h2_stream *st) {
        return st->id != 0 && c->shard->ops->is_partial(st);
}

/* The number of streams of which the client owes the rest of a message, or the half-close after the only one. */
static size_t count_partial(struct h2_conn *c) {
        size_t n = 0;

        LIST_FOR_EACH(&c->streams, node)
                n += is_partial(c, LIST_ENTRY(node, struct h2_stream, node));
        return n;
}

static void begin_message_window(struct h2_conn *c) {
        c->pace_ns = c->now_ns;
        c->pace_bytes = 0;
        c->has_served = false;
        LIST_FOR_EACH(&c->streams, node) {
                struct h2_stream *st = LIST_ENTRY(node, struct h2_stream, node);

                st->was_partial = is_partial(c, st);
        }
}

/* Ends the streams that are partial; when not all of them, those that have been so since the window began. */
static void stop_partial(struct h2_conn *c, bool all) {
        LIST_FOR_EACH(&c->streams, node) {
                struct h2_stream *st = LIST_ENTRY(node, struct h2_stream, node);

                if ((all || st->was_partial) && is_partial(c, st))
                        ops_of(st)->stop(st, GRPC_LIMIT_MESSAGE_RATE);
        }
}

/* Checks the rate at which incomplete messages arrive, all streams together. While the connection's window is withheld
 * the client may not be able to send. A connection that has other calls as well may be that of a proxy, whose other
 * clients must not lose them: only the streams end. */
static bool check_message_rate(struct h2_conn *c) {
        const struct grpc_limits *l = h2_conn_limits(c);
        size_t                    n_partial = count_partial(c);
        bool                      is_shared = c->has_served || n_partial < c->n_open;
        bool                      is_slow;

        if (c->withheld_bytes > 0 || n_partial == 0) {
                begin_message_window(c);
                return true;
        }
        if (c->now_ns - c->pace_ns < l->message_window_ns)
                return true;
        is_slow = c->pace_bytes < l->message_window_bytes;
        if (is_slow)
                stop_partial(c, !is_shared);
        begin_message_window(c);
        if (is_slow && !is_shared)
                enhance_your_calm(c, GRPC_LIMIT_MESSAGE_RATE, "message_too_slow");
        return takes_input(c);
}

/* Checks the rate at which the client takes bytes that were written, all calls of the connection together.
 * Bytes count when the client's system has acknowledged them, because the socket buffers megabytes for a
 * client that reads nothing. Their number may decrease a little, because TLS records are larger than their
 * contents. */
static bool check_write_rate(struct h2_conn *c) {
        const struct grpc_limits *l = h2_conn_limits(c);
        uint64_t                  taken;
        int64_t                   gained;

        if (c->writing == NULL)
                c->write_ns = 0;
        if (c->writing == NULL || (c->write_ns > 0 && c->now_ns - c->write_ns < l->write_stall_ns))
                return true;
        taken = c->written_bytes - conn_unwritten_bytes(c->net) - conn_unacknowledged_bytes(c->net);
        gained = (int64_t)(taken - c->write_bytes);
        if (c->write_ns == 0 || gained >= (int64_t)MAX(l->write_window_bytes, 1)) {
                c->write_ns = c->now_ns;
                c->write_bytes = taken;
                return true;
        }
        h2_conn_count_rejected(c, gained > 0 ? GRPC_LIMIT_WRITE_RATE : GRPC_LIMIT_WRITE_STALL);
        h2_conn_kill(c);
        return false;
}

/* Returns a stream whose answer the client has not taken in time, NULL if there is none. */
static struct h2_stream *find_stalled(struct h2_conn *c, enum grpc_limit *ret_limit) {
        LIST_FOR_EACH(&c->streams, node) {
                struct h2_stream *st = LIST_ENTRY(node, struct h2_stream, node);

                *ret_limit = ops_of(st)->check_progress(st, c->now_ns);
                if (*ret_limit != GRPC_LIMIT_NONE)
                        return st;
        }
        return NULL;
}

static void check_pings(struct h2_conn *c) {
        switch (grpc_pings_check(&c->pings, h2_conn_limits(c), c->n_open > 0, c->now_ns)) {
        case GRPC_PINGS_QUIET: break;
        case GRPC_PINGS_SEND: session_ping(c, keepalive_ping); break;
        case GRPC_PINGS_DEAD: h2_conn_kill(c); break;
        }
}

static void check_age(struct h2_conn *c) {
        uint64_t grace_ns = h2_conn_limits(c)->max_connection_age_grace_ns;

        if (drain_sends_away(c->shard->drain, c->now_ns))
                send_notice(c);
        if (c->leaving == H2_STAYING && c->now_ns >= c->age_ns) {
                send_notice(c);
                if (grace_ns < CLOCK_NEVER - c->now_ns)
                        c->grace_end_ns = c->now_ns + grace_ns;
        }
        if (c->leaving == H2_LEAVING_NOTICE && c->now_ns - c->notice_ns >= NOTICE_NS)
                send_final_goaway(c);
        if (c->now_ns >= c->grace_end_ns)
                h2_conn_kill(c);
}

static void on_tick(struct conn *net, uint64_t now_ns) {
        struct h2_conn   *c = conn_owner(net);
        struct h2_stream *st;
        enum grpc_limit   limit;

        c->now_ns = now_ns;
        if (c->state == H2_LINGERING) {
                if (now_ns - c->linger_ns >= h2_conn_limits(c)->linger_ns)
                        conn_close(net);
                return;
        }
        c->is_busy = true;
        if (check_heads(c) && check_message_rate(c) && check_write_rate(c)) {
                while ((st = find_stalled(c, &limit)) != NULL)
                        ops_of(st)->stop(st, limit);
                check_pings(c);
                check_age(c);
        }
        c->is_busy = false;
        flush(c);
}

void h2_conn_run_stream(struct h2_conn *c, struct h2_stream *st, void (*fn)(struct h2_stream *st)) {
        bool was_busy = c->is_busy;

        c->now_ns = clock_now_ns();
        c->is_busy = true; /* a flush could free the stream */
        fn(st);
        c->is_busy = was_busy;
        h2_conn_flush_soon(c, false);
}

void h2_conn_drain(struct h2_conn *c) {
        if (!takes_input(c))
                return;
        if (c->net != NULL &&
            conn_is_in_handshake(c->net)) { /* GOAWAY would have to wait for the handshake */
                h2_conn_kill(c);
                return;
        }
        c->now_ns = clock_now_ns();
        if (c->n_open > 0)
                send_notice(c);
        else
                send_final_goaway(c);
        flush(c);
}

/* ---- opening ---- */

static const struct conn_ops conn_ops = {
        .on_room = on_room,
        .on_no_room = on_no_room,
        .on_read = on_read,
        .on_end = on_conn_end,
        .on_written = on_written,
        .on_tick = on_tick,
        .on_closed = on_closed,
};

void h2_shard_init(struct h2_shard *shard, const struct h2_stream_ops *ops,
                   const struct grpc_limits *limits) {
        shard->ops = ops;
        shard->limits = limits;
        shard->flush.run = on_flush;
        list_init(&shard->unflushed);
}

void h2_shard_done(struct h2_shard *shard) {
        h2_out_free(shard->out);
        buf_unref(shard->in);
        free(shard->scratch);
        h2_blocks_done(&shard->blocks);
}

/* Adds or subtracts up to a tenth, so that clients that connected together do not reconnect together. */
static uint64_t age_end(const struct h2_conn *c) {
        uint64_t age_ns = h2_conn_limits(c)->max_connection_age_ns;

        if (age_ns >= CLOCK_NEVER / 2000)
                return CLOCK_NEVER;
        return c->opened_ns + age_ns * (900 + c->opened_ns / NS_PER_US % 201) / 1000;
}

struct h2_conn *h2_conn_new(struct h2_shard *shard, uint64_t now_ns) {
        struct h2_conn *c = try_zalloc(sizeof(*c));

        if (c == NULL)
                return NULL;
        c->shard = shard;
        c->turn.run = on_turn;
        c->now_ns = c->opened_ns = c->pace_ns = c->used_ns = now_ns;
        c->place.noted_ns = now_ns;
        c->age_ns = age_end(c);
        c->grace_end_ns = CLOCK_NEVER;
        grpc_pings_init(&c->pings, now_ns);
        list_init(&c->streams);
        if (!session_open(c)) {
                session_close(c);
                free(c);
                return NULL;
        }
        list_append(&shard->net.conns, &c->place.node);
        return c;
}

void h2_conn_open(struct h2_shard *shard, int fd) {
        struct h2_conn *c;
        struct error   *err;

        make_room_when_tight(shard);
        c = h2_conn_new(shard, clock_now_ns());
        if (c == NULL) {
                count_rejected(shard, GRPC_LIMIT_MEMORY);
                close(fd);
                net_shard_conn_gone(&shard->net);
                return;
        }
        err = net_shard_open(&shard->net, fd, &conn_ops, c, &c->net);
        if (err !=
            NULL) { /* out of memory or descriptors: as if the connection had not been accepted */
                error_free(err);
                h2_conn_end(c);
                return;
        }
        if (shard->net.is_draining) {
                h2_conn_kill(c);
                return;
        }
        conn_read_start(c->net);
        flush(c);
}
