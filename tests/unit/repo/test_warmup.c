/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "backend/temp_tree.h"
#include "base/byte_budget.h"
#include "base/mem.h"
#include "base/thread.h"
#include "infer/executor.h"
#include "infer/fake_model.h"
#include "repo/warmup.h"

#define IO                                                                                         \
        "name: 'm' backend: 'fake' max_batch_size: 4 "                                             \
        "input [{ name: 'IN' data_type: TYPE_INT32 dims: [ 2 ] }] "                                \
        "output [{ name: 'OUT' data_type: TYPE_INT32 dims: [ 2 ] }] "
#define ZEROS "{ key: 'IN' value { data_type: TYPE_INT32 dims: [ 2 ] zero_data: true } }"

/* An instance that remembers what it was given, and answers as it was told. */
struct recorder {
        struct executor executor;
        struct strbuf   seen;     /* "<name>[<shape>]=<bytes> " per input, a line per execution */
        unsigned        fails_at; /* the n-th execution is answered with an error; 0: none */
        unsigned        n_executions;
        bool            answers_later; /* on a thread of its own */
        bool            sends_flags;   /* a response, then FINAL without one */

        struct warmup_options options;
        size_t                most_used; /* of the budget, while an output was held */
        unsigned              ends_at;   /* the n-th execution makes the warm-up end; 0: none */
        atomic_bool           is_stopping;
        atomic_uint           n_superseding;

        struct thread    thread;
        struct request **requests; /* owned while the thread works */
        uint32_t         n_requests;
};

static void note_input(struct recorder *r, const struct request_input *in) {
        const struct input_chunk *chunk = in->first_chunk;

        strbuf_printf(&r->seen, "%s[", in->name);
        for (uint32_t i = 0; i < in->n_dims; i++)
                strbuf_printf(&r->seen, "%s%lld", i > 0 ? "," : "", (long long)in->shape[i]);
        strbuf_puts(&r->seen, "]=");
        for (size_t i = 0; chunk != NULL && i < chunk->attributes.byte_size; i++)
                strbuf_printf(&r->seen, "%02x", ((const unsigned char *)chunk->base)[i]);
        strbuf_putc(&r->seen, ' ');
}

/* With an output, so that its memory is asked for and given back. */
static void answer(struct recorder *r, struct request *req, bool fails) {
        static const struct error boom = ERROR_STATIC(ERR_UNSUPPORTED, "boom");
        struct response_output   *output;
        struct response          *response;
        enum memory_type          type = MEMORY_GPU;
        int64_t                   id = 3;
        void                     *bytes;

        assert_ok(response_new(req, &response), "response");
        assert_ok(response_add_output(response, "OUT", DATA_TYPE_INT32, (int64_t[]){ 1, 2 }, 2,
                                      &output),
                  "output");
        assert_ok(response_output_buffer(output, 8, &type, &id, &bytes), "buffer");
        assert_int_equal(type, MEMORY_CPU);
        assert_int_equal(id, 0);
        memset(bytes, 1, 8);
        if (r->options.budget != NULL)
                r->most_used = MAX(r->most_used, byte_budget_used(r->options.budget));
        assert_ok(response_send(response, r->sends_flags ? 0 : RESPONSE_FINAL,
                                fails ? &boom : NULL),
                  "send");
        if (r->sends_flags)
                assert_ok(request_send_flags(req, RESPONSE_FINAL), "flags");
        request_release(req, REQUEST_RELEASE_ALL);
}

static void answer_all(struct recorder *r, struct request *const *requests, uint32_t n) {
        for (uint32_t i = 0; i < n; i++)
                answer(r, requests[i], r->n_executions == r->fails_at);
}

static void answer_later(void *arg) {
        struct recorder *r = arg;

        answer_all(r, r->requests, r->n_requests);
}

static void execute(struct executor *e, struct request **requests, uint32_t n) {
        struct recorder *r = CONTAINER_OF(e, struct recorder, executor);

        mem_fail_after(0); /* what fails is to fail before this */
        r->n_executions++;
        if (r->n_executions == r->ends_at) {
                atomic_store(&r->is_stopping, r->options.is_stopping != NULL);
                atomic_store(&r->n_superseding, 2);
        }
        for (uint32_t i = 0; i < n; i++) {
                assert_int_equal(atomic_load(&requests[i]->state), REQUEST_EXECUTING);
                assert_true(requests[i]->times.request_start_ns > 0);
                assert_int_equal(requests[i]->times.queue_start_ns,
                                 requests[i]->times.request_start_ns);
                for (struct request_input *in = requests[i]->first_input; in != NULL; in = in->next)
                        note_input(r, in);
        }
        strbuf_putc(&r->seen, '\n');
        if (!r->answers_later) {
                answer_all(r, requests, n);
                return;
        }
        thread_join(&r->thread);
        free(r->requests);
        r->requests = mem_alloc(n * sizeof(*requests));
        memcpy(r->requests, requests, n * sizeof(*requests));
        r->n_requests = n;
        assert_ok(thread_start(&r->thread, "answer", answer_later, r), "thread");
}

static const struct executor_ops recorder_ops = { .execute = execute };

/* Warms the model of this configuration up; what the executions saw must be as expected. */
static struct error *warm(struct recorder *r, const char *config, const char *directory,
                          const char *expected) {
        struct fake_model *f = fake_model_new(config);
        struct error      *err;

        r->executor.ops = &recorder_ops;
        strbuf_init(&r->seen, 0);
        err = warmup_run(&f->model, directory, "m_0", &r->executor, &r->options);
        thread_join(&r->thread);
        free(r->requests);
        r->requests = NULL;
        assert_string_equal(strbuf_cstr(&r->seen), expected);
        strbuf_done(&r->seen);
        assert_int_equal(atomic_load(&f->model.n_in_flight), 0);
        assert_int_equal(atomic_load(&f->model.ref.count), 1);
        fake_model_free(f);
        return err;
}

static void test_nothing_to_do(void **state) {
        struct recorder r = { 0 };

        (void)state;
        assert_ok(warm(&r, IO, "/", ""), "no samples");
        assert_ok(warm(&r,
                       IO "model_warmup [{ name: 's' batch_size: 0 count: 3 inputs " ZEROS " }]",
                       "/", ""),
                  "batch_size 0");
        assert_int_equal(r.n_executions, 0);
}

static void test_once_without_a_count(void **state) {
        struct recorder r = { 0 };

        (void)state;
        assert_ok(warm(&r, IO "model_warmup [{ name: 's' batch_size: 1 inputs " ZEROS " }]", "/",
                       "IN[1,2]=0000000000000000 \n"),
                  "no count");
        assert_int_equal(r.n_executions, 1);
}

static void test_samples_run_in_order(void **state) {
        struct recorder r = { 0 };

        (void)state;
        assert_ok(warm(&r,
                       IO "model_warmup ["
                          "{ name: 'a' batch_size: 2 count: 2 inputs " ZEROS " },"
                          "{ name: 'b' batch_size: 1 count: 1 inputs " ZEROS " }]",
                       "/",
                       "IN[1,2]=0000000000000000 IN[1,2]=0000000000000000 \n"
                       "IN[1,2]=0000000000000000 IN[1,2]=0000000000000000 \n"
                       "IN[1,2]=0000000000000000 \n"),
                  "warmup");
        assert_int_equal(r.n_executions, 3);
}

#define LONG IO "model_warmup [{ name: 's' batch_size: 1 count: 1000 inputs " ZEROS " }]"

static void test_a_stop_ends_it(void **state) {
        struct recorder r = { .ends_at = 2 };

        (void)state;
        r.options.is_stopping = &r.is_stopping;
        assert_error(warm(&r, LONG, "/", "IN[1,2]=0000000000000000 \nIN[1,2]=0000000000000000 \n"),
                     ERR_UNAVAILABLE, "failed to run warmup sample 's': Server exiting; ");
}

/* Before it makes an input, which may be large: this one has a file that is missing. */
static void test_a_stop_before_it_begins(void **state) {
        struct recorder r = { .is_stopping = true };

        (void)state;
        r.options.is_stopping = &r.is_stopping;
        assert_error(warm(&r,
                          IO "model_warmup [{ name: 's' batch_size: 1 count: 1 inputs "
                             "{ key: 'IN' value { data_type: TYPE_INT32 dims: [ 2 ] "
                             "input_data_file: 'missing' } } }]",
                          "/", ""),
                     ERR_UNAVAILABLE, "failed to run warmup sample 's': Server exiting; ");
        assert_int_equal(r.n_executions, 0);
}

static void test_another_change_ends_it(void **state) {
        struct recorder r = { .ends_at = 1 };

        (void)state;
        r.options.n_superseding = &r.n_superseding;
        assert_error(
                warm(&r, LONG, "/", "IN[1,2]=0000000000000000 \n"), ERR_UNAVAILABLE,
                "failed to run warmup sample 's': another change of the model was requested; ");
        assert_int_equal(r.n_executions, 1);
        r.n_executions = 7; /* it waits already */
        assert_error(
                warm(&r, LONG, "/", ""), ERR_UNAVAILABLE,
                "failed to run warmup sample 's': another change of the model was requested; ");
}

static void test_model_without_batches(void **state) {
        struct recorder r = { 0 };

        (void)state;
        assert_ok(warm(&r,
                       "name: 'm' backend: 'fake' "
                       "input [{ name: 'IN' data_type: TYPE_INT32 dims: [ 2 ] }] "
                       "output [{ name: 'OUT' data_type: TYPE_INT32 dims: [ 2 ] }] "
                       "model_warmup [{ name: 'a' batch_size: 1 count: 1 inputs " ZEROS " }]",
                       "/", "IN[2]=0000000000000000 \n"),
                  "warmup");
}

static void test_inputs_of_all_kinds(void **state) {
        struct temp_tree           tree = temp_tree_make();
        struct recorder            r = { 0 };
        static const unsigned char raw[] = { 1, 2, 3, 4, 5, 6, 7, 8 };

        (void)state;
        temp_tree_write_bytes(&tree, "warmup/raw", raw, sizeof(raw));
        assert_ok(warm(&r,
                       "name: 'm' backend: 'fake' max_batch_size: 4 "
                       "input [{ name: 'A' data_type: TYPE_INT32 dims: [ 2 ] },"
                       "       { name: 'B' data_type: TYPE_STRING dims: [ -1 ] }] "
                       "output [{ name: 'OUT' data_type: TYPE_INT32 dims: [ 2 ] }] "
                       "model_warmup [{ name: 'a' batch_size: 1 count: 1 inputs ["
                       "{ key: 'A' value { data_type: TYPE_INT32 dims: [ 2 ] "
                       "                   input_data_file: 'raw' } }, "
                       "{ key: 'B' value { data_type: TYPE_STRING dims: [ 3 ] "
                       "                   random_data: true } } ] }]",
                       tree.path, "A[1,2]=0102030405060708 B[1,3]=000000000000000000000000 \n"),
                  "warmup");
        temp_tree_remove(&tree);
}

/* Control inputs are given as others are: a warm-up has no sequence. */
static void test_control_inputs(void **state) {
        struct recorder r = { 0 };

        (void)state;
        assert_ok(warm(&r,
                       IO "sequence_batching { control_input { name: 'START' control { kind: "
                          "CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } } } "
                          "model_warmup [{ name: 'a' batch_size: 1 count: 1 inputs ["
                          "{ key: 'START' value { data_type: TYPE_INT32 dims: [ 1 ] "
                          "                       zero_data: true } }, " ZEROS " ] }]",
                       "/", "IN[1,2]=0000000000000000 START[1,1]=00000000 \n"),
                  "warmup");
        assert_error(warm(&r,
                          IO "sequence_batching { } "
                             "model_warmup [{ name: 'a' batch_size: 1 count: 1 inputs ["
                             "{ key: 'START' value { data_type: TYPE_INT32 dims: [ 1 ] "
                             "                       zero_data: true } }, " ZEROS " ] }]",
                          "/", ""),
                     ERR_INVALID_ARG,
                     "failed to run warmup sample 'a': [request id: <id_unknown>] expected 1 "
                     "inputs but got 2 inputs for model 'm'. Got input(s) ['START','IN'], but "
                     "missing required input(s) ]. Please provide all required input(s).; ");
}

/* States that a sample does not give have their initial values. */
static void test_states(void **state) {
        struct recorder r = { 0 };

        (void)state;
        assert_ok(warm(&r,
                       IO "sequence_batching { state { input_name: 'SUM' output_name: 'NEXT' "
                          "data_type: TYPE_INT16 dims: [ -1, 2 ] } state { input_name: 'TEXT' "
                          "output_name: 'LONGER' data_type: TYPE_STRING dims: 1 } } "
                          "model_warmup [{ name: 's' batch_size: 2 count: 1 inputs " ZEROS " }, "
                          "{ name: 't' batch_size: 1 count: 2 inputs [" ZEROS ", { key: 'SUM' "
                          "value { data_type: TYPE_INT16 dims: [ 1, 2 ] zero_data: true } } ] }]",
                       "/",
                       "IN[1,2]=0000000000000000 SUM[1,1,2]=00000000 TEXT[1,1]=00000000 "
                       "IN[1,2]=0000000000000000 SUM[1,1,2]=00000000 TEXT[1,1]=00000000 \n"
                       "IN[1,2]=0000000000000000 SUM[1,1,2]=00000000 TEXT[1,1]=00000000 \n"
                       "IN[1,2]=0000000000000000 SUM[1,1,2]=00000000 TEXT[1,1]=00000000 \n"),
                  "states");
}

static void test_answers_may_come_later(void **state) {
        struct recorder r = { .answers_later = true };

        (void)state;
        assert_ok(warm(&r,
                       IO "model_warmup [{ name: 'a' batch_size: 2 count: 3 inputs " ZEROS " }]",
                       "/",
                       "IN[1,2]=0000000000000000 IN[1,2]=0000000000000000 \n"
                       "IN[1,2]=0000000000000000 IN[1,2]=0000000000000000 \n"
                       "IN[1,2]=0000000000000000 IN[1,2]=0000000000000000 \n"),
                  "warmup");
}

static void test_final_flags_end_a_request(void **state) {
        struct recorder r = { .sends_flags = true };

        (void)state;
        assert_ok(warm(&r,
                       IO "model_transaction_policy { decoupled: true } "
                          "model_warmup [{ name: 'a' batch_size: 1 count: 2 inputs " ZEROS " }]",
                       "/", "IN[1,2]=0000000000000000 \nIN[1,2]=0000000000000000 \n"),
                  "warmup");
        assert_int_equal(r.n_executions, 2);
}

static void test_failure_ends_it(void **state) {
        static const char config[] = IO "model_warmup ["
                                        "{ name: 'a' batch_size: 2 count: 3 inputs " ZEROS " },"
                                        "{ name: 'b' batch_size: 1 count: 1 inputs " ZEROS " }]";

        (void)state;
        for (int is_decoupled = 0; is_decoupled < 2; is_decoupled++) {
                struct recorder r = { .fails_at = 2, .sends_flags = is_decoupled };

                assert_error(warm(&r, config, "/",
                                  "IN[1,2]=0000000000000000 IN[1,2]=0000000000000000 \n"
                                  "IN[1,2]=0000000000000000 IN[1,2]=0000000000000000 \n"),
                             ERR_UNSUPPORTED, "failed to run warmup sample 'a': boom; ");
                assert_int_equal(r.n_executions, 2);
        }
}

static void test_sample_that_does_not_fit(void **state) {
        struct recorder r = { 0 };

        (void)state;
        assert_error(warm(&r,
                          IO "model_warmup [{ name: 's' batch_size: 3 count: 1 inputs "
                             "{ key: 'IN' value { data_type: TYPE_FP32 dims: [ 2 ] "
                             "zero_data: true } } }]",
                          "/", ""),
                     ERR_INVALID_ARG,
                     "failed to run warmup sample 's': [request id: <id_unknown>] inference input "
                     "'IN' data-type is 'FP32', but model 'm' expects 'INT32'; ");
        assert_int_equal(r.n_executions, 0);
}

static void test_file_that_is_missing(void **state) {
        struct temp_tree tree = temp_tree_make();
        struct recorder  r = { 0 };

        (void)state;
        temp_tree_write(&tree, "warmup/short", "1234567");
        assert_error(warm(&r,
                          IO "model_warmup [{ name: 's' batch_size: 1 count: 1 inputs "
                             "{ key: 'IN' value { data_type: TYPE_INT32 dims: [ 2 ] "
                             "input_data_file: 'short' } } }]",
                          tree.path, ""),
                     ERR_INVALID_ARG,
                     "[request id: <id_unknown>] warmup setting expects 8 bytes, but the data "
                     "provided from shortonly has 7 bytes");
        temp_tree_remove(&tree);
}

/* The inputs, the requests and their outputs are charged, and given back in any case. */
static void test_memory_is_charged(void **state) {
        static const char config[] =
                IO "model_warmup [{ name: 's' batch_size: 2 count: 3 inputs " ZEROS " }]";
        static const struct {
                size_t      max;
                const char *message, *seen;
        } rows[] = {
                { 7,
                  "the server's memory budget (--memory-budget) is used up for warmup input 'IN' "
                  "of "
                  "8 bytes",
                  "" },
                { 4096 + 7,
                  "failed to run warmup sample 's': the server's memory budget (--memory-budget) "
                  "is "
                  "used up for 2 warmup requests; ",
                  "" },
        };
        struct byte_budget budget;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct recorder r = { .options.budget = &budget };

                byte_budget_init(&budget, rows[i].max);
                assert_error(warm(&r, config, "/", rows[i].seen), ERR_UNAVAILABLE, rows[i].message);
                assert_int_equal(byte_budget_used(&budget), 0);
        }
        for (int fails = 0; fails < 2; fails++) {
                struct recorder r = { .options.budget = &budget, .fails_at = fails ? 3 : 0 };
                struct error   *err;

                byte_budget_init(&budget, 4096 + 8 + 2 * 8);
                err = warm(&r, config, "/",
                           "IN[1,2]=0000000000000000 IN[1,2]=0000000000000000 \n"
                           "IN[1,2]=0000000000000000 IN[1,2]=0000000000000000 \n"
                           "IN[1,2]=0000000000000000 IN[1,2]=0000000000000000 \n");
                assert_int_equal(err != NULL, fails);
                error_free(err);
                assert_int_equal(byte_budget_used(&budget), 0);
                assert_int_equal(r.most_used, 4096 + 8 + 8);
        }
}

/* Each allocation before the execution fails once; then the warm-up succeeds. */
static void test_out_of_memory(void **state) {
        unsigned n = 0;
        bool     has_run = false;

        (void)state;
        while (!has_run) {
                struct fake_model *f = fake_model_new(
                        IO "model_warmup [{ name: 's' batch_size: 2 count: 1 inputs " ZEROS " }]");
                struct recorder r = { .executor.ops = &recorder_ops };
                struct error   *err;

                strbuf_init(&r.seen, 0);
                mem_fail_after(++n);
                err = warmup_run(&f->model, "/", "m_0", &r.executor, &r.options);
                mem_fail_after(0);
                has_run = r.n_executions > 0;
                assert_int_equal(err == NULL, has_run);
                assert_int_equal(atomic_load(&f->model.n_in_flight), 0);
                error_free(err);
                strbuf_done(&r.seen);
                fake_model_free(f);
        }
        assert_true(n > 3); /* the input's bytes and two requests */
}

SUITE(warmup) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_nothing_to_do),
                cmocka_unit_test(test_once_without_a_count),
                cmocka_unit_test(test_samples_run_in_order),
                cmocka_unit_test(test_model_without_batches),
                cmocka_unit_test(test_inputs_of_all_kinds),
                cmocka_unit_test(test_control_inputs),
                cmocka_unit_test(test_states),
                cmocka_unit_test(test_answers_may_come_later),
                cmocka_unit_test(test_final_flags_end_a_request),
                cmocka_unit_test(test_failure_ends_it),
                cmocka_unit_test(test_sample_that_does_not_fit),
                cmocka_unit_test(test_file_that_is_missing),
                cmocka_unit_test(test_a_stop_ends_it),
                cmocka_unit_test(test_a_stop_before_it_begins),
                cmocka_unit_test(test_another_change_ends_it),
                cmocka_unit_test(test_memory_is_charged),
                cmocka_unit_test(test_out_of_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
