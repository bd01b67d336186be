/* SPDX-License-Identifier: BSD-3-Clause */
/* ModelInfer against a core of the test's own: when it is answered, with what, and that nothing is
 * used after the end.
 */
#include "suite.h"

#include "base/mem.h"
#include "call/fake_core.h"
#include "grpc/fake_call.h"
#include "grpc/rpc_methods.h"
#include "grpc_service.pb-c.h"
#include "http/fake_control.h"

#include <stdlib.h>
#include <string.h>

static struct TRITONSERVER_InferenceRequest *started;
static bool                                  answers_at_once;

/* One output of so many bytes, from the allocator; and the end. */
static void answer(size_t bytes, const char *error) {
        struct TRITONSERVER_InferenceResponse *r = mem_zalloc(sizeof(*r));
        TRITONSERVER_MemoryType                type;
        int64_t                                id;

        strcpy(r->output, "OUT");
        r->allocator = started->allocator;
        r->bytes = bytes;
        r->error = error;
        assert_null(r->allocator->alloc(r->allocator, "OUT", bytes, TRITONSERVER_MEMORY_CPU, 0,
                                        started->allocator_userp, &r->base, &r->userp, &type, &id));
        memset(r->base, 'o', bytes);
        fake.n_responses++;
        started->on_response(r, TRITONSERVER_RESPONSE_COMPLETE_FINAL, started->response_userp);
        started->on_release(started, TRITONSERVER_REQUEST_RELEASE_ALL, started->release_userp);
}

static void on_run(struct TRITONSERVER_InferenceRequest *request) {
        started = request;
        if (answers_at_once)
                answer(4, NULL);
}

static int setup(void **state) {
        (void)state;
        memset(&fake, 0, sizeof(fake));
        fake_control.is_live = true;
        started = NULL;
        answers_at_once = fake.is_decoupled = false;
        strbuf_init(&fake.calls, 0);
        fake.run = on_run;
        fake_call_init();
        assert_null(infer_core_init(&fake_call.core,
                                    &(struct infer_core_options){ .header_forward_pattern =
                                                                          "^x-|^timeout$" }));
        return 0;
}

static int teardown(void **state) {
        (void)state;
        infer_core_done(&fake_call.core);
        fake_call_done();
        strbuf_done(&fake.calls);
        assert_int_equal(fake.n_requests, 0);
        assert_int_equal(fake.n_responses, 0);
        assert_int_equal(fake.n_errors, 0);
        return 0;
}

/* model_name "m", id "i", input "I" of 2 x FP32 with raw bytes, parameter p=5 */
static const char request[] = "\x0a\x01m\x1a\x01i\x22\x07\x0a\x01p\x12\x02\x10\x05"
                              "\x2a\x0c\x0a\x01I\x12\x04"
                              "FP32\x1a\x01\x02\x3a\x08"
                              "12345678";

static void infer(void) {
        fake_call_read(rpc_infer, str_range(request, sizeof(request) - 1));
}

static Inference__ModelInferResponse *reply(void) {
        struct strbuf                 *sent = &fake_call.messages[0];
        Inference__ModelInferResponse *m;

        assert_int_equal(fake_call.n_messages, 1);
        assert_int_equal(fake_call.n_finished, 1);
        assert_int_equal(fake_call.code, GRPC_OK);
        m = inference__model_infer_response__unpack(NULL, sent->len,
                                                    (const uint8_t *)strbuf_cstr(sent));
        assert_non_null(m);
        return m;
}

static void assert_refused(enum grpc_code code, const char *text) {
        assert_int_equal(fake_call.n_messages, 0);
        assert_int_equal(fake_call.n_finished, 1);
        assert_int_equal(fake_call.code, code);
        assert_string_equal(strbuf_cstr(&fake_call.text), text);
        assert_int_equal(fake_call.asks_to_retry, code == GRPC_UNAVAILABLE);
}

static void request_and_reply(void **state) {
        (void)state;
        /* A small output is copied, a large one goes out from its buffer. */
        for (size_t bytes = 4; bytes <= 40000; bytes += 39996) {
                Inference__ModelInferResponse *m;

                if (bytes > 4) {
                        teardown(NULL);
                        setup(NULL);
                }
                infer();
                assert_int_equal(fake_call.n_finished, 0);
                assert_string_equal(strbuf_cstr(&fake.calls),
                                    "new m -1\nid i\nint p=5\n"
                                    "input I 11 2\nappend I '12345678'\n");
                answer(bytes, NULL);
                assert_int_equal(fake_call.n_finished, 0); /* the loop has to come to it */
                fake_call_deliver();
                m = reply();
                assert_string_equal(m->model_name, "model");
                assert_string_equal(m->model_version, "3");
                assert_string_equal(m->id, "the id");
                assert_int_equal(m->n_parameters, 4);
                assert_int_equal(m->n_outputs, 1);
                assert_string_equal(m->outputs[0]->name, "OUT");
                assert_string_equal(m->outputs[0]->datatype, "UINT8");
                assert_int_equal(m->outputs[0]->shape[0], bytes);
                assert_int_equal(m->n_raw_output_contents, 1);
                assert_int_equal(m->raw_output_contents[0].len, bytes);
                for (size_t i = 0; i < bytes; i++)
                        assert_int_equal(m->raw_output_contents[0].data[i], 'o');
                inference__model_infer_response__free_unpacked(m, NULL);
        }
}

static void answered_at_once(void **state) {
        (void)state;
        answers_at_once = true;
        infer();
        inference__model_infer_response__free_unpacked(reply(), NULL);
}

static void failure_of_the_model(void **state) {
        (void)state;
        infer();
        answer(4, "it failed");
        fake_call_deliver();
        assert_refused(GRPC_UNAVAILABLE, "it failed");
}

static void client_goes_away(void **state) {
        (void)state;
        infer();
        fake_call.call.abort_reason = GRPC_ABORT_CANCELLED;
        rpc_infer_cancel(&fake_call.call);
        assert_true(started->is_cancelled);
        assert_int_equal(fake_call.n_finished, 0);
        answer(4, NULL);
        fake_call_deliver();
        assert_int_equal(fake_call.n_messages, 0);
        assert_int_equal(fake_call.code, GRPC_CANCELLED);
}

static void decoupled_model(void **state) {
        (void)state;
        fake.is_decoupled = true;
        infer();
        assert_refused(GRPC_UNIMPLEMENTED, "ModelInfer RPC doesn't support models with decoupled "
                                           "transaction policy");
}

static void refusals_of_the_core(void **state) {
        static const char *const calls[] = { "New", "InferAsync" };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
                if (i > 0) {
                        teardown(NULL);
                        setup(NULL);
                }
                fake.refuse = calls[i];
                infer();
                assert_refused(GRPC_NOT_FOUND, calls[i]);
        }
}

static void malformed(void **state) {
        (void)state;
        fake_call_read(rpc_infer, STR_LIT("\x0a\x05"));
        assert_refused(GRPC_INVALID_ARGUMENT, "failed to parse the ModelInferRequest message");
}

static void forwarded_metadata(void **state) {
        static const struct grpc_metadata fields[] = {
                { { "x-one", 5 }, { "1", 1 } },
                { { "other", 5 }, { "2", 1 } },
                { { "x-two", 5 }, { "", 0 } },
        };

        (void)state;
        fake_call.call.metadata = fields;
        fake_call.call.n_metadata = ARRAY_LEN(fields);
        infer();
        assert_non_null(strstr(strbuf_cstr(&fake.calls), "int p=5\nstring x-one=1\n"
                                                         "string x-two=\n"));
        assert_null(strstr(strbuf_cstr(&fake.calls), "other"));
        answer(4, NULL);
        fake_call_deliver();
        inference__model_infer_response__free_unpacked(reply(), NULL);
}

static void reserved_metadata(void **state) {
        static const struct grpc_metadata field = { { "timeout", 7 }, { "1", 1 } };

        (void)state;
        fake_call.call.metadata = &field;
        fake_call.call.n_metadata = 1;
        infer();
        assert_refused(GRPC_INVALID_ARGUMENT,
                       "Header 'timeout' is reserved for Triton usage and cannot be forwarded.");
}

static void bad_pattern(void **state) {
        struct infer_core unused;
        struct error     *err =
                infer_core_init(&unused,
                                &(struct infer_core_options){ .header_forward_pattern = "(" });

        (void)state;
        assert_non_null(err);
        assert_non_null(strstr(err->message, "invalid header forward pattern '('"));
        error_free(err);
        malformed(NULL); /* every test ends its call */
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

SUITE(rpc_infer) {
        const struct CMUnitTest tests[] = {
                TEST(request_and_reply), TEST(answered_at_once),   TEST(failure_of_the_model),
                TEST(client_goes_away),  TEST(decoupled_model),    TEST(refusals_of_the_core),
                TEST(malformed),         TEST(forwarded_metadata), TEST(reserved_metadata),
                TEST(bad_pattern),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
