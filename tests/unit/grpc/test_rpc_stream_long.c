/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages and answers of a stream that take long, and are read or made on another thread.
 */
#include "suite.h"

#include "grpc/rpc_stream_fixture.h"

/* ---- what takes long ---- */

#define LONG_BYTES (300 << 10)

/* A message that takes long to read: it has such an id. */
static void send_long(const char *model) {
        char *id = mem_alloc(LONG_BYTES + 1);

        memset(id, 'i', LONG_BYTES);
        id[LONG_BYTES] = '\0';
        send_one(model, id);
        free(id);
}

/* A response of that many bytes; `fake_call.wants_packing` makes it a long one. */
static void respond_bytes(size_t i, size_t bytes, uint32_t flags) {
        struct TRITONSERVER_InferenceRequest  *request = core.started[i];
        struct TRITONSERVER_InferenceResponse *r = mem_zalloc(sizeof(*r));
        struct buf                            *b = buf_new(NULL, bytes);

        assert_non_null(b);
        memset(b->bytes, 0, bytes);
        strcpy(r->output, "OUT");
        r->allocator = request->allocator;
        r->base = b->bytes;
        r->userp = b;
        r->bytes = bytes;
        fake.n_responses++;
        request->on_response(r, flags, request->response_userp);
}

static void a_long_message_holds_the_stream(void **state) {
        (void)state;
        rpc_stream_open(&fake_call.call);
        send_one("m", "1");
        send_long("m");
        assert_int_equal(core.n_started, 1);
        assert_true(fake_call.is_paused);
        answer(0, NULL); /* the others go on */
        assert_int_equal(fake_call.n_messages, 1);
        assert_true(fake_call.is_paused);
        rpc_stream_half_close(&fake_call.call);
        assert_int_equal(fake_call.n_finished, 0);

        fake_call_run_work();
        assert_int_equal(core.n_started, 2);
        assert_false(fake_call.is_paused);
        answer(1, NULL);
        assert_int_equal(fake_call.n_messages, 2);
        assert_response(1, 1);
        assert_finished(GRPC_OK, "");
}

static void a_long_message_is_refused(void **state) {
        (void)state;
        rpc_stream_open(&fake_call.call);
        send_long("unknown");
        fake_call_run_work();
        assert_false(fake_call.is_paused);
        assert_int_equal(fake_call.n_messages, 1);
        rpc_stream_half_close(&fake_call.call);
        assert_finished(GRPC_OK, "");
}

/* The model answers before the thread that submitted the request has told so. */
static void a_long_message_is_answered_at_once(void **state) {
        (void)state;
        rpc_stream_open(&fake_call.call);
        core.answers_at_once = true;
        send_long("m");
        fake_call_run_work();
        fake_call_deliver();
        assert_int_equal(fake_call.n_messages, 1);
        send_long("d");
        fake_call_run_work();
        fake_call_deliver();
        assert_int_equal(fake_call.n_messages, 2);
        rpc_stream_half_close(&fake_call.call);
        assert_finished(GRPC_OK, "");
}

static void an_abort_calls_a_long_message_off(void **state) {
        (void)state;
        rpc_stream_open(&fake_call.call);
        send_long("m");
        abort_call();
        assert_int_equal(fake_call.n_finished, 0);
        fake_call_run_work();
        assert_int_equal(core.n_started, 0);
        assert_finished(GRPC_CANCELLED, "");
}

static void a_long_answer_keeps_its_turn(void **state) {
        (void)state;
        fake_call.wants_packing = true;
        rpc_stream_open(&fake_call.call);
        send_one("m", "1");
        send_one("m", "2");
        respond_bytes(0, LONG_BYTES, TRITONSERVER_RESPONSE_COMPLETE_FINAL);
        release(0);
        fake_call_deliver();
        answer(1, NULL);
        assert_int_equal(fake_call.n_messages, 0);
        fake_call_run_work();
        assert_int_equal(fake_call.n_messages, 2);
        assert_true(fake_call.messages[0].len > LONG_BYTES);
        assert_response(1, 1);
        rpc_stream_half_close(&fake_call.call);
        assert_finished(GRPC_OK, "");
}

static void responses_wait_behind_a_long_one(void **state) {
        (void)state;
        fake_call.wants_packing = true;
        rpc_stream_open(&fake_call.call);
        send_request("d", "x", true, 0);
        respond_bytes(0, LONG_BYTES, 0);
        fake_call_deliver();
        respond_bytes(0, 1, 0);
        respond_bytes(0, LONG_BYTES, 0);
        respond_bytes(0, 2, 0);
        respond_flags_only(0);
        release(0);
        fake_call_deliver();
        rpc_stream_half_close(&fake_call.call);
        assert_int_equal(fake_call.n_messages, 0);
        assert_int_equal(fake.n_responses, 4);

        fake_call_run_work();
        assert_int_equal(fake_call.n_messages, 2);
        assert_int_equal(fake.n_responses, 2);
        assert_int_equal(fake_call.n_finished, 0);
        fake_call_run_work();
        assert_int_equal(fake_call.n_messages, 5);
        assert_true(fake_call.messages[0].len > LONG_BYTES);
        assert_response(1, 0);
        assert_true(fake_call.messages[2].len > LONG_BYTES);
        assert_response(3, 0);
        assert_message(4, &(struct expected){ "", "d", "", "x", 1, 0 });
        assert_finished(GRPC_OK, "");
}

static void an_abort_drops_a_long_response(void **state) {
        (void)state;
        fake_call.wants_packing = true;
        rpc_stream_open(&fake_call.call);
        send_one("d", "x");
        respond_bytes(0, LONG_BYTES, 0);
        fake_call_deliver();
        respond_bytes(0, 1, 0);
        fake_call_deliver();
        abort_call();
        assert_true(core.started[0]->is_cancelled);
        respond_flags_only(0);
        release(0);
        fake_call_deliver();
        assert_int_equal(fake_call.n_finished, 0);
        fake_call_run_work();
        assert_int_equal(fake_call.n_messages, 0);
        assert_finished(GRPC_CANCELLED, "");
}

/* The first of several responses is made elsewhere, and goes out before the model has ended. */
static void a_long_early_response(void **state) {
        (void)state;
        fake_call.wants_packing = true;
        rpc_stream_open(&fake_call.call);
        send_one("m", "1");
        send_one("m", "2");
        respond_bytes(0, LONG_BYTES, 0);
        fake_call_deliver();
        answer(1, NULL);
        assert_int_equal(fake_call.n_messages, 0);
        fake_call_run_work();
        assert_int_equal(fake_call.n_messages, 2);
        assert_true(fake_call.messages[0].len > LONG_BYTES);
        assert_response(1, 1);
        rpc_stream_half_close(&fake_call.call);
        assert_int_equal(fake_call.n_finished, 0);
        answer(0, NULL);
        assert_int_equal(fake_call.n_messages, 2);
        assert_finished(GRPC_OK, "");
}

/* The model ends while it is made, in turn or behind another one. */
static void a_long_early_response_and_the_end(void **state) {
        (void)state;
        for (unsigned waits = 0; waits < 2; waits++) {
                if (waits > 0)
                        setup(NULL);
                fake_call.wants_packing = true;
                rpc_stream_open(&fake_call.call);
                if (waits > 0)
                        send_one("m", "0");
                send_one("m", "1");
                respond_bytes(waits, LONG_BYTES, 0);
                fake_call_deliver();
                answer(waits, NULL);
                assert_int_equal(fake_call.n_messages, 0);
                fake_call_run_work();
                assert_int_equal(fake_call.n_messages, waits > 0 ? 0 : 1);
                if (waits > 0)
                        answer(0, NULL);
                assert_int_equal(fake_call.n_messages, waits + 1);
                assert_true(fake_call.messages[waits].len > LONG_BYTES);
                rpc_stream_half_close(&fake_call.call);
                assert_finished(GRPC_OK, "");
                if (waits == 0)
                        teardown(NULL);
        }
}

/* The model is quicker than the loop learns that the message was read. */
static void a_long_message_with_an_early_response(void **state) {
        (void)state;
        core.answers_early = true;
        rpc_stream_open(&fake_call.call);
        for (unsigned i = 0; i < 2; i++) {
                fake_call.delivers_first = i == 1;
                send_long("m");
                fake_call_run_work();
                fake_call_deliver();
                assert_int_equal(fake_call.n_messages, i + 1);
                assert_response(i, 0);
                answer(i, NULL);
        }
        rpc_stream_half_close(&fake_call.call);
        assert_int_equal(fake_call.n_messages, 2);
        assert_finished(GRPC_OK, "");
}

static void an_abort_drops_a_long_early_response(void **state) {
        (void)state;
        fake_call.wants_packing = true;
        rpc_stream_open(&fake_call.call);
        send_one("m", "1");
        respond_bytes(0, LONG_BYTES, 0);
        fake_call_deliver();
        abort_call();
        answer(0, NULL);
        fake_call_run_work();
        fake_call_deliver();
        assert_int_equal(fake_call.n_messages, 0);
        assert_finished(GRPC_CANCELLED, "");
}

SUITE(rpc_stream_long) {
        const struct CMUnitTest tests[] = {
                TEST(a_long_message_holds_the_stream),
                TEST(a_long_message_is_refused),
                TEST(a_long_message_is_answered_at_once),
                TEST(an_abort_calls_a_long_message_off),
                TEST(a_long_answer_keeps_its_turn),
                TEST(responses_wait_behind_a_long_one),
                TEST(an_abort_drops_a_long_response),
                TEST(a_long_early_response),
                TEST(a_long_early_response_and_the_end),
                TEST(a_long_message_with_an_early_response),
                TEST(an_abort_drops_a_long_early_response),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
