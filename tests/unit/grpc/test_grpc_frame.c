/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "grpc/grpc_frame.h"

#include <string.h>

static const char three[] = "\0\0\0\0\3abc\1\0\0\0\0\0\0\0\0\5defgh";
#define THREE_BYTES (sizeof(three) - 1)

static void expect(const struct grpc_message *m, const char *text, bool is_compressed) {
        assert_int_equal(m->bytes.len, strlen(text));
        assert_memory_equal(m->bytes.ptr, text, strlen(text));
        assert_int_equal(m->is_compressed, is_compressed);
        buf_unref(m->owner);
}

static struct buf *buf_of(const char *bytes, size_t len) {
        struct buf *b = buf_new(NULL, len);

        memcpy(b->bytes, bytes, len);
        b->len = len;
        return b;
}

/* Messages that are there completely stay where they are. */
static void test_in_place(void **state) {
        struct buf         *b = buf_of(three, THREE_BYTES);
        struct str          in = str_range(b->bytes, THREE_BYTES);
        struct grpc_frame   f;
        struct grpc_message m;

        (void)state;
        grpc_frame_init(&f, 100, NULL);
        assert_int_equal(grpc_frame_read(&f, &in, b, &m), GRPC_FRAME_MESSAGE);
        assert_ptr_equal(m.bytes.ptr, b->bytes + 5);
        assert_ptr_equal(m.owner, b);
        expect(&m, "abc", false);
        assert_int_equal(grpc_frame_read(&f, &in, b, &m), GRPC_FRAME_MESSAGE);
        assert_null(m.owner);
        expect(&m, "", true);
        assert_int_equal(grpc_frame_read(&f, &in, b, &m), GRPC_FRAME_MESSAGE);
        assert_ptr_equal(m.bytes.ptr, b->bytes + 18);
        expect(&m, "defgh", false);
        assert_int_equal(in.len, 0);
        assert_false(grpc_frame_is_partial(&f));
        grpc_frame_done(&f);
        buf_unref(b);
}

/* Cut into two pieces at each place, with and without a buffer to stay in. */
static void test_every_cut(void **state) {
        (void)state;
        for (size_t cut = 0; cut <= THREE_BYTES; cut++)
                for (int has_owner = 0; has_owner < 2; has_owner++) {
                        static const char *const texts[] = { "abc", "", "defgh" };
                        struct buf              *b = buf_of(three, THREE_BYTES);
                        struct str               pieces[2] = { str_range(b->bytes, cut),
                                                               str_range(b->bytes + cut, THREE_BYTES - cut) };
                        struct grpc_frame        f;
                        struct grpc_message      m;
                        size_t                   n = 0;

                        grpc_frame_init(&f, 100, NULL);
                        for (size_t i = 0; i < 2; i++)
                                while (pieces[i].len > 0)
                                        if (grpc_frame_read(&f, &pieces[i], has_owner ? b : NULL,
                                                            &m) == GRPC_FRAME_MESSAGE) {
                                                expect(&m, texts[n], n == 1);
                                                n++;
                                        }
                        assert_int_equal(n, 3);
                        grpc_frame_done(&f);
                        buf_unref(b);
                }
}

/* The rest of a message is read where it is to be, and not moved. */
static void test_room(void **state) {
        struct str          in = str_range("\0\0\0\0\10ab", 7);
        struct grpc_frame   f;
        struct grpc_message m;
        struct iovec        room;

        (void)state;
        grpc_frame_init(&f, 100, NULL);
        assert_int_equal(grpc_frame_room(&f).iov_len, 0);
        assert_int_equal(grpc_frame_read(&f, &in, NULL, &m), GRPC_FRAME_MORE);
        assert_true(grpc_frame_is_partial(&f));
        room = grpc_frame_room(&f);
        assert_int_equal(room.iov_len, 6);
        memcpy(room.iov_base, "cdefgh", 6);
        in = str_range(room.iov_base, 4);
        assert_int_equal(grpc_frame_read(&f, &in, NULL, &m), GRPC_FRAME_MORE);
        room = grpc_frame_room(&f);
        assert_int_equal(room.iov_len, 2);
        in = str_range(room.iov_base, 2);
        assert_int_equal(grpc_frame_read(&f, &in, NULL, &m), GRPC_FRAME_MESSAGE);
        expect(&m, "abcdefgh", false);
        assert_int_equal(grpc_frame_room(&f).iov_len, 0);
        grpc_frame_done(&f);
}

static void test_refusals(void **state) {
        static const struct {
                const char            *bytes;
                enum grpc_frame_status status;
        } rows[] = {
                { "\0\0\0\0\x65", GRPC_FRAME_TOO_LARGE },
                { "\0\xff\xff\xff\xff", GRPC_FRAME_TOO_LARGE },
                { "\2\0\0\0\1", GRPC_FRAME_BAD_FLAG },
                { "\xff\0\0\0\0", GRPC_FRAME_BAD_FLAG },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct str          in = str_range(rows[i].bytes, 5);
                struct grpc_frame   f;
                struct grpc_message m;

                grpc_frame_init(&f, 100, NULL);
                assert_int_equal(grpc_frame_read(&f, &in, NULL, &m), rows[i].status);
                grpc_frame_done(&f);
        }
}

static void test_no_memory(void **state) {
        struct str          in = str_range("\0\0\0\0\2ab", 7);
        struct grpc_frame   f;
        struct grpc_message m;

        (void)state;
        grpc_frame_init(&f, 100, NULL);
        mem_fail_after(1);
        assert_int_equal(grpc_frame_read(&f, &in, NULL, &m), GRPC_FRAME_NO_MEMORY);
        mem_fail_after(0);
        grpc_frame_done(&f);
}

SUITE(grpc_frame) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_in_place),  cmocka_unit_test(test_every_cut),
                cmocka_unit_test(test_room),      cmocka_unit_test(test_refusals),
                cmocka_unit_test(test_no_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
