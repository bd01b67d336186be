/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/h2_client.h"

#include "base/compiler.h"

#include <nghttp2/nghttp2.h>
#include <string.h>

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define FRAME_HEAD 9
#define MAX_WINDOW INT64_C(0x7fffffff)
#define INITIAL_WINDOW 65535
#define DEFAULT_TABLE_SIZE 4096 /* RFC 9113, 6.5.2 */
/* A window is filled again after this much. */
#define REFILL ((uint32_t)1 << 30)
/* Frames of the peer: the least limit that there is, and so the usual one. */
#define MAX_FRAME_IN ((size_t)16384)

enum frame_kind {
        FRAME_DATA = 0,
        FRAME_HEADERS = 1,
        FRAME_RST_STREAM = 3,
        FRAME_SETTINGS = 4,
        FRAME_PUSH_PROMISE = 5,
        FRAME_PING = 6,
        FRAME_GOAWAY = 7,
        FRAME_WINDOW_UPDATE = 8,
        FRAME_CONTINUATION = 9,
};

enum {
        FLAG_ACK = 1,
        FLAG_END_STREAM = 1,
        FLAG_END_HEADERS = 4,
        FLAG_PADDED = 8,
        FLAG_PRIORITY = 32
};

enum {
        SETTING_TABLE_SIZE = 1,
        SETTING_ENABLE_PUSH = 2,
        SETTING_MAX_STREAMS = 3,
        SETTING_INITIAL_WINDOW = 4,
        SETTING_MAX_FRAME = 5,
};

struct frame {
        enum frame_kind kind;
        uint8_t         flags;
        uint32_t        stream;
        struct str      payload;
};

static uint32_t read_u32(const char *at) {
        const unsigned char *b = (const unsigned char *)at;

        return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static void write_u32(char *at, uint32_t value) {
        for (unsigned i = 0; i < 4; i++)
                at[i] = (char)(value >> (24 - 8 * i));
}

static bool fail_client(struct h2_client *c, const char *wrong) {
        if (c->wrong == NULL)
                c->wrong = wrong;
        return false;
}

/* ---- sending --------------------------------------------------------------------------------- */

static void put_frame_head(struct h2_client *c, size_t len, enum frame_kind kind, uint8_t flags,
                           uint32_t stream) {
        char head[FRAME_HEAD] = { (char)(len >> 16), (char)(len >> 8), (char)len, (char)kind,
                                  (char)flags };

        write_u32(head + 5, stream);
        strbuf_put_few(&c->out, head, sizeof(head));
}

static void put_window_update(struct h2_client *c, uint32_t stream, uint32_t n) {
        char payload[4];

        write_u32(payload, n);
        put_frame_head(c, sizeof(payload), FRAME_WINDOW_UPDATE, 0, stream);
        strbuf_put_few(&c->out, payload, sizeof(payload));
}

static void put_setting(struct h2_client *c, uint16_t name, uint32_t value) {
        char entry[6] = { (char)(name >> 8), (char)name };

        write_u32(entry + 2, value);
        strbuf_put(&c->out, entry, sizeof(entry));
}

bool h2_client_init(struct h2_client *c, const struct h2_client_ops *ops) {
        *c = (struct h2_client){ .ops = ops,
                                 .next_id = 1,
                                 .window = INITIAL_WINDOW,
                                 .initial_window = INITIAL_WINDOW,
                                 .max_frame = MAX_FRAME_IN,
                                 .in.max = FRAME_HEAD + MAX_FRAME_IN,
                                 .block.max = H2_CLIENT_MAX_BLOCK };
        STRBUF_PUT_LIT(&c->out, PREFACE);
        put_frame_head(c, 12, FRAME_SETTINGS, 0, 0);
        put_setting(c, SETTING_ENABLE_PUSH, 0);
        put_setting(c, SETTING_INITIAL_WINDOW, MAX_WINDOW);
        put_window_update(c, 0, MAX_WINDOW - INITIAL_WINDOW);
        return nghttp2_hd_inflate_new(&c->inflater) == 0;
}

void h2_client_done(struct h2_client *c) {
        if (c->inflater != NULL)
                nghttp2_hd_inflate_del(c->inflater);
        strbuf_done(&c->out);
        strbuf_done(&c->in);
        strbuf_done(&c->block);
}

static struct h2_client_stream **bucket_of(struct h2_client *c, uint32_t id) {
        return &c->buckets[(id >> 1) % H2_CLIENT_BUCKETS];
}

static struct h2_client_stream *find_stream(struct h2_client *c, uint32_t id) {
        struct h2_client_stream *s = *bucket_of(c, id);

        while (s != NULL && s->id != id)
                s = s->next;
        return s;
}

struct h2_client_stream *h2_client_first(const struct h2_client *c) {
        for (size_t i = 0; i < H2_CLIENT_BUCKETS; i++)
                if (c->buckets[i] != NULL)
                        return c->buckets[i];
        return NULL;
}

void h2_client_forget(struct h2_client *c, struct h2_client_stream *s) {
        struct h2_client_stream **at = bucket_of(c, s->id);

        while (*at != s)
                at = &(*at)->next;
        *at = s->next;
        if (s->is_waiting)
                c->n_waiting--;
        s->id = 0;
        s->is_waiting = false;
        c->n_open--;
}

/* The peer goes away, or the ids of streams are used up. */
static bool takes_no_more(const struct h2_client *c) {
        return c->is_going || c->next_id >= MAX_WINDOW;
}

bool h2_client_has_room(const struct h2_client *c) {
        return c->wrong == NULL && !takes_no_more(c) && c->n_open < c->max_open;
}

bool h2_client_is_over(const struct h2_client *c) {
        return takes_no_more(c) && c->n_open == 0;
}

bool h2_client_was_used(const struct h2_client *c) {
        return c->next_id > 1;
}

void h2_client_open(struct h2_client *c, struct h2_client_stream *s, struct str block) {
        struct h2_client_stream **bucket;

        *s = (struct h2_client_stream){ .id = c->next_id, .window = c->initial_window };
        c->next_id += 2;
        c->n_open++;
        bucket = bucket_of(c, s->id);
        s->next = *bucket;
        *bucket = s;
        put_frame_head(c, block.len + c->owes_table_size, FRAME_HEADERS, FLAG_END_HEADERS, s->id);
        if (c->owes_table_size)
                strbuf_putc(&c->out, 0x20); /* RFC 7541, 6.3 */
        c->owes_table_size = false;
        strbuf_put(&c->out, block.ptr, block.len);
}

static size_t unsent_bytes(const struct h2_client_stream *s) {
        size_t n = 0;

        for (size_t i = 0; i < s->n_parts; i++)
                n += s->parts[i].len;
        return n;
}

/* Moves `n` bytes from the unsent parts to `out`. */
static void put_bytes(struct h2_client *c, struct h2_client_stream *s, size_t n) {
        while (n > 0) {
                struct str *part = &s->parts[0];
                size_t      take = MIN(n, part->len);

                strbuf_put(&c->out, part->ptr, take);
                *part = str_range(part->ptr + take, part->len - take);
                n -= take;
                if (part->len == 0) {
                        s->n_parts--;
                        memmove(s->parts, s->parts + 1, s->n_parts * sizeof(*s->parts));
                }
        }
}

/* Sends what the windows allow. */
static void send_some(struct h2_client *c, struct h2_client_stream *s) {
        size_t left = unsent_bytes(s);
        bool   is_waiting;

        do {
                int64_t window = MIN(c->window, s->window);
                size_t  n = MIN(left, (size_t)MAX(window, 0));

                n = MIN(n, c->max_frame);
                if (n == 0 && left > 0)
                        break;
                left -= n;
                s->has_ended = left == 0 && s->ends;
                put_frame_head(c, n, FRAME_DATA, s->has_ended ? FLAG_END_STREAM : 0, s->id);
                put_bytes(c, s, n);
                c->window -= (int64_t)n;
                s->window -= (int64_t)n;
        } while (left > 0);
        is_waiting = left > 0;
        if (is_waiting && !s->is_waiting)
                c->n_waiting++;
        else if (!is_waiting && s->is_waiting)
                c->n_waiting--;
        s->is_waiting = is_waiting;
}

void h2_client_send(struct h2_client *c, struct h2_client_stream *s, const struct str *parts,
                    size_t n_parts, bool ends) {
        s->n_parts = 0;
        s->ends = ends;
        for (size_t i = 0; i < n_parts; i++)
                if (parts[i].len > 0)
                        s->parts[s->n_parts++] = parts[i];
        send_some(c, s);
}

static void continue_all(struct h2_client *c) {
        for (size_t i = 0; i < H2_CLIENT_BUCKETS && c->n_waiting > 0; i++)
                for (struct h2_client_stream *s = c->buckets[i]; s != NULL; s = s->next)
                        if (s->is_waiting)
                                send_some(c, s);
}

void h2_client_reset(struct h2_client *c, struct h2_client_stream *s) {
        char code[4];

        write_u32(code, 8); /* CANCEL */
        put_frame_head(c, sizeof(code), FRAME_RST_STREAM, 0, s->id);
        strbuf_put_few(&c->out, code, sizeof(code));
        h2_client_forget(c, s);
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* Removes padding and priority; false when they are longer than the frame. */
static bool strip(struct frame *f) {
        size_t pad = 0;

        if ((f->flags & FLAG_PADDED) != 0) {
                if (f->payload.len == 0)
                        return false;
                pad = (unsigned char)f->payload.ptr[0];
                f->payload = str_skip(f->payload, 1);
        }
        if (f->kind == FRAME_HEADERS && (f->flags & FLAG_PRIORITY) != 0) {
                if (f->payload.len < 5)
                        return false;
                f->payload = str_skip(f->payload, 5);
        }
        if (pad > f->payload.len)
                return false;
        f->payload.len -= pad;
        return true;
}

static void end_stream(struct h2_client *c, struct h2_client_stream *s, uint32_t code) {
        bool was_open = !s->has_ended;

        if (was_open && code == 0) {
                h2_client_reset(c, s); /* the peer needs no more of the request */
        } else {
                h2_client_forget(c, s);
        }
        c->ops->on_end(s, code);
}

static bool on_data(struct h2_client *c, struct frame *f) {
        struct h2_client_stream *s = find_stream(c, f->stream);
        uint32_t                 n = (uint32_t)f->payload.len;

        c->n_received += n;
        if (c->n_received >= REFILL) {
                put_window_update(c, 0, c->n_received);
                c->n_received = 0;
        }
        if (!strip(f))
                return fail_client(c, "the padding of a DATA frame is longer than the frame");
        if (s == NULL)
                return true; /* of a stream that was cancelled */
        s->n_received += n;
        if (s->n_received >= REFILL) {
                put_window_update(c, s->id, s->n_received);
                s->n_received = 0;
        }
        if (f->payload.len > 0)
                c->ops->on_data(s, f->payload);
        if ((f->flags & FLAG_END_STREAM) != 0 && s->id == f->stream)
                end_stream(c, s, 0);
        return true;
}

/* All blocks are decoded, since they change the table that the connection shares. */
static bool read_block(struct h2_client *c, struct str block, struct h2_client_stream *s) {
        const uint8_t *at = (const uint8_t *)block.ptr;
        size_t         left = block.len;

        for (;;) {
                nghttp2_nv nv;
                int        flags = 0;
                ssize_t    n = nghttp2_hd_inflate_hd2(c->inflater, &nv, &flags, at, left, 1);

                if (n < 0)
                        return fail_client(c, "a header block cannot be decoded");
                at += n;
                left -= (size_t)n;
                if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0 && s != NULL)
                        c->ops->on_field(s, str_range((const char *)nv.name, nv.namelen),
                                         str_range((const char *)nv.value, nv.valuelen));
                if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0)
                        break;
                if (left == 0 && (flags & NGHTTP2_HD_INFLATE_EMIT) == 0)
                        break;
        }
        nghttp2_hd_inflate_end_headers(c->inflater);
        return true;
}

static bool end_block(struct h2_client *c, uint32_t id, struct str block, bool ends) {
        struct h2_client_stream *s = find_stream(c, id);

        if (!read_block(c, block, s))
                return false;
        if (s != NULL && ends)
                end_stream(c, s, 0);
        return true;
}

static bool on_headers(struct h2_client *c, struct frame *f) {
        bool ends = (f->flags & FLAG_END_STREAM) != 0;

        if (!strip(f))
                return fail_client(c, "the padding of a HEADERS frame is longer than the frame");
        if ((f->flags & FLAG_END_HEADERS) != 0)
                return end_block(c, f->stream, f->payload, ends);
        strbuf_clear(&c->block);
        strbuf_put(&c->block, f->payload.ptr, f->payload.len);
        c->block_stream = f->stream;
        c->block_ends = ends;
        return true;
}

static bool on_continuation(struct h2_client *c, const struct frame *f) {
        uint32_t id = c->block_stream;

        if (id == 0 || f->stream != id)
                return fail_client(c, "a CONTINUATION frame has no HEADERS before it");
        strbuf_put(&c->block, f->payload.ptr, f->payload.len);
        if (c->block.overflowed)
                return fail_client(c, "a header block is longer than 64 KiB");
        if ((f->flags & FLAG_END_HEADERS) == 0)
                return true;
        c->block_stream = 0;
        return end_block(c, id, strbuf_str(&c->block), c->block_ends);
}

static bool set_initial_window(struct h2_client *c, uint32_t value) {
        int64_t change = (int64_t)value - c->initial_window;

        if (value > MAX_WINDOW)
                return fail_client(c, "the peer's initial window is too large");
        c->initial_window = value;
        for (size_t i = 0; i < H2_CLIENT_BUCKETS; i++)
                for (struct h2_client_stream *s = c->buckets[i]; s != NULL; s = s->next)
                        s->window += change;
        continue_all(c);
        return true;
}

static bool apply_setting(struct h2_client *c, unsigned name, uint32_t value) {
        switch (name) {
        case SETTING_TABLE_SIZE: c->owes_table_size = value < DEFAULT_TABLE_SIZE; return true;
        case SETTING_MAX_STREAMS: c->max_open = value; return true;
        case SETTING_INITIAL_WINDOW: return set_initial_window(c, value);
        case SETTING_MAX_FRAME:
                if (value < MAX_FRAME_IN || value > 0xffffff)
                        return fail_client(c, "the peer's maximum size of a frame is not allowed");
                c->max_frame = value;
                return true;
        default: return true;
        }
}

static bool on_settings(struct h2_client *c, const struct frame *f) {
        if ((f->flags & FLAG_ACK) != 0)
                return true;
        if (f->payload.len % 6 != 0)
                return fail_client(c, "a SETTINGS frame has a wrong length");
        if (!c->has_settings)
                c->max_open = UINT32_MAX; /* unless they say otherwise (RFC 9113, 6.5.2) */
        c->has_settings = true;
        for (size_t i = 0; i < f->payload.len; i += 6) {
                const unsigned char *b = (const unsigned char *)f->payload.ptr + i;

                if (!apply_setting(c, (unsigned)b[0] << 8 | b[1], read_u32((const char *)b + 2)))
                        return false;
        }
        put_frame_head(c, 0, FRAME_SETTINGS, FLAG_ACK, 0);
        return true;
}

static bool on_window_update(struct h2_client *c, const struct frame *f) {
        struct h2_client_stream *s = find_stream(c, f->stream);
        uint32_t                 n;

        if (f->payload.len != 4)
                return fail_client(c, "a WINDOW_UPDATE frame has a wrong length");
        n = read_u32(f->payload.ptr) & MAX_WINDOW;
        if (f->stream == 0)
                c->window += n;
        else if (s != NULL)
                s->window += n;
        if (c->window > MAX_WINDOW || (s != NULL && s->window > MAX_WINDOW))
                return fail_client(c, "a window of the peer is too large");
        continue_all(c);
        return true;
}

static bool on_ping(struct h2_client *c, const struct frame *f) {
        if (f->payload.len != 8)
                return fail_client(c, "a PING frame has a wrong length");
        if ((f->flags & FLAG_ACK) != 0)
                return true;
        put_frame_head(c, 8, FRAME_PING, FLAG_ACK, 0);
        strbuf_put(&c->out, f->payload.ptr, f->payload.len);
        return true;
}

static bool on_rst_stream(struct h2_client *c, const struct frame *f) {
        struct h2_client_stream *s = find_stream(c, f->stream);

        if (f->payload.len != 4)
                return fail_client(c, "an RST_STREAM frame has a wrong length");
        if (s != NULL) {
                h2_client_forget(c, s);
                c->ops->on_end(s, read_u32(f->payload.ptr));
        }
        return true;
}

/* Streams up to the last one that the peer has taken go on to their ends, when they have an answer to come. */
static bool on_going(struct h2_client *c, const struct frame *f) {
        uint32_t last;

        if (f->payload.len < 8)
                return fail_client(c, "a GOAWAY frame has a wrong length");
        last = read_u32(f->payload.ptr) & (uint32_t)MAX_WINDOW;
        c->is_going = true;
        for (size_t i = 0; i < H2_CLIENT_BUCKETS; i++)
                for (struct h2_client_stream *s = c->buckets[i], *next; s != NULL; s = next) {
                        next = s->next;
                        if (c->ops->is_idle != NULL && c->ops->is_idle(s)) {
                                h2_client_reset(c, s);
                        } else if (s->id > last) {
                                h2_client_forget(c, s);
                                c->ops->on_refused(s);
                        }
                }
        return true;
}

static bool on_frame(struct h2_client *c, struct frame *f) {
        if (c->block_stream != 0 && f->kind != FRAME_CONTINUATION)
                return fail_client(c, "a header block is interrupted");
        switch (f->kind) {
        case FRAME_DATA: return on_data(c, f);
        case FRAME_HEADERS: return on_headers(c, f);
        case FRAME_RST_STREAM: return on_rst_stream(c, f);
        case FRAME_SETTINGS: return on_settings(c, f);
        case FRAME_PUSH_PROMISE: return fail_client(c, "the peer pushes, which was switched off");
        case FRAME_PING: return on_ping(c, f);
        case FRAME_GOAWAY: return on_going(c, f);
        case FRAME_WINDOW_UPDATE: return on_window_update(c, f);
        case FRAME_CONTINUATION: return on_continuation(c, f);
        }
        return true; /* RFC 9113, 4.1: frames of unknown kinds are ignored */
}

static size_t frame_bytes(const char *head) {
        const unsigned char *b = (const unsigned char *)head;

        return FRAME_HEAD + ((size_t)b[0] << 16 | (size_t)b[1] << 8 | b[2]);
}

static bool read_frame(struct h2_client *c, const char *at, size_t bytes) {
        struct frame f = { .kind = (enum frame_kind)(unsigned char)at[3],
                           .flags = (uint8_t)at[4],
                           .stream = read_u32(at + 5) & (uint32_t)MAX_WINDOW,
                           .payload = str_range(at + FRAME_HEAD, bytes - FRAME_HEAD) };

        return on_frame(c, &f);
}

/* Completes the frame that is gathered in `in`, as far as the bytes go. */
static bool gather_bytes(struct h2_client *c, struct str *bytes) {
        size_t wanted = c->in.len < FRAME_HEAD ? FRAME_HEAD : frame_bytes(c->in.ptr);
        size_t n = MIN(wanted - c->in.len, bytes->len);

        if (wanted > FRAME_HEAD + MAX_FRAME_IN)
                return fail_client(c, "what came is no HTTP/2, or a frame is longer than 16 KiB");
        strbuf_put(&c->in, bytes->ptr, n);
        *bytes = str_range(bytes->ptr + n, bytes->len - n);
        if (c->in.len < FRAME_HEAD || c->in.len < frame_bytes(c->in.ptr))
                return true;
        wanted = c->in.len;
        c->in.len = 0; /* a frame is read before the next is gathered */
        return read_frame(c, c->in.ptr, wanted);
}

bool h2_client_read(struct h2_client *c, struct str in) {
        while (in.len > 0 && c->wrong == NULL) {
                size_t bytes;

                if (c->in.len > 0 || in.len < FRAME_HEAD || frame_bytes(in.ptr) > in.len) {
                        if (!gather_bytes(c, &in))
                                return false;
                        continue;
                }
                bytes = frame_bytes(in.ptr);
                if (bytes > FRAME_HEAD + MAX_FRAME_IN)
                        return fail_client(
                                c, "what came is no HTTP/2, or a frame is longer than 16 KiB");
                if (!read_frame(c, in.ptr, bytes))
                        return false;
                in = str_skip(in, bytes);
        }
        return c->wrong == NULL;
}

/* ---- header blocks --------------------------------------------------------------------------- */

/* An integer with a prefix of 7 bits (RFC 7541, 5.1). */
static void put_length(struct strbuf *block, size_t n) {
        if (n < 127) {
                strbuf_putc(block, (char)n);
                return;
        }
        strbuf_putc(block, 127);
        for (n -= 127; n >= 128; n >>= 7)
                strbuf_putc(block, (char)(n | 128));
        strbuf_putc(block, (char)n);
}

void h2_block_put(struct strbuf *block, struct str name, struct str value) {
        strbuf_putc(block, 0);
        put_length(block, name.len);
        strbuf_put(block, name.ptr, name.len);
        put_length(block, value.len);
        strbuf_put(block, value.ptr, value.len);
}

const char *h2_code_name(uint32_t code) {
        static const char *const names[] = {
                "NO_ERROR",
                "PROTOCOL_ERROR",
                "INTERNAL_ERROR",
                "FLOW_CONTROL_ERROR",
                "SETTINGS_TIMEOUT",
                "STREAM_CLOSED",
                "FRAME_SIZE_ERROR",
                "REFUSED_STREAM",
                "CANCEL",
                "COMPRESSION_ERROR",
                "CONNECT_ERROR",
                "ENHANCE_YOUR_CALM",
                "INADEQUATE_SECURITY",
                "HTTP_1_1_REQUIRED",
        };

        return code < ARRAY_LEN(names) ? names[code] : "unknown code";
}
