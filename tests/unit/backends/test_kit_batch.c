/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "fake_server.h"
#include "kit/batch.h"
#include "kit/input.h"
#include "kit/output.h"

#include <string.h>

#define N 10

static struct TRITONBACKEND_Request       requests[N];
static struct TRITONBACKEND_ModelInstance instance;
static TRITONBACKEND_Request             *list[N];
static struct kit_scratch                 scratch;
static const int32_t                      values[] = { 10, 11, 12, 13, 14, 15, 16, 17, 18, 19 };

static int set_up(void **state) {
        (void)state;
        memset(requests, 0, sizeof(requests));
        memset(&instance, 0, sizeof(instance));
        memset(&fake, 0, sizeof(fake));
        for (int i = 0; i < N; i++)
                list[i] = &requests[i];
        return 0;
}

/* Every request answered and released exactly once (the fake aborts on twice); nothing leaked. */
static int tear_down(void **state) {
        (void)state;
        kit_scratch_done(&scratch);
        for (int i = 0; i < N; i++)
                fake_reset(&requests[i]);
        return fake.n_errors_alive == 0 ? 0 : -1;
}

/* Request i gets input X of shape [rows, 1] from `values` on. */
static void add_rows(int i, int64_t rows, int first) {
        fake_add_input(&requests[i],
                       (struct TRITONBACKEND_Input){ .name = "X",
                                                     .type = TRITONSERVER_TYPE_INT32,
                                                     .shape = { rows, 1 },
                                                     .n_dims = 2 },
                       &values[first], (size_t)rows * 4);
        requests[i].outputs[requests[i].n_outputs++] = "Y";
}

static void check_answer(int i, bool is_error) {
        assert_true(requests[i].is_released);
        assert_int_equal(requests[i].n_responses, 1);
        assert_true(requests[i].responses[0].is_sent);
        assert_true(requests[i].responses[0].is_final);
        assert_int_equal(requests[i].responses[0].has_error, is_error);
        assert_int_equal(requests[i].was_success, !is_error);
        for (int s = 0; s < 3; s++)
                assert_true(requests[i].stamps[s] <= requests[i].stamps[s + 1]);
}

static void test_gather_one_borrows(void **state) {
        struct kit_batch    batch;
        struct kit_gathered tensor;

        (void)state;
        add_rows(0, 2, 3);
        assert_null(kit_batch_open(&batch, &instance, list, 1));
        kit_batch_read_rows(&batch, 8);
        assert_int_equal(batch.n_rows, 2);
        assert_null(kit_gather(&batch, "X", &scratch, &tensor));
        assert_ptr_equal(tensor.bytes, &values[3]);
        assert_int_equal(tensor.n_bytes, 8);
        assert_int_equal(tensor.n_dims, 2);
        assert_int_equal(tensor.shape[0], 2);
        assert_null(scratch.bytes);
        kit_batch_close(&batch);
        check_answer(0, false);
        assert_int_equal(instance.n_batches, 1);
        assert_int_equal(instance.batch_rows, 2);
}

static void test_gather_one_copies_what_does_not_fit(void **state) {
        static const char   bytes[] = "?\1\0\0\0\2\0\0\0";
        struct kit_batch    batch;
        struct kit_gathered tensor;

        (void)state;
        add_rows(0, 2, 0);
        requests[0].inputs[0].pieces[0] = bytes + 1; /* no address for int32_t */
        assert_null(kit_batch_open(&batch, &instance, list, 1));
        assert_null(kit_gather(&batch, "X", &scratch, &tensor));
        assert_ptr_equal(tensor.bytes, scratch.bytes);
        assert_int_equal(((const int32_t *)tensor.bytes)[1], 2);

        requests[0].inputs[0].pieces[0] = &values[0]; /* two buffers */
        requests[0].inputs[0].pieces[1] = &values[7];
        requests[0].inputs[0].piece_bytes[0] = requests[0].inputs[0].piece_bytes[1] = 4;
        requests[0].inputs[0].n_pieces = 2;
        assert_null(kit_gather(&batch, "X", &scratch, &tensor));
        assert_int_equal(((const int32_t *)tensor.bytes)[0], 10);
        assert_int_equal(((const int32_t *)tensor.bytes)[1], 17);
        kit_batch_close(&batch);
}

static void test_gather_many(void **state) {
        static const int32_t expected[] = { 13, 10, 11, 19 };
        struct kit_batch     batch;
        struct kit_gathered  tensor;

        (void)state;
        add_rows(0, 1, 3);
        add_rows(1, 2, 0);
        add_rows(2, 1, 9);
        assert_null(kit_batch_open(&batch, &instance, list, 3));
        kit_batch_read_rows(&batch, 8);
        assert_int_equal(batch.n_rows, 4);
        assert_null(kit_gather(&batch, "X", &scratch, &tensor));
        assert_int_equal(tensor.shape[0], 4);
        assert_int_equal(tensor.n_bytes, sizeof(expected));
        assert_memory_equal(tensor.bytes, expected, sizeof(expected));

        scratch.n_bytes = 8; /* as if all batches before had been smaller */
        assert_null(kit_gather(&batch, "X", &scratch, &tensor));
        assert_int_equal(tensor.shape[0], 4);
        assert_int_equal(tensor.n_bytes, sizeof(expected));
        assert_memory_equal(tensor.bytes, expected, sizeof(expected));

        assert_null(kit_gather_ragged(&batch, "X", &scratch, &tensor));
        assert_int_equal(tensor.n_dims, 1);
        assert_int_equal(tensor.shape[0], 4);
        assert_memory_equal(tensor.bytes, expected, sizeof(expected));
        kit_batch_close(&batch);
}

static void test_gather_refuses(void **state) {
        struct kit_batch    batch;
        struct kit_gathered tensor;
        TRITONSERVER_Error *err;

        (void)state;
        add_rows(0, 1, 0);
        add_rows(1, 1, 1);
        requests[1].inputs[0].memory_type = TRITONSERVER_MEMORY_GPU;
        assert_null(kit_batch_open(&batch, &instance, list, 2));
        err = kit_gather(&batch, "X", &scratch, &tensor);
        assert_string_equal(TRITONSERVER_ErrorMessage(err),
                            "input 'X' is in GPU memory, which this backend cannot read");
        TRITONSERVER_ErrorDelete(err);
        err = kit_gather(&batch, "Z", &scratch, &tensor);
        assert_non_null(err);
        kit_batch_fail_all(&batch, err);
        assert_int_equal(batch.n_live, 0);
        kit_batch_close(&batch);
        check_answer(0, true);
        check_answer(1, true);
        assert_int_equal(instance.n_batches, 0);
}

static void test_scatter(void **state) {
        const int64_t           shape[] = { 4, 2 };
        const int16_t           bytes[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
        const struct kit_output output = { "Y", TRITONSERVER_TYPE_INT16, shape, 2, false };
        struct kit_batch        batch;

        (void)state;
        add_rows(0, 1, 0);
        add_rows(1, 2, 0);
        add_rows(2, 1, 0);
        requests[2].n_outputs = 0; /* does not ask for it */
        assert_null(kit_batch_open(&batch, &instance, list, 3));
        kit_batch_read_rows(&batch, 8);
        kit_scatter(&batch, &output, bytes, sizeof(bytes));
        kit_batch_close(&batch);

        assert_int_equal(fake_output(&requests[0], "Y")->shape[0], 1);
        assert_int_equal(fake_output(&requests[0], "Y")->shape[1], 2);
        assert_memory_equal(fake_output(&requests[0], "Y")->bytes, bytes, 4);
        assert_int_equal(fake_output(&requests[1], "Y")->shape[0], 2);
        assert_int_equal(fake_output(&requests[1], "Y")->n_bytes, 8);
        assert_memory_equal(fake_output(&requests[1], "Y")->bytes, bytes + 2, 8);
        assert_null(fake_output(&requests[2], "Y"));
        for (int i = 0; i < 3; i++)
                check_answer(i, false);
        assert_int_equal(instance.batch_rows, 4);
}

static void test_scatter_after_a_failure(void **state) {
        const int64_t           shape[] = { 3, 1 };
        const struct kit_output output = { "Y", TRITONSERVER_TYPE_INT32, shape, 2, false };
        struct kit_batch        batch;

        (void)state;
        for (int i = 0; i < 4; i++)
                add_rows(i, 1, i);
        assert_null(kit_batch_open(&batch, &instance, list, 4));
        kit_batch_read_rows(&batch, 8);
        kit_batch_fail(&batch, &batch.slots[1],
                       TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "not this one"));
        assert_int_equal(batch.n_rows, 3);
        kit_scatter(&batch, &output, values, 12);
        kit_batch_close(&batch);
        check_answer(1, true);
        assert_string_equal(requests[1].responses[0].message, "not this one");
        assert_int_equal(requests[1].responses[0].code, TRITONSERVER_ERROR_UNAVAILABLE);
        assert_int_equal(*(int32_t *)fake_output(&requests[0], "Y")->bytes, 10);
        assert_int_equal(*(int32_t *)fake_output(&requests[2], "Y")->bytes, 11);
        assert_int_equal(*(int32_t *)fake_output(&requests[3], "Y")->bytes, 12);
        assert_int_equal(instance.batch_rows, 3);
}

static void test_scatter_wrong_rows(void **state) {
        const int64_t           shape[] = { 5, 1 };
        const struct kit_output output = { "Y", TRITONSERVER_TYPE_INT32, shape, 2, false };
        struct kit_batch        batch;

        (void)state;
        add_rows(0, 2, 0);
        add_rows(1, 2, 0);
        assert_null(kit_batch_open(&batch, &instance, list, 2));
        kit_batch_read_rows(&batch, 8);
        kit_scatter(&batch, &output, values, 20);
        kit_batch_close(&batch);
        check_answer(0, true);
        check_answer(1, true);
        assert_string_equal(requests[0].responses[0].message,
                            "failed to split the output tensor 'Y' in responses: expected batch "
                            "size of 4 in model output, got 5");
}

static void test_scatter_output_refused(void **state) {
        const int64_t           shape[] = { 1, 1 };
        const struct kit_output output = { "Y", TRITONSERVER_TYPE_INT32, shape, 2, false };
        struct kit_batch        batch;

        (void)state;
        add_rows(0, 1, 0);
        fake.fail_output = "Y";
        assert_null(kit_batch_open(&batch, &instance, list, 1));
        kit_batch_read_rows(&batch, 8);
        kit_scatter(&batch, &output, values, 4);
        kit_batch_close(&batch);
        check_answer(0, true);
        assert_string_equal(requests[0].responses[0].message, "no memory for the output");
}

static void test_scatter_strings(void **state) {
        const int64_t                   shape[] = { 3, 1 };
        const size_t                    offsets[] = { 0, 2, 2 };
        const struct kit_packed_strings strings = { "abcde", offsets, 3, 5 };
        struct kit_output               output = { "Y", TRITONSERVER_TYPE_BYTES, shape, 2, false };
        struct kit_batch                batch;

        (void)state;
        add_rows(0, 2, 0);
        add_rows(1, 1, 0);
        assert_null(kit_batch_open(&batch, &instance, list, 2));
        kit_batch_read_rows(&batch, 8);
        kit_scatter_strings(&batch, &output, &strings);
        output.is_state = true;
        output.name = "S";
        kit_scatter_strings(&batch, &output, &strings);
        kit_batch_close(&batch);
        assert_int_equal(fake_output(&requests[0], "Y")->n_bytes, 10);
        assert_memory_equal(fake_output(&requests[0], "Y")->bytes, "\2\0\0\0ab\0\0\0\0", 10);
        assert_memory_equal(fake_output(&requests[1], "Y")->bytes, "\3\0\0\0cde", 7);
        assert_true(requests[1].states[0].is_committed);
        assert_string_equal(requests[1].states[0].value.name, "S");
        assert_memory_equal(requests[1].states[0].value.bytes, "\3\0\0\0cde", 7);
}

static void test_more_than_few(void **state) {
        const int64_t           shape[] = { N, 1 };
        const struct kit_output output = { "Y", TRITONSERVER_TYPE_INT32, shape, 2, false };
        struct kit_gathered     tensor;
        struct kit_batch        batch;

        (void)state;
        for (int i = 0; i < N; i++)
                add_rows(i, 1, N - 1 - i);
        assert_null(kit_batch_open(&batch, &instance, list, N));
        kit_batch_read_rows(&batch, 16);
        assert_null(kit_gather(&batch, "X", &scratch, &tensor));
        kit_scatter(&batch, &output, tensor.bytes, tensor.n_bytes);
        kit_batch_close(&batch);
        for (int i = 0; i < N; i++) {
                check_answer(i, false);
                assert_int_equal(*(int32_t *)fake_output(&requests[i], "Y")->bytes,
                                 values[N - 1 - i]);
        }
}

static void test_cancelled_and_malformed(void **state) {
        struct kit_batch batch;

        (void)state;
        for (int i = 0; i < 3; i++)
                add_rows(i, 1, i);
        requests[0].is_cancelled = true;
        requests[1].inputs[0].n_dims = 0;
        assert_null(kit_batch_open(&batch, &instance, list, 3));
        kit_batch_drop_cancelled(&batch);
        kit_batch_read_rows(&batch, 8);
        assert_int_equal(batch.n_live, 1);
        assert_int_equal(batch.n_rows, 1);
        kit_batch_close(&batch);
        check_answer(0, true);
        assert_int_equal(requests[0].responses[0].code, TRITONSERVER_ERROR_CANCELLED);
        assert_string_equal(requests[0].responses[0].message, "");
        check_answer(1, true);
        assert_int_equal(requests[1].responses[0].code, TRITONSERVER_ERROR_INVALID_ARG);
        check_answer(2, false);
}

static void test_no_response(void **state) {
        struct kit_batch batch;

        (void)state;
        add_rows(0, 1, 0);
        fake.fail_response_new = true;
        assert_null(kit_batch_open(&batch, &instance, list, 1));
        assert_int_equal(batch.n_live, 0);
        kit_batch_close(&batch);
        assert_true(requests[0].is_released);
        assert_false(requests[0].was_success);
}

static void fail_second(struct kit_batch *one, void *state) {
        int *calls = state;

        assert_int_equal(one->n_live, 1);
        if ((*calls)++ == 1)
                kit_batch_fail_all(one, TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "bad"));
}

static void test_each(void **state) {
        struct kit_batch batch;
        int              calls = 0;

        (void)state;
        add_rows(0, 2, 0);
        add_rows(1, 3, 0);
        add_rows(2, 1, 0);
        assert_null(kit_batch_open(&batch, &instance, list, 3));
        kit_batch_read_rows(&batch, 8);
        kit_batch_each(&batch, fail_second, &calls);
        assert_int_equal(calls, 3);
        assert_int_equal(batch.n_live, 2);
        assert_int_equal(batch.n_rows, 3);
        kit_batch_close(&batch);
        check_answer(0, false);
        check_answer(1, true);
        check_answer(2, false);
        assert_int_equal(instance.batch_rows, 3);
}

static void test_agree(void **state) {
        (void)state;
        add_rows(0, 1, 0);
        add_rows(1, 2, 0);
        assert_true(kit_inputs_agree(&requests[0], &requests[1], "X", 1));
        assert_false(kit_inputs_agree(&requests[0], &requests[1], "X", 0));
        assert_true(kit_inputs_agree(&requests[0], &requests[1], "absent", 0));
        assert_false(kit_inputs_agree(&requests[0], &requests[2], "X", 1));
        requests[1].inputs[0].type = TRITONSERVER_TYPE_UINT32;
        assert_false(kit_inputs_agree(&requests[0], &requests[1], "X", 1));
}

static void test_count_elements(void **state) {
        const int64_t       good[] = { 2, 3, 4 }, negative[] = { -1 };
        const int64_t       huge[] = { INT64_MAX, INT64_MAX };
        TRITONSERVER_Error *err;
        size_t              n = 0;

        (void)state;
        assert_null(kit_count_elements(good, 3, "T", &n));
        assert_int_equal(n, 24);
        assert_null(kit_count_elements(good, 0, "T", &n));
        assert_int_equal(n, 1);
        err = kit_count_elements(negative, 1, "T", &n);
        assert_string_equal(TRITONSERVER_ErrorMessage(err), "tensor 'T' has an impossible shape");
        TRITONSERVER_ErrorDelete(err);
        err = kit_count_elements(huge, 2, "T", &n);
        assert_non_null(err);
        TRITONSERVER_ErrorDelete(err);
}

static void test_begins_when_the_server_began(void **state) {
        struct kit_batch batch;

        (void)state;
        fake.start_ns = 77;
        add_rows(0, 1, 0);
        assert_null(kit_batch_open(&batch, &instance, list, 1));
        kit_batch_close(&batch);
        check_answer(0, false);
        assert_int_equal(requests[0].stamps[0], 77);
}

static void test_stats_filled(void **state) {
        struct kit_stats stats = { .exec_start = 5, .exec_end = 9 };
        struct kit_stats filled = kit_stats_filled(&stats);

        (void)state;
        assert_int_equal(filled.compute_start, 5);
        assert_int_equal(filled.compute_end, 5);
        assert_int_equal(filled.exec_end, 9);
}

static void test_scratch(void **state) {
        void *first = kit_scratch_reserve(&scratch, 100);

        (void)state;
        assert_non_null(first);
        assert_int_equal((uintptr_t)first % 64, 0);
        assert_ptr_equal(kit_scratch_reserve(&scratch, 4000), first);
        assert_non_null(kit_scratch_reserve(&scratch, 100000));
        assert_true(scratch.n_bytes >= 100000);
        assert_null(kit_scratch_reserve(&scratch, SIZE_MAX));
        assert_non_null(kit_scratch_reserve(&scratch, 0));
}

/* The receivers of several answers may wait for the last of them; a lone one is told at once. */
static void test_answers_in_a_row(void **state) {
        struct kit_batch batch;

        (void)state;
        for (int i = 0; i < 4; i++)
                add_rows(i, 1, i);
        assert_null(kit_batch_open(&batch, &instance, list, 3));
        kit_batch_fail(&batch, &batch.slots[1],
                       kit_error(TRITONSERVER_ERROR_INVALID_ARG, "not this one"));
        assert_int_equal(fake.n_sent_in_row, 0); /* it is answered before the others run */
        kit_batch_close(&batch);
        assert_int_equal(fake.n_rows, 1);
        assert_int_equal(fake.n_sent_in_row, 2);
        check_answer(0, false);
        check_answer(1, true);
        check_answer(2, false);
        assert_null(kit_batch_open(&batch, &instance, list + 3, 1));
        kit_batch_close(&batch);
        assert_int_equal(fake.n_rows, 1);
        check_answer(3, false);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

SUITE(kit_batch) {
        const struct CMUnitTest tests[] = {
                TEST(test_gather_one_borrows),
                TEST(test_gather_one_copies_what_does_not_fit),
                TEST(test_gather_many),
                TEST(test_gather_refuses),
                TEST(test_scatter),
                TEST(test_scatter_after_a_failure),
                TEST(test_scatter_wrong_rows),
                TEST(test_scatter_output_refused),
                TEST(test_scatter_strings),
                TEST(test_more_than_few),
                TEST(test_cancelled_and_malformed),
                TEST(test_answers_in_a_row),
                TEST(test_no_response),
                TEST(test_each),
                TEST(test_agree),
                TEST(test_count_elements),
                TEST(test_begins_when_the_server_began),
                TEST(test_stats_filled),
                TEST(test_scratch),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
