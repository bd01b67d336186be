/* SPDX-License-Identifier: BSD-3-Clause */
/* The inputs of a request and their bytes: added, found, removed, and moved to another model. */
#include "suite.h"

#include "base/mem.h"
#include "infer/fake_model.h"

#define SIMPLE                                                                                     \
        "name: 'm' max_batch_size: 8 "                                                             \
        "input { name: 'A' data_type: TYPE_FP32 dims: 4 } "                                        \
        "input { name: 'B' data_type: TYPE_FP32 dims: 4 } "
#define OTHER "name: 'm' max_batch_size: 8 input { name: 'C' data_type: TYPE_FP32 dims: 4 } "

struct open_request {
        struct fake_model *fake;
        struct request    *req;
};

static struct open_request open_one(void) {
        struct open_request o = { .fake = fake_model_new(SIMPLE) };

        o.req = fake_request(o.fake);
        return o;
}

static void close_one(struct open_request o) {
        request_free(o.req);
        fake_model_free(o.fake);
}

static void assert_inputs(const struct request *req, const char *names) {
        uint32_t n = 0;

        for (; *names != '\0'; names++, n++) {
                char name[2] = { *names, 0 };

                assert_non_null(request_input_at(req, n));
                assert_string_equal(request_input_at(req, n)->name, name);
                assert_ptr_equal(request_find_input(req, name), request_input_at(req, n));
        }
        assert_int_equal(req->n_inputs, n);
        assert_null(request_input_at(req, n));
}

static void test_inputs(void **state) {
        struct open_request   o = open_one();
        int64_t               dims[] = { 2, 4 };
        char                  name[] = "A";
        struct request_input *in;

        (void)state;
        assert_ok(request_add_input(o.req, name, DATA_TYPE_FP32, dims, 2), "A");
        name[0] = 'X';
        dims[0] = 99;
        in = request_input_at(o.req, 0);
        assert_string_equal(in->name, "A");
        assert_int_equal(in->type, DATA_TYPE_FP32);
        assert_int_equal(in->n_given_dims, 2);
        assert_int_equal(in->given_shape[0], 2);
        assert_int_equal(in->given_shape[1], 4);
        assert_int_equal(in->byte_size, 0);
        assert_ok(request_add_input(o.req, "B", DATA_TYPE_INT8, NULL, 0), "B");
        assert_int_equal(request_find_input(o.req, "B")->n_given_dims, 0);
        assert_ok(request_add_input(o.req, "C", DATA_TYPE_INT8, dims, 2), "C");
        assert_inputs(o.req, "ABC");

        assert_ok(request_remove_input(o.req, "B"), "middle");
        assert_inputs(o.req, "AC");
        assert_ok(request_remove_input(o.req, "C"), "last");
        assert_ok(request_add_input(o.req, "D", DATA_TYPE_INT8, dims, 2), "D");
        assert_inputs(o.req, "AD");
        assert_ok(request_remove_input(o.req, "A"), "first");
        assert_inputs(o.req, "D");
        assert_ok(request_remove_input(o.req, "D"), "only");
        assert_inputs(o.req, "");
        assert_ok(request_add_input(o.req, "E", DATA_TYPE_INT8, dims, 2), "E");
        assert_inputs(o.req, "E");
        request_remove_all_inputs(o.req);
        assert_inputs(o.req, "");
        assert_ok(request_add_input(o.req, "A", DATA_TYPE_INT8, dims, 2), "again");
        assert_inputs(o.req, "A");
        close_one(o);
}

static void test_input_errors(void **state) {
        struct open_request      o = open_one();
        struct buffer_attributes bytes = cpu_bytes(4);
        int64_t                  dims[REQUEST_MAX_DIMS + 1] = { 1 };

        (void)state;
        add_input(o.req, "A", DATA_TYPE_FP32, 1, 4);
        assert_error(request_add_input(o.req, "A", DATA_TYPE_FP32, dims, 1), ERR_INVALID_ARG,
                     "[request id: <id_unknown>] input 'A' already exists in request");
        assert_ok(request_set_id(o.req, "7"), "id");
        assert_error(request_remove_input(o.req, "Z"), ERR_INVALID_ARG,
                     "[request id: 7] input 'Z' does not exist in request");
        assert_error(request_append_bytes(o.req, "Z", dims, &bytes, NULL), ERR_INVALID_ARG,
                     "[request id: 7] input 'Z' does not exist in request");
        assert_error(request_remove_bytes(o.req, "Z"), ERR_INVALID_ARG,
                     "[request id: 7] input 'Z' does not exist in request");
        assert_error(request_add_raw_input(o.req, "R"), ERR_INVALID_ARG,
                     "[request id: 7] raw input 'R' can't be added to request with other inputs");
        assert_ok(request_add_input(o.req, "B", DATA_TYPE_FP32, dims, REQUEST_MAX_DIMS), "64");
        assert_error(request_add_input(o.req, "C", DATA_TYPE_FP32, dims, REQUEST_MAX_DIMS + 1),
                     ERR_INVALID_ARG,
                     "[request id: 7] input 'C' has 65 dimensions, at most 64 are supported");
        assert_error(
                request_add_input(o.req, "C", DATA_TYPE_FP32, dims, UINT64_MAX), ERR_INVALID_ARG,
                "[request id: 7] input 'C' has 18446744073709551615 dimensions, at most 64 are "
                "supported");
        assert_inputs(o.req, "AB");
        close_one(o);
}

static void test_input_bytes(void **state) {
        static const char        bytes[64];
        struct open_request      o = open_one();
        struct buffer_attributes huge = cpu_bytes(SIZE_MAX);
        struct buffer_attributes four = { .memory_type = MEMORY_CPU_PINNED,
                                          .memory_id = 3,
                                          .byte_size = 4 };
        struct request_input    *in;

        (void)state;
        assert_ok(request_add_input(o.req, "A", DATA_TYPE_FP32, NULL, 0), "A");
        in = request_find_input(o.req, "A");
        append_bytes(o.req, "A", NULL, 0); /* nothing is no chunk */
        assert_int_equal(in->n_chunks, 0);
        append_bytes(o.req, "A", bytes, 8);
        assert_ptr_equal(in->first_chunk, &in->only_chunk); /* no allocation */
        assert_ok(request_append_bytes(o.req, "A", bytes + 8, &four, NULL), "second");
        assert_ok(request_append_bytes(o.req, "A", bytes + 32, &four, "gpu_0"), "policy");
        append_bytes(o.req, "A", bytes + 16, 16);

        assert_int_equal(in->n_chunks, 4);
        assert_int_equal(in->byte_size, 28); /* without those of a host policy */
        assert_ptr_equal(in->first_chunk->base, bytes);
        assert_ptr_equal(in->first_chunk->next->base, bytes + 8);
        assert_int_equal(in->first_chunk->next->attributes.memory_type, MEMORY_CPU_PINNED);
        assert_int_equal(in->first_chunk->next->attributes.memory_id, 3);
        assert_string_equal(in->first_chunk->next->next->host_policy, "gpu_0");
        assert_null(in->last_chunk->host_policy);
        assert_int_equal(in->last_chunk->attributes.byte_size, 16);
        assert_null(in->last_chunk->next);

        assert_error(request_append_bytes(o.req, "A", bytes, &huge, NULL), ERR_UNAVAILABLE,
                     "[request id: <id_unknown>] out of memory for the request's inputs");
        assert_ok(request_remove_bytes(o.req, "A"), "remove");
        assert_int_equal(in->n_chunks, 0);
        assert_int_equal(in->byte_size, 0);
        append_bytes(o.req, "A", bytes, 4);
        assert_int_equal(in->byte_size, 4);
        assert_null(in->first_chunk->next);
        close_one(o);
}

/* A name that the model has is the model's own text; another one is copied. */
static void test_names(void **state) {
        struct open_request o = open_one();
        char                long_name[REQUEST_MAX_NAME_BYTES + 2];

        (void)state;
        assert_ok(request_add_input(o.req, "B", DATA_TYPE_FP32, NULL, 0), "B");
        assert_ptr_equal(request_input_at(o.req, 0)->name, o.fake->model.io->inputs[1].name);
        memset(long_name, 'x', sizeof(long_name));
        long_name[REQUEST_MAX_NAME_BYTES + 1] = '\0';
        assert_error(request_add_input(o.req, long_name, DATA_TYPE_FP32, NULL, 0), ERR_INVALID_ARG,
                     "[request id: <id_unknown>] the name of an input has 1025 bytes, at most 1024 "
                     "are supported");
        long_name[REQUEST_MAX_NAME_BYTES] = '\0';
        assert_ok(request_add_input(o.req, long_name, DATA_TYPE_FP32, NULL, 0), "1024");
        assert_true(request_input_at(o.req, 1)->name != long_name);
        assert_string_equal(request_input_at(o.req, 1)->name, long_name);
        assert_null(request_input_at(o.req, 1)->io);
        close_one(o);
}

static void test_raw(void **state) {
        struct open_request o = open_one();

        (void)state;
        assert_ok(request_add_raw_input(o.req, "A"), "raw");
        assert_true(request_input_at(o.req, 0)->is_raw);
        assert_error(
                request_add_raw_input(o.req, "B"), ERR_INVALID_ARG,
                "[request id: <id_unknown>] raw input 'B' can't be added to request with other "
                "inputs");
        assert_ok(request_remove_input(o.req, "A"), "A");
        assert_ok(request_add_input(o.req, "A", DATA_TYPE_FP32, NULL, 0), "A");
        assert_false(request_input_at(o.req, 0)->is_raw); /* nothing of the removed one is left */
        close_one(o);
}

/* In front of the others, or alone. */
static void test_prepend(void **state) {
        static const char     bytes[8];
        struct open_request   o = open_one();
        struct request_input *in;
        struct input_chunk   *second, *first;

        (void)state;
        assert_ok(request_add_input(o.req, "A", DATA_TYPE_FP32, NULL, 0), "A");
        in = request_find_input(o.req, "A");
        second = request_prepend_chunk(o.req, in);
        assert_ptr_equal(in->first_chunk, second);
        assert_ptr_equal(in->last_chunk, second);
        second->base = bytes;
        first = request_prepend_chunk(o.req, in);
        assert_ptr_equal(in->first_chunk, first);
        assert_ptr_equal(first->next, second);
        assert_ptr_equal(in->last_chunk, second);
        assert_null(first->host_policy);
        assert_int_equal(in->n_chunks, 2);
        assert_int_equal(in->n_plain, 2);
        append_bytes(o.req, "A", bytes + 4, 4);
        assert_ptr_equal(second->next, in->last_chunk);
        assert_int_equal(in->n_chunks, 3);

        assert_ok(request_remove_bytes(o.req, "A"), "remove");
        assert_null(in->first_chunk);
        mem_fail_after(1);
        first = request_prepend_chunk(o.req, in); /* of those that are spare: no allocation */
        mem_fail_after(0);
        assert_non_null(first);
        close_one(o);
}

/* The names are the new model's, and without memory for them nothing has changed. */
static void test_rebind(void **state) {
        struct open_request o = open_one();
        struct fake_model  *other = fake_model_new(OTHER);
        struct error       *err;
        unsigned            n = 0;

        (void)state;
        assert_ok(request_add_input(o.req, "A", DATA_TYPE_FP32, NULL, 0), "A");
        assert_ok(request_add_input(o.req, "C", DATA_TYPE_FP32, NULL, 0), "C");
        do {
                mem_fail_after(++n);
                err = request_rebind(o.req, &other->model);
                mem_fail_after(0);
                if (err == NULL)
                        break;
                error_free(err);
                assert_ptr_equal(o.req->model, &o.fake->model);
                assert_ptr_equal(request_find_input(o.req, "A")->name,
                                 o.fake->model.io->inputs[0].name);
                assert_null(request_find_input(o.req, "C")->io);
        } while (n < 20);
        assert_in_range(n, 1, 19);
        assert_ptr_equal(o.req->model, &other->model);
        assert_null(request_find_input(o.req, "A")->io);
        assert_string_equal(request_input_at(o.req, 0)->name, "A");
        assert_ptr_equal(request_find_input(o.req, "C")->name, other->model.io->inputs[0].name);
        assert_ptr_equal(request_find_input(o.req, "C")->io, &other->model.io->inputs[0]);
        request_free(o.req);
        fake_model_free(other);
        fake_model_free(o.fake);
}

static struct error *build(struct request *req) {
        static const char        bytes[4];
        struct buffer_attributes four = cpu_bytes(sizeof(bytes));

        TRY(request_add_input(req, "first extra", DATA_TYPE_FP32, (int64_t[]){ 1, 1 }, 2));
        TRY(request_append_bytes(req, "first extra", bytes, &four, NULL));
        TRY(request_append_bytes(req, "first extra", bytes, &four, "a policy"));
        return request_append_bytes(req, "first extra", bytes, &four, NULL);
}

static void test_short_of_memory(void **state) {
        struct open_request o = open_one();
        struct error       *err;
        unsigned            n = 0;

        (void)state;
        do {
                mem_fail_after(++n);
                err = build(o.req);
                mem_fail_after(0);
                error_free(err);
                assert_int_equal(o.req->n_inputs, request_find_input(o.req, "first extra") != NULL);
                if (err == NULL)
                        assert_int_equal(request_input_at(o.req, 0)->byte_size, 8);
                request_remove_all_inputs(o.req);
                assert_int_equal(o.req->n_inputs, 0);
        } while (err != NULL && n < 50);
        assert_in_range(n, 1, 49);
        close_one(o);
}

SUITE(request_input) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_inputs),      cmocka_unit_test(test_input_errors),
                cmocka_unit_test(test_input_bytes), cmocka_unit_test(test_names),
                cmocka_unit_test(test_raw),         cmocka_unit_test(test_prepend),
                cmocka_unit_test(test_rebind),      cmocka_unit_test(test_short_of_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
