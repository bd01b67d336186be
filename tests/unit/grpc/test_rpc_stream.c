/* SPDX-License-Identifier: BSD-3-Clause */
/* A stream against a core of the test's own, which answers when and how the test says: order,
 * final flags, ends, bounds; and that nothing leaks and nothing is used after its end.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "frontend/fake_core.h"
#include "grpc/fake_call.h"
#include "grpc/rpc_infer.h"
#include "grpc/rpc_stream.h"
#include "grpc_service.pb-c.h"

/* ---- the core ---- */

#define MAX_STARTED 2048

static struct {
        struct TRITONSERVER_InferenceRequest *started[MAX_STARTED]; /* in order */
        size_t                                n_started;
        bool                                  answers_at_once;
        bool                                  is_exiting;
} core;

/* Models called "d..." are decoupled, "unknown" is none. */
static struct TRITONSERVER_Error *find_model(const char *model_name, bool *ret_is_decoupled) {
        if (core.is_exiting)
                return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "not now");
        if (strcmp(model_name, "unknown") == 0)
                return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_NOT_FOUND, "unknown model");
        *ret_is_decoupled = model_name[0] == 'd';
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerIsLive(struct TRITONSERVER_Server *server,
                                                     bool                       *live) {
        (void)server;
        *live = !core.is_exiting;
        return core.is_exiting
                       ? TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "Server exiting")
                       : NULL;
}

/* A response without bytes; `error` is its failure. */
static void respond(size_t i, const char *error, uint32_t flags) {
        struct TRITONSERVER_InferenceRequest  *request = core.started[i];
        struct TRITONSERVER_InferenceResponse *r = mem_zalloc(sizeof(*r));

        strcpy(r->output, "OUT");
        r->allocator = request->allocator;
        r->error = error;
        fake.n_responses++;
        request->on_response(r, flags, request->response_userp);
}

static void respond_flags_only(size_t i) {
        core.started[i]->on_response(NULL, TRITONSERVER_RESPONSE_COMPLETE_FINAL,
                                     core.started[i]->response_userp);
}

static void release(size_t i) {
        core.started[i]->on_release(core.started[i], TRITONSERVER_REQUEST_RELEASE_ALL,
                                    core.started[i]->release_userp);
}

/* One response, final, and the end. */
static void answer(size_t i, const char *error) {
        respond(i, error, TRITONSERVER_RESPONSE_COMPLETE_FINAL);
        release(i);
        fake_call_deliver();
}

static void on_run(struct TRITONSERVER_InferenceRequest *request) {
        core.started[core.n_started++] = request;
        if (core.answers_at_once) {
                respond(core.n_started - 1, NULL, TRITONSERVER_RESPONSE_COMPLETE_FINAL);
                release(core.n_started - 1);
        }
}

/* ---- the client ---- */

static void send_request(const char *model, const char *id, bool wants_empty_final,
                         size_t padding) {
        Inference__ModelInferRequest                  q = INFERENCE__MODEL_INFER_REQUEST__INIT;
        Inference__ModelInferRequest__ParametersEntry entry =
                INFERENCE__MODEL_INFER_REQUEST__PARAMETERS_ENTRY__INIT;
        Inference__ModelInferRequest__ParametersEntry *entries[] = { &entry };
        Inference__InferParameter                      value = INFERENCE__INFER_PARAMETER__INIT;
        ProtobufCBinaryData                            surplus = { padding, mem_zalloc(padding) };
        size_t                                         len;
        uint8_t                                       *bytes;

        q.model_name = (char *)model;
        q.id = (char *)id;
        entry.key = (char *)"triton_enable_empty_final_response";
        entry.value = &value;
        value.parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_BOOL_PARAM;
        value.bool_param = 1;
        q.parameters = entries;
        q.n_parameters = wants_empty_final;
        q.raw_input_contents = &surplus;
        q.n_raw_input_contents = padding > 0;
        len = inference__model_infer_request__get_packed_size(&q);
        bytes = mem_alloc(len);
        inference__model_infer_request__pack(&q, bytes);
        fake_call_read(rpc_stream_read, str_range((char *)bytes, len));
        free(bytes);
        free(surplus.data);
}

static void send_one(const char *model, const char *id) {
        send_request(model, id, false, 0);
}

struct expected {
        const char *error, *model, *version, *id;
        int         final; /* -1: no such parameter */
        size_t      n_outputs;
};

/* The n-th message that was sent. */
static void assert_message(size_t n, const struct expected *e) {
        struct strbuf                       *sent = &fake_call.messages[n];
        Inference__ModelStreamInferResponse *m;
        Inference__ModelInferResponse       *r;
        int                                  final = -1;

        assert_true(fake_call.n_messages > n);
        m = inference__model_stream_infer_response__unpack(NULL, sent->len,
                                                           (const uint8_t *)strbuf_cstr(sent));
        assert_non_null(m);
        r = m->infer_response;
        assert_non_null(r);
        assert_string_equal(m->error_message, e->error);
        assert_string_equal(r->model_name, e->model);
        assert_string_equal(r->model_version, e->version);
        assert_string_equal(r->id, e->id);
        assert_int_equal(r->n_outputs, e->n_outputs);
        assert_int_equal(r->n_raw_output_contents, e->n_outputs);
        for (size_t i = 0; i < r->n_parameters; i++)
                if (strcmp(r->parameters[i]->key, "triton_final_response") == 0) {
                        assert_int_equal(i, r->n_parameters - 1); /* the last one */
                        final = r->parameters[i]->value->bool_param;
                }
        assert_int_equal(final, e->final);
        inference__model_stream_infer_response__free_unpacked(m, NULL);
}

/* The fake core's responses all look like this. */
static void assert_response(size_t n, int final) {
        assert_message(n, &(struct expected){ "", "model", "3", "the id", final, 1 });
}

static void assert_finished(enum grpc_code code, const char *text) {
        assert_int_equal(fake_call.n_finished, 1);
        assert_int_equal(fake_call.code, code);
        assert_string_equal(strbuf_cstr(&fake_call.text), text);
}

static void abort_call(void) {
        fake_call.call.abort_reason = GRPC_ABORT_CANCELLED;
        rpc_stream_abort(&fake_call.call);
}

/* ---- the tests ---- */

static int setup(void **state) {
        (void)state;
        memset(&fake, 0, sizeof(fake));
        memset(&core, 0, sizeof(core));
        strbuf_init(&fake.calls, 0);
        fake.run = on_run;
        fake.find_model = find_model;
        fake_call_init();
        assert_null(rpc_infer_new(&(struct rpc_infer_options){ 0 }, &fake_call.service.infer));
        return 0;
}

static int teardown(void **state) {
        (void)state;
        rpc_infer_free(fake_call.service.infer);
        fake_call_done();
        strbuf_done(&fake.calls);
        assert_int_equal(fake.n_requests, 0);
        assert_int_equal(fake.n_responses, 0);
        assert_int_equal(fake.n_errors, 0);
        return 0;
}

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

/* One response is due: two are told as a failure, and so is none. */
static void more_or_less_than_one(void **state) {
        (void)state;
        rpc_stream_open(&fake_call.call);
        send_one("m", "1");
        send_one("m", "2");
        respond(0, NULL, 0);
        answer(0, NULL);
        respond_flags_only(1);
        release(1);
        fake_call_deliver();
        assert_message(0, &(struct expected){ "expected a single response, got 2", "m", "", "1", 1,
                                              0 });
        assert_message(1, &(struct expected){ "expected a single response, got 0", "m", "", "2", 1,
                                              0 });
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
        core.is_exiting = true;
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

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(decoupled_responses_go_out_as_they_come),
                TEST(flags_alone_say_nothing),
                TEST(flags_alone_for_those_who_ask),
                TEST(a_slow_client_keeps_responses),
                TEST(an_abort_lets_kept_responses_go),
                TEST(a_failure_among_decoupled_responses),
                TEST(others_answer_in_order),
                TEST(decoupled_ones_wait_for_nobody),
                TEST(more_or_less_than_one),
                TEST(what_is_done_at_once),
                TEST(the_core_refuses_to_start),
                TEST(a_server_that_is_exiting),
                TEST(an_empty_stream),
                TEST(an_abort_cancels_everything),
                TEST(an_abort_of_an_idle_stream),
                TEST(an_abort_while_sending),
                TEST(an_abort_while_answering_at_once),
                TEST(failures_as_status),
                TEST(requests_in_flight_are_bounded),
                TEST(bytes_in_flight_are_bounded),
                TEST(waiting_answers_hold_no_request),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
