/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "infer/infer_thread.h"
#include "infer/response.h"
#include "infer/response_stream.h"

#define LIMITS(responses, bytes, wait_ns)                                                          \
        (struct response_limits) {                                                                 \
                .max_responses = (responses), .max_bytes = (bytes), .max_wait_ns = (wait_ns)       \
        }

static struct response_stream *stream_new(const struct response_limits *limits) {
        struct response_stream *f = mem_alloc(sizeof(*f));

        response_stream_init(f, f, free);
        if (limits != NULL)
                assert_true(response_stream_limit(f, limits));
        return f;
}

static void test_nothing_after_final(void **state) {
        struct response_stream *f = stream_new(NULL);

        (void)state;
        assert_true(response_stream_may_send(f, false));
        assert_true(response_stream_may_send(f, false));
        assert_true(response_stream_may_send(f, true));
        assert_false(response_stream_may_send(f, false));
        assert_false(response_stream_may_send(f, true));
        response_stream_unref(f);
        response_stream_unref(NULL);
}

static void test_renew(void **state) {
        struct response_stream *f = stream_new(&LIMITS(3, 100, 0));
        struct response_stream *other;

        (void)state;
        /* Nobody else has it: it begins anew. */
        assert_true(response_stream_may_send(f, true));
        response_stream_cancel(f);
        assert_ptr_equal(response_stream_renew(f), f);
        assert_false(response_stream_is_cancelled(f));
        assert_true(response_stream_may_send(f, false));

        /* Somebody has: theirs stays as it is. */
        response_stream_ref(f);
        response_stream_cancel(f);
        assert_true(response_stream_may_send(f, true));
        other = response_stream_renew(f);
        assert_ptr_not_equal(other, f);
        assert_non_null(other->window); /* the same limits */
        assert_false(response_stream_is_cancelled(other));
        assert_true(response_stream_is_cancelled(f));
        assert_true(response_stream_may_send(other, true));
        response_stream_unref(other);
        for (unsigned n = 1; n <= 2; n++) {
                mem_fail_after(n);
                assert_null(response_stream_renew(f));
                mem_fail_after(0);
        }
        response_stream_unref(f);
        response_stream_unref(f);
}

static void test_short_memory(void **state) {
        struct response_stream *f = stream_new(NULL);

        (void)state;
        mem_fail_after(1);
        assert_false(response_stream_limit(f, &LIMITS(1, 1, 0)));
        mem_fail_after(0);
        assert_null(f->window);
        response_stream_unref(f);
}

/* ---- the window: a maker and a reader ---- */

#define N_RESPONSES 2000
#define RESPONSE_BYTES 10

static struct {
        struct response_stream *stream;
        struct mutex            lock; /* rank LOCK_SERVER; guards all below */
        struct cond             changed;
        unsigned                n_made, n_deleted, most;
} desk;

static void make(void *arg) {
        (void)arg;
        for (unsigned i = 0; i < N_RESPONSES; i++) {
                response_stream_enter(desk.stream, RESPONSE_BYTES, true);
                MUTEX_GUARD(&desk.lock);
                desk.n_made++;
                if (desk.n_made - desk.n_deleted > desk.most)
                        desk.most = desk.n_made - desk.n_deleted;
                cond_signal(&desk.changed);
        }
}

static void await_made(unsigned n) {
        MUTEX_GUARD(&desk.lock);
        while (desk.n_made < n)
                cond_wait(&desk.changed, &desk.lock);
}

static void delete_one(uint64_t n_bytes) {
        mutex_lock(&desk.lock);
        desk.n_deleted++;
        mutex_unlock(&desk.lock);
        response_stream_leave(desk.stream, n_bytes, 0);
}

static void open_desk(struct response_limits limits, struct thread *maker) {
        desk.stream = stream_new(&limits);
        desk.n_made = desk.n_deleted = desk.most = 0;
        mutex_init(&desk.lock, LOCK_SERVER);
        cond_init(&desk.changed);
        assert_null(thread_start(maker, "maker", make, NULL));
}

static void close_desk(struct thread *maker) {
        thread_join(maker);
        assert_int_equal(desk.n_made, N_RESPONSES);
        response_stream_unref(desk.stream);
        cond_done(&desk.changed);
        mutex_done(&desk.lock);
}

static void read_all(struct response_limits limits, unsigned expected_most) {
        struct thread maker = { 0 };

        open_desk(limits, &maker);
        await_made(expected_most); /* as many as there is room for come without a reader */
        for (unsigned i = 1; i <= N_RESPONSES; i++) {
                await_made(i);
                delete_one(RESPONSE_BYTES);
        }
        close_desk(&maker);
        assert_int_equal(desk.most, expected_most);
}

static void test_window(void **state) {
        (void)state;
        read_all(LIMITS(1, UINT64_MAX, 0), 1);
        read_all(LIMITS(3, UINT64_MAX, 0), 3);
        read_all(LIMITS(UINT32_MAX, 1, 0), 1); /* one is always possible */
        read_all(LIMITS(UINT32_MAX, 4 * RESPONSE_BYTES, 0), 4);
        read_all(LIMITS(UINT32_MAX, 4 * RESPONSE_BYTES + 1, 0), 5);
        read_all(LIMITS(2, 4 * RESPONSE_BYTES, 0), 2);
}

static void test_outputs_count(void **state) {
        struct thread maker = { 0 };

        (void)state;
        open_desk(LIMITS(UINT32_MAX, 2 * RESPONSE_BYTES, 0), &maker);
        await_made(2);
        response_stream_add_bytes(desk.stream, 5); /* of the second one */
        delete_one(RESPONSE_BYTES);
        await_made(3); /* 15 bytes were left */
        delete_one(RESPONSE_BYTES + 5);
        await_made(4);
        for (unsigned i = 3; i <= N_RESPONSES; i++) {
                await_made(i);
                delete_one(RESPONSE_BYTES);
        }
        close_desk(&maker);
        assert_int_equal(desk.most, 2);
}

/* Nobody reads: only the cancellation lets the maker go on. */
static void test_cancel_ends_waiting(void **state) {
        struct thread maker = { 0 };

        (void)state;
        open_desk(LIMITS(2, UINT64_MAX, 0), &maker);
        await_made(2);
        assert_int_equal(desk.most, 2);
        response_stream_cancel(desk.stream);
        close_desk(&maker);
        assert_int_equal(desk.most, N_RESPONSES);
}

/* The reader is woken behind the row: who waits for it in the midst of one wakes it first. */
static void read_one(void *stream) {
        response_stream_leave(stream, 1, 0);
}

static void test_no_wait_for_who_was_not_woken(void **state) {
        struct response_stream *f = stream_new(&LIMITS(1, UINT64_MAX, 0));

        (void)state;
        response_stream_enter(f, 1, true);
        infer_thread_begin_responses();
        assert_true(infer_thread_call_after_responses(read_one, f));
        response_stream_enter(f, 1, true);
        infer_thread_end_responses();
        response_stream_leave(f, 1, 0);
        response_stream_unref(f);
}

static void test_some_never_wait(void **state) {
        struct response_stream *f = stream_new(&LIMITS(1, 1, 0));

        (void)state;
        response_stream_enter(f, 1, true);
        response_stream_enter(f, 1, false);
        response_stream_allow_wait(false);
        response_stream_enter(f, 1, true);
        response_stream_allow_wait(true);
        response_stream_unref(f);
}

/* Nobody makes room: after the longest wait the response is made all the same. */
static void test_wait_has_an_end(void **state) {
        struct response_stream *f = stream_new(&LIMITS(1, 100, 1000 * 1000));

        (void)state;
        response_stream_enter(f, 10, true);
        response_stream_enter(f, 10, true);
        response_stream_enter(f, 10, true);
        for (int i = 0; i < 3; i++)
                response_stream_leave(f, 10, 0);
        response_stream_unref(f);
}

/* Room that the creator of one inference was promised, and did not use, is no room for the next inference. */
static void test_promised_room_ends(void **state) {
        const uint64_t          wait_ns = 2 * NS_PER_MS;
        struct response_stream *f = stream_new(&LIMITS(100, 100, wait_ns));
        uint64_t                start_ns;

        (void)state;
        assert_int_equal(response_stream_room(f), 100);
        assert_ptr_equal(response_stream_renew(f), f);
        response_stream_enter(f, 200, true);
        start_ns = clock_now_ns();
        response_stream_enter(f, 200, true); /* waits: there are too many bytes */
        assert_true(clock_now_ns() - start_ns >= wait_ns);
        for (int i = 0; i < 2; i++)
                response_stream_leave(f, 200, 0);
        response_stream_unref(f);
}

static void count_room(void *userp) {
        ++*(unsigned *)userp;
}

/* A creator that must not wait asks, and is called once there is room, or after a cancellation. */
static void test_call_when_there_is_room(void **state) {
        struct response_stream *f = stream_new(&LIMITS(2, 100, 0));
        struct response_stream *free_one = stream_new(NULL);
        unsigned                n_calls = 0;

        (void)state;
        assert_int_equal(response_stream_room(free_one), UINT32_MAX);
        assert_false(response_stream_when_room(free_one, count_room, &n_calls));
        assert_int_equal(response_stream_room(f), 2);
        assert_false(response_stream_when_room(f, count_room, &n_calls));
        response_stream_enter(f, 10, true);
        assert_int_equal(response_stream_room(f), 1);
        response_stream_enter(f, 200, true);
        assert_int_equal(response_stream_room(f), 0);
        assert_true(response_stream_when_room(f, count_room, &n_calls));
        response_stream_leave(f, 10, 0); /* one fewer, but too many bytes */
        assert_int_equal(n_calls, 0);
        assert_int_equal(response_stream_room(f), 0);
        response_stream_leave(f, 200, 0);
        assert_int_equal(n_calls, 1);
        response_stream_enter(f, 500, true); /* one is always possible */
        response_stream_leave(f, 500, 0);
        assert_int_equal(n_calls, 1); /* one call for each question */
        response_stream_enter(f, 100, true);
        assert_true(response_stream_when_room(f, count_room, &n_calls));
        response_stream_cancel(f);
        assert_int_equal(n_calls, 2);
        assert_int_equal(response_stream_room(f), UINT32_MAX);
        assert_false(response_stream_when_room(f, count_room, &n_calls));
        response_stream_leave(f, 100, 0);
        assert_int_equal(n_calls, 2);
        response_stream_unref(f);
        response_stream_unref(free_one);
}

#define MIB ((size_t)1 << 20)

static void count_refusal(void *owner) {
        ++*(unsigned *)owner;
}

/* All together hold much: each window has an equal part of the rest of the share. */
static void test_share_of_all(void **state) {
        struct byte_budget           budget;
        struct response_share        share;
        const struct response_limits limits = { .max_responses = 2000,
                                                .max_bytes = UINT64_C(1) << 30,
                                                .share = &share };
        struct response_stream      *large, *small;
        unsigned                     n_calls = 0;
        uint32_t                     part;

        (void)state;
        byte_budget_init(&budget, 4 * MIB);
        response_share_init(&share, &budget);
        large = stream_new(&limits);
        small = stream_new(&limits);
        part = MIB / 4 / sizeof(struct response);
        assert_int_equal(response_stream_room(large), 2000);
        response_stream_enter(large, 1000, true);
        response_stream_add_bytes(large, MIB);
        assert_int_equal(response_share_held(&share), MIB + 1000);
        assert_int_equal(response_stream_room(large), 0);
        assert_int_equal(response_stream_room(small), part);
        for (uint32_t i = 0; i < part; i++)
                response_stream_enter(small, 10, true);
        assert_int_equal(response_stream_room(small), 0);
        assert_true(response_stream_when_room(small, count_room, &n_calls));
        for (uint32_t i = 0; i < part / 4; i++) {
                assert_int_equal(n_calls, 0);
                response_stream_leave(small, 10, 0); /* its own reader alone makes room */
        }
        assert_int_equal(n_calls, 1);
        for (uint32_t i = 0; i < part / 4 - 1; i++)
                response_stream_enter(small, 10, true);
        /* What was promised stays, whatever others do. */
        response_stream_leave(large, 1000, MIB);
        assert_int_equal(response_stream_room(small), 2000 - part + 1);
        response_stream_enter(large, 2 * MIB, true);
        response_stream_enter(small, 10, true);
        response_stream_enter(small, 10, true);
        response_stream_leave(large, 2 * MIB, 0);
        for (uint32_t i = 0; i < part + 1; i++)
                response_stream_leave(small, 10, 0);
        assert_int_equal(response_share_held(&share), 0);
        response_stream_unref(large);
        response_stream_unref(small);
        assert_int_equal(byte_budget_used(&budget), 0);
}

/* A wake-up is for a quarter of the window, or for an empty one. */
static void test_woken_for_a_quarter(void **state) {
        struct response_stream *many = stream_new(&LIMITS(16, UINT64_MAX, 0));
        struct response_stream *large = stream_new(&LIMITS(16, 100, 0));
        unsigned                n_calls = 0;

        (void)state;
        for (int i = 0; i < 16; i++)
                response_stream_enter(many, 10, true);
        assert_true(response_stream_when_room(many, count_room, &n_calls));
        for (int i = 0; i < 3; i++)
                response_stream_leave(many, 10, 0);
        assert_int_equal(response_stream_room(many), 3); /* the caller may use what it was told */
        assert_int_equal(n_calls, 0);
        response_stream_leave(many, 10, 0);
        assert_int_equal(n_calls, 1);
        for (int i = 0; i < 12; i++)
                response_stream_leave(many, 10, 0);

        response_stream_enter(large, 200, true);
        assert_true(response_stream_when_room(large, count_room, &n_calls));
        response_stream_leave(large, 200, 0);
        assert_int_equal(n_calls, 2);
        response_stream_unref(many);
        response_stream_unref(large);
}

/* Responses that are passed on: their creator waits for room where they go. */
static void test_follows_another(void **state) {
        struct response_stream *ahead = stream_new(&LIMITS(2, UINT64_MAX, 0));
        struct response_stream *s = stream_new(NULL);
        unsigned                n_calls = 0;

        (void)state;
        assert_true(response_stream_follow(s, ahead));
        assert_int_equal(response_stream_room(s), 2);
        assert_false(response_stream_when_room(s, count_room, &n_calls));
        response_stream_enter(s, 10, true); /* is passed on as: */
        response_stream_enter(ahead, 10, true);
        response_stream_leave(s, 10, 0);
        response_stream_enter(ahead, 10, true);
        assert_int_equal(response_stream_room(s), 0);
        assert_true(response_stream_when_room(s, count_room, &n_calls));
        response_stream_leave(ahead, 10, 0);
        assert_int_equal(n_calls, 1);
        response_stream_enter(ahead, 10, true);
        assert_true(response_stream_when_room(s, count_room, &n_calls));
        response_stream_cancel(ahead);
        response_stream_cancel(s);
        assert_int_equal(n_calls, 2);
        assert_false(response_stream_when_room(s, count_room, &n_calls));
        response_stream_leave(ahead, 10, 0);
        response_stream_leave(ahead, 10, 0);
        response_stream_unref(ahead);
        response_stream_unref(s);
}

/* However many windows there are: each has room for a few small responses, or for one large one. */
static void test_floor_of_each(void **state) {
        struct byte_budget           budget;
        struct response_share        share;
        const struct response_limits limits = { .max_responses = 100,
                                                .max_bytes = UINT64_C(1) << 30,
                                                .share = &share };
        struct response_stream      *streams[500];

        (void)state;
        byte_budget_init(&budget, 16 * MIB);
        response_share_init(&share, &budget);
        for (size_t i = 0; i < ARRAY_LEN(streams); i++)
                streams[i] = stream_new(&limits);
        response_stream_enter(streams[0], 2 * MIB, true);
        assert_int_equal(response_stream_room(streams[0]), 0);
        assert_int_equal(response_stream_room(streams[1]), 5);
        response_stream_enter(streams[1], 64 << 10, true);
        assert_int_equal(response_stream_room(streams[1]), 0);
        response_stream_leave(streams[1], 64 << 10, 0);
        atomic_store(&share.n_windows, UINT32_MAX);
        assert_int_equal(response_stream_room(streams[1]), RESPONSE_STREAM_FLOOR);
        atomic_store(&share.n_windows, (uint32_t)ARRAY_LEN(streams));
        response_stream_leave(streams[0], 2 * MIB, 0);
        for (size_t i = 0; i < ARRAY_LEN(streams); i++)
                response_stream_unref(streams[i]);
        assert_int_equal(atomic_load(&share.n_windows), 0);
        assert_int_equal(byte_budget_used(&budget), 0);
}

/* Responses and what is kept with them are charged, in pieces; outputs are not. */
static void test_charges_the_budget(void **state) {
        struct byte_budget      budget;
        struct response_share   share;
        struct response_stream *s;
        size_t                  paid;

        (void)state;
        byte_budget_init(&budget, 64 * MIB);
        response_share_init(&share, &budget);
        s = stream_new(&(struct response_limits){ .max_responses = UINT32_MAX,
                                                  .max_bytes = UINT64_MAX,
                                                  .share = &share,
                                                  .beside_bytes = 1000 });
        paid = byte_budget_used(&budget); /* for those that are always possible */
        assert_in_range(paid, RESPONSE_STREAM_LEAST * 1000, RESPONSE_STREAM_LEAST * 4000);
        for (int i = 0; i < 1024; i++)
                response_stream_enter(s, 24, true);
        response_stream_add_bytes(s, 10 * MIB);
        assert_int_equal(byte_budget_used(&budget), paid + MIB);
        for (int i = 0; i < 1023; i++)
                response_stream_leave(s, 24, 0);
        assert_in_range(byte_budget_used(&budget), paid, paid + (64 << 10));
        response_stream_leave(s, 24, 10 * MIB);
        assert_int_equal(byte_budget_used(&budget), paid);
        assert_int_equal(response_share_held(&share), 0);
        response_stream_unref(s);
        assert_int_equal(byte_budget_used(&budget), 0);
}

/* A budget that others have nearly used up leaves room for the responses that were paid for, and an
 * inference that cannot pay is not begun. */
static void test_budget_is_used_up(void **state) {
        struct byte_budget           budget;
        struct response_share        share;
        const struct response_limits limits = { .max_responses = 100,
                                                .max_bytes = UINT64_MAX,
                                                .share = &share };
        const struct response_limits paid = {
                .max_responses = 100, .max_bytes = UINT64_MAX, .share = &share, .is_paid = true
        };
        struct response_stream *before, *late;
        unsigned                n_refused = 0;

        (void)state;
        byte_budget_init(&budget, 4 * MIB);
        budget.on_refused = count_refusal;
        budget.owner = &n_refused;
        response_share_init(&share, &budget);
        before = stream_new(&limits);
        byte_budget_force(&budget, 4 * MIB);
        assert_int_equal(response_stream_room(before), RESPONSE_STREAM_LEAST);
        response_stream_enter(before, 10, true);
        assert_int_equal(response_stream_room(before), RESPONSE_STREAM_LEAST - 1);
        late = stream_new(NULL);
        assert_false(response_stream_limit(late, &limits));
        assert_int_equal(n_refused, 1);
        assert_true(response_stream_limit(late, &paid));
        assert_int_equal(response_stream_room(late), RESPONSE_STREAM_LEAST);
        byte_budget_give(&budget, 4 * MIB);
        assert_int_equal(response_stream_room(before), 99);
        response_stream_leave(before, 10, 0);
        response_stream_unref(before);
        response_stream_unref(late);
        assert_int_equal(byte_budget_used(&budget), 0);
}

SUITE(response_stream) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_nothing_after_final),
                cmocka_unit_test(test_renew),
                cmocka_unit_test(test_short_memory),
                cmocka_unit_test(test_window),
                cmocka_unit_test(test_outputs_count),
                cmocka_unit_test(test_cancel_ends_waiting),
                cmocka_unit_test(test_no_wait_for_who_was_not_woken),
                cmocka_unit_test(test_some_never_wait),
                cmocka_unit_test(test_wait_has_an_end),
                cmocka_unit_test(test_promised_room_ends),
                cmocka_unit_test(test_call_when_there_is_room),
                cmocka_unit_test(test_share_of_all),
                cmocka_unit_test(test_woken_for_a_quarter),
                cmocka_unit_test(test_follows_another),
                cmocka_unit_test(test_floor_of_each),
                cmocka_unit_test(test_charges_the_budget),
                cmocka_unit_test(test_budget_is_used_up),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
