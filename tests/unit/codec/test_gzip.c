/* SPDX-License-Identifier: BSD-3-Clause */
/* Compressed bodies: both formats, every cut, junk, several members, and the two bounds.
 */
#include "suite.h"

#include "base/byte_budget.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "codec/gzip.h"

#include <stdlib.h>
#include <string.h>

/* "hello hello\n" as other programs write it: gzip and zlib. */
#define HELLO_GZIP                                                                                 \
        "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xcb\x48\xcd\xc9\xc9\x57\xc8\x00\x91\x5c\x00\xa5" \
        "\x6a\x0a\x44\x0c\x00\x00\x00"
#define HELLO_ZLIB "\x78\x9c\xcb\x48\xcd\xc9\xc9\x57\xc8\x00\x91\x5c\x00\x1d\xe4\x04\x53"
/* The same with a file name, a comment and an extra field in the header (RFC 1952, 2.3). */
#define HELLO_NAMED                                                                                \
        "\x1f\x8b\x08\x1c\x00\x00\x00\x00\x02\xff\x02\x00xyname\x00note\x00\xcb\x48\xcd\xc9\xc9"   \
        "\x57\xc8\x00\x91\x5c\x00\xa5\x6a\x0a\x44\x0c\x00\x00\x00"

static enum gzip_status inflate_to(struct str in, size_t max_bytes, struct strbuf *out) {
        char            *exact = malloc(in.len > 0 ? in.len : 1);
        struct buf      *plain;
        enum gzip_status status;

        assert_non_null(exact);
        if (in.len > 0)
                memcpy(exact, in.ptr, in.len);
        strbuf_init(out, 0);
        status = gzip_inflate_buf(str_range(exact, in.len), max_bytes, NULL, &plain);
        if (status == GZIP_OK) {
                strbuf_put(out, plain->bytes, plain->len);
                buf_unref(plain);
        }
        free(exact);
        return status;
}

static void check_status(struct str in, size_t max_bytes, enum gzip_status wanted) {
        struct strbuf out;

        assert_int_equal(inflate_to(in, max_bytes, &out), wanted);
        if (wanted != GZIP_OK)
                assert_int_equal(out.len, 0);
        strbuf_done(&out);
}

static void check_hello(struct str in) {
        struct strbuf out;

        assert_int_equal(inflate_to(in, 100, &out), GZIP_OK);
        assert_string_equal(strbuf_cstr(&out), "hello hello\n");
        strbuf_done(&out);
}

static void test_formats(void **state) {
        (void)state;
        check_hello(STR_LIT(HELLO_GZIP));
        check_hello(STR_LIT(HELLO_ZLIB));
        check_hello(STR_LIT(HELLO_NAMED));
}

static void test_every_cut(void **state) {
        struct str texts[] = { STR_LIT(HELLO_GZIP), STR_LIT(HELLO_ZLIB), STR_LIT(HELLO_NAMED) };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                for (size_t len = 0; len < texts[i].len; len++)
                        check_status(str_range(texts[i].ptr, len), 100, GZIP_TRUNCATED);
        }
        check_status((struct str){ NULL, 0 }, 100, GZIP_TRUNCATED);
}

static void test_every_damaged_byte(void **state) {
        char         *copy = malloc(sizeof(HELLO_ZLIB));
        struct strbuf out;

        (void)state;
        assert_non_null(copy);
        for (size_t i = 0; i < sizeof(HELLO_ZLIB) - 1; i++) {
                enum gzip_status status;

                memcpy(copy, HELLO_ZLIB, sizeof(HELLO_ZLIB));
                copy[i] ^= 0x20;
                status = inflate_to(str_range(copy, sizeof(HELLO_ZLIB) - 1), 100, &out);
                assert_true(status != GZIP_OK); /* the checksum sees to it */
                strbuf_done(&out);
        }
        free(copy);
}

static void test_no_format(void **state) {
        (void)state;
        check_status(STR_LIT("{\"id\":\"plain text\"}"), 100, GZIP_CORRUPT);
        check_status(STR_LIT("\x1f\x8b\x07 unknown method"), 100, GZIP_CORRUPT);
        check_status(STR_LIT("\x1f\x1f"), 100, GZIP_CORRUPT);
        check_status(STR_LIT("\x78\xbb\0\0\0\0\0\0\0\0"), 100, GZIP_CORRUPT); /* a dictionary */
}

static void test_members(void **state) {
        struct strbuf out;

        (void)state;
        assert_int_equal(inflate_to(STR_LIT(HELLO_GZIP HELLO_NAMED HELLO_GZIP), 100, &out),
                         GZIP_OK);
        assert_string_equal(strbuf_cstr(&out), "hello hello\nhello hello\nhello hello\n");
        strbuf_done(&out);
        check_status(STR_LIT(HELLO_GZIP "\x1f"), 100, GZIP_TRUNCATED);
        check_status(STR_LIT(HELLO_GZIP "\x1f\x8b\x08"), 100, GZIP_TRUNCATED);
        check_status(STR_LIT(HELLO_GZIP "\x1f\x8b\x09\x00"), 100, GZIP_CORRUPT);
        check_status(STR_LIT(HELLO_GZIP "x"), 100, GZIP_TRAILING);
        check_status(STR_LIT(HELLO_GZIP "\0"), 100, GZIP_TRAILING);
        check_status(STR_LIT(HELLO_ZLIB "x"), 100, GZIP_TRAILING);
        check_status(STR_LIT(HELLO_ZLIB HELLO_ZLIB), 100, GZIP_TRAILING);
        check_status(STR_LIT(HELLO_ZLIB HELLO_GZIP), 100, GZIP_TRAILING);
        check_status(STR_LIT(HELLO_GZIP HELLO_ZLIB), 100, GZIP_TRAILING);
        /* The maximum holds for all members together. */
        check_status(STR_LIT(HELLO_GZIP HELLO_GZIP), 23, GZIP_TOO_LARGE);
        check_status(STR_LIT(HELLO_GZIP HELLO_GZIP), 24, GZIP_OK);
}

static void test_maximum(void **state) {
        struct buf *buf;

        (void)state;
        for (size_t max = 0; max < 12; max++) {
                check_status(STR_LIT(HELLO_GZIP), max, GZIP_TOO_LARGE);
                check_status(STR_LIT(HELLO_ZLIB), max, GZIP_TOO_LARGE);
                assert_int_equal(gzip_inflate_buf(STR_LIT(HELLO_ZLIB), max, NULL, &buf),
                                 GZIP_TOO_LARGE);
        }
        check_status(STR_LIT(HELLO_GZIP), 12, GZIP_OK);
        check_status(STR_LIT(HELLO_ZLIB), 12, GZIP_OK);
        assert_int_equal(gzip_inflate_buf(STR_LIT(HELLO_ZLIB), 12, NULL, &buf), GZIP_OK);
        assert_int_equal(buf->len, 12);
        assert_memory_equal(buf->bytes, "hello hello\n", 12);
        buf_unref(buf);
}

static struct buf *deflate_text(enum gzip_format format, struct str text) {
        struct iovec part = { (void *)(uintptr_t)text.ptr, text.len };
        struct buf  *coded;

        assert_int_equal(gzip_deflate_buf(format, &part, 1, NULL, &coded), GZIP_OK);
        return coded;
}

static struct str bytes_of(const struct buf *b) {
        return str_range(b->bytes, b->len);
}

static char *zeros(size_t n) {
        char *bytes = calloc(1, n);

        assert_non_null(bytes);
        return bytes;
}

/* `bomb` comes to 4 MiB or so: with less in the pool's budget it is refused as such. */
static void check_budget(struct str bomb) {
        struct byte_budget budget;
        struct buf_pool   *pool = buf_pool_new(1u << 20);
        struct buf        *plain;

        byte_budget_init(&budget, 4u << 20);
        buf_pool_set_budget(pool, &budget);
        assert_int_equal(gzip_inflate_buf(bomb, 64u << 20, pool, &plain), GZIP_OVER_BUDGET);
        assert_true(byte_budget_used(&budget) <= 2 * BYTE_ACCOUNT_SLAB);
        buf_pool_unref(pool);
        assert_int_equal(byte_budget_used(&budget), 0);
}

/* Zeros in a few KiB: any ratio is fine, up to the maximum and the byte budget. */
static void test_bomb(void **state) {
        size_t        n = 4u << 20;
        char         *bytes = zeros(n);
        struct buf   *dense = deflate_text(GZIP_FORMAT_GZIP, str_range(bytes, 1u << 20));
        struct strbuf bomb, mixed;

        (void)state;
        check_status(bytes_of(dense), 1u << 20, GZIP_OK);
        buf_unref(dense);

        /* The fastest level packs zeros 229 to 1, so the start of what the best one makes of them:
         * tables in which the longest match has a code of one bit, and zeros, 1032 to 1. */
        strbuf_init(&bomb, 0);
        strbuf_put(&bomb, "\x1f\x8b\x08\0\0\0\0\0\0\x03", 10);
        strbuf_put(&bomb, "\xec\xc1\x01\x01\0\0\0\x80\x90\xfe\xaf\xee\x08\x0a", 14);
        for (int i = 0; i < 4000; i++)
                strbuf_putc(&bomb, '\0');
        check_status(strbuf_str(&bomb), 64u << 20, GZIP_TRUNCATED); /* all of it was read */
        check_status(strbuf_str(&bomb), 1u << 20, GZIP_TOO_LARGE);
        check_budget(strbuf_str(&bomb));

        strbuf_init(&mixed, 0);
        strbuf_put(&mixed, bomb.ptr, bomb.len);
        for (int i = 0; i < 1000; i++)
                strbuf_putc(&mixed, '\xff');
        check_status(strbuf_str(&mixed), 64u << 20, GZIP_CORRUPT);
        strbuf_done(&mixed);
        strbuf_done(&bomb);
        free(bytes);
}

static void fill(char *bytes, size_t n) {
        uint32_t random = 1;

        for (size_t i = 0; i < n; i++) {
                random = random * 1664525 + 1013904223;
                bytes[i] = i % 3 == 0 ? (char)(random >> 24) : "0123456789,."[i % 12];
        }
}

static void test_round_trip(void **state) {
        static const size_t lengths[] = { 0, 1, 100, 4096, 5000, 70000, 3000000 };

        (void)state;
        for (size_t i = 0; i < 2 * ARRAY_LEN(lengths); i++) {
                enum gzip_format format = i % 2 == 0 ? GZIP_FORMAT_GZIP : GZIP_FORMAT_ZLIB;
                size_t           n = lengths[i / 2];
                char            *bytes = zeros(n + 1);
                struct strbuf    plain;
                struct buf      *coded;
                struct iovec     parts[3] = { { bytes, n / 3 },
                                              { NULL, 0 },
                                              { bytes + n / 3, n - n / 3 } };

                fill(bytes, n);
                assert_int_equal(gzip_deflate_buf(format, parts, 3, NULL, &coded), GZIP_OK);
                assert_int_equal((unsigned char)coded->bytes[0],
                                 format == GZIP_FORMAT_GZIP ? 0x1f : 0x78);
                assert_int_equal(inflate_to(bytes_of(coded), n, &plain), GZIP_OK);
                assert_int_equal(plain.len, n);
                assert_memory_equal(strbuf_cstr(&plain), bytes, n);
                buf_unref(coded);
                strbuf_done(&plain);
                free(bytes);
        }
}

/* Any pieces in, any pieces out: the same bytes, and the same end. */
static void check_pieces(struct str in, size_t in_step, size_t out_step, struct str wanted) {
        struct gzip_reader *r = gzip_reader_new(wanted.len);
        struct strbuf       plain;
        char               *out = zeros(out_step);

        assert_non_null(r);
        strbuf_init(&plain, 0);
        for (size_t at = 0; at < in.len; at += in_step) {
                struct str piece = str_range(in.ptr + at, MIN(in_step, in.len - at));
                size_t     n_written = out_step;

                assert_int_equal(gzip_reader_end(r), GZIP_TRUNCATED);
                while (piece.len > 0 || n_written == out_step) {
                        assert_int_equal(gzip_reader_read(r, &piece, out, out_step, &n_written),
                                         GZIP_OK);
                        strbuf_put(&plain, out, n_written);
                }
        }
        assert_int_equal(gzip_reader_end(r), GZIP_OK);
        assert_true(str_equal(strbuf_str(&plain), wanted));
        strbuf_done(&plain);
        gzip_reader_free(r);
        free(out);
}

static void test_streaming(void **state) {
        static const size_t steps[] = { 1, 2, 7, 100, 4096, 1u << 20 };
        enum { N = 20000 };
        char       *bytes = zeros(N);
        struct buf *coded;

        (void)state;
        fill(bytes, N);
        coded = deflate_text(GZIP_FORMAT_GZIP, str_range(bytes, N));
        for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
                for (size_t k = 0; k < ARRAY_LEN(steps); k++)
                        check_pieces(bytes_of(coded), steps[i], steps[k], str_range(bytes, N));
        }
        buf_unref(coded);
        free(bytes);
}

static void test_failure_sticks(void **state) {
        struct gzip_reader *r = gzip_reader_new(100);
        struct str          in = STR_LIT(HELLO_ZLIB "junk");
        char                out[100];
        size_t              n_written;

        (void)state;
        assert_int_equal(gzip_reader_read(r, &in, out, sizeof(out), &n_written), GZIP_TRAILING);
        assert_int_equal(n_written, 12);
        in = STR_LIT(HELLO_GZIP);
        assert_int_equal(gzip_reader_read(r, &in, out, sizeof(out), &n_written), GZIP_TRAILING);
        assert_int_equal(n_written, 0);
        assert_int_equal(gzip_reader_end(r), GZIP_TRAILING);
        gzip_reader_free(r);
        gzip_reader_free(NULL);
}

static void test_memory_is_short(void **state) {
        struct iovec part = { (void *)(uintptr_t) "text", 4 };
        bool         was_hit = true;

        (void)state;
        for (unsigned n = 1; was_hit; n++) {
                enum gzip_status inflated, deflated;
                struct buf      *plain, *coded;

                mem_fail_after(n);
                inflated = gzip_inflate_buf(STR_LIT(HELLO_GZIP), 100, NULL, &plain);
                was_hit = mem_fail_was_hit();
                mem_fail_after(n);
                deflated = gzip_deflate_buf(GZIP_FORMAT_GZIP, &part, 1, NULL, &coded);
                was_hit |= mem_fail_was_hit();
                mem_fail_after(0);
                assert_true(inflated == GZIP_OK || inflated == GZIP_NO_MEMORY);
                assert_true(deflated == GZIP_OK || deflated == GZIP_NO_MEMORY);
                assert_int_equal(was_hit, inflated != GZIP_OK || deflated != GZIP_OK);
                if (inflated == GZIP_OK)
                        buf_unref(plain);
                if (deflated == GZIP_OK)
                        buf_unref(coded);
        }
}

static void test_status_texts(void **state) {
        (void)state;
        assert_string_equal(gzip_status_text(GZIP_TRUNCATED), "the compressed text is incomplete");
        for (int i = GZIP_OK; i <= GZIP_NO_MEMORY; i++)
                assert_non_null(gzip_status_text((enum gzip_status)i));
}

SUITE(gzip) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_formats),
                cmocka_unit_test(test_every_cut),
                cmocka_unit_test(test_every_damaged_byte),
                cmocka_unit_test(test_no_format),
                cmocka_unit_test(test_members),
                cmocka_unit_test(test_maximum),
                cmocka_unit_test(test_bomb),
                cmocka_unit_test(test_round_trip),
                cmocka_unit_test(test_streaming),
                cmocka_unit_test(test_failure_sticks),
                cmocka_unit_test(test_memory_is_short),
                cmocka_unit_test(test_status_texts),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
