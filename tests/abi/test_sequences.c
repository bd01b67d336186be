/* SPDX-License-Identifier: BSD-3-Clause */
/* A program with sequences: the public headers and libtritonserver.so, nothing else.
 *
 *   test_sequences <directory of backends>
 *
 * The model "sum" of the testing backend adds up the values of a sequence.
 */
#include "api_assert.h"
#include "embedded.h"
#include "heap_allocator.h"
#include "model_place.h"
#include "triton/core/neso.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define START TRITONSERVER_REQUEST_FLAG_SEQUENCE_START
#define END TRITONSERVER_REQUEST_FLAG_SEQUENCE_END

static const char config_text[] = "name: \"sum\"\n"
                                  "backend: \"testing\"\n"
                                  "input { name: \"INPUT0\" data_type: TYPE_INT32 dims: 1 }\n"
                                  "output { name: \"SUM\" data_type: TYPE_INT32 dims: 1 }\n"
                                  "sequence_batching { max_sequence_idle_microseconds: 600000000\n"
                                  "                    oldest { max_candidate_sequences: 4 } }\n"
                                  "instance_group { count: 1 kind: KIND_CPU }\n";

static const char config_json[] =
        "{\"name\":\"sum\",\"backend\":\"testing\","
        "\"input\":[{\"name\":\"INPUT0\",\"data_type\":\"TYPE_INT32\",\"dims\":[1]}],"
        "\"output\":[{\"name\":\"SUM\",\"data_type\":\"TYPE_INT32\",\"dims\":[1]}],"
        "\"sequence_batching\":{\"max_sequence_idle_microseconds\":600000000,"
        "\"oldest\":{\"max_candidate_sequences\":5}},"
        "\"instance_group\":[{\"count\":1,\"kind\":\"KIND_CPU\"}]}";

static const char *backend_directory;

static struct model_place                     place;
static struct TRITONSERVER_Server            *server;
static struct TRITONSERVER_ResponseAllocator *allocator;

/* One request, of the one value. */
struct call {
        struct inference in;
        int32_t          value;
};

static void call_init(struct call *c, int32_t value) {
        c->value = value;
        inference_open(&c->in, server, "sum", allocator, NULL);
        inference_add_input(&c->in, "INPUT0", TRITONSERVER_TYPE_INT32, 1, &c->value);
}

/* `text` NULL: the number. */
static void set_sequence(struct call *c, uint64_t number, const char *text, uint32_t flags) {
        if (text != NULL)
                assert_ok(TRITONSERVER_InferenceRequestSetCorrelationIdString(c->in.request, text));
        else
                assert_ok(TRITONSERVER_InferenceRequestSetCorrelationId(c->in.request, number));
        assert_ok(TRITONSERVER_InferenceRequestSetFlags(c->in.request, flags));
}

static int32_t run(struct call *c) {
        return inference_int32(inference_run(&c->in));
}

static int32_t ask(uint64_t number, const char *text, uint32_t flags, int32_t value) {
        struct call c;
        int32_t     sum;

        call_init(&c, value);
        set_sequence(&c, number, text, flags);
        sum = run(&c);
        inference_close(&c.in);
        return sum;
}

static void assert_refused(uint64_t number, const char *text, uint32_t flags, const char *why) {
        struct call c;

        call_init(&c, 1);
        set_sequence(&c, number, text, flags);
        assert_error(TRITONSERVER_ServerInferAsync(server, c.in.request, NULL),
                     TRITONSERVER_ERROR_INVALID_ARG, why);
        inference_close(&c.in);
}

static void reload(void) {
        const struct TRITONSERVER_Parameter *config =
                TRITONSERVER_ParameterNew("config", TRITONSERVER_PARAMETER_STRING, config_json);

        assert_ok(TRITONSERVER_ServerLoadModelWithParameters(server, "sum", &config, 1));
        TRITONSERVER_ParameterDelete((struct TRITONSERVER_Parameter *)config);
}

static int start_server(void **state) {
        struct TRITONSERVER_ServerOptions *options;

        (void)state;
        model_place_open(&place);
        model_place_add_model(&place, "sum", config_text, NULL);
        options = embedded_options(place.root, backend_directory);
        assert_ok(
                TRITONSERVER_ServerOptionsSetModelControlMode(options,
                                                              TRITONSERVER_MODEL_CONTROL_EXPLICIT));
        assert_ok(TRITONSERVER_ServerOptionsSetStartupModel(options, "sum"));
        assert_ok(TRITONSERVER_ServerOptionsSetLogWarn(options, false));
        server = embedded_start(options);
        allocator = heap_allocator_new();
        return 0;
}

static int stop_server(void **state) {
        (void)state;
        assert_ok(TRITONSERVER_ServerDelete(server));
        assert_ok(TRITONSERVER_ResponseAllocatorDelete(allocator));
        model_place_close(&place);
        return 0;
}

static void test_numbers_and_texts(void **state) {
        (void)state;
        assert_int_equal(ask(7, NULL, START, 1), 1);
        assert_int_equal(ask(0, "7", START, 10), 10); /* another one */
        assert_int_equal(ask(UINT64_MAX, NULL, START, 100), 100);
        assert_int_equal(ask(7, NULL, 0, 2), 3);
        assert_int_equal(ask(0, "7", 0, 20), 30);
        assert_int_equal(ask(7, NULL, END, 3), 6);
        assert_int_equal(ask(0, "7", END, 30), 60);
        assert_int_equal(ask(UINT64_MAX, NULL, END, 100), 200);
        assert_int_equal(ask(8, NULL, START | END, 5), 5);
}

static void test_refusals(void **state) {
        (void)state;
        assert_refused(
                9, NULL, 0,
                "inference request for sequence 9 to model 'sum' must specify the START flag "
                "on the first request of the sequence");
        assert_refused(0, "nine", END,
                       "inference request for sequence nine to model 'sum' must specify the START "
                       "flag on the first request of the sequence");
        assert_refused(0, NULL, START,
                       "inference request to model 'sum' must specify a non-zero or non-empty "
                       "correlation ID");
        assert_refused(0, "", START,
                       "inference request to model 'sum' must specify a non-zero or non-empty "
                       "correlation ID");
        /* An id is known until END, and not after it. */
        assert_int_equal(ask(9, NULL, START | END, 1), 1);
        assert_refused(
                9, NULL, 0,
                "inference request for sequence 9 to model 'sum' must specify the START flag "
                "on the first request of the sequence");
}

/* What was set can be read, before and after. */
static void test_properties(void **state) {
        struct call c;
        uint64_t    number = 0;
        const char *text = NULL;
        uint32_t    flags = 0;

        (void)state;
        call_init(&c, 1);
        set_sequence(&c, 11, NULL, START | END);
        for (int i = 0; i < 2; i++) {
                assert_ok(TRITONSERVER_InferenceRequestCorrelationId(c.in.request, &number));
                assert_int_equal(number, 11);
                assert_ok(TRITONSERVER_InferenceRequestFlags(c.in.request, &flags));
                assert_int_equal(flags, START | END);
                assert_error(TRITONSERVER_InferenceRequestCorrelationIdString(c.in.request, &text),
                             TRITONSERVER_ERROR_INVALID_ARG, NULL);
                assert_int_equal(run(&c), 1);
        }
        set_sequence(&c, 0, "eleven", START | END);
        assert_ok(TRITONSERVER_InferenceRequestCorrelationIdString(c.in.request, &text));
        assert_string_equal(text, "eleven");
        assert_int_equal(run(&c), 1);
        inference_close(&c.in);
}

/* Without waiting for each: in the order in which they were submitted. */
static void test_many_at_once(void **state) {
        struct call calls[20];
        int32_t     total = 0;

        (void)state;
        for (int i = 0; i < 20; i++) {
                call_init(&calls[i], i);
                set_sequence(&calls[i], 12, NULL,
                             (i == 0 ? (uint32_t)START : 0) | (i == 19 ? (uint32_t)END : 0));
                inference_start(&calls[i].in);
        }
        for (int i = 0; i < 20; i++) {
                total += i;
                inference_wait(&calls[i].in, 1, INFERENCE_ENDS);
                assert_int_equal(inference_int32(calls[i].in.responses[0]), total);
                inference_close(&calls[i].in);
        }
}

/* One request object for all of a sequence, through a reload; and for the next sequence. */
static void test_one_object_through_a_reload(void **state) {
        struct call                  c;
        struct TRITONSERVER_Message *message;
        const char                  *json;
        size_t                       byte_size;

        (void)state;
        call_init(&c, 1);
        set_sequence(&c, 13, NULL, START);
        assert_int_equal(run(&c), 1);
        reload();
        set_sequence(&c, 13, NULL, 0);
        assert_int_equal(run(&c), 2);
        assert_int_equal(ask(13, NULL, 0, 10), 12); /* of an object made after the reload */
        assert_ok(NESO_ServerModelSequences(server, "sum", -1, &message));
        assert_ok(TRITONSERVER_MessageSerializeToJson(message, &json, &byte_size));
        assert_non_null(strstr(json, "\"retired\":true,\"active\":1,"));
        assert_non_null(strstr(json, "\"id\":13,"));
        assert_ok(TRITONSERVER_MessageDelete(message));
        set_sequence(&c, 13, NULL, END);
        assert_int_equal(run(&c), 13);
        set_sequence(&c, 13, NULL, START); /* on the new load now */
        assert_int_equal(run(&c), 1);
        assert_int_equal(ask(13, NULL, END, 5), 6);
        inference_close(&c.in);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_numbers_and_texts),
                cmocka_unit_test(test_refusals),
                cmocka_unit_test(test_properties),
                cmocka_unit_test(test_many_at_once),
                cmocka_unit_test(test_one_object_through_a_reload),
        };

        if (argc != 2) {
                fprintf(stderr, "usage: test_sequences <directory of backends>\n");
                return 2;
        }
        backend_directory = argv[1];
        return cmocka_run_group_tests(tests, start_server, stop_server);
}
