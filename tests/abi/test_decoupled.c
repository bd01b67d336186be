/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that reads the responses of a decoupled model: the public headers and
 * libtritonserver.so, nothing else.
 *
 *   test_decoupled <directory of backends>
 *
 * The model "square" answers a number with that many responses, from a thread of the request's.
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

static const char config_text[] = "name: \"square\"\n"
                                  "backend: \"square\"\n"
                                  "model_transaction_policy { decoupled: true }\n"
                                  "input { name: \"IN\" data_type: TYPE_INT32 dims: 1 }\n"
                                  "output { name: \"OUT\" data_type: TYPE_INT32 dims: 1 }\n";

static const char *backend_directory;

static struct model_place                     place;
static struct TRITONSERVER_Server            *server;
static struct TRITONSERVER_ResponseAllocator *allocator;

static int start_server(void **state) {
        (void)state;
        model_place_open(&place);
        model_place_add_model(&place, "square", config_text, NULL);
        server = embedded_start(embedded_options(place.root, backend_directory));
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

static void open_inference(struct inference *in, const int32_t *number) {
        inference_open(in, server, "square", allocator, NULL);
        inference_add_input(in, "IN", TRITONSERVER_TYPE_INT32, 1, number);
}

/* Each response says the number that was asked for. */
static void assert_all(const struct inference *in, unsigned n, int32_t number) {
        assert_int_equal(in->n_responses, n);
        for (unsigned i = 0; i < n; i++)
                if (in->responses[i] != NULL)
                        assert_int_equal(inference_int32(in->responses[i]), number);
}

static void test_any_number(void **state) {
        static const int32_t numbers[] = { 0, 1, 3, 1000 };
        struct inference     all[4];

        (void)state;
        for (int i = 0; i < 4; i++) /* over each other */
                open_inference(&all[i], &numbers[i]);
        for (int i = 0; i < 4; i++)
                inference_start(&all[i]);
        for (int i = 0; i < 4; i++) {
                inference_wait(&all[i], 0, INFERENCE_ENDS);
                assert_all(&all[i], (unsigned)numbers[i], numbers[i]);
                inference_close(&all[i]);
        }
}

static void test_request_used_again(void **state) {
        const int32_t    number = 5;
        struct inference in;

        (void)state;
        open_inference(&in, &number);
        for (int i = 0; i < 3; i++) {
                inference_start(&in);
                inference_wait(&in, 5, INFERENCE_ENDS);
                assert_all(&in, 5, number);
        }
        inference_close(&in);
}

/* The backend makes three, and the next one when one of them is deleted. */
static void test_limit(void **state) {
        const int32_t    number = 10;
        struct inference in;

        (void)state;
        open_inference(&in, &number);
        assert_ok(NESO_InferenceRequestLimitResponses(in.request, 3, UINT64_MAX));
        inference_start(&in);
        for (unsigned n = 3; n < 10; n++) {
                inference_wait(&in, n, INFERENCE_GOES_ON);
                assert_int_equal(inference_count(&in), n);
                inference_drop(&in, n - 3);
        }
        inference_wait(&in, 10, INFERENCE_ENDS);
        assert_all(&in, 10, number);
        inference_close(&in);
}

/* The backend waits for room; a cancellation after the release ends that, and the responses. */
static void test_cancel(void **state) {
        const int32_t    number = INT32_MAX;
        struct inference in;

        (void)state;
        open_inference(&in, &number);
        assert_ok(NESO_InferenceRequestLimitResponses(in.request, UINT32_MAX, 1));
        inference_start(&in);
        inference_wait(&in, 1, INFERENCE_GOES_ON);
        assert_ok(TRITONSERVER_InferenceRequestCancel(in.request));
        inference_wait(&in, 1, INFERENCE_ENDS);
        assert_in_range(in.n_responses, 1, 2); /* the one it was about to make */
        inference_close(&in);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_any_number),
                cmocka_unit_test(test_request_used_again),
                cmocka_unit_test(test_limit),
                cmocka_unit_test(test_cancel),
        };

        if (argc != 2) {
                fprintf(stderr, "usage: %s <directory of backends>\n", argv[0]);
                return 2;
        }
        backend_directory = argv[1];
        return cmocka_run_group_tests(tests, start_server, stop_server);
}
