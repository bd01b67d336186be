/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of steps that are used again: what is replaced, and when the full check must decide. */
#include "suite.h"

#include "infer/fake_model.h"
#include "infer/inner_request.h"
#include "infer/request_prepare.h"
#include "infer/response.h"
#include "infer/step_request.h"

#define CONFIG                                                                                     \
        "name: 'm' max_batch_size: 4 input { name: 'A' data_type: TYPE_INT32 dims: [ 2, -1 ] } "   \
        "input { name: 'B' data_type: TYPE_STRING dims: 1 optional: true } "                       \
        "input { name: 'C' data_type: TYPE_INT32 dims: 4 reshape { shape: [ 2, 2 ] } "             \
        "optional: true } output { name: 'Y' data_type: TYPE_INT32 dims: 1 } "

static const int32_t bytes[64];

static struct request *new_request(struct fake_model *f, unsigned input) {
        struct request          *req = request_new_borrowing(&f->model);
        struct buffer_attributes eight = cpu_bytes(16);
        struct request_input    *in;
        static const int64_t     a[] = { 1, 2, 2 }, c[] = { 1, 4 };

        assert_non_null(req);
        assert_ok(request_add_known_input(req, &f->model.io->inputs[input], DATA_TYPE_INT32,
                                          input == 0 ? a : c, input == 0 ? 3 : 2, &in),
                  "input");
        assert_ok(request_input_append(req, in, bytes, &eight, NULL), "bytes");
        return req;
}

static bool replace(struct request *req, enum data_type type, const int64_t *dims, uint32_t n_dims,
                    size_t n_bytes) {
        struct buffer_attributes attributes = cpu_bytes(n_bytes);

        return request_replace_input(req, req->first_input, type, dims, n_dims, bytes + 1,
                                     &attributes);
}

static void test_replaced(void **state) {
        struct fake_model *f = fake_model_new(CONFIG);
        struct request    *req = new_request(f, 0);
        const int64_t      dims[] = { 3, 2, 5 };

        (void)state;
        assert_ok(request_prepare(req), "prepare");
        assert_true(request_may_stay(req));
        assert_true(request_renew(req, &f->model));
        assert_int_equal(req->batch_size, 0);
        assert_true(replace(req, DATA_TYPE_INT32, dims, 3, 120));
        assert_ok(request_prepare(req), "without a check");
        assert_int_equal(req->batch_size, 3);
        assert_ptr_equal(req->first_input->shape, dims);
        assert_int_equal(req->first_input->n_dims, 3);
        assert_int_equal(req->first_input->byte_size, 120);
        assert_ptr_equal(req->first_input->only_chunk.base, bytes + 1);
        assert_int_equal(req->n_output_names, 1);
        /* Only the first call omits the check. */
        req->first_input->byte_size = 7;
        assert_error(request_prepare(req), ERR_INVALID_ARG,
                     "[request id: <id_unknown>] input byte size mismatch for input 'A' for model "
                     "'m'. Expected 120, got 7");
        request_free(req);
        fake_model_free(f);
}

static void test_the_check_must_decide(void **state) {
        static const struct {
                enum data_type type;
                int64_t        dims[4];
                uint32_t       n_dims;
                size_t         n_bytes;
        } rows[] = {
                { DATA_TYPE_FP32, { 1, 2, 2 }, 3, 16 },          /* type */
                { DATA_TYPE_INT32, { 1, 3, 2 }, 3, 24 },         /* fixed dim */
                { DATA_TYPE_INT32, { 1, 2, -1 }, 3, 8 },         /* negative dim */
                { DATA_TYPE_INT32, { 2, 2 }, 2, 16 },            /* no batch dim */
                { DATA_TYPE_INT32, { 5, 2, 1 }, 3, 40 },         /* batch */
                { DATA_TYPE_INT32, { 1, 2, 2 }, 3, 15 },         /* bytes */
                { DATA_TYPE_INT32, { 1, 2, INT64_MAX }, 3, 16 }, /* overflow */
        };
        struct fake_model *f = fake_model_new(CONFIG);

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct request *req = new_request(f, 0);

                assert_true(request_renew(req, &f->model));
                assert_false(
                        replace(req, rows[i].type, rows[i].dims, rows[i].n_dims, rows[i].n_bytes));
                request_free(req);
        }
        for (unsigned input = 1; input < 3; input++) { /* strings; a reshape */
                struct request *req = new_request(f, input);

                assert_true(request_renew(req, &f->model));
                assert_false(
                        replace(req, f->model.io->inputs[input].type, (int64_t[]){ 1, 4 }, 2, 16));
                request_free(req);
        }
        fake_model_free(f);
}

static void test_several_chunks(void **state) {
        struct fake_model       *f = fake_model_new(CONFIG);
        struct request          *req = new_request(f, 0);
        struct buffer_attributes more = cpu_bytes(8);

        (void)state;
        assert_ok(request_input_append(req, req->first_input, bytes, &more, NULL), "more");
        assert_true(request_renew(req, &f->model));
        assert_false(replace(req, DATA_TYPE_INT32, (int64_t[]){ 1, 2, 2 }, 3, 16));
        request_free(req);
        fake_model_free(f);
}

static void test_what_is_left_of_the_former_use(void **state) {
        struct fake_model *f = fake_model_new(CONFIG);
        struct fake_model *other = fake_model_new(CONFIG);
        struct request    *req = new_request(f, 0);
        struct response   *unsent;

        (void)state;
        assert_ok(response_new(req, &unsent), "response");
        assert_false(request_renew(req, &f->model));
        response_free(unsent);
        request_cancel(req);
        assert_true(request_renew(req, &f->model));
        assert_false(request_is_cancelled(req));
        assert_false(request_renew(req, &other->model));
        /* It holds a reference to a load that it was routed to. */
        assert_ok(request_rebind(req, &other->model), "rebind");
        assert_false(request_may_stay(req));
        request_free(req);
        fake_model_free(f);
        fake_model_free(other);
}

static void on_nothing(struct inner_request *r) {
        (void)r;
}

/* The cancellation of the outer request holds for a step's request. */
static void test_outer_cancellation(void **state) {
        static const struct inner_request_ops ops = { .on_end = on_nothing };
        struct fake_model                    *f = fake_model_new(CONFIG);
        struct request                       *outer = request_new_borrowing(&f->model);
        struct inner_request *inner = inner_request_new_borrowing(&f->model, &ops, NULL);

        (void)state;
        assert_false(request_is_cancelled(inner->request));
        inner->request->outer = outer;
        assert_false(request_is_cancelled(inner->request));
        request_cancel(outer);
        assert_true(request_is_cancelled(inner->request));
        inner_request_free(inner);
        request_free(outer);
        fake_model_free(f);
}

SUITE(step_request) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_replaced),
                cmocka_unit_test(test_the_check_must_decide),
                cmocka_unit_test(test_several_chunks),
                cmocka_unit_test(test_what_is_left_of_the_former_use),
                cmocka_unit_test(test_outer_cancellation),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
