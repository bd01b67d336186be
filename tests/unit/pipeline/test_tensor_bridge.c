/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "pipeline/tensor_bridge.h"

static void test_shapes(void **state) {
        static const struct {
                int64_t            config[3];
                size_t             n_config;
                bool               has_batch;
                uint64_t           batch_size; /* of the tensor */
                int64_t            dims[3];
                size_t             n_dims;
                enum tensor_bridge bridge;
                int64_t            expected[4];
                uint32_t           n_expected;
        } rows[] = {
                /* Both have batches, or neither has. */
                { { 4 }, 1, true, 2, { 2, 4 }, 2, BRIDGE_NONE, { 2, 4 }, 2 },
                { { 4 }, 1, false, 0, { 4 }, 1, BRIDGE_NONE, { 4 }, 1 },
                /* To a model with batches. */
                { { 4 }, 1, true, 0, { 4 }, 1, BRIDGE_ADD_ONE, { 1, 4 }, 2 },
                { { -1 }, 1, true, 0, { 7 }, 1, BRIDGE_ADD_ONE, { 1, 7 }, 2 },
                { { 4 }, 1, true, 0, { 3, 4 }, 2, BRIDGE_NONE, { 3, 4 }, 2 },
                { { 0 }, 0, true, 0, { 0 }, 0, BRIDGE_ADD_ONE, { 1 }, 1 },
                /* To a model without. */
                { { 4 }, 1, false, 1, { 1, 4 }, 2, BRIDGE_DROP_ONE, { 4 }, 1 },
                { { 4 }, 1, false, 2, { 2, 4 }, 2, BRIDGE_NONE, { 2, 4 }, 2 },
                { { 1, 4 }, 2, false, 1, { 1, 4 }, 2, BRIDGE_NONE, { 1, 4 }, 2 },
                { { 4 }, 1, false, 1, { 0 }, 0, BRIDGE_NONE, { 0 }, 0 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct shape_form    shape = { rows[i].dims, rows[i].n_dims };
                struct bridged_shape got;
                enum tensor_bridge   bridge =
                        tensor_bridge_choose((struct shape_form){ rows[i].config,
                                                                  rows[i].n_config },
                                             rows[i].has_batch, rows[i].batch_size, shape);

                assert_int_equal(bridge, rows[i].bridge);
                tensor_bridge_apply(bridge, shape, &got);
                assert_int_equal(got.n_dims, rows[i].n_expected);
                for (uint32_t k = 0; k < got.n_dims; k++)
                        assert_int_equal(got.dims[k], rows[i].expected[k]);
        }
}

SUITE(tensor_bridge) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_shapes) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
