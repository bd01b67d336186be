/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "call/infer_message.h"

#include <stdio.h>
#include <string.h>

/* Elements keep their values while the arrays grow. */
static void test_growth(void **state) {
        struct infer_request q;
        struct arena         arena;

        (void)state;
        arena_init(&arena, NULL, 0, 0);
        infer_request_init(&q);
        for (int i = 0; i < 100; i++) {
                struct infer_parameter        *p;
                struct infer_input            *in;
                struct infer_requested_output *out;

                assert_null(infer_request_add_parameter(&q, &arena, &p));
                assert_null(p->name);
                p->value.integer = i;
                assert_null(infer_request_add_input(&q, &arena, &in));
                assert_null(in->converted);
                in->n_dims = (uint32_t)i;
                assert_null(infer_request_add_output(&q, &arena, &out));
                assert_int_equal(out->n_classes, 0);
                out->n_classes = (uint32_t)i;
                out->name = arena_printf(&arena, "out%d", i);
        }
        assert_int_equal(q.n_parameters, 100);
        assert_int_equal(q.n_inputs, 100);
        assert_int_equal(q.n_outputs, 100);
        for (int i = 0; i < 100; i++) {
                assert_int_equal(q.parameters[i].value.integer, i);
                assert_int_equal(q.inputs[i].n_dims, i);
                assert_int_equal(q.outputs[i].n_classes, i);
        }
        assert_ptr_equal(infer_request_find_output(&q, "out42"), &q.outputs[42]);
        assert_null(infer_request_find_output(&q, "out100"));
        infer_request_done(&q);
        arena_done(&arena);
}

static void test_limits(void **state) {
        struct infer_parameter *p;
        struct infer_request    q;
        struct error           *err;
        struct arena            arena;

        (void)state;
        arena_init(&arena, NULL, 0, 0);
        infer_request_init(&q);
        for (int i = 0; i < INFER_MAX_PARAMETERS; i++)
                assert_null(infer_request_add_parameter(&q, &arena, &p));
        err = infer_request_add_parameter(&q, &arena, &p);
        assert_non_null(err);
        assert_string_equal(err->message, "request has more than 4096 parameters");
        assert_int_equal(err->code, ERR_INVALID_ARG);
        error_free(err);
        assert_int_equal(q.n_parameters, INFER_MAX_PARAMETERS);
        infer_request_done(&q);
        arena_done(&arena);
}

static void test_full_arena(void **state) {
        struct infer_input  *in;
        struct infer_request q;
        struct error        *err = NULL;
        struct arena         arena;
        uint32_t             n = 0;

        (void)state;
        arena_init(&arena, NULL, 0, 8192);
        infer_request_init(&q);
        while (err == NULL) {
                err = infer_request_add_input(&q, &arena, &in);
                if (err == NULL)
                        n++;
                assert_true(n < 1000);
        }
        assert_string_equal(err->message, "out of memory for the request");
        assert_int_equal(q.n_inputs, n);
        error_free(err);
        infer_request_done(&q);
        arena_done(&arena);
}

/* Converted tensors are given back, once. */
static void test_done(void **state) {
        struct infer_input  *in;
        struct infer_request q;
        struct arena         arena;
        struct buf          *b = buf_new(NULL, 100);

        (void)state;
        arena_init(&arena, NULL, 0, 0);
        infer_request_init(&q);
        assert_null(infer_request_add_input(&q, &arena, &in));
        in->converted = b;
        buf_ref(b);
        infer_request_done(&q);
        assert_int_equal(atomic_load(&b->ref.count), 1);
        infer_request_done(&q);
        assert_int_equal(atomic_load(&b->ref.count), 1);
        buf_unref(b);
        arena_done(&arena);
}

#define MANY 1000000

/* What is gone over element by element: strings, classes, JSON; binary tensors are not. */
static void test_work(void **state) {
        static const char    bytes[1];
        static const int64_t rows[] = { 10, 100 };
        struct infer_input   inputs[] = {
                  { .datatype = TRITONSERVER_TYPE_FP32, .bytes = { bytes, MANY } },
                  { .datatype = TRITONSERVER_TYPE_BYTES, .bytes = { bytes, 7 } },
                  { .datatype = TRITONSERVER_TYPE_BYTES,
                    .shared_memory = { .region = "r", .byte_size = MANY } },
        };
        const struct infer_request q = { .inputs = inputs, .n_inputs = 3 };
        struct infer_output out = { .bytes = { bytes, 4 * MANY }, .form = INFER_OUTPUT_BINARY };
        const struct infer_response r = { .outputs = &out, .n_outputs = 1 };

        (void)state;
        assert_int_equal(infer_request_work(&q), MANY + 7);
        assert_int_equal(infer_response_work(&r), 0);
        assert_int_equal(infer_response_bytes(&r), 4 * MANY);
        out.form = INFER_OUTPUT_JSON;
        assert_int_equal(infer_response_work(&r), 4 * MANY);
        out.form = INFER_OUTPUT_SHARED_MEMORY;
        assert_int_equal(infer_response_bytes(&r), 0);
        out.n_classes = 5;
        assert_int_equal(infer_response_work(&r), 0);

        out.form = INFER_OUTPUT_BINARY;
        out.bytes.len = 4000;
        assert_int_equal(infer_response_work(&r), 4000 + 5 * 64);
        out.shape = rows;
        out.n_dims = 2;
        assert_int_equal(infer_response_work(&r), 4000 + 10 * 5 * 64);
        out.n_classes = UINT32_MAX; /* there are no more than elements */
        assert_int_equal(infer_response_work(&r), 4000 + 4000 * 64);
        inputs[2].shared_memory.byte_size = UINT64_MAX;
        assert_true(infer_request_work(&q) == SIZE_MAX);
}

/* Only a request with a body of the OpenAI API, and nothing else, has the name. */
static void test_key_name(void **state) {
        static const struct {
                const char *inputs[2], *key;
                uint32_t    n_parameters;
        } rows[] = {
                { { "openai_request", NULL }, "alice", 1 },
                { { "openai_request", NULL }, "", 0 },
                { { "INPUT0", NULL }, "alice", 0 },
                { { "openai_request", "INPUT1" }, "alice", 0 },
                { { NULL, NULL }, "alice", 0 },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct infer_request q;
                struct infer_input  *in;
                struct arena         arena;

                arena_init(&arena, NULL, 0, 0);
                infer_request_init(&q);
                for (size_t k = 0; k < 2 && rows[i].inputs[k] != NULL; k++) {
                        assert_null(infer_request_add_input(&q, &arena, &in));
                        in->name = rows[i].inputs[k];
                }
                assert_null(infer_request_add_key_name(&q, &arena, str_of(rows[i].key)));
                assert_int_equal(q.n_parameters, rows[i].n_parameters);
                if (q.n_parameters == 1) {
                        assert_string_equal(q.parameters[0].name, "triton_api_key_name");
                        assert_int_equal(q.parameters[0].type, TRITONSERVER_PARAMETER_STRING);
                        assert_string_equal(q.parameters[0].value.text, "alice");
                }
                arena_done(&arena);
        }
}

SUITE(infer_message) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_growth), cmocka_unit_test(test_limits),
                cmocka_unit_test(test_work),   cmocka_unit_test(test_full_arena),
                cmocka_unit_test(test_done),   cmocka_unit_test(test_key_name),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
