/* SPDX-License-Identifier: BSD-3-Clause */
/* The flow of data through an ensemble, one test for each rule. */
#include "suite.h"

#include "pipeline/ensemble_steps.h"

/* ---- the flow of data ------------------------------------------------------------------------ */

static void test_line(void **state) {
        struct ensemble_steps b;
        struct fixture_call   c;
        uint32_t              x = 5;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("Y"), STEP(I_TO_O("X", "T")) STEP(I_TO_O("T", "Y"))),
                       ONE, ONE);
        call_open(&c, &b);
        fixture_input(&c, "X", &x, 1);
        fixture_run(&c);
        assert_int_equal(c.n_got, 1);
        assert_int_equal(c.got[0].flags, RESPONSE_FINAL);
        assert_int_equal(c.got[0].n_outputs, 1);
        assert_int_equal(fixture_output(&c, 0, "Y")->value, 3 * (3 * 5 + 1) + 1);
        assert_int_equal(fixture_output(&c, 0, "Y")->n_dims, 1);
        assert_int_equal(fixture_count(&b.models[0]), 1);
        assert_int_equal(fixture_count(&b.models[1]), 1);
        fixture_call_close(&c);
        ensemble_steps_close(&b);
}

/* A diamond: the branches run in parallel, the join waits for both. */
static void test_branches_run_side_by_side(void **state) {
        struct ensemble_steps b;
        struct fixture_call   c;
        uint32_t              x = 5;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("Y"), STEP(I_TO_O("X", "T")) STEP(I_TO_O("X", "U"))
                                                          STEP(IJ_TO_O("T", "U", "Y"))),
                       ONE NEVER, ONE NEVER, TWO);
        b.models[1].add = 2;
        fixture_hold(&b.models[0], true);
        fixture_hold(&b.models[1], true);
        call_open(&c, &b);
        fixture_input(&c, "X", &x, 1);
        fixture_submit(&c);
        FIXTURE_WAIT_FOR(b.models[0].n_running == 1 && b.models[1].n_running == 1);
        fixture_hold(&b.models[0], false);
        FIXTURE_WAIT_FOR(b.models[0].n_running == 0);
        assert_int_equal(fixture_count(&b.models[2]), 0);
        fixture_hold(&b.models[1], false);
        fixture_wait(&c);
        assert_int_equal(fixture_output(&c, 0, "Y")->value, 3 * (16 + 17) + 1);
        fixture_call_close(&c);
        ensemble_steps_close(&b);
}

/* Each step reads a tensor where it was written. The last step writes into the client's memory. */
static void test_nothing_is_copied(void **state) {
        struct ensemble_steps b;
        struct fixture_call   c;
        uint32_t              x = 5;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("Y"), STEP(I_TO_O("X", "T")) STEP(I_TO_O("T", "U"))
                                                          STEP(I_TO_O("U", "Y"))),
                       ONE, ONE, ONE);
        call_open(&c, &b);
        fixture_input(&c, "X", &x, 1);
        fixture_run(&c);
        assert_ptr_equal(b.models[0].seen.input, &x);
        assert_ptr_equal(b.models[1].seen.input, b.models[0].seen.output);
        assert_ptr_equal(b.models[2].seen.input, b.models[1].seen.output);
        assert_ptr_equal(fixture_output(&c, 0, "Y")->base, b.models[2].seen.output);
        assert_int_equal(atomic_load(&c.n_allocated), 1);
        fixture_call_close(&c);
        ensemble_steps_close(&b);
}

static struct error *count_start(struct response_allocator *allocator, void *userp) {
        (void)allocator;
        (void)userp;
        return NULL;
}

/* Outputs are copied when the client's allocator has a start function, because it must get the
 * ensemble's response first. When several steps write outputs, only one of them writes without a
 * copy. */
static void test_outputs_that_are_copied(void **state) {
        static const struct response_allocator starts = { .alloc = fixture_alloc,
                                                          .release = fixture_release,
                                                          .start = count_start };
        struct ensemble_steps                  b;
        struct fixture_call                    c;
        uint32_t                               x = 5;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("Y") OUT("Z"),
                                STEP(I_TO_O("X", "Y")) STEP(I_TO_O("X", "Z"))),
                       ONE, ONE);
        b.models[1].add = 2;
        for (int round = 0; round < 2; round++) {
                unsigned n_direct = 0;

                call_open(&c, &b);
                if (round == 1)
                        c.req->allocator = &starts;
                fixture_input(&c, "X", &x, 1);
                fixture_run(&c);
                assert_int_equal(fixture_output(&c, 0, "Y")->value, 16);
                assert_int_equal(fixture_output(&c, 0, "Z")->value, 17);
                n_direct += fixture_output(&c, 0, "Y")->base == b.models[0].seen.output;
                n_direct += fixture_output(&c, 0, "Z")->base == b.models[1].seen.output;
                assert_int_equal(n_direct, round == 0 ? 1 : 0);
                assert_int_equal(atomic_load(&c.n_allocated), 2);
                fixture_call_close(&c);
        }
        ensemble_steps_close(&b);
}

/* One output is also read by another step, and the input is also an output. */
static void test_outputs_inside_the_graph(void **state) {
        struct ensemble_steps b;
        struct fixture_call   c;
        uint32_t              x = 5;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("T") OUT("Y") OUT("X"),
                                STEP(I_TO_O("X", "T")) STEP(I_TO_O("T", "Y"))),
                       ONE, ONE);
        call_open(&c, &b);
        fixture_input(&c, "X", &x, 1);
        fixture_run(&c);
        assert_int_equal(c.got[0].n_outputs, 3);
        assert_string_equal(c.got[0].outputs[0].name, "T"); /* in the configuration's order */
        assert_string_equal(c.got[0].outputs[1].name, "Y");
        assert_int_equal(fixture_output(&c, 0, "T")->value, 16);
        assert_int_equal(fixture_output(&c, 0, "Y")->value, 49);
        assert_int_equal(fixture_output(&c, 0, "X")->value, 5);
        fixture_call_close(&c);
        ensemble_steps_close(&b);
}

/* All steps of fast models run on the client's thread. */
static void test_fast_steps_stay_on_the_thread(void **state) {
        struct ensemble_steps b;
        unsigned              n_here = 0;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("Y"), STEP(I_TO_O("X", "T")) STEP(I_TO_O("T", "U"))
                                                          STEP(I_TO_O("U", "Y"))),
                       ONE ALWAYS, ONE ALWAYS, ONE ALWAYS);
        /* Sometimes the instance's own thread is awake and runs a step; then the test tries
         * again. */
        for (int i = 0; i < 200 && n_here < 3; i++) {
                struct fixture_call c;
                uint32_t            x = 5;

                call_open(&c, &b);
                fixture_input(&c, "X", &x, 1);
                fixture_run(&c);
                n_here = 0;
                for (int k = 0; k < 3; k++)
                        n_here += pthread_equal(b.models[k].seen.thread, pthread_self()) != 0;
                fixture_call_close(&c);
        }
        assert_int_equal(n_here, 3);
        ensemble_steps_close(&b);
}

/* ---- pruning --------------------------------------------------------------------------------- */

/* X -> 0 -> T -> 1 -> Y
 *           '--> 2 -> Z
 *                '-> V   only an output, no step reads it */
static void test_steps_nobody_asked_for(void **state) {
        static const struct {
                const char *outputs[3];
                unsigned    n_executed[3];
                uint32_t    n_output_names; /* outputs that step 2 is asked for */
        } rows[] = {
                { { NULL }, { 1, 1, 1 }, 2 },
                { { "Y" }, { 1, 1, 0 }, 0 },
                { { "Z" }, { 1, 0, 1 }, 1 },
                { { "V", "Y" }, { 1, 1, 1 }, 1 },
        };
        struct ensemble_steps b;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("Y") OUT("Z") OUT("V"),
                                STEP(I_TO_O("X", "T")) STEP(I_TO_O("T", "Y"))
                                        STEP(I_TO_O("T", "Z") MAP("output_map", "P", "V"))),
                       ONE, ONE, ONE OUT("P"));
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct fixture_call c;
                uint32_t            x = 5, n_asked = 0;

                for (int k = 0; k < 3; k++)
                        b.models[k].n_executed = 0;
                call_open(&c, &b);
                fixture_input(&c, "X", &x, 1);
                for (; rows[i].outputs[n_asked] != NULL; n_asked++)
                        assert_ok(request_add_output(c.req, rows[i].outputs[n_asked]), "output");
                fixture_run(&c);
                assert_int_equal(c.got[0].n_outputs, n_asked > 0 ? n_asked : 3);
                for (uint32_t k = 0; k < n_asked; k++)
                        fixture_output(&c, 0, rows[i].outputs[k]);
                for (int k = 0; k < 3; k++)
                        assert_int_equal(fixture_count(&b.models[k]), rows[i].n_executed[k]);
                if (rows[i].n_executed[2] > 0)
                        assert_int_equal(b.models[2].seen.n_output_names, rows[i].n_output_names);
                fixture_call_close(&c);
        }
        ensemble_steps_close(&b);
}

/* ---- properties of the steps' requests ------------------------------------------------------- */

static void test_what_steps_are_told(void **state) {
        struct parameter      p = { .name = "p", .type = PARAMETER_INT, .integer = 3 };
        struct parameter      q = { .name = "q", .type = PARAMETER_STRING, .string = "text" };
        struct ensemble_steps b;
        struct fixture_call   c;
        uint32_t              x = 5;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("Y"), STEP(I_TO_O("X", "T")) STEP(I_TO_O("T", "Y"))),
                       ONE, ONE);
        for (int text = 0; text < 2; text++) {
                call_open(&c, &b);
                fixture_input(&c, "X", &x, 1);
                assert_ok(request_set_id(c.req, "the id"), "id");
                if (text == 1)
                        assert_ok(request_set_correlation_text(c.req, "seq"), "correlation");
                else
                        c.req->correlation = (struct correlation_id){ .number = 77 };
                c.req->flags = REQUEST_SEQUENCE_START | REQUEST_SEQUENCE_END;
                c.req->priority = 2;
                c.req->timeout_us = 0;
                assert_ok(request_add_parameter(c.req, &p), "parameter");
                assert_ok(request_add_parameter(c.req, &q), "parameter");
                fixture_run(&c);
                for (int k = 0; k < 2; k++) {
                        const struct fixture_seen *seen = &b.models[k].seen;

                        assert_string_equal(seen->id, "the id");
                        assert_string_equal(seen->text, text == 1 ? "seq" : "");
                        assert_int_equal(seen->correlation.number, text == 1 ? 0 : 77);
                        assert_int_equal(seen->flags,
                                         REQUEST_SEQUENCE_START | REQUEST_SEQUENCE_END);
                        assert_int_equal(seen->priority, 2);
                        assert_int_equal(seen->timeout_us, 0);
                        assert_int_equal(seen->n_parameters, 2);
                }
                fixture_call_close(&c);
        }
        ensemble_steps_close(&b);
}

static const struct parameter *find_parameter(const struct fixture_call *c, const char *name) {
        const struct parameter *p = parameter_list_find(&c->got[0].response->parameters, name);

        if (p == NULL)
                fail_msg("there is no parameter %s", name);
        return p;
}

/* The response of an ensemble has the sequence's parameters. A step's response changes them for the
 * steps after it. */
static void test_sequence_parameters(void **state) {
        struct ensemble_steps b;
        struct fixture_call   c;
        uint32_t              x = 5;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("Y"), STEP(I_TO_O("X", "T")) STEP(I_TO_O("T", "U"))
                                                          STEP(I_TO_O("U", "Y"))),
                       ONE, ONE, ONE);
        call_open(&c, &b);
        fixture_input(&c, "X", &x, 1);
        fixture_run(&c);
        assert_int_equal(c.got[0].response->parameters.n, 3);
        assert_int_equal(find_parameter(&c, "sequence_id")->type, PARAMETER_INT);
        assert_int_equal(find_parameter(&c, "sequence_id")->integer, 0);
        assert_false(find_parameter(&c, "sequence_start")->boolean);
        assert_false(find_parameter(&c, "sequence_end")->boolean);
        fixture_call_close(&c);

        b.models[1].says_sequence = true;
        b.models[1].sequence_id = 99;
        b.models[1].sequence_end = true;
        call_open(&c, &b);
        c.req->correlation = (struct correlation_id){ .number = 7 };
        c.req->flags = REQUEST_SEQUENCE_START;
        fixture_input(&c, "X", &x, 1);
        fixture_run(&c);
        assert_int_equal(b.models[1].seen.correlation.number, 7);
        assert_int_equal(b.models[1].seen.flags, REQUEST_SEQUENCE_START);
        assert_int_equal(b.models[2].seen.correlation.number, 99);
        assert_int_equal(b.models[2].seen.flags, REQUEST_SEQUENCE_END);
        assert_int_equal(find_parameter(&c, "sequence_id")->integer, 99);
        assert_false(find_parameter(&c, "sequence_start")->boolean);
        assert_true(find_parameter(&c, "sequence_end")->boolean);
        fixture_call_close(&c);

        b.models[1].sequence_text = "other";
        call_open(&c, &b);
        assert_ok(request_set_correlation_text(c.req, "own"), "correlation");
        fixture_input(&c, "X", &x, 1);
        fixture_run(&c);
        assert_string_equal(b.models[1].seen.text, "own");
        assert_string_equal(b.models[2].seen.text, "other");
        assert_int_equal(find_parameter(&c, "sequence_id")->type, PARAMETER_STRING);
        assert_string_equal(find_parameter(&c, "sequence_id")->string, "other");
        fixture_call_close(&c);
        ensemble_steps_close(&b);
}

/* A sequence that a step's response has changed is that of all steps after it, also when the step that
 * answered so is long over; then the client's is again that of the next run. */
static void test_sequence_is_handed_on(void **state) {
        struct ensemble_steps b;
        struct fixture_call   c;
        uint32_t              x = 5;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("Y"), STEP(I_TO_O("X", "T")) STEP(I_TO_O("T", "U"))
                                                          STEP(I_TO_O("U", "Y"))),
                       ONE, ONE, ONE);
        for (int round = 0; round < 3; round++) {
                bool is_changed = round != 1;

                b.models[0].says_sequence = is_changed;
                b.models[0].sequence_text = "other";
                b.models[0].sequence_end = true;
                call_open(&c, &b);
                assert_ok(request_set_correlation_text(c.req, "own"), "correlation");
                c.req->flags = REQUEST_SEQUENCE_START;
                fixture_input(&c, "X", &x, 1);
                fixture_run(&c);
                for (int i = 1; i < 3; i++) {
                        assert_string_equal(b.models[i].seen.text, is_changed ? "other" : "own");
                        assert_int_equal(b.models[i].seen.flags, is_changed
                                                                         ? REQUEST_SEQUENCE_END
                                                                         : REQUEST_SEQUENCE_START);
                }
                assert_string_equal(find_parameter(&c, "sequence_id")->string,
                                    is_changed ? "other" : "own");
                assert_int_equal(find_parameter(&c, "sequence_end")->boolean, is_changed);
                fixture_call_close(&c);
        }
        ensemble_steps_close(&b);
}

/* ---- steps with and without batching --------------------------------------------------------- */

static void assert_dims(const int64_t *dims, uint32_t n_dims, const int64_t *expected, uint32_t n) {
        assert_int_equal(n_dims, n);
        for (uint32_t i = 0; i < n; i++)
                assert_int_equal(dims[i], expected[i]);
}

/* An ensemble without batching, a step with batching: the step gets a batch of one, and the batch
 * dimension is removed from its outputs. */
static void test_without_batching_over_batching(void **state) {
        struct ensemble_steps b;
        struct fixture_call   c;
        uint32_t              x = 5;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("Y"), STEP(I_TO_O("X", "T")) STEP(I_TO_O("T", "Y"))),
                       "max_batch_size: 4 " ONE, ONE);
        call_open(&c, &b);
        fixture_input(&c, "X", &x, 1);
        fixture_run(&c);
        assert_dims(b.models[0].seen.dims, b.models[0].seen.n_dims, (int64_t[]){ 1, 1 }, 2);
        assert_dims(b.models[1].seen.dims, b.models[1].seen.n_dims, (int64_t[]){ 1 }, 1);
        assert_dims(fixture_output(&c, 0, "Y")->dims, fixture_output(&c, 0, "Y")->n_dims,
                    (int64_t[]){ 1 }, 1);
        assert_int_equal(fixture_output(&c, 0, "Y")->value, 49);
        fixture_call_close(&c);
        ensemble_steps_close(&b);
}

/* An ensemble with batching, a step without: the batch becomes the first dimension of the step's
 * tensor if that is variable. Else a batch of one is removed, and a larger one is refused. */
static void test_batching_over_without(void **state) {
        struct ensemble_steps b;
        struct fixture_call   c;
        uint32_t              x[2] = { 5, 6 };

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE("max_batch_size: 4 " IN("X") OUT("Y"),
                                STEP(I_TO_O("X", "T")) STEP(I_TO_O("T", "Y"))),
                       "input { name: 'I' data_type: TYPE_UINT32 dims: [ -1, 1 ] } "
                       "output { name: 'O' data_type: TYPE_UINT32 dims: [ -1, 1 ] } ",
                       "max_batch_size: 8 " ONE);
        call_open(&c, &b);
        assert_ok(request_add_input(c.req, "X", DATA_TYPE_UINT32, (int64_t[]){ 2, 1 }, 2), "X");
        append_bytes(c.req, "X", x, sizeof(x));
        fixture_run(&c);
        assert_dims(b.models[0].seen.dims, b.models[0].seen.n_dims, (int64_t[]){ 2, 1 }, 2);
        assert_dims(b.models[1].seen.dims, b.models[1].seen.n_dims, (int64_t[]){ 2, 1 }, 2);
        assert_dims(fixture_output(&c, 0, "Y")->dims, fixture_output(&c, 0, "Y")->n_dims,
                    (int64_t[]){ 2, 1 }, 2);
        fixture_call_close(&c);
        ensemble_steps_close(&b);

        ENSEMBLE_STEPS(&b, ENSEMBLE("max_batch_size: 4 " IN("X") OUT("Y"), STEP(I_TO_O("X", "Y"))),
                       ONE);
        call_open(&c, &b);
        fixture_input(&c, "X", &x[0], 1, 1);
        fixture_run(&c);
        assert_dims(b.models[0].seen.dims, b.models[0].seen.n_dims, (int64_t[]){ 1 }, 1);
        assert_dims(fixture_output(&c, 0, "Y")->dims, fixture_output(&c, 0, "Y")->n_dims,
                    (int64_t[]){ 1, 1 }, 2);
        fixture_call_close(&c);

        call_open(&c, &b);
        assert_ok(request_add_input(c.req, "X", DATA_TYPE_UINT32, (int64_t[]){ 2, 1 }, 2), "X");
        append_bytes(c.req, "X", x, sizeof(x));
        fixture_run(&c);
        fixture_assert_error(
                &c, ERR_INVALID_ARG,
                "in ensemble 'e', [request id: <id_unknown>] unexpected shape for input "
                "'I' for model 's'. Expected [1], got [2,1]. ");
        fixture_call_close(&c);
        ensemble_steps_close(&b);
}

/* The steps get the reshaped dims; the client gets the ensemble's dims. */
static void test_reshapes(void **state) {
        struct ensemble_steps b;
        struct fixture_call   c;
        uint32_t              x[4] = { 5, 6, 7, 8 };

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE("input { name: 'X' data_type: TYPE_UINT32 dims: 4 "
                                "reshape { shape: [ 2, 2 ] } } "
                                "output { name: 'Y' data_type: TYPE_UINT32 dims: 4 "
                                "reshape { shape: [ 2, 2 ] } } ",
                                STEP(I_TO_O("X", "Y"))),
                       "input { name: 'I' data_type: TYPE_UINT32 dims: [ 2, 2 ] } "
                       "output { name: 'O' data_type: TYPE_UINT32 dims: [ 2, 2 ] } ");
        call_open(&c, &b);
        assert_ok(request_add_input(c.req, "X", DATA_TYPE_UINT32, (int64_t[]){ 4 }, 1), "X");
        append_bytes(c.req, "X", x, sizeof(x));
        fixture_run(&c);
        assert_dims(b.models[0].seen.dims, b.models[0].seen.n_dims, (int64_t[]){ 2, 2 }, 2);
        assert_dims(fixture_output(&c, 0, "Y")->dims, fixture_output(&c, 0, "Y")->n_dims,
                    (int64_t[]){ 4 }, 1);
        assert_int_equal(c.got[0].response->first_output->byte_size, sizeof(x));
        fixture_call_close(&c);
        ensemble_steps_close(&b);
}

/* The pieces of an input are not joined for the steps. When the input is also an output, its bytes
 * are copied together into the output. */
static void test_input_in_pieces(void **state) {
        struct ensemble_steps b;
        struct fixture_call   c;
        uint32_t              x = 0x01020304;

        (void)state;
        ENSEMBLE_STEPS(&b, ENSEMBLE(IN("X") OUT("Y") OUT("X"), STEP(I_TO_O("X", "Y"))), ONE);
        call_open(&c, &b);
        assert_ok(request_add_input(c.req, "X", DATA_TYPE_UINT32, (int64_t[]){ 1 }, 1), "X");
        append_bytes(c.req, "X", &x, 4);
        fixture_run(&c);
        fixture_call_close(&c);
        call_open(&c, &b);
        assert_ok(request_add_output(c.req, "X"), "output");
        assert_ok(request_add_input(c.req, "X", DATA_TYPE_UINT32, (int64_t[]){ 1 }, 1), "X");
        append_bytes(c.req, "X", &x, 1);
        append_bytes(c.req, "X", (char *)&x + 1, 3);
        fixture_run(&c);
        assert_int_equal(fixture_output(&c, 0, "X")->value, 0x01020304);
        assert_int_equal(fixture_count(&b.models[0]),
                         1); /* the second request does not ask for Y */
        fixture_call_close(&c);
        ensemble_steps_close(&b);
}

/* ---- missing tensors ------------------------------------------------------------------------- */

static void test_optional_inputs(void **state) {
        struct ensemble_steps b;
        struct fixture_call   c;
        uint32_t              x = 5, z = 2;

        (void)state;
        ENSEMBLE_STEPS(&b, ENSEMBLE(IN("X") OPTIONAL("Z") OUT("Y"), STEP(IJ_TO_O("X", "Z", "Y"))),
                       IN("I") OPTIONAL("J") OUT("O"));
        call_open(&c, &b);
        fixture_input(&c, "X", &x, 1);
        fixture_run(&c);
        assert_int_equal(b.models[0].seen.n_inputs, 1);
        assert_int_equal(fixture_output(&c, 0, "Y")->value, 16);
        fixture_call_close(&c);

        call_open(&c, &b);
        fixture_input(&c, "X", &x, 1);
        fixture_input(&c, "Z", &z, 1);
        fixture_run(&c);
        assert_int_equal(b.models[0].seen.n_inputs, 2);
        assert_int_equal(fixture_output(&c, 0, "Y")->value, 22);
        fixture_call_close(&c);
        ensemble_steps_close(&b);
}

/* A step does not send one of its outputs. The response of the ensemble does not have it, and the
 * next step runs without it if the input is optional. A required input is an error. */
static void test_outputs_that_a_step_leaves_out(void **state) {
        static const char     graph[] = ENSEMBLE(IN("X") OUT("Y") OUT("U"),
                                                 STEP(I_TO_O("X", "T") MAP("output_map", "P", "U"))
                                                         STEP(IJ_TO_O("T", "U", "Y")));
        struct ensemble_steps b;
        struct fixture_call   c;
        uint32_t              x = 5;

        (void)state;
        ENSEMBLE_STEPS(&b, graph, ONE OUT("P"), IN("I") OPTIONAL("J") OUT("O"));
        b.models[0].omits = "P";
        call_open(&c, &b);
        fixture_input(&c, "X", &x, 1);
        fixture_run(&c);
        assert_int_equal(c.got[0].n_outputs, 1);
        assert_int_equal(fixture_output(&c, 0, "Y")->value, 49);
        assert_int_equal(b.models[1].seen.n_inputs, 1);
        fixture_call_close(&c);
        ensemble_steps_close(&b);

        ENSEMBLE_STEPS(&b, graph, ONE OUT("P"), TWO);
        b.models[0].omits = "P";
        call_open(&c, &b);
        assert_ok(request_set_id(c.req, "7"), "id");
        fixture_input(&c, "X", &x, 1);
        fixture_run(&c);
        fixture_assert_error(
                &c, ERR_INVALID_ARG,
                "in ensemble 'e', [request id: 7] expected 2 inputs but got 1 inputs for "
                "model 's'. Got input(s) ['I'], but missing required input(s) ['J']. "
                "Please provide all required input(s).");
        fixture_call_close(&c);
        ensemble_steps_close(&b);
}

static void test_nothing_produced(void **state) {
        struct ensemble_steps b;
        struct fixture_call   c;
        uint32_t              x = 5;

        (void)state;
        ENSEMBLE_STEPS(&b,
                       ENSEMBLE(IN("X") OUT("Y"), STEP(I_TO_O("X", "T")) STEP(I_TO_O("T", "Y"))),
                       ONE, ONE);
        b.models[0].is_silent = true;
        call_open(&c, &b);
        fixture_input(&c, "X", &x, 1);
        fixture_run(&c);
        fixture_assert_error(
                &c, ERR_INVALID_ARG,
                "in ensemble 'e', [request id: <id_unknown>] unexpected deadlock, at least "
                "one output is not set while no more ensemble steps can be made");
        assert_int_equal(fixture_count(&b.models[1]), 0);
        fixture_call_close(&c);
        ensemble_steps_close(&b);
}

SUITE(ensemble) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_line),
                cmocka_unit_test(test_branches_run_side_by_side),
                cmocka_unit_test(test_nothing_is_copied),
                cmocka_unit_test(test_outputs_that_are_copied),
                cmocka_unit_test(test_outputs_inside_the_graph),
                cmocka_unit_test(test_fast_steps_stay_on_the_thread),
                cmocka_unit_test(test_steps_nobody_asked_for),
                cmocka_unit_test(test_what_steps_are_told),
                cmocka_unit_test(test_sequence_parameters),
                cmocka_unit_test(test_sequence_is_handed_on),
                cmocka_unit_test(test_without_batching_over_batching),
                cmocka_unit_test(test_batching_over_without),
                cmocka_unit_test(test_reshapes),
                cmocka_unit_test(test_input_in_pieces),
                cmocka_unit_test(test_optional_inputs),
                cmocka_unit_test(test_outputs_that_a_step_leaves_out),
                cmocka_unit_test(test_nothing_produced),
        };

        fixture_open();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
