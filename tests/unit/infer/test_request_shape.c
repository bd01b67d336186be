/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "infer/fake_model.h"
#include "infer/request_prepare.h"

#include <stdio.h>

static void test_who_needs_it(void **state) {
        static const struct {
                const char *input; /* what the second input says besides its name and type */
                bool        expected;
        } rows[] = {
                { "dims: 4", false },
                { "dims: [2, 3]", false },
                { "dims: -1", true },
                { "dims: [2, -1]", true },
                { "dims: -1 allow_ragged_batch: true", false },
                { "dims: 4 allow_ragged_batch: true", false },
                { "dims: 4 is_shape_tensor: true", true },
                { "dims: 4 optional: true", true },
                { "dims: -1 allow_ragged_batch: true optional: true", true },
        };
        char config[256];

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                snprintf(config, sizeof(config),
                         "name: 'm' max_batch_size: 4 input { name: 'A' data_type: TYPE_INT32 "
                         "dims: 1 } input { name: 'B' data_type: TYPE_INT32 %s }",
                         rows[i].input);

                struct fake_model *fake = fake_model_new(config);

                if (model_io_needs_equal_shapes(fake->model.io) != rows[i].expected)
                        fail_msg("%s", rows[i].input);
                fake_model_free(fake);
        }
}

#define BATCHED "name: 'm' max_batch_size: 8 "
#define UNBATCHED "name: 'm' "
#define V "input { name: 'V' data_type: TYPE_INT8 dims: -1 } "
#define W "input { name: 'W' data_type: TYPE_INT8 dims: [-1, -1] } "
#define R "input { name: 'R' data_type: TYPE_INT8 dims: -1 allow_ragged_batch: true } "
#define S "input { name: 'S' data_type: TYPE_INT8 dims: [-1, -1] is_shape_tensor: true } "
#define O "input { name: 'O' data_type: TYPE_INT8 dims: 1 optional: true } "
#define P "input { name: 'P' data_type: TYPE_INT8 dims: 1 optional: true } "

/* "V:2,3 S:1,2=ab" */
static struct request *request_of(struct fake_model *fake, const char *text) {
        struct request *req = fake_request(fake);

        while (*text != '\0') {
                char    name[2] = { *text, 0 };
                int64_t dims[4];
                size_t  n = 0;
                char   *end = (char *)text + 1;

                do
                        dims[n++] = strtoll(end + 1, &end, 10);
                while (*end == ',');
                if (*end == '=') {
                        size_t len = strcspn(++end, " ");

                        assert_ok(request_add_input(req, name, DATA_TYPE_INT8, dims, n), name);
                        append_bytes(req, name, end, len);
                        end += len;
                } else {
                        add_zeroed_input(req, name, DATA_TYPE_INT8, dims, n);
                }
                text = end + strspn(end, " ");
        }
        assert_ok(request_prepare(req), text);
        return req;
}

struct row {
        const char *config;
        const char *left;
        const char *right;
        bool        expected;
};

static const struct row rows[] = {
        { BATCHED V, "V:1,4", "V:1,4", true },
        { BATCHED V, "V:1,4", "V:3,4", true }, /* the batch dimension */
        { BATCHED V, "V:1,4", "V:1,5", false },
        { UNBATCHED V, "V:4", "V:4", true },
        { UNBATCHED V, "V:4", "V:5", false }, /* there is no batch dimension */
        { BATCHED W, "W:1,2,6", "W:1,3,4", false },
        { BATCHED W, "W:2,2,6", "W:1,2,6", true },
        { BATCHED V W, "V:1,1 W:1,2,3", "V:1,1 W:1,2,3", true },
        { BATCHED V W, "V:1,1 W:1,2,3", "W:1,2,3 V:1,1", true }, /* in any order */
        { BATCHED V W, "V:1,1 W:1,2,3", "W:1,2,3 V:1,2", false },
        { BATCHED R V, "R:1,1 V:1,2", "R:1,9 V:1,2", true },
        { BATCHED R V, "R:1,1 V:1,2", "R:1,1 V:1,3", false },
        { BATCHED V O P, "V:1,1", "V:1,1", true },
        { BATCHED V O P, "V:1,1", "V:1,1 O:1,1", false },
        { BATCHED V O P, "V:1,1 O:1,1", "V:1,1", false },
        { BATCHED V O P, "V:1,1 O:1,1", "V:1,1 P:1,1", false },
        { BATCHED V O P, "V:1,1 O:1,1 P:1,1", "P:1,1 O:1,1 V:1,1", true },
        { BATCHED S V, "S:1,2=ab V:1,1", "S:1,2=ab V:2,1", true },
        { BATCHED S V, "S:1,2=ab V:1,1", "S:1,2=ac V:1,1", false },
        { BATCHED S V, "S:1,2=ab V:1,1", "S:1,3=abc V:1,1", false },
        { BATCHED S V, "S:1,2=ab V:1,1", "S:2,1=ab V:1,1", false }, /* same bytes, other shape */
        { UNBATCHED S, "S:0,2", "S:0,2", true },
};

static void test_pairs(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct fake_model *fake = fake_model_new(rows[i].config);
                struct request    *a = request_of(fake, rows[i].left);
                struct request    *b = request_of(fake, rows[i].right);

                if (request_same_shape(a, b) != rows[i].expected ||
                    request_same_shape(b, a) != rows[i].expected)
                        fail_msg("%s, %s", rows[i].left, rows[i].right);
                request_free(a);
                request_free(b);
                fake_model_free(fake);
        }
}

/* Contents in several pieces are not compared: they count as different. */
static void test_shape_tensor_in_pieces(void **state) {
        struct fake_model *fake = fake_model_new(UNBATCHED S);
        struct request    *a = request_of(fake, "S:1,2=ab");
        struct request    *b = request_of(fake, "S:1,2=ab");

        (void)state;
        assert_true(request_same_shape(a, b));
        assert_ok(request_remove_bytes(b, "S"), "S");
        append_bytes(b, "S", "a", 1);
        append_bytes(b, "S", "b", 1);
        assert_false(request_same_shape(a, b));
        assert_false(request_same_shape(b, a));
        request_free(a);
        request_free(b);
        fake_model_free(fake);
}

SUITE(request_shape) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_who_needs_it),
                cmocka_unit_test(test_pairs),
                cmocka_unit_test(test_shape_tensor_in_pieces),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
