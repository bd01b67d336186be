/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "grpc/h2_out.h"
#include "grpc/send_queue.h"

#include <string.h>

struct fixture {
        struct buf_pool  *pool;
        struct send_queue q;
        struct h2_out    *out;
        struct strbuf     wanted;
};

static void fixture_init(struct fixture *l) {
        l->pool = buf_pool_new(1 << 20);
        send_queue_init(&l->q, l->pool);
        l->out = h2_out_new(l->pool);
        strbuf_init(&l->wanted, 0);
}

static void fixture_done(struct fixture *l) {
        send_queue_done(&l->q);
        h2_out_free(l->out);
        strbuf_done(&l->wanted);
        buf_pool_unref(l->pool);
}

static void put(struct fixture *l, size_t len, char c) {
        char *bytes = mem_alloc(len + 1);

        memset(bytes, c, len);
        assert_true(send_queue_put(&l->q, bytes, len));
        strbuf_put(&l->wanted, bytes, len);
        free(bytes);
}

static struct buf *put_buf(struct fixture *l, size_t len, char c) {
        struct buf *b = buf_new(l->pool, len);

        memset(b->bytes, c, len);
        assert_true(send_queue_put_buf(&l->q, b->bytes, len, b));
        strbuf_put(&l->wanted, b->bytes, len);
        return b;
}

/* Frames of at most `max` until the queue is empty; what comes out is what went in. */
static size_t drain(struct fixture *l, size_t max) {
        AUTO_STRBUF got;
        size_t      n_frames = 0;

        strbuf_init(&got, 0);
        while (l->q.bytes > 0) {
                size_t n = send_queue_fit(&l->q, max);

                assert_true(n > 0 && n <= max);
                assert_true(h2_out_has_room(l->out));
                send_queue_take(&l->q, n, l->out);
                n_frames++;
                for (size_t i = 0; i < l->out->n_parts; i++)
                        strbuf_put(&got, l->out->parts[i].iov_base, l->out->parts[i].iov_len);
                h2_out_clear(l->out);
        }
        assert_int_equal(got.len, l->wanted.len);
        if (got.len > 0)
                assert_memory_equal(got.ptr, l->wanted.ptr, got.len);
        strbuf_clear(&l->wanted);
        return n_frames;
}

static void test_small_is_one_piece(void **state) {
        struct fixture l;

        (void)state;
        fixture_init(&l);
        put(&l, 5, 'p');
        put(&l, 200, 'h');
        put(&l, 7, 't');
        assert_int_equal(l.q.n_ranges, 1);
        assert_true(h2_out_has_room(l.out));
        send_queue_take(&l.q, 212, l.out);
        assert_int_equal(l.out->n_parts, 1);
        assert_memory_equal(l.out->parts[0].iov_base, l.wanted.ptr, 212);
        assert_int_equal(l.q.small_used, 0); /* ready for the next */
        fixture_done(&l);
}

/* A large part is referred to, and its buffer held until the write has ended. */
static void test_large_is_referred_to(void **state) {
        struct fixture l;
        struct buf    *b;

        (void)state;
        fixture_init(&l);
        put(&l, 5, 'p');
        b = put_buf(&l, 100000, 'x');
        assert_int_equal(send_queue_fit(&l.q, 16384), 16384);
        assert_true(h2_out_has_room(l.out));
        send_queue_take(&l.q, 16384, l.out);
        assert_int_equal(l.out->n_parts, 2);
        assert_ptr_equal(l.out->parts[1].iov_base, b->bytes);
        assert_int_equal(l.out->parts[1].iov_len, 16379);
        send_queue_take(&l.q, l.q.bytes, l.out); /* goes on where it was */
        assert_int_equal(l.out->n_parts, 2);
        assert_int_equal(l.out->parts[1].iov_len, 100000);
        assert_int_equal(atomic_load(&b->ref.count), 1); /* the collection's */
        fixture_done(&l);
}

static void test_frame_sizes(void **state) {
        static const size_t sizes[] = { 1, 7, 100, 16384, 1 << 20 };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
                struct fixture l;

                fixture_init(&l);
                for (int n = 0; n < 3; n++) {
                        put(&l, 5, 'a');
                        put(&l, 3000, 'b');
                        put_buf(&l, 10, 'c');
                        put_buf(&l, 2050, 'd');
                        put(&l, 30000, 'e');
                        put_buf(&l, 5000, 'f');
                }
                drain(&l, sizes[i]);
                put(&l, 3, 'g'); /* and again from the beginning */
                assert_int_equal(drain(&l, 10), 1);
                fixture_done(&l);
        }
}

/* More ranges than one frame may have. */
static void test_many_ranges(void **state) {
        struct fixture l;

        (void)state;
        fixture_init(&l);
        for (int i = 0; i < 200; i++)
                put_buf(&l, 2048, (char)i);
        assert_int_equal(send_queue_fit(&l.q, 1 << 20), H2_OUT_FRAME_REFS * 2048);
        for (int i = 0; i < 5000; i++)
                put_buf(&l, 20, (char)i);
        drain(&l, 1 << 20);
        fixture_done(&l);
}

static void test_no_memory(void **state) {
        char bytes[2000] = { 0 };

        (void)state;
        for (unsigned n = 1;; n++) {
                struct fixture l;
                bool           is_fine = true;

                fixture_init(&l);
                mem_fail_after(n);
                for (int i = 0; i < 20 && is_fine; i++) {
                        struct buf *b = buf_new(l.pool, 4000);

                        is_fine = b != NULL && send_queue_put_buf(&l.q, b->bytes, 4000, b) &&
                                  send_queue_put(&l.q, bytes, sizeof(bytes));
                }
                mem_fail_after(0);
                fixture_done(&l);
                if (is_fine) {
                        assert_true(n > 20);
                        break;
                }
        }
}

/* Frames are gathered until one more might not fit. */
static void test_out_fills_up(void **state) {
        struct fixture l;
        size_t         n = 0;

        (void)state;
        fixture_init(&l);
        while (h2_out_has_room(l.out)) {
                for (int i = 0; i < H2_OUT_FRAME_REFS; i++) {
                        struct buf *b = buf_new(l.pool, 4096);

                        h2_out_copy(l.out, "x", 1);
                        h2_out_refer(l.out, b->bytes, 4096, b);
                        buf_unref(b);
                }
                n++;
        }
        assert_true(n >= 1);
        assert_int_equal(l.out->n_bytes, n * H2_OUT_FRAME_REFS * 4097);
        h2_out_clear(l.out);
        assert_true(h2_out_has_room(l.out));
        fixture_done(&l);
}

SUITE(send_queue) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_small_is_one_piece),
                cmocka_unit_test(test_large_is_referred_to),
                cmocka_unit_test(test_frame_sizes),
                cmocka_unit_test(test_many_ranges),
                cmocka_unit_test(test_no_memory),
                cmocka_unit_test(test_out_fills_up),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
