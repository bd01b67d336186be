/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/byte_budget.h"
#include "base/mem.h"
#include "config/state_specs.h"
#include "infer/fake_model.h"
#include "infer/implicit_state.h"

static int64_t four[] = { 1, 4 };
static int64_t one[] = { 1 };
static int64_t two[] = { 2 };
static int32_t first[] = { 5, 6, 7, 8 };

/* NUMBERS begins as a file's content, IN_PLACE and TEXTS as zeros. */
static struct state_spec specs[] = {
        { .input_name = "NUMBERS_IN",
          .output_name = "NUMBERS_OUT",
          .type = DATA_TYPE_INT32,
          .n_dims = 2,
          .dims = four,
          .initial = first,
          .n_bytes = 16 },
        { .input_name = "IN_PLACE_IN",
          .output_name = "IN_PLACE_OUT",
          .type = DATA_TYPE_INT32,
          .n_dims = 1,
          .dims = one,
          .n_bytes = 4,
          .is_in_place = true },
        { .input_name = "TEXTS_IN",
          .output_name = "TEXTS_OUT",
          .type = DATA_TYPE_BYTES,
          .n_dims = 1,
          .dims = two,
          .n_bytes = 8 },
};
static const struct state_specs state_specs = { .states = specs, .n = ARRAY_LEN(specs) };

struct place {
        struct fake_model      *fake;
        struct request         *req;
        struct implicit_states *states;
};

static void begin(struct place *p, enum implicit_states_kind kind) {
        p->fake = fake_model_new("name: 'm' input { name: 'A' data_type: TYPE_FP32 dims: 1 } "
                                 "output { name: 'Y' data_type: TYPE_FP32 dims: 1 } ");
        p->req = fake_request(p->fake);
        add_input(p->req, "A", DATA_TYPE_FP32, 1);
        p->states = implicit_states_new(&state_specs, kind);
        assert_non_null(p->states);
}

static void end(struct place *p) {
        implicit_states_free(p->states);
        request_free(p->req);
        fake_model_free(p->fake);
}

static const struct request_input *input(const struct place *p, const char *name) {
        const struct request_input *in = request_find_input(p->req, name);

        assert_non_null(in);
        assert_int_equal(in->n_chunks, 1);
        assert_int_equal(in->byte_size, in->first_chunk->attributes.byte_size);
        return in;
}

static const void *bytes_of(const struct place *p, const char *name) {
        return input(p, name)->first_chunk->base;
}

/* As a backend that asks for memory of the host. */
static struct error *get_buffer(struct implicit_state *state, size_t n, void **ret) {
        enum memory_type type = MEMORY_CPU;
        int64_t          id = 0;
        struct error    *err = implicit_state_buffer(state, n, &type, &id, ret);

        assert_int_equal(type, MEMORY_CPU);
        assert_int_equal(id, 0);
        return err;
}

/* A new value of n bytes, all `fill`; where it is. */
static void *write_value(struct place *p, const char *name, enum data_type type, int64_t dim,
                         size_t n, int fill, bool is_update) {
        struct implicit_state *state = NULL;
        void                  *bytes = NULL;

        assert_ok(implicit_state_new(p->req, name, type, &dim, 1, &state), name);
        assert_int_equal(implicit_state_attributes(state)->byte_size, 0);
        assert_ok(get_buffer(state, n, &bytes), name);
        assert_int_equal((uintptr_t)bytes % 64, 0);
        assert_int_equal(implicit_state_attributes(state)->byte_size, n);
        assert_int_equal(implicit_state_attributes(state)->memory_type, MEMORY_CPU);
        memset(bytes, fill, n);
        if (is_update)
                assert_ok(implicit_state_update(state), name);
        return bytes;
}

static void next_request(struct place *p) {
        implicit_states_detach(p->req);
        implicit_states_attach(p->states, p->req);
}

static void test_inputs(void **state) {
        static const int32_t zeros[2];
        struct place         p;

        (void)state;
        begin(&p, STATES_OF_SEQUENCE);
        implicit_states_attach(p.states, p.req);
        assert_int_equal(p.req->n_inputs, 4);
        assert_string_equal(request_input_at(p.req, 0)->name, "A");
        assert_string_equal(request_input_at(p.req, 3)->name, "TEXTS_IN");
        assert_int_equal(input(&p, "NUMBERS_IN")->type, DATA_TYPE_INT32);
        assert_int_equal(input(&p, "NUMBERS_IN")->n_dims, 2);
        assert_int_equal(input(&p, "NUMBERS_IN")->shape[1], 4);
        assert_memory_equal(bytes_of(&p, "NUMBERS_IN"), first, 16);
        assert_memory_equal(bytes_of(&p, "IN_PLACE_IN"), zeros, 4);
        assert_int_equal(input(&p, "TEXTS_IN")->byte_size, 8);
        assert_memory_equal(bytes_of(&p, "TEXTS_IN"), zeros, 8);
        implicit_states_detach(p.req);
        assert_int_equal(p.req->n_inputs, 1);
        assert_null(p.req->first_input->next);
        assert_false(p.req->has_states);
        implicit_states_detach(p.req); /* nothing is attached */
        assert_int_equal(p.req->n_inputs, 1);
        end(&p);
}

/* The new value is read where it was written, and the two buffers take turns: nothing is allocated
 * for a request once both are there. */
static void test_turns(void **state) {
        const void  *a, *b;
        struct place p;

        (void)state;
        begin(&p, STATES_OF_SEQUENCE);
        implicit_states_attach(p.states, p.req);
        a = bytes_of(&p, "NUMBERS_IN");
        b = write_value(&p, "NUMBERS_OUT", DATA_TYPE_INT32, 4, 16, 1, true);
        assert_ptr_not_equal(a, b);
        /* This request goes on reading the old one. */
        assert_ptr_equal(bytes_of(&p, "NUMBERS_IN"), a);
        assert_memory_equal(a, first, 16);
        for (int i = 2; i < 10; i++) {
                if (i == 3)
                        mem_fail_after(1);
                next_request(&p);
                assert_ptr_equal(bytes_of(&p, "NUMBERS_IN"), i % 2 == 0 ? b : a);
                assert_int_equal(*(const char *)bytes_of(&p, "NUMBERS_IN"), i - 1);
                assert_ptr_equal(write_value(&p, "NUMBERS_OUT", DATA_TYPE_INT32, 4, 16, i, true),
                                 i % 2 == 0 ? a : b);
        }
        assert_false(mem_fail_was_hit());
        mem_fail_after(0);
        implicit_states_detach(p.req);
        end(&p);
}

static void test_no_update(void **state) {
        struct implicit_state *left;
        struct place           p;

        (void)state;
        begin(&p, STATES_OF_SEQUENCE);
        implicit_states_attach(p.states, p.req);
        write_value(&p, "NUMBERS_OUT", DATA_TYPE_INT32, 4, 16, 1, false);
        next_request(&p);
        assert_memory_equal(bytes_of(&p, "NUMBERS_IN"), first, 16);
        /* An update without a value of this request. */
        assert_ok(implicit_state_new(p.req, "NUMBERS_OUT", DATA_TYPE_INT32, four, 2, &left), "new");
        assert_error(implicit_state_update(left), ERR_INVALID_ARG,
                     "state 'NUMBERS_OUT' has no new value: TRITONBACKEND_StateBuffer comes before "
                     "TRITONBACKEND_StateUpdate");
        next_request(&p);
        assert_memory_equal(bytes_of(&p, "NUMBERS_IN"), first, 16);
        implicit_states_detach(p.req);
        end(&p);
}

/* The last update counts, and a value that was begun after it does not spoil it. */
static void test_several_updates(void **state) {
        struct implicit_state *again;
        struct place           p;
        void                  *bytes, *last;

        (void)state;
        begin(&p, STATES_OF_SEQUENCE);
        implicit_states_attach(p.states, p.req);
        write_value(&p, "NUMBERS_OUT", DATA_TYPE_INT32, 4, 16, 1, true);
        last = write_value(&p, "NUMBERS_OUT", DATA_TYPE_INT32, 2, 8, 2, true);
        write_value(&p, "NUMBERS_OUT", DATA_TYPE_INT32, 3, 12, 3, false);
        assert_memory_equal(bytes_of(&p, "NUMBERS_IN"), first, 16);
        next_request(&p);
        assert_ptr_equal(bytes_of(&p, "NUMBERS_IN"), last);
        assert_int_equal(input(&p, "NUMBERS_IN")->byte_size, 8);
        assert_int_equal(input(&p, "NUMBERS_IN")->n_dims, 1);
        assert_int_equal(input(&p, "NUMBERS_IN")->shape[0], 2);
        assert_int_equal(*(const char *)bytes_of(&p, "NUMBERS_IN"), 2);

        /* The same object serves for another value of the same form. */
        assert_ok(implicit_state_new(p.req, "NUMBERS_OUT", DATA_TYPE_INT32, four, 2, &again),
                  "new");
        for (int i = 4; i < 7; i++) {
                assert_ok(get_buffer(again, 16, &bytes), "buffer");
                memset(bytes, i, 16);
                assert_ok(implicit_state_update(again), "update");
                assert_error(
                        implicit_state_update(again), ERR_INVALID_ARG,
                        "state 'NUMBERS_OUT' has no new value: TRITONBACKEND_StateBuffer comes "
                        "before TRITONBACKEND_StateUpdate");
        }
        next_request(&p);
        assert_int_equal(*(const char *)bytes_of(&p, "NUMBERS_IN"), 6);
        assert_int_equal(input(&p, "NUMBERS_IN")->n_dims, 2);
        assert_int_equal(input(&p, "NUMBERS_IN")->shape[1], 4);
        implicit_states_detach(p.req);
        end(&p);
}

static void test_other_types_and_shapes(void **state) {
        static const int64_t   shape[] = { 1, 2, 3, 4, 5 };
        struct implicit_state *s;
        struct place           p;
        void                  *bytes;

        (void)state;
        begin(&p, STATES_OF_SEQUENCE);
        implicit_states_attach(p.states, p.req);
        assert_ok(implicit_state_new(p.req, "NUMBERS_OUT", DATA_TYPE_FP64, shape, 5, &s), "new");
        assert_ok(get_buffer(s, 960, &bytes), "buffer");
        memset(bytes, 9, 960);
        assert_ok(implicit_state_update(s), "update");
        next_request(&p);
        assert_int_equal(input(&p, "NUMBERS_IN")->type, DATA_TYPE_FP64);
        assert_int_equal(input(&p, "NUMBERS_IN")->n_dims, 5);
        assert_memory_equal(input(&p, "NUMBERS_IN")->shape, shape, sizeof(shape));
        assert_int_equal(input(&p, "NUMBERS_IN")->byte_size, 960);
        /* A value without bytes. */
        assert_non_null(write_value(&p, "TEXTS_OUT", DATA_TYPE_BYTES, 0, 0, 0, true));
        next_request(&p);
        assert_int_equal(input(&p, "TEXTS_IN")->byte_size, 0);
        assert_int_equal(input(&p, "TEXTS_IN")->shape[0], 0);
        implicit_states_detach(p.req);
        /* A sequence that begins anew. */
        assert_ok(implicit_states_reset(p.states), "reset");
        implicit_states_attach(p.states, p.req);
        assert_int_equal(input(&p, "NUMBERS_IN")->type, DATA_TYPE_INT32);
        assert_int_equal(input(&p, "NUMBERS_IN")->n_dims, 2);
        assert_memory_equal(bytes_of(&p, "NUMBERS_IN"), first, 16);
        assert_int_equal(input(&p, "TEXTS_IN")->byte_size, 8);
        implicit_states_detach(p.req);
        end(&p);
}

static void test_in_place(void **state) {
        const void  *a, *b;
        struct place p;

        (void)state;
        begin(&p, STATES_OF_SEQUENCE);
        implicit_states_attach(p.states, p.req);
        a = bytes_of(&p, "IN_PLACE_IN");
        for (int i = 1; i < 4; i++) {
                assert_ptr_equal(write_value(&p, "IN_PLACE_OUT", DATA_TYPE_INT32, i, (size_t)i * 4,
                                             i, true),
                                 a);
                next_request(&p);
                assert_ptr_equal(bytes_of(&p, "IN_PLACE_IN"), a);
                assert_int_equal(input(&p, "IN_PLACE_IN")->byte_size, i * 4);
        }
        /* One that does not fit gets memory of its own, while the old one is read. */
        b = write_value(&p, "IN_PLACE_OUT", DATA_TYPE_INT32, 1024, 4096, 7, true);
        assert_ptr_not_equal(b, a);
        assert_int_equal(*(const char *)bytes_of(&p, "IN_PLACE_IN"), 3);
        next_request(&p);
        assert_ptr_equal(bytes_of(&p, "IN_PLACE_IN"), b);
        assert_int_equal(((const char *)b)[4095], 7);
        assert_ptr_equal(write_value(&p, "IN_PLACE_OUT", DATA_TYPE_INT32, 1, 4, 8, true), b);
        implicit_states_detach(p.req);
        end(&p);
}

static void test_null_requests(void **state) {
        static const char zeros[8];
        struct place      null, like;
        void             *bytes;

        (void)state;
        begin(&null, STATES_OF_NULL);
        begin(&like, STATES_OF_SEQUENCE);
        implicit_states_attach(null.states, null.req);
        assert_memory_equal(bytes_of(&null, "NUMBERS_IN"), zeros, 8);
        assert_true(implicit_states_same_shape(null.states, like.states));
        /* Updates go nowhere. */
        write_value(&null, "NUMBERS_OUT", DATA_TYPE_INT32, 4, 16, 1, true);
        bytes = write_value(&null, "IN_PLACE_OUT", DATA_TYPE_INT32, 1, 4, 1, true);
        assert_ptr_equal(bytes, bytes_of(&null, "IN_PLACE_IN"));
        assert_true(implicit_states_imitate(null.states, like.states));
        assert_memory_equal(bytes_of(&null, "NUMBERS_IN"), zeros, 8);
        assert_memory_equal(bytes_of(&null, "IN_PLACE_IN"), zeros, 4);
        assert_int_equal(input(&null, "IN_PLACE_IN")->byte_size, 4);

        /* It goes with a request whose values have other shapes. */
        implicit_states_attach(like.states, like.req);
        write_value(&like, "NUMBERS_OUT", DATA_TYPE_INT16, 2, 4, 1, true);
        memcpy(write_value(&like, "TEXTS_OUT", DATA_TYPE_BYTES, 1, 7, 1, true), "\3\0\0\0abc", 7);
        implicit_states_detach(like.req);
        assert_false(implicit_states_same_shape(null.states, like.states));
        assert_true(implicit_states_imitate(null.states, like.states));
        assert_true(implicit_states_same_shape(null.states, like.states));
        assert_int_equal(input(&null, "NUMBERS_IN")->type, DATA_TYPE_INT16);
        assert_int_equal(input(&null, "NUMBERS_IN")->byte_size, 4);
        assert_int_equal(input(&null, "TEXTS_IN")->byte_size, 4);
        assert_memory_equal(bytes_of(&null, "TEXTS_IN"), zeros, 4);
        implicit_states_detach(null.req);
        end(&null);
        end(&like);
}

static void test_samples(void **state) {
        struct place p;

        (void)state;
        begin(&p, STATES_OF_SAMPLE);
        add_input(p.req, "IN_PLACE_IN", DATA_TYPE_INT32, 1);
        implicit_states_attach(p.states, p.req);
        assert_int_equal(p.req->n_inputs, 4);
        assert_ptr_equal(bytes_of(&p, "IN_PLACE_IN"), zero_bytes());
        assert_memory_equal(bytes_of(&p, "NUMBERS_IN"), first, 16);
        write_value(&p, "NUMBERS_OUT", DATA_TYPE_INT32, 4, 16, 1, true);
        implicit_states_detach(p.req);
        assert_int_equal(p.req->n_inputs, 2);
        end(&p);
}

static void test_refusals(void **state) {
        static const int64_t   shape[REQUEST_MAX_DIMS + 1];
        struct implicit_state *s = NULL;
        struct place           p;
        void                  *bytes = NULL;

        (void)state;
        begin(&p, STATES_OF_SEQUENCE);
        assert_error(implicit_state_new(p.req, "NUMBERS_OUT", DATA_TYPE_INT32, four, 2, &s),
                     ERR_INVALID_ARG,
                     "[request id: <id_unknown>] unable to add state 'NUMBERS_OUT'. State "
                     "configuration is missing for model 'm'.");
        implicit_states_attach(p.states, p.req);
        assert_error(implicit_state_new(p.req, "NUMBERS_IN", DATA_TYPE_INT32, four, 2, &s),
                     ERR_INVALID_ARG, "state 'NUMBERS_IN' is not a valid state name.");
        assert_error(implicit_state_new(p.req, "TEXTS_OUT", DATA_TYPE_BYTES, shape, 65, &s),
                     ERR_INVALID_ARG,
                     "state 'TEXTS_OUT' has 65 dimensions, at most 64 are supported");
        assert_error(implicit_state_new(p.req, "TEXTS_OUT", (enum data_type)99, four, 2, &s),
                     ERR_INVALID_ARG, "state 'TEXTS_OUT' has an invalid data type");
        assert_null(s);
        assert_ok(implicit_state_new(p.req, "TEXTS_OUT", DATA_TYPE_BYTES, NULL, 0, &s), "new");
        for (uint64_t n = SIZE_MAX; n > SIZE_MAX - 64; n -= 13) {
                struct error *err = get_buffer(s, n, &bytes);

                assert_non_null(err);
                assert_int_equal(err->code, ERR_UNAVAILABLE);
                error_free(err);
        }
        assert_null(bytes);
        assert_ok(get_buffer(s, 1, &bytes), "one that fits");
        implicit_states_detach(p.req);
        end(&p);
}

static void test_no_memory(void **state) {
        (void)state;
        for (unsigned n = 1;; n++) {
                struct implicit_states *s;

                mem_fail_after(n);
                s = implicit_states_new(&state_specs, STATES_OF_SEQUENCE);
                if (!mem_fail_was_hit()) {
                        mem_fail_after(0);
                        assert_non_null(s);
                        implicit_states_free(s);
                        assert_int_equal(n, 8); /* the set; two allocations for each of three */
                        break;
                }
                mem_fail_after(0);
                assert_null(s);
        }
        for (unsigned n = 1; n <= 2; n++) {
                struct implicit_state *s = NULL;
                struct place           p;
                struct error          *err;
                void                  *bytes;

                begin(&p, STATES_OF_SEQUENCE);
                implicit_states_attach(p.states, p.req);
                mem_fail_after(n);
                err = implicit_state_new(p.req, "NUMBERS_OUT", DATA_TYPE_INT32, four, 2, &s);
                if (err == NULL)
                        err = get_buffer(s, 16, &bytes);
                mem_fail_after(0);
                assert_out_of_memory(err);
                next_request(&p); /* what was there is as it was */
                assert_memory_equal(bytes_of(&p, "NUMBERS_IN"), first, 16);
                implicit_states_detach(p.req);
                end(&p);
        }
}

/* A value of fewer dimensions than the first one had, in a smaller place for them. */
static void test_reset_without_memory(void **state) {
        struct place p;

        (void)state;
        begin(&p, STATES_OF_SEQUENCE);
        implicit_states_attach(p.states, p.req);
        write_value(&p, "NUMBERS_OUT", DATA_TYPE_INT32, 1, 4, 1, true);
        implicit_states_detach(p.req);
        mem_fail_after(1);
        assert_out_of_memory(implicit_states_reset(p.states));
        mem_fail_after(0);
        assert_ok(implicit_states_reset(p.states), "reset");
        implicit_states_attach(p.states, p.req);
        assert_memory_equal(bytes_of(&p, "NUMBERS_IN"), first, 16);
        assert_int_equal(input(&p, "NUMBERS_IN")->shape[1], 4);
        implicit_states_detach(p.req);
        end(&p);
}

static void test_lists(void **state) {
        struct implicit_states *list = NULL;

        (void)state;
        implicit_states_put(&list, NULL);
        assert_null(list);
        for (int i = 0; i < 3; i++)
                implicit_states_put(&list, implicit_states_new(&state_specs, STATES_OF_SEQUENCE));
        implicit_states_free_list(list);
        implicit_states_free_list(NULL);
        implicit_states_free(NULL);
}

/* The values of a sequence are charged, and given back. */
static void values_are_charged(void **state) {
        static int64_t          dims[] = { 4096 };
        struct state_spec       spec = { .input_name = "IN",
                                         .output_name = "OUT",
                                         .type = DATA_TYPE_UINT8,
                                         .n_dims = 1,
                                         .dims = dims,
                                         .n_bytes = 4096 };
        struct byte_budget      budget;
        struct state_specs      charged = { .states = &spec, .n = 1, .budget = &budget };
        struct implicit_states *earlier, *later;

        (void)state;
        byte_budget_init(&budget, 2 * 4096);
        earlier = implicit_states_new(&charged, STATES_OF_SEQUENCE);
        later = implicit_states_new(&charged, STATES_OF_SEQUENCE);
        assert_non_null(earlier);
        assert_non_null(later);
        assert_int_equal(byte_budget_used(&budget), 2 * 4096);
        assert_null(implicit_states_new(&charged, STATES_OF_SEQUENCE));
        assert_ok(implicit_states_reset(earlier), "reset"); /* has its room already */
        implicit_states_free(later);
        assert_int_equal(byte_budget_used(&budget), 4096);
        implicit_states_free(earlier);
        assert_int_equal(byte_budget_used(&budget), 0);
}

SUITE(implicit_state) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(values_are_charged),
                cmocka_unit_test(test_inputs),
                cmocka_unit_test(test_turns),
                cmocka_unit_test(test_no_update),
                cmocka_unit_test(test_several_updates),
                cmocka_unit_test(test_other_types_and_shapes),
                cmocka_unit_test(test_in_place),
                cmocka_unit_test(test_null_requests),
                cmocka_unit_test(test_samples),
                cmocka_unit_test(test_refusals),
                cmocka_unit_test(test_no_memory),
                cmocka_unit_test(test_reset_without_memory),
                cmocka_unit_test(test_lists),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
