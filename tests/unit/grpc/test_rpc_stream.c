/* SPDX-License-Identifier: BSD-3-Clause */
/* A stream against a core of the test's own, which answers when and how the test says: order,
 * final flags, ends, bounds; and that nothing leaks and nothing is used after its end.
 */
#include "suite.h"

#include "base/byte_budget.h"
#include "grpc/rpc_stream_fixture.h"

static void decoupled_responses_go_out_as_they_come(void **state) {
        (void)state;
        rpc_stream_open(&fake_call.call);
        send_one("d", "x");
        respond(0, NULL, 0);
        fake_call_deliver();
        assert_int_equal(fake_call.n_messages, 1);
        assert_response(0, 0);
        respond(0, NULL, 0);
        respond(0, NULL, TRITONSERVER_RESPONSE_COMPLETE_FINAL);
        fake_call_deliver();
        assert_response(1, 0);
        assert_response(2, 1);
        rpc_stream_half_close(&fake_call.call);
        assert_int_equal(fake_call.n_finished, 0);
        release(0);
        fake_call_deliver();
        assert_int_equal(fake_call.n_messages, 3);
        assert_finished(GRPC_OK, "");
}

static void flags_alone_say_nothing(void **state) {
        (void)state;
        rpc_stream_open(&fake_call.call);
        send_one("d", "x");
        rpc_stream_half_close(&fake_call.call);
        respond(0, NULL, 0);
        respond_flags_only(0);
        release(0);
        fake_call_deliver();
        assert_int_equal(fake_call.n_messages, 1);
        assert_finished(GRPC_OK, "");
}

static void flags_alone_for_those_who_ask(void **state) {
        (void)state;
        rpc_stream_open(&fake_call.call);
        send_request("d", "x", true, 0);
        send_request("d", "y", true, 0);
        rpc_stream_half_close(&fake_call.call);
        respond_flags_only(0);
        release(0);
        /* The other one has its final response, so there is no more to say. */
        answer(1, NULL);
        assert_int_equal(fake_call.n_messages, 2);
        assert_message(0, &(struct expected){ "", "d", "", "x", 1, 0 });
        assert_response(1, 1);
        assert_finished(GRPC_OK, "");
}

/* What is not with the socket yet is kept, and counts as the backend's until then. */
static void a_slow_client_keeps_responses(void **state) {
        size_t after_first;

        (void)state;
        fake_call.is_slow = true;
        fake_call.service.max_responses = 7;
        rpc_stream_open(&fake_call.call);
        send_one("d", "x");
        send_one("d", "y");
        assert_non_null(strstr(strbuf_cstr(&fake.calls), "limit 7 8388608\n"));
        assert_non_null(strstr(strbuf_cstr(&fake.calls), "limit 7 4194304\n"));
        respond(0, NULL, 0);
        fake_call_deliver();
        after_first = fake_call.n_sent;
        respond(1, NULL, 0);
        respond(0, NULL, 0);
        fake_call_deliver();
        assert_int_equal(fake_call.n_messages, 3);
        assert_int_equal(fake.n_responses, 3);

        fake_call.n_written = after_first - 1;
        fake_call.call.on_written(&fake_call.call);
        assert_int_equal(fake.n_responses, 3);
        fake_call.n_written = after_first;
        fake_call.call.on_written(&fake_call.call);
        assert_int_equal(fake.n_responses, 2);

        /* Nobody waits any more when all have ended. */
        answer(1, NULL);
        answer(0, NULL);
        assert_int_equal(fake.n_responses, 4);
        rpc_stream_half_close(&fake_call.call);
        assert_int_equal(fake.n_responses, 0);
        assert_finished(GRPC_OK, "");
}

static void an_abort_lets_kept_responses_go(void **state) {
        (void)state;
        fake_call.is_slow = true;
        rpc_stream_open(&fake_call.call);
        send_one("d", "x");
        respond(0, NULL, 0);
        fake_call_deliver();
        assert_int_equal(fake.n_responses, 1);
        abort_call();
        assert_int_equal(fake.n_responses, 0);
        respond(0, NULL, 0);
        fake_call_deliver();
        assert_int_equal(fake.n_responses, 0);
        answer(0, NULL);
        assert_int_equal(fake_call.n_finished, 1);
}

static void a_failure_among_decoupled_responses(void **state) {
        (void)state;
        rpc_stream_open(&fake_call.call);
        send_one("d", "x");
        rpc_stream_half_close(&fake_call.call);
        respond(0, NULL, 0);
        respond(0, "it failed", 0);
        respond(0, "for good", TRITONSERVER_RESPONSE_COMPLETE_FINAL);
        release(0);
        fake_call_deliver();
        assert_int_equal(fake_call.n_messages, 3);
        assert_message(1, &(struct expected){ "it failed", "d", "", "x", 0, 0 });
        assert_message(2, &(struct expected){ "for good", "d", "", "x", 1, 0 });
        assert_finished(GRPC_OK, "");
}

static void others_answer_in_order(void **state) {
        (void)state;
        rpc_stream_open(&fake_call.call);
        send_one("m", "1");
        send_one("m", "2");
        send_one("unknown", "3");
        send_one("m", "4");
        answer(2, "late"); /* of request 4 */
        answer(1, "early");
        assert_int_equal(fake_call.n_messages, 0);
        answer(0, NULL);
        assert_int_equal(fake_call.n_messages, 4);
        assert_response(0, 1);
        assert_message(1, &(struct expected){ "early", "m", "", "2", 1, 0 });
        assert_message(2, &(struct expected){ "unknown model", "", "", "3", -1, 0 });
        assert_message(3, &(struct expected){ "late", "m", "", "4", 1, 0 });
        assert_int_equal(fake_call.n_finished, 0);
        rpc_stream_half_close(&fake_call.call);
        assert_finished(GRPC_OK, "");
}

static void decoupled_ones_wait_for_nobody(void **state) {
        (void)state;
        rpc_stream_open(&fake_call.call);
        send_one("m", "1");
        send_one("d", "2");
        answer(1, NULL);
        assert_int_equal(fake_call.n_messages, 1);
        answer(0, NULL);
        assert_int_equal(fake_call.n_messages, 2);
        rpc_stream_half_close(&fake_call.call);
        assert_finished(GRPC_OK, "");
}

static void none_is_a_failure(void **state) {
        (void)state;
        rpc_stream_open(&fake_call.call);
        send_one("m", "1");
        respond_flags_only(0);
        release(0);
        fake_call_deliver();
        assert_message(0, &(struct expected){ "expected a single response, got 0", "m", "", "1", 1,
                                              0 });
        rpc_stream_half_close(&fake_call.call);
        assert_finished(GRPC_OK, "");
}

/* One response is due: the first goes out at once, and the others are dropped. */
static void the_first_of_several(void **state) {
        (void)state;
        rpc_stream_open(&fake_call.call);
        send_one("m", "1");
        respond(0, NULL, 0);
        fake_call_deliver();
        assert_int_equal(fake_call.n_messages, 1);
        assert_response(0, 0);
        respond(0, NULL, 0);
        respond(0, "too late", 0);
        rpc_stream_half_close(&fake_call.call);
        fake_call_deliver();
        assert_int_equal(fake.n_responses, 1);
        assert_int_equal(fake_call.n_finished, 0);
        answer(0, NULL);
        assert_int_equal(fake_call.n_messages, 1);
        assert_finished(GRPC_OK, "");
}

/* Both ends come before the loop looks. */
static void the_first_of_several_and_the_end(void **state) {
        (void)state;
        rpc_stream_open(&fake_call.call);
        send_one("m", "1");
        respond(0, NULL, 0);
        answer(0, NULL);
        assert_int_equal(fake_call.n_messages, 1);
        assert_response(0, 0);
        rpc_stream_half_close(&fake_call.call);
        assert_finished(GRPC_OK, "");
}

/* "At once" is in its turn, and the turn of the next one does not wait for the end. */
static void an_early_response_keeps_the_order(void **state) {
        (void)state;
        rpc_stream_open(&fake_call.call);
        send_one("m", "1");
        send_one("m", "2");
        send_one("m", "3");
        respond(1, NULL, 0);
        answer(2, "of three");
        assert_int_equal(fake_call.n_messages, 0);
        answer(0, NULL);
        assert_int_equal(fake_call.n_messages, 3);
        assert_response(0, 1);
        assert_response(1, 0);
        assert_message(2, &(struct expected){ "of three", "m", "", "3", 1, 0 });
        rpc_stream_half_close(&fake_call.call);
        assert_int_equal(fake_call.n_finished, 0);
        answer(1, NULL);
        assert_finished(GRPC_OK, "");
}

/* The model ends while its early response waits for its turn. */
static void an_early_response_that_waits(void **state) {
        (void)state;
        rpc_stream_open(&fake_call.call);
        send_one("m", "1");
        send_one("m", "2");
        respond(1, "early", 0);
        fake_call_deliver();
        answer(1, NULL);
        assert_int_equal(fake.n_requests, 1);
        assert_int_equal(fake.n_responses, 0);
        answer(0, NULL);
        assert_response(0, 1);
        assert_message(1, &(struct expected){ "early", "m", "", "2", 0, 0 });
        rpc_stream_half_close(&fake_call.call);
        assert_finished(GRPC_OK, "");
}

static void what_is_done_at_once(void **state) {
        (void)state;
        core.answers_at_once = true;
        rpc_stream_open(&fake_call.call);
        for (int i = 0; i < 20; i++)
                send_one(i % 2 ? "d" : "m", "x");
        fake_call_deliver();
        assert_int_equal(fake_call.n_messages, 20);
        for (size_t i = 0; i < 20; i++)
                assert_response(i, 1);
        rpc_stream_half_close(&fake_call.call);
        assert_finished(GRPC_OK, "");
}

static void the_core_refuses_to_start(void **state) {
        (void)state;
        fake.refuse = "InferAsync";
        rpc_stream_open(&fake_call.call);
        send_one("m", "1");
        send_one("d", "2");
        assert_message(0, &(struct expected){ "InferAsync", "", "", "1", -1, 0 });
        assert_message(1, &(struct expected){ "InferAsync", "", "", "2", -1, 0 });
        rpc_stream_half_close(&fake_call.call);
        assert_finished(GRPC_OK, "");
}

static void a_server_that_is_exiting(void **state) {
        (void)state;
        fake_control.is_exiting = true;
        rpc_stream_open(&fake_call.call);
        send_one("m", "1");
        assert_message(0, &(struct expected){ "GRPC server is shutting down and has stopped "
                                              "accepting new requests.",
                                              "", "", "1", -1, 0 });
        rpc_stream_half_close(&fake_call.call);
        assert_finished(GRPC_OK, "");
}

static void an_empty_stream(void **state) {
        (void)state;
        rpc_stream_open(&fake_call.call);
        rpc_stream_half_close(&fake_call.call);
        assert_finished(GRPC_OK, "");
}

static void an_abort_cancels_everything(void **state) {
        (void)state;
        rpc_stream_open(&fake_call.call);
        send_one("m", "1");
        send_one("m", "2");
        send_one("d", "3");
        answer(1, NULL); /* ready, and waits for the first */
        abort_call();
        assert_true(core.started[0]->is_cancelled);
        assert_true(core.started[2]->is_cancelled);
        assert_int_equal(fake_call.n_finished, 0);
        respond(2, NULL, 0);
        answer(2, NULL);
        assert_int_equal(fake_call.n_finished, 0);
        answer(0, NULL);
        assert_int_equal(fake_call.n_messages, 0);
        assert_finished(GRPC_CANCELLED, "");
}

static void an_abort_of_an_idle_stream(void **state) {
        (void)state;
        rpc_stream_open(&fake_call.call);
        send_one("m", "1");
        answer(0, NULL);
        abort_call();
        assert_finished(GRPC_CANCELLED, "");
}

static void abort_within_send(struct grpc_call *call) {
        fake_call.on_send = NULL;
        call->abort_reason = GRPC_ABORT_OVERFLOW;
        rpc_stream_abort(call);
}

/* A client that does not read: the transport aborts while a response is being sent. */
static void an_abort_while_sending(void **state) {
        (void)state;
        rpc_stream_open(&fake_call.call);
        send_one("d", "1");
        fake_call.on_send = abort_within_send;
        respond(0, NULL, 0);
        respond(0, NULL, 0);
        fake_call_deliver();
        assert_int_equal(fake_call.n_messages, 1);
        assert_int_equal(fake_call.n_finished, 0);
        answer(0, NULL);
        assert_finished(GRPC_CANCELLED, "");
}

static void an_abort_while_answering_at_once(void **state) {
        (void)state;
        core.answers_at_once = true;
        rpc_stream_open(&fake_call.call);
        fake_call.on_send = abort_within_send;
        send_one("m", "1");
        assert_finished(GRPC_CANCELLED, "");
}

static const struct grpc_metadata as_status = { { "triton_grpc_error", 17 }, { "true", 4 } };

static void failures_as_status(void **state) {
        (void)state;
        fake_call.call.metadata = &as_status;
        fake_call.call.n_metadata = 1;
        rpc_stream_open(&fake_call.call);
        send_one("unknown", "0"); /* told within the stream all the same */
        send_one("m", "1");
        send_one("d", "2");
        send_one("d", "3");
        assert_int_equal(fake_call.n_messages, 1);
        respond(1, "the first failure", 0);
        fake_call_deliver();
        assert_true(fake_call.is_concluded);
        assert_true(core.started[0]->is_cancelled);
        assert_true(core.started[2]->is_cancelled);
        send_one("m", "4"); /* comes too late */
        assert_int_equal(core.n_started, 3);
        answer(1, "another one");
        answer(2, NULL);
        assert_int_equal(fake_call.n_finished, 0);
        answer(0, NULL);
        assert_int_equal(fake_call.n_messages, 1);
        assert_finished(GRPC_UNAVAILABLE, "the first failure");
}

static void an_early_failure_as_status(void **state) {
        (void)state;
        fake_call.call.metadata = &as_status;
        fake_call.call.n_metadata = 1;
        rpc_stream_open(&fake_call.call);
        send_one("m", "1");
        send_one("m", "2");
        respond(1, "not the last word", 0);
        fake_call_deliver();
        assert_true(fake_call.is_concluded);
        assert_int_equal(fake_call.n_finished, 0);
        answer(1, NULL);
        answer(0, NULL);
        assert_int_equal(fake_call.n_messages, 0);
        assert_finished(GRPC_UNAVAILABLE, "not the last word");
}

/* The transport says that the HTTP/2 stream is gone while what was cancelled still runs. */
static void an_abort_after_the_status(void **state) {
        (void)state;
        fake_call.call.metadata = &as_status;
        fake_call.call.n_metadata = 1;
        rpc_stream_open(&fake_call.call);
        send_one("d", "1");
        respond(0, "failed", 0);
        fake_call_deliver();
        assert_true(fake_call.is_concluded);
        abort_call();
        assert_int_equal(fake_call.n_finished, 0);
        answer(0, NULL);
        assert_finished(GRPC_UNAVAILABLE, "failed");
}

static void requests_in_flight_are_bounded(void **state) {
        (void)state;
        rpc_stream_open(&fake_call.call);
        for (int i = 0; i < RPC_STREAM_MAX_REQUESTS; i++) {
                assert_false(fake_call.is_paused);
                send_one("m", "x");
        }
        assert_true(fake_call.is_paused);
        answer(1, NULL); /* not in its turn: still there */
        assert_true(fake_call.is_paused);
        answer(0, NULL);
        assert_false(fake_call.is_paused);
        assert_int_equal(fake_call.n_pauses, 1);
        assert_int_equal(fake_call.n_resumes, 1);
        for (size_t i = 2; i < RPC_STREAM_MAX_REQUESTS; i++)
                answer(i, NULL);
        assert_int_equal(fake_call.n_messages, RPC_STREAM_MAX_REQUESTS);
        rpc_stream_half_close(&fake_call.call);
        assert_finished(GRPC_OK, "");
}

static void bytes_in_flight_are_bounded(void **state) {
        (void)state;
        rpc_stream_open(&fake_call.call);
        send_request("m", "1", false, RPC_STREAM_MAX_BYTES / 2);
        assert_false(fake_call.is_paused);
        send_request("m", "2", false, RPC_STREAM_MAX_BYTES / 2);
        assert_true(fake_call.is_paused);
        answer(0, NULL);
        assert_false(fake_call.is_paused);
        answer(1, NULL);
        rpc_stream_half_close(&fake_call.call);
        assert_finished(GRPC_OK, "");
}

/* An answer that waits for its turn holds no message. */
static void waiting_answers_hold_no_request(void **state) {
        (void)state;
        rpc_stream_open(&fake_call.call);
        send_one("m", "1");
        send_one("m", "2");
        assert_int_equal(fake.n_requests, 2);
        answer(1, NULL);
        assert_int_equal(fake.n_requests, 1);
        assert_int_equal(fake.n_responses, 0);
        answer(0, NULL);
        assert_int_equal(fake_call.n_messages, 2);
        rpc_stream_half_close(&fake_call.call);
        assert_finished(GRPC_OK, "");
}

/* Each request in flight is charged to the memory budget; one that does not fit is refused alone. */
static void requests_beyond_the_budget_are_refused(void **state) {
        size_t one;

        (void)state;
        rpc_stream_open(&fake_call.call);
        send_one("m", "1");
        one = fake_call.n_charged;
        assert_in_range(one, 4096, 16384);
        fake_call.max_charged = 2 * one;
        send_one("d", "2");
        assert_int_equal(fake_call.n_charged, 2 * one);
        send_one("d", "3");
        assert_int_equal(core.n_started, 2);
        assert_message(0, &(struct expected){ BYTE_BUDGET_USED_UP, "", "", "3", -1, 0 });
        answer(1, NULL);
        send_one("d", "4");
        assert_int_equal(core.n_started, 3);
        answer(2, NULL);
        answer(0, NULL);
        assert_int_equal(fake_call.n_messages, 4);
        rpc_stream_half_close(&fake_call.call);
        assert_finished(GRPC_OK, "");
}

SUITE(rpc_stream) {
        const struct CMUnitTest tests[] = {
                TEST(decoupled_responses_go_out_as_they_come),
                TEST(flags_alone_say_nothing),
                TEST(flags_alone_for_those_who_ask),
                TEST(a_slow_client_keeps_responses),
                TEST(an_abort_lets_kept_responses_go),
                TEST(a_failure_among_decoupled_responses),
                TEST(others_answer_in_order),
                TEST(decoupled_ones_wait_for_nobody),
                TEST(none_is_a_failure),
                TEST(the_first_of_several),
                TEST(the_first_of_several_and_the_end),
                TEST(an_early_response_keeps_the_order),
                TEST(an_early_response_that_waits),
                TEST(what_is_done_at_once),
                TEST(the_core_refuses_to_start),
                TEST(a_server_that_is_exiting),
                TEST(an_empty_stream),
                TEST(an_abort_cancels_everything),
                TEST(an_abort_of_an_idle_stream),
                TEST(an_abort_while_sending),
                TEST(an_abort_while_answering_at_once),
                TEST(failures_as_status),
                TEST(an_early_failure_as_status),
                TEST(an_abort_after_the_status),
                TEST(requests_in_flight_are_bounded),
                TEST(bytes_in_flight_are_bounded),
                TEST(waiting_answers_hold_no_request),
                TEST(requests_beyond_the_budget_are_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
