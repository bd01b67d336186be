/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's side of HTTP/2 against frames that the test writes. */
#include "suite.h"

#include "base/compiler.h"
#include "load/h2_client.h"

#define PREFACE_BYTES (24 + 9 + 12 + 13) /* with SETTINGS and WINDOW_UPDATE */

static struct strbuf seen;

static void on_field(struct h2_client_stream *s, struct str name, struct str value) {
        strbuf_printf(&seen, "%u:%.*s=%.*s ", s->id, STR_ARG(name), STR_ARG(value));
}

static void on_data(struct h2_client_stream *s, struct str bytes) {
        strbuf_printf(&seen, "%u:data=%.*s ", s->id, STR_ARG(bytes));
}

static void on_end(struct h2_client_stream *s, uint32_t code) {
        (void)s;
        strbuf_printf(&seen, "end=%s ", h2_code_name(code));
}

static void on_refused(struct h2_client_stream *s) {
        assert_int_equal(s->id, 0);
        strbuf_puts(&seen, "refused ");
}

static const struct h2_client_ops ops = {
        .on_field = on_field, .on_data = on_data, .on_end = on_end, .on_refused = on_refused
};

static void put_frame(struct strbuf *out, unsigned kind, unsigned flags, unsigned stream,
                      struct str payload) {
        char head[9] = { 0, (char)(payload.len >> 8), (char)payload.len, (char)kind, (char)flags, 0,
                         0, (char)(stream >> 8),      (char)stream };

        strbuf_put(out, head, sizeof(head));
        strbuf_put(out, payload.ptr, payload.len);
}

static void begin(struct h2_client *c) {
        strbuf_init(&seen, 0);
        assert_true(h2_client_init(c, &ops));
        assert_int_equal(c->out.len, PREFACE_BYTES);
        strbuf_clear(&c->out);
}

static void finish(struct h2_client *c) {
        h2_client_done(c);
        strbuf_done(&seen);
}

/* Headers in two frames with padding, a message, trailers; in pieces of every size. */
static void test_answer(void **state) {
        (void)state;
        for (size_t n_piece = 1; n_piece < 80; n_piece++) {
                struct h2_client        c;
                struct h2_client_stream s = { 0 };
                AUTO_STRBUF             bytes = { 0 };

                begin(&c);
                strbuf_init(&bytes, 0);
                h2_client_open(&c, &s, STR_LIT("\x83"));
                h2_client_send(&c, &s, &STR_LIT("ask"), 1, true);
                assert_int_equal(c.out.len, 9 + 1 + 9 + 3);
                put_frame(&bytes, 4, 0, 0, str_range(NULL, 0));
                put_frame(&bytes, 1, 8, 1, STR_LIT("\x02\x88\0\0")); /* padded: 2 bytes */
                put_frame(&bytes, 9, 4, 1,
                          STR_LIT("\x00\x01"
                                  "a"
                                  "\x01"
                                  "b"));
                put_frame(&bytes, 0, 0, 1, STR_LIT("data"));
                put_frame(&bytes, 77, 0, 1, STR_LIT("unknown kind"));
                put_frame(&bytes, 1, 5, 1,
                          STR_LIT("\x00\x0bgrpc-status\x01"
                                  "0"));
                for (size_t at = 0; at < bytes.len; at += n_piece)
                        assert_true(h2_client_read(&c, str_range(bytes.ptr + at,
                                                                 MIN(n_piece, bytes.len - at))));
                assert_string_equal(
                        strbuf_cstr(&seen),
                        "1::status=200 1:a=b 1:data=data 1:grpc-status=0 end=NO_ERROR ");
                assert_int_equal(c.n_open, 0);
                finish(&c);
        }
}

/* A message beyond the window waits for WINDOW_UPDATE, of the stream and of the connection. */
static void test_windows(void **state) {
        struct h2_client        c;
        struct h2_client_stream s = { 0 };
        AUTO_STRBUF             bytes = { 0 };
        static char             message[200000];

        (void)state;
        begin(&c);
        strbuf_init(&bytes, 0);
        h2_client_open(&c, &s, STR_LIT("\x83"));
        strbuf_clear(&c.out);
        h2_client_send(&c, &s, &(struct str){ message, sizeof(message) }, 1, true);
        assert_int_equal(c.out.len, 65535 + 4 * 9); /* in frames of at most 16384 */
        assert_true(s.is_waiting);
        strbuf_clear(&c.out);
        put_frame(&bytes, 8, 0, 0, STR_LIT("\x00\x10\x00\x00"));
        assert_true(h2_client_read(&c, strbuf_str(&bytes)));
        assert_int_equal(c.out.len, 0); /* the stream's window is still closed */
        strbuf_clear(&bytes);
        put_frame(&bytes, 4, 0, 0, STR_LIT("\x00\x04\x00\x10\x00\x00"));
        assert_true(h2_client_read(&c, strbuf_str(&bytes)));
        assert_false(s.is_waiting);
        assert_true(s.has_ended);
        assert_int_equal(c.out.len, (200000 - 65535) + 9 * 9 + 9); /* the acknowledgement, too */
        finish(&c);
}

static void test_reset_and_ping(void **state) {
        struct h2_client        c;
        struct h2_client_stream s = { 0 };
        AUTO_STRBUF             bytes = { 0 };

        (void)state;
        begin(&c);
        strbuf_init(&bytes, 0);
        h2_client_open(&c, &s, STR_LIT("\x83"));
        strbuf_clear(&c.out);
        put_frame(&bytes, 6, 0, 0, STR_LIT("12345678"));
        put_frame(&bytes, 3, 0, 1, STR_LIT("\0\0\0\x07"));
        put_frame(&bytes, 7, 0, 0, STR_LIT("\0\0\0\0\0\0\0\0"));
        assert_true(h2_client_read(&c, strbuf_str(&bytes)));
        assert_string_equal(strbuf_cstr(&seen), "end=REFUSED_STREAM ");
        assert_memory_equal(c.out.ptr + 9, "12345678", 8);
        assert_false(h2_client_has_room(&c));
        finish(&c);
}

/* No stream before the peer has said how many it takes. After GOAWAY the connection is over with its last stream. */
static void test_room(void **state) {
        struct h2_client        c;
        struct h2_client_stream s = { 0 };
        AUTO_STRBUF             settings = { 0 }, going = { 0 }, end = { 0 };

        (void)state;
        begin(&c);
        assert_false(h2_client_has_room(&c));
        put_frame(&settings, 4, 0, 0, STR_LIT("\0\x03\0\0\0\x01"));
        assert_true(h2_client_read(&c, strbuf_str(&settings)));
        assert_true(h2_client_has_room(&c));
        assert_false(h2_client_was_used(&c));
        h2_client_open(&c, &s, STR_LIT("\x83"));
        assert_false(h2_client_has_room(&c));
        assert_true(h2_client_was_used(&c));
        put_frame(&going, 7, 0, 0, STR_LIT("\x7f\xff\xff\xff\0\0\0\0"));
        assert_true(h2_client_read(&c, strbuf_str(&going)));
        assert_false(h2_client_is_over(&c));
        put_frame(&end, 3, 0, 1, STR_LIT("\0\0\0\0"));
        assert_true(h2_client_read(&c, strbuf_str(&end)));
        assert_true(h2_client_is_over(&c));
        assert_false(h2_client_has_room(&c));
        finish(&c);
}

/* The peer names the last stream that it has taken: those after it may be asked for elsewhere. */
static void test_streams_that_were_not_taken(void **state) {
        struct h2_client        c;
        struct h2_client_stream streams[3] = { 0 };
        AUTO_STRBUF             in = { 0 }, later = { 0 };

        (void)state;
        begin(&c);
        put_frame(&in, 4, 0, 0, str_range(NULL, 0));
        assert_true(h2_client_read(&c, strbuf_str(&in)));
        for (int i = 0; i < 3; i++)
                h2_client_open(&c, &streams[i], STR_LIT("\x83"));
        strbuf_clear(&in);
        put_frame(&in, 7, 0, 0, STR_LIT("\0\0\0\x03\0\0\0\0"));
        assert_true(h2_client_read(&c, strbuf_str(&in)));
        assert_string_equal(strbuf_cstr(&seen), "refused ");
        assert_int_equal(streams[1].id, 3);
        assert_int_equal(streams[2].id, 0);
        put_frame(&later, 7, 0, 0, STR_LIT("\0\0\0\x01\0\0\0\0")); /* it may take back more */
        assert_true(h2_client_read(&c, strbuf_str(&later)));
        assert_string_equal(strbuf_cstr(&seen), "refused refused ");
        assert_int_equal(streams[0].id, 1);
        assert_int_equal(c.n_open, 1);
        strbuf_clear(&later);
        put_frame(&later, 7, 0, 0, STR_LIT("\0\0\0\x01"));
        assert_false(h2_client_read(&c, strbuf_str(&later)));
        assert_string_equal(c.wrong, "a GOAWAY frame has a wrong length");
        finish(&c);
}

static struct h2_client_stream *idle;

static bool is_idle(struct h2_client_stream *s) {
        return s == idle;
}

/* A stream of which nothing is awaited does not hold up the end of the connection. */
static void test_an_idle_stream_of_a_peer_that_goes(void **state) {
        const struct h2_client_ops with_idle = {
                .on_field = on_field, .on_data = on_data, .on_end = on_end, .is_idle = is_idle
        };
        struct h2_client        c;
        struct h2_client_stream streams[3] = { 0 };
        AUTO_STRBUF             in = { 0 }, end = { 0 }, reset = { 0 };

        (void)state;
        assert_true(h2_client_init(&c, &with_idle));
        put_frame(&in, 4, 0, 0, str_range(NULL, 0));
        assert_true(h2_client_read(&c, strbuf_str(&in)));
        for (int i = 0; i < 3; i++)
                h2_client_open(&c, &streams[i], STR_LIT("\x83"));
        idle = &streams[1];
        strbuf_clear(&c.out);
        strbuf_clear(&in);
        put_frame(&in, 7, 0, 0, STR_LIT("\x7f\xff\xff\xff\0\0\0\0"));
        assert_true(h2_client_read(&c, strbuf_str(&in)));
        put_frame(&reset, 3, 0, 3, STR_LIT("\0\0\0\x08"));
        assert_int_equal(c.out.len, reset.len);
        assert_memory_equal(c.out.ptr, reset.ptr, reset.len);
        assert_int_equal(streams[0].id, 1);
        assert_int_equal(streams[1].id, 0);
        assert_int_equal(streams[2].id, 5);
        assert_false(h2_client_is_over(&c));
        put_frame(&end, 3, 0, 1, STR_LIT("\0\0\0\0"));
        put_frame(&end, 3, 0, 5, STR_LIT("\0\0\0\0"));
        assert_true(h2_client_read(&c, strbuf_str(&end)));
        assert_true(h2_client_is_over(&c));
        finish(&c);
}

static void test_settings_without_a_number_of_streams(void **state) {
        struct h2_client c;
        AUTO_STRBUF      settings = { 0 };

        (void)state;
        begin(&c);
        put_frame(&settings, 4, 0, 0, str_range(NULL, 0));
        assert_true(h2_client_read(&c, strbuf_str(&settings)));
        assert_true(h2_client_has_room(&c));
        assert_false(h2_client_is_over(&c));
        finish(&c);
}

/* A peer that takes a smaller table gets a table size of 0 before the next block (RFC 7541, 4.2). */
static void test_table_size(void **state) {
        struct h2_client        c;
        struct h2_client_stream s = { 0 };
        AUTO_STRBUF             bytes = { 0 };

        (void)state;
        begin(&c);
        strbuf_init(&bytes, 0);
        put_frame(&bytes, 4, 0, 0, STR_LIT("\0\x01\0\0\0\0"));
        assert_true(h2_client_read(&c, strbuf_str(&bytes)));
        strbuf_clear(&c.out);
        h2_client_open(&c, &s, STR_LIT("\x83"));
        assert_memory_equal(c.out.ptr + 9, "\x20\x83", 2);
        finish(&c);
}

static void test_wrong_frames(void **state) {
        static const struct {
                unsigned    kind, flags, stream;
                struct str  payload;
                const char *wrong;
        } rows[] = {
                { 0, 8, 1, { "\x05x", 2 }, "the padding of a DATA frame is longer than the frame" },
                { 9, 4, 1, { "", 0 }, "a CONTINUATION frame has no HEADERS before it" },
                { 4, 0, 0, { "12345", 5 }, "a SETTINGS frame has a wrong length" },
                { 5, 0, 1, { "", 0 }, "the peer pushes, which was switched off" },
                { 1, 4, 1, { "\xff\xff\xff\xff\xff\xff", 6 }, "a header block cannot be decoded" },
                { 8, 0, 0, { "\x7f\xff\xff\xff", 4 }, "a window of the peer is too large" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct h2_client c;
                AUTO_STRBUF      bytes = { 0 };

                begin(&c);
                strbuf_init(&bytes, 0);
                put_frame(&bytes, rows[i].kind, rows[i].flags, rows[i].stream, rows[i].payload);
                assert_false(h2_client_read(&c, strbuf_str(&bytes)));
                assert_string_equal(c.wrong, rows[i].wrong);
                finish(&c);
        }
}

static void test_no_http2(void **state) {
        struct h2_client c;

        (void)state;
        begin(&c);
        assert_false(h2_client_read(&c, STR_LIT("HTTP/1.1 400 Bad Request\r\n\r\n")));
        assert_string_equal(c.wrong, "what came is no HTTP/2, or a frame is longer than 16 KiB");
        finish(&c);
}

SUITE(h2_client) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_answer),
                cmocka_unit_test(test_windows),
                cmocka_unit_test(test_reset_and_ping),
                cmocka_unit_test(test_table_size),
                cmocka_unit_test(test_wrong_frames),
                cmocka_unit_test(test_no_http2),
                cmocka_unit_test(test_room),
                cmocka_unit_test(test_streams_that_were_not_taken),
                cmocka_unit_test(test_an_idle_stream_of_a_peer_that_goes),
                cmocka_unit_test(test_settings_without_a_number_of_streams),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
