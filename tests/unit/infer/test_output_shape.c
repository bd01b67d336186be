/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "infer/fake_model.h"
#include "infer/output_shape.h"

#include <stdio.h>

#define OUTPUT(text) "output { name: 'Y' data_type: TYPE_FP32 " text " } "
#define MAX_DIMS 8

struct row {
        const char *config;
        const char *name;
        int64_t     dims[MAX_DIMS]; /* 0 ends */
        int64_t     expected[MAX_DIMS];
};

static const struct row rows[] = {
        /* No reshape: as the backend says. */
        { "max_batch_size: 4 " OUTPUT("dims: [2, 3]"), "Y", { 4, 2, 3 }, { 4, 2, 3 } },
        { "max_batch_size: 4 " OUTPUT("dims: [2, 3]"), "Y", { 7 }, { 7 } },
        { OUTPUT("dims: [-1]"), "Y", { 9 }, { 9 } },
        /* An output that the configuration does not have. */
        { OUTPUT("dims: 6 reshape { shape: [2, 3] }"), "Z", { 2, 3 }, { 2, 3 } },
        /* The backend's form becomes the client's. */
        { OUTPUT("dims: 6 reshape { shape: [2, 3] }"), "Y", { 2, 3 }, { 6 } },
        { "max_batch_size: 4 " OUTPUT("dims: 6 reshape { shape: [2, 3] }"),
          "Y",
          { 4, 2, 3 },
          { 4, 6 } },
        { "max_batch_size: 4 " OUTPUT("dims: 1 reshape { shape: [] }"), "Y", { 3 }, { 3, 1 } },
        { "max_batch_size: 4 " OUTPUT("dims: [-1, 2, -1] reshape { shape: [2, -1, -1] }"),
          "Y",
          { 3, 2, 5, 7 },
          { 3, 5, 2, 7 } },
        { "max_batch_size: 4 " OUTPUT("dims: [1, 1, 1, 1, 6] reshape { shape: 6 }"),
          "Y",
          { 2, 6 },
          { 2, 1, 1, 1, 1, 6 } },
        /* What is not of the backend's form is left alone. */
        { OUTPUT("dims: 6 reshape { shape: [2, 3] }"), "Y", { 6 }, { 6 } },
        { OUTPUT("dims: 6 reshape { shape: [2, 3] }"), "Y", { 3, 2 }, { 3, 2 } },
};

static uint32_t count(const int64_t *dims) {
        uint32_t n = 0;

        while (n < MAX_DIMS && dims[n] != 0)
                n++;
        return n;
}

static void test_rows(void **state) {
        char config[256];

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                const struct row *row = &rows[i];
                uint32_t          n_expected = count(row->expected);
                int64_t           got[MAX_DIMS];

                snprintf(config, sizeof(config), "name: 'm' %s", row->config);

                struct fake_model     *fake = fake_model_new(config);
                struct model_io_set   *io = fake->model.io;
                const struct model_io *t = model_io_find_output_named(io, row->name, 0);
                uint32_t               n;

                assert_in_range(output_shape_max_dims(t, count(row->dims)), n_expected, MAX_DIMS);
                n = output_shape_restore(io, t, row->dims, count(row->dims), got);
                if (n != n_expected || memcmp(got, row->expected, n * sizeof(*got)) != 0)
                        fail_msg("row %zu: %u dims, first %lld", i, n, (long long)got[0]);
                fake_model_free(fake);
        }
}

static void test_no_dims(void **state) {
        struct fake_model *fake = fake_model_new("name: 'm' max_batch_size: 4 " OUTPUT("dims: 1"));
        int64_t            got[1] = { 77 };

        (void)state;
        assert_int_equal(output_shape_restore(fake->model.io, &fake->model.io->outputs[0], NULL, 0,
                                              got),
                         0);
        assert_int_equal(got[0], 77);
        fake_model_free(fake);
}

SUITE(output_shape) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows),
                cmocka_unit_test(test_no_dims),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
