/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "fake_server.h"
#include "kit/batch_input.h"

#include <string.h>

#define N 3

static struct TRITONBACKEND_Request       requests[N];
static struct TRITONBACKEND_ModelInstance instance;
static TRITONBACKEND_Request             *list[N];
static struct kit_scratch                 scratch;
static struct kit_batch                   batch;
static const int32_t                      values[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 };

/* The requests have X of the shapes [1,3], [2,2] and, where `last` is set, [1,0]. */
static void open_batch(uint32_t n, int64_t max_batch_size) {
        static const int64_t shapes[N][2] = { { 1, 3 }, { 2, 2 }, { 1, 0 } };

        memset(requests, 0, sizeof(requests));
        memset(&instance, 0, sizeof(instance));
        memset(&fake, 0, sizeof(fake));
        for (uint32_t i = 0; i < n; i++) {
                int64_t rows = shapes[i][0], columns = shapes[i][1];

                list[i] = &requests[i];
                fake_add_input(&requests[i],
                               (struct TRITONBACKEND_Input){ .name = "X",
                                                             .type = TRITONSERVER_TYPE_INT32,
                                                             .shape = { rows, columns },
                                                             .n_dims = 2 },
                               values, (size_t)(rows * columns) * 4);
                requests[i].outputs[requests[i].n_outputs++] = "Y";
        }
        assert_null(kit_batch_open(&batch, &instance, list, n));
        kit_batch_read_rows(&batch, max_batch_size);
}

static void close_batch(void) {
        kit_batch_close(&batch);
        for (int i = 0; i < N; i++)
                fake_reset(&requests[i]);
        kit_scratch_done(&scratch);
        assert_int_equal(fake.n_errors_alive, 0);
}

struct row {
        enum kit_batch_input_kind kind;
        uint32_t                  n_requests;
        int64_t                   max_batch_size;
        uint32_t                  n_dims;
        int64_t                   shape[2];
        int32_t                   numbers[10];
};

static const struct row rows[] = {
        { KIT_BATCH_ELEMENT_COUNT, 3, 8, 1, { 3 }, { 3, 4, 0 } },
        { KIT_BATCH_ELEMENT_COUNT, 1, 8, 1, { 1 }, { 3 } },
        { KIT_BATCH_ACCUMULATED_ELEMENT_COUNT, 3, 8, 1, { 3 }, { 3, 7, 7 } },
        { KIT_BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO, 3, 8, 1, { 4 }, { 0, 3, 7, 7 } },
        { KIT_BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO, 1, 8, 1, { 2 }, { 0, 3 } },
        { KIT_BATCH_MAX_ELEMENT_COUNT_AS_SHAPE, 3, 8, 1, { 4 }, { 0, 0, 0, 0 } },
        { KIT_BATCH_ITEM_SHAPE, 3, 8, 2, { 4, 1 }, { 3, 2, 2, 0 } },
        { KIT_BATCH_ITEM_SHAPE_FLATTEN, 3, 8, 1, { 4 }, { 3, 2, 2, 0 } },
        { KIT_BATCH_ITEM_SHAPE, 1, 0, 2, { 1, 2 }, { 1, 3 } }, /* the model does not batch */
        { KIT_BATCH_ITEM_SHAPE_FLATTEN, 1, 0, 1, { 2 }, { 1, 3 } },
};

static void check_row(const struct row *row, TRITONSERVER_DataType type) {
        struct kit_batch_input in = { row->kind, type, "T", "X" };
        struct kit_gathered    made;
        size_t                 n = 1;

        open_batch(row->n_requests, row->max_batch_size);
        assert_null(kit_batch_input_make(&in, &batch, &scratch, &made));
        assert_int_equal(made.type, type);
        assert_int_equal(made.n_dims, row->n_dims);
        for (uint32_t i = 0; i < row->n_dims; i++) {
                assert_int_equal(made.shape[i], row->shape[i]);
                n *= (size_t)row->shape[i];
        }
        assert_int_equal(made.n_bytes, n * 4);
        for (size_t i = 0; i < n; i++)
                if (type == TRITONSERVER_TYPE_FP32)
                        assert_true(((const float *)made.bytes)[i] == (float)row->numbers[i]);
                else
                        assert_int_equal(((const int32_t *)made.bytes)[i], row->numbers[i]);
        close_batch();
}

static void test_kinds(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                check_row(&rows[i], TRITONSERVER_TYPE_INT32);
                check_row(&rows[i], TRITONSERVER_TYPE_FP32);
        }
}

/* Answered requests are no part of the batch. */
static void test_live_slots_only(void **state) {
        struct kit_batch_input in = { KIT_BATCH_ACCUMULATED_ELEMENT_COUNT, TRITONSERVER_TYPE_INT32,
                                      "T", "X" };
        struct kit_gathered    made;

        (void)state;
        open_batch(2, 8);
        kit_batch_fail(&batch, &batch.slots[0],
                       TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_CANCELLED, ""));
        assert_null(kit_batch_input_make(&in, &batch, &scratch, &made));
        assert_int_equal(made.shape[0], 1);
        assert_int_equal(((const int32_t *)made.bytes)[0], 4);
        close_batch();
}

static void check_error(TRITONSERVER_Error *err, const char *message) {
        assert_non_null(err);
        assert_string_equal(TRITONSERVER_ErrorMessage(err), message);
        TRITONSERVER_ErrorDelete(err);
}

static void test_ranks_that_differ(void **state) {
        struct kit_batch_input in = { KIT_BATCH_ITEM_SHAPE, TRITONSERVER_TYPE_INT32, "T", "X" };
        struct kit_gathered    made;

        (void)state;
        open_batch(2, 8);
        requests[1].inputs[0].n_dims = 3;
        requests[1].inputs[0].shape[2] = 1;
        check_error(kit_batch_input_make(&in, &batch, &scratch, &made),
                    "input 'X' has a different number of dimensions in the requests of a batch");
        close_batch();
}

static void test_scatter(void **state) {
        int64_t           any = -1, flat = 7;
        struct kit_tensor config = {
                .name = "Y", .type = TRITONSERVER_TYPE_INT32, .dims = &any, .n_dims = 1
        };
        struct kit_batch_output output = { &config, "X" };
        struct kit_output       made = {
                      .name = "Y", .type = TRITONSERVER_TYPE_INT32, .shape = &flat, .n_dims = 1
        };

        (void)state;
        open_batch(3, 8);
        assert_null(kit_batch_output_scatter(&output, &batch, &made, values));
        for (int i = 0; i < 3; i++) {
                static const int64_t               shapes[N][2] = { { 1, 3 }, { 2, 2 }, { 1, 0 } };
                static const int                   first[N] = { 0, 3, 7 };
                const struct TRITONBACKEND_Output *y = fake_output(&requests[i], "Y");

                assert_int_equal(y->n_dims, 2);
                assert_int_equal(y->shape[0], shapes[i][0]);
                assert_int_equal(y->shape[1], shapes[i][1]);
                assert_int_equal(y->n_bytes, shapes[i][0] * shapes[i][1] * 4);
                if (y->n_bytes > 0)
                        assert_memory_equal(y->bytes, &values[first[i]], y->n_bytes);
        }
        close_batch();

        flat = 8;
        open_batch(3, 8);
        check_error(
                kit_batch_output_scatter(&output, &batch, &made, values),
                "failed to split the output tensor 'Y' in responses: expected 7 elements by the "
                "shapes of input 'X', got 8");
        assert_int_equal(requests[0].responses[0].n_outputs, 0);
        close_batch();
}

SUITE(kit_batch_input) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_kinds),
                cmocka_unit_test(test_live_slots_only),
                cmocka_unit_test(test_ranks_that_differ),
                cmocka_unit_test(test_scatter),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
