/* SPDX-License-Identifier: BSD-3-Clause */
/* One request used again and again, as programs do that keep one: its memory must not grow, and
 * what a peer chooses must not make it slow.
 */
#include "suite.h"

#include "base/mem.h"
#include "infer/fake_model.h"
#include "infer/request_prepare.h"

#include <stdio.h>

#define TWO_INPUTS                                                                                 \
        "name: 'm' max_batch_size: 8 "                                                             \
        "input { name: 'A' data_type: TYPE_FP32 dims: 4 reshape { shape: [ 2, 2 ] } } "            \
        "input { name: 'B' data_type: TYPE_FP32 dims: -1 optional: true } "                        \
        "output { name: 'Y' data_type: TYPE_FP32 dims: 4 } "                                       \
        "output { name: 'Z' data_type: TYPE_FP32 dims: 4 } "

#define RAW "name: 'm' input { name: 'A' data_type: TYPE_STRING dims: 1 } "

#define N_USES 20000

struct open_request {
        struct fake_model *fake;
        struct request    *req;
};

static struct open_request open_one(const char *config) {
        struct open_request o = { .fake = fake_model_new(config) };

        o.req = fake_request(o.fake);
        return o;
}

static void close_one(struct open_request o) {
        request_free(o.req);
        fake_model_free(o.fake);
}

static void append(struct request *req, const char *input, size_t n, const char *policy) {
        struct buffer_attributes bytes = cpu_bytes(n);

        assert_ok(request_append_bytes(req, input, zero_bytes(), &bytes, policy), input);
}

/* Texts of many lengths, in no order. */
static void set_texts(struct request *req, unsigned use) {
        char             text[64];
        struct parameter p = { .name = "p", .type = PARAMETER_STRING, .string = text };

        snprintf(text, sizeof(text), "%0*u", 1 + (int)(use * 7 % 50), use);
        assert_ok(request_set_id(req, text), "id");
        assert_string_equal(req->id, text);
        assert_ok(request_set_correlation_text(req, text), "correlation");
        assert_string_equal(req->correlation.text, text);
        assert_ok(request_add_parameter(req, &p), "p");
        p = (struct parameter){ .name = "q", .type = PARAMETER_INT, .integer = use };
        assert_ok(request_add_parameter(req, &p), "q");
        assert_int_equal(req->parameters.n, 2);
        assert_string_equal(parameter_list_at(&req->parameters, 0)->string, text);
        assert_int_equal(parameter_list_at(&req->parameters, 1)->integer, use);
}

static void fill(struct request *req, unsigned use) {
        const char *policy = use % 3 == 0 ? "numa_1" : "a policy with a longer name";

        set_texts(req, use);
        if (use % 2 == 0)
                assert_ok(request_add_input(req, "B", DATA_TYPE_FP32, (int64_t[]){ 1, 8 }, 2), "B");
        assert_ok(request_add_input(req, "A", DATA_TYPE_FP32, (int64_t[]){ 1, 4 }, 2), "A");
        append(req, "A", 12, NULL);
        append(req, "A", 16, policy);
        append(req, "A", 4, NULL);
        if (use % 2 == 0)
                append(req, "B", 32, NULL);
        assert_ok(request_add_output(req, use % 2 == 0 ? "Y" : "Z"), "output");
}

static void check(struct request *req, unsigned use) {
        const struct request_input *a = request_find_input(req, "A");

        assert_ok(request_prepare(req), "prepare");
        assert_int_equal(req->n_inputs, use % 2 == 0 ? 2 : 1);
        assert_int_equal(a->n_chunks, 3);
        assert_int_equal(a->byte_size, 16);
        assert_null(a->first_chunk->host_policy);
        assert_string_equal(a->first_chunk->next->host_policy,
                            use % 3 == 0 ? "numa_1" : "a policy with a longer name");
        assert_null(a->last_chunk->host_policy);
        assert_null(a->last_chunk->next);
        assert_int_equal(a->n_dims, 3);
        assert_int_equal(a->shape[0], 1);
        assert_int_equal(a->shape[1], 2);
        assert_int_equal(a->shape[2], 2);
        assert_int_equal(req->n_output_names, 1);
        assert_string_equal(req->output_names[0], use % 2 == 0 ? "Y" : "Z");
}

static void remove_what_was_filled(struct request *req, unsigned use) {
        if (use % 5 == 0) {
                assert_ok(request_remove_bytes(req, "A"), "bytes");
                assert_ok(request_remove_input(req, "A"), "A");
                assert_ok(request_remove_output(req, use % 2 == 0 ? "Y" : "Z"), "output");
        }
        request_remove_all_inputs(req);
        request_remove_all_outputs(req);
}

static void test_does_not_grow(void **state) {
        struct open_request o = open_one(TWO_INPUTS);
        const char         *next = NULL;
        size_t              used = 0;

        (void)state;
        for (unsigned use = 0; use < N_USES; use++) {
                fill(o.req, use);
                check(o.req, use);
                remove_what_was_filled(o.req, use);
                if (use == 500) { /* all lengths were seen */
                        next = o.req->arena.next;
                        used = o.req->arena.used_bytes;
                }
        }
        assert_ptr_equal(o.req->arena.next, next);
        assert_int_equal(o.req->arena.used_bytes, used);
        assert_in_range(used, 0, 16384);
        close_one(o);
}

static void test_raw_does_not_grow(void **state) {
        struct open_request o = open_one(RAW);
        const char         *next = NULL;

        (void)state;
        for (unsigned use = 0; use < N_USES; use++) {
                const struct request_input *in;

                assert_ok(request_add_raw_input(o.req, "raw"), "raw");
                append(o.req, "raw", 1 + use % 100, NULL);
                assert_ok(request_prepare(o.req), "prepare");
                in = request_find_input(o.req, "A");
                assert_int_equal(in->n_chunks, 2);
                assert_int_equal(*(const uint32_t *)in->first_chunk->base, 1 + use % 100);
                assert_int_equal(in->byte_size, 5 + use % 100);
                request_remove_all_inputs(o.req);
                if (use == 1)
                        next = o.req->arena.next;
        }
        assert_ptr_equal(o.req->arena.next, next);
        close_one(o);
}

static void test_parameters_are_replaced(void **state) {
        static const struct parameter values[] = {
                { .name = "p", .type = PARAMETER_STRING, .string = "text" },
                { .name = "p", .type = PARAMETER_DOUBLE, .real = 0.5 },
                { .name = "p", .type = PARAMETER_BOOL, .boolean = true },
                { .name = "p", .type = PARAMETER_STRING, .string = "a longer text than before" },
                { .name = "p", .type = PARAMETER_STRING, .string = "" },
        };
        struct open_request o = open_one(TWO_INPUTS);
        struct parameter    other = { .name = "q", .type = PARAMETER_INT, .integer = 7 };

        (void)state;
        assert_ok(request_add_parameter(o.req, &values[0]), "first");
        assert_ok(request_add_parameter(o.req, &other), "other");
        for (size_t i = 0; i < ARRAY_LEN(values); i++) {
                const struct parameter *p;

                assert_ok(request_add_parameter(o.req, &values[i]), "again");
                p = parameter_list_at(&o.req->parameters, 0);
                assert_int_equal(p->type, values[i].type);
                assert_string_equal(p->name, "p");
                if (p->type == PARAMETER_STRING)
                        assert_string_equal(p->string, values[i].string);
                assert_int_equal(o.req->parameters.n, 2);
                assert_int_equal(parameter_list_at(&o.req->parameters, 1)->integer, 7);
                assert_ok(request_add_parameter(o.req, p), "itself");
        }
        close_one(o);
}

static void test_too_many_parameters(void **state) {
        struct open_request o = open_one(TWO_INPUTS);
        char                name[16];
        struct parameter    p = { .name = name, .type = PARAMETER_BOOL, .boolean = true };

        (void)state;
        for (unsigned i = 0; i < REQUEST_MAX_PARAMETERS; i++) {
                snprintf(name, sizeof(name), "p%u", i);
                assert_ok(request_add_parameter(o.req, &p), name);
        }
        assert_ok(request_add_parameter(o.req, &p), "the last one again");
        assert_error(request_add_parameter(o.req, &(struct parameter){ .name = "one more" }),
                     ERR_INVALID_ARG,
                     "[request id: <id_unknown>] too many parameters in request, at most 1024 are "
                     "supported");
        close_one(o);
}

static void test_long_names(void **state) {
        struct open_request o = open_one(TWO_INPUTS);
        char                name[REQUEST_MAX_NAME_BYTES + 2];
        struct parameter    p = { .name = name, .type = PARAMETER_BOOL };

        (void)state;
        memset(name, 'n', sizeof(name) - 1);
        name[sizeof(name) - 1] = '\0';
        assert_error(request_add_input(o.req, name, DATA_TYPE_FP32, NULL, 0), ERR_INVALID_ARG,
                     "[request id: <id_unknown>] the name of an input has 1025 bytes, at most 1024 "
                     "are supported");
        assert_error(request_add_output(o.req, name), ERR_INVALID_ARG,
                     "[request id: <id_unknown>] the name of a requested output has 1025 bytes, at "
                     "most 1024 are supported");
        assert_error(request_add_parameter(o.req, &p), ERR_INVALID_ARG,
                     "[request id: <id_unknown>] the name of a parameter has 1025 bytes, at most "
                     "1024 are supported");
        name[sizeof(name) - 2] = '\0';
        assert_ok(request_add_input(o.req, name, DATA_TYPE_FP32, NULL, 0), "input");
        assert_ok(request_add_output(o.req, name), "output");
        assert_ok(request_add_parameter(o.req, &p), "parameter");
        close_one(o);
}

/* A model's own names are fine, whatever their length. */
static void test_long_names_of_the_model(void **state) {
        char                name[REQUEST_MAX_NAME_BYTES + 100];
        char                config[3 * sizeof(name)];
        struct open_request o;

        (void)state;
        memset(name, 'n', sizeof(name) - 1);
        name[sizeof(name) - 1] = '\0';
        snprintf(config, sizeof(config),
                 "name: 'm' input { name: '%s' data_type: TYPE_FP32 dims: 1 } "
                 "output { name: '%s' data_type: TYPE_FP32 dims: 1 } ",
                 name, name);
        o = open_one(config);
        add_input(o.req, name, DATA_TYPE_FP32, 1);
        assert_ok(request_add_output(o.req, name), "output");
        assert_ok(request_prepare(o.req), "prepare");
        close_one(o);
}

SUITE(request_reuse) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_does_not_grow),
                cmocka_unit_test(test_raw_does_not_grow),
                cmocka_unit_test(test_parameters_are_replaced),
                cmocka_unit_test(test_too_many_parameters),
                cmocka_unit_test(test_long_names),
                cmocka_unit_test(test_long_names_of_the_model),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
