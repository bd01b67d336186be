/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "grpc/h2_fields.h"

/* One field of an ordinary block: behind the pseudo-headers when it is none itself. */
struct row {
        struct str    name, value;
        enum h2_field field;
};

#define ROW(name, value, field)                                                                    \
        { STR_LIT(name), STR_LIT(value), H2_FIELD_##field }

static void test_fields(void **state) {
        static const struct row rows[] = {
                ROW(":method", "POST", METHOD),
                ROW(":scheme", "http", SCHEME),
                ROW(":path", "/a.B/C", PATH),
                ROW(":authority", "localhost", AUTHORITY),
                ROW("host", "localhost", HOST),
                ROW("te", "trailers", TE),
                ROW("te", "Trailers", TE),
                ROW("user-agent", "me", USER_AGENT),
                ROW("content-type", "application/grpc", CONTENT_TYPE),
                ROW("content-length", "9223372036854775807", CONTENT_LENGTH),
                ROW("grpc-timeout", "1S", GRPC_TIMEOUT),
                ROW("grpc-encoding", "gzip", GRPC_ENCODING),
                ROW("grpc-accept-encoding", "gzip", GRPC_ACCEPT_ENCODING),
                ROW("x", "", OTHER),
                ROW("tf", "x", OTHER),
                ROW("a-name_of.all^kinds|0123456789~", "x", OTHER),
                ROW("x", "a\tb c\x80\xff", OTHER),
                ROW("x", "a value of more than eight bytes, with a\ttab", OTHER),
                ROW("x", "\xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f", OTHER),
                /* Fields of a connection. */
                ROW("connection", "close", MALFORMED),
                ROW("keep-alive", "1", MALFORMED),
                ROW("proxy-connection", "close", MALFORMED),
                ROW("transfer-encoding", "chunked", MALFORMED),
                ROW("upgrade", "h2c", MALFORMED),
                ROW("te", "gzip", MALFORMED),
                ROW("te", "", MALFORMED),
                /* Names. */
                ROW("", "x", LEFT_OUT),
                ROW("a b", "x", LEFT_OUT),
                ROW("a\0", "x", MALFORMED),
                ROW("\n", "x", MALFORMED),
                ROW("a\r\nb", "x", MALFORMED),
                ROW("a b\r", "x", MALFORMED),
                ROW("te\r", "trailers", MALFORMED),
                ROW("a:b", "x", LEFT_OUT),
                ROW("\xc3\xa4", "x", LEFT_OUT),
                ROW("Te", "trailers", MALFORMED),
                ROW("a b C", "x", MALFORMED),
                ROW(":status", "200", MALFORMED),
                ROW(":", "x", MALFORMED),
                ROW(":Path", "/", MALFORMED),
                /* Values. */
                ROW("x", " a", OTHER),
                ROW("x", "a\t", OTHER),
                ROW("x", " ", OTHER),
                ROW("te", "trailers ", MALFORMED),
                ROW("content-length", "1 ", MALFORMED),
                ROW("x", "a\nb", MALFORMED),
                ROW("x", "a\0b", MALFORMED),
                ROW("x", "\n", MALFORMED),
                ROW("x", "a\r", MALFORMED),
                ROW("x", " a\r\nb: c", MALFORMED),
                ROW("a b", "a\nb", MALFORMED),
                ROW("content-type", "application/grpc\n", MALFORMED),
                ROW("x", "\x7f", LEFT_OUT),
                ROW("x", "eight...\x1f", LEFT_OUT),
                ROW("x", "a\rvalue of many bytes", MALFORMED),
                ROW("x", "a value of m\x7fny bytes", LEFT_OUT),
                ROW("x", "1234567\x1f and nine", LEFT_OUT),
                ROW("content-type", "application/grpc ", CONTENT_TYPE),
                ROW(":method", "", MALFORMED),
                ROW(":path", "", MALFORMED),
                ROW(":path", " /", MALFORMED),
                ROW(":path", "/\t", MALFORMED),
                ROW(":scheme", "ht\ntp", MALFORMED),
                ROW(":authority", "", MALFORMED),
                ROW("host", "", MALFORMED),
                ROW("content-length", "", MALFORMED),
                ROW("content-length", "-1", MALFORMED),
                ROW("content-length", "+1", MALFORMED),
                ROW("content-length", "1x", MALFORMED),
                ROW("content-length", "9223372036854775808", MALFORMED),
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct h2_fields f;
                enum h2_field    field;

                h2_fields_init(&f, false);
                field = h2_fields_read(&f, rows[i].name, rows[i].value);
                if (field != rows[i].field)
                        fail_msg("row %zu: %d", i, (int)field);
                if (field > H2_FIELD_LEFT_OUT && field < H2_FIELD_OTHER)
                        assert_true(str_equal(h2_field_name(field), rows[i].name));
        }
}

/* Every value of every length, with each byte at each place. */
static void test_values(void **state) {
        (void)state;
        for (size_t len = 1; len <= 20; len++) {
                for (size_t at = 0; at < len; at++) {
                        for (int byte = 0; byte < 256; byte++) {
                                struct h2_fields f;
                                char             value[20];
                                bool is_good = (byte >= 0x20 && byte != 0x7f) || byte == '\t';
                                enum h2_field bad = H2_FIELD_LEFT_OUT;

                                memset(value, 'v', sizeof(value));
                                value[at] = (char)byte;
                                if (byte == '\r' || byte == '\n' || byte == '\0')
                                        bad = H2_FIELD_MALFORMED;
                                h2_fields_init(&f, false);
                                assert_int_equal(h2_fields_read(&f, STR_LIT("x"),
                                                                str_range(value, len)),
                                                 is_good ? H2_FIELD_OTHER : bad);
                        }
                }
        }
}

#define MAX_BLOCK 6

/* Whole blocks, as names: every value is one that does. */
struct block {
        const char *names[MAX_BLOCK];
        bool        is_trailer, is_malformed, is_complete;
};

static struct str value_of(struct str name) {
        if (STR_IS(name, "content-length"))
                return STR_LIT("7");
        return STR_IS(name, "te") ? STR_LIT("trailers") : STR_LIT("v");
}

static void test_blocks(void **state) {
        static const struct block rows[] = {
                { .names = { ":method", ":scheme", ":path", ":authority" }, .is_complete = true },
                { .names = { ":path", ":authority", ":scheme", ":method" }, .is_complete = true },
                { .names = { ":method", ":scheme", ":path", "host" }, .is_complete = true },
                { .names = { ":method", ":scheme", ":path", ":authority", "host" },
                  .is_complete = true },
                { .names = { ":method", ":scheme", ":path" } },
                { .names = { ":method", ":scheme", ":authority" } },
                { .names = { ":method", ":path", ":authority" } },
                { .names = { ":scheme", ":path", ":authority" } },
                { .names = { ":method", ":method" }, .is_malformed = true },
                { .names = { ":scheme", ":scheme" }, .is_malformed = true },
                { .names = { ":path", ":path" }, .is_malformed = true },
                { .names = { ":authority", ":authority" }, .is_malformed = true },
                { .names = { "host", "host" }, .is_malformed = true },
                { .names = { "content-length", "content-length" }, .is_malformed = true },
                { .names = { "te", "te", "x", "x" } },
                { .names = { ":method", "x", ":path" }, .is_malformed = true },
                { .names = { ":method", "te", ":path" }, .is_malformed = true },
                { .names = { "left out", ":path" }, .is_malformed = true },
                { .names = { "x", "te" }, .is_trailer = true },
                { .names = { "x", ":path" }, .is_trailer = true, .is_malformed = true },
                { .names = { ":path" }, .is_trailer = true, .is_malformed = true },
                { .names = { "X" }, .is_trailer = true, .is_malformed = true },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct h2_fields f;
                bool             is_malformed = false;

                h2_fields_init(&f, rows[i].is_trailer);
                for (size_t k = 0; k < MAX_BLOCK && rows[i].names[k] != NULL; k++) {
                        struct str name = str_of(rows[i].names[k]);

                        is_malformed =
                                h2_fields_read(&f, name, value_of(name)) == H2_FIELD_MALFORMED;
                }
                if (is_malformed != rows[i].is_malformed)
                        fail_msg("row %zu", i);
                if (h2_fields_are_complete(&f) != rows[i].is_complete)
                        fail_msg("row %zu is complete, or not", i);
        }
}

static void test_length(void **state) {
        struct h2_fields f;

        (void)state;
        h2_fields_init(&f, false);
        assert_int_equal(f.content_length, -1);
        assert_int_equal(h2_fields_read(&f, STR_LIT("content-length"), STR_LIT("0042")),
                         H2_FIELD_CONTENT_LENGTH);
        assert_int_equal(f.content_length, 42);
}

SUITE(h2_fields) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_fields),
                cmocka_unit_test(test_values),
                cmocka_unit_test(test_blocks),
                cmocka_unit_test(test_length),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
