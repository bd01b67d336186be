/* SPDX-License-Identifier: BSD-3-Clause */
/* Traces without an inference: which reports each level lets through, who holds a trace, and what
 * the tensor callback gets of inputs in one and in several pieces.
 */
#include "suite.h"

#include "base/mem.h"
#include "infer/fake_model.h"
#include "infer/trace.h"

#include <stdio.h>

#define MODEL                                                                                      \
        "name: 'm' input { name: 'A' data_type: TYPE_INT32 dims: -1 } "                            \
        "input { name: 'B' data_type: TYPE_INT32 dims: -1 } "

/* What the callbacks of the running test got, a line for each call. */
static struct {
        char     lines[1024];
        unsigned n_released;
} seen;

static void add_line(const char *line) {
        size_t used = strlen(seen.lines);

        snprintf(seen.lines + used, sizeof(seen.lines) - used, "%s\n", line);
}

static void on_activity(struct trace *t, int activity, uint64_t timestamp_ns, void *userp) {
        const char *name = trace_custom_name();
        char        line[100];

        assert_ptr_equal(userp, &seen);
        assert_true(t->id > 0);
        snprintf(line, sizeof(line), "%d at %llu%s%s", activity, (unsigned long long)timestamp_ns,
                 name != NULL ? " " : "", name != NULL ? name : "");
        add_line(line);
}

static void on_tensor(struct trace *t, int activity, const char *name, int type, const void *base,
                      size_t byte_size, const int64_t *shape, uint64_t n_dims, int memory_type,
                      int64_t memory_id, void *userp) {
        const int32_t *values = base;
        char           line[200];
        int            used;

        (void)t;
        assert_ptr_equal(userp, &seen);
        assert_int_equal(type, DATA_TYPE_INT32);
        used = snprintf(line, sizeof(line),
                        "%d %s %zu bytes, %llu dims, first %lld, memory %d %lld:", activity, name,
                        byte_size, (unsigned long long)n_dims, (long long)shape[0], memory_type,
                        (long long)memory_id);
        for (size_t i = 0; i < byte_size / sizeof(*values); i++)
                used += snprintf(line + used, sizeof(line) - (size_t)used, " %d", (int)values[i]);
        add_line(line);
}

static void on_release(struct trace *t, void *userp) {
        (void)t;
        assert_ptr_equal(userp, &seen);
        seen.n_released++;
}

static struct trace_options options_of(uint32_t level) {
        return (struct trace_options){ .level = level,
                                       .on_activity = on_activity,
                                       .on_tensor = on_tensor,
                                       .on_release = on_release,
                                       .userp = &seen };
}

static struct trace *new_trace(uint32_t level) {
        struct trace_options o = options_of(level);
        struct trace        *t = trace_new(&o);

        assert_non_null(t);
        return t;
}

static void assert_lines(const char *expected) {
        assert_string_equal(seen.lines, expected);
        seen.lines[0] = '\0';
}

static int set_up(void **state) {
        (void)state;
        memset(&seen, 0, sizeof(seen));
        return 0;
}

static void test_levels(void **state) {
        static const struct {
                uint32_t level;
                bool     has_times, wants_tensors;
        } rows[] = {
                { 0, false, false },
                { TRACE_LEVEL_MIN, true, false },
                { TRACE_LEVEL_MAX, true, false },
                { TRACE_LEVEL_TIMESTAMPS, true, false },
                { TRACE_LEVEL_TENSORS, false, true },
                { TRACE_LEVEL_TIMESTAMPS | TRACE_LEVEL_TENSORS, true, true },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct trace *t = new_trace(rows[i].level);

                trace_report(t, TRACE_QUEUE_START, 17);
                assert_lines(rows[i].has_times ? "1 at 17\n" : "");
                assert_int_equal(trace_wants_tensors(t), rows[i].wants_tensors);
                assert_null(trace_free(t));
        }
}

static void test_no_tensor_callback(void **state) {
        struct trace_options o = options_of(TRACE_LEVEL_TENSORS);
        struct trace        *t;

        (void)state;
        o.on_tensor = NULL;
        t = trace_new(&o);
        assert_false(trace_wants_tensors(t));
        assert_null(trace_free(t));
        assert_null(trace_free(NULL));
}

/* The name of a custom activity is there during its callback, and only then. */
static void test_custom_names(void **state) {
        struct trace *t = new_trace(TRACE_LEVEL_TIMESTAMPS);

        (void)state;
        assert_null(trace_custom_name());
        trace_report_custom(t, "step", 5);
        assert_null(trace_custom_name());
        trace_report(t, TRACE_COMPUTE_END, 6);
        assert_lines("10 at 5 step\n5 at 6\n");
        assert_null(trace_free(t));
}

static void test_held_by_an_inference(void **state) {
        struct fake_model *f = fake_model_new(MODEL);
        struct request    *req = fake_request(f);
        struct trace      *t = new_trace(0);

        (void)state;
        f->model.version = 3;
        assert_ok(request_set_id(req, "seven"), "id");
        assert_ok(trace_begin(t, req), "begin");
        assert_ptr_equal(req->trace, t);
        assert_string_equal(t->model_name, "m");
        assert_int_equal(t->model_version, 3);
        assert_string_equal(t->request_id, "seven");
        assert_error(trace_begin(t, req), ERR_INVALID_ARG,
                     "the trace is in use by an inference that has not released it");
        assert_error(trace_free(t), ERR_INVALID_ARG,
                     "the trace is in use by an inference that has not released it");

        trace_ref(t); /* a response */
        trace_refuse(req);
        assert_null(req->trace);
        assert_int_equal(seen.n_released, 0);
        trace_unref(t);
        assert_int_equal(seen.n_released, 1);

        /* It is the program's again, for another inference. */
        assert_ok(request_set_id(req, "eight"), "id");
        assert_ok(trace_begin(t, req), "again");
        assert_string_equal(t->request_id, "eight");
        trace_refuse(req);
        assert_int_equal(seen.n_released, 2);
        assert_null(trace_free(t));
        request_free(req);
        fake_model_free(f);
}

static void test_a_refused_request_reports_its_end(void **state) {
        struct fake_model *f = fake_model_new(MODEL);
        struct request    *req = fake_request(f);
        struct trace      *t = new_trace(TRACE_LEVEL_TIMESTAMPS);

        (void)state;
        assert_ok(trace_begin(t, req), "begin");
        trace_refuse(req);
        assert_memory_equal(seen.lines, "6 at ", 5);
        assert_null(trace_free(t));
        request_free(req);
        fake_model_free(f);
}

static void test_children(void **state) {
        struct fake_model *f = fake_model_new(MODEL);
        struct request    *req = fake_request(f);
        struct trace      *parent = new_trace(TRACE_LEVEL_TENSORS), *early, *late;

        (void)state;
        early = trace_spawn(parent); /* no inference holds the parent: the child does not either */
        assert_null(early->parent);
        assert_int_equal(early->options.parent_id, parent->id);
        assert_true(early->id > parent->id);
        assert_null(early->context);

        assert_null(trace_set_context(parent, "from here"));
        assert_ok(trace_begin(parent, req), "begin");
        late = trace_spawn(parent);
        assert_ptr_equal(late->parent, parent);
        assert_int_equal(late->options.level, TRACE_LEVEL_TENSORS);
        assert_string_equal(late->context, "from here");
        assert_null(trace_set_context(parent, NULL));
        assert_null(parent->context);
        assert_string_equal(late->context, "from here");

        trace_refuse(req);
        assert_int_equal(seen.n_released, 0); /* the child holds its parent */
        assert_null(trace_free(late));
        assert_int_equal(seen.n_released, 1);
        assert_null(trace_free(early));
        assert_null(trace_free(parent));
        request_free(req);
        fake_model_free(f);
}

/* Each allocation fails once; nothing changes then. */
static void test_short_of_memory(void **state) {
        struct fake_model   *f = fake_model_new(MODEL);
        struct request      *req = fake_request(f);
        struct trace_options o = options_of(0);
        struct trace        *t = new_trace(0), *child;
        unsigned             n = 0;

        (void)state;
        mem_fail_after(1);
        assert_null(trace_new(&o));
        mem_fail_after(0);
        assert_null(trace_set_context(t, "context"));
        for (child = NULL; child == NULL; mem_fail_after(0)) {
                mem_fail_after(++n);
                child = trace_spawn(t);
        }
        assert_int_equal(n, 3); /* the child, its context, and none */
        assert_null(trace_free(child));
        for (unsigned i = 1; i <= 2; i++) { /* the model's name, the request's id */
                struct error *err;

                mem_fail_after(i);
                err = trace_begin(t, req);
                mem_fail_after(0);
                assert_non_null(err);
                error_free(err);
                assert_null(req->trace);
        }
        assert_ok(trace_begin(t, req), "begin");
        trace_refuse(req);
        assert_null(trace_free(t));
        request_free(req);
        fake_model_free(f);
}

static void test_inputs(void **state) {
        static const int32_t     values[] = { 1, 2, 3, 4 };
        struct fake_model       *f = fake_model_new(MODEL);
        struct request          *req = fake_request(f);
        struct trace            *t = new_trace(TRACE_LEVEL_TENSORS);
        struct buffer_attributes one = { .memory_type = MEMORY_CPU,
                                         .memory_id = 4,
                                         .byte_size = 4 };

        (void)state;
        assert_ok(request_add_input(req, "A", DATA_TYPE_INT32, (int64_t[]){ 4 }, 1), "A");
        append_bytes(req, "A", &values[0], 4);
        assert_ok(request_append_bytes(req, "A", &values[1], &one, "host"), "of a host policy");
        append_bytes(req, "A", &values[2], 8);
        assert_ok(request_add_input(req, "B", DATA_TYPE_INT32, (int64_t[]){ 1 }, 1), "B");
        assert_ok(request_append_bytes(req, "B", &values[3], &one, NULL), "B");
        assert_ok(trace_begin(t, req), "begin");
        trace_report_inputs(req, TRACE_TENSOR_QUEUE_INPUT);
        /* Pieces are put together, without those of host policies. */
        assert_lines("7 A 12 bytes, 1 dims, first 4, memory 0 0: 1 3 4\n"
                     "7 B 4 bytes, 1 dims, first 1, memory 0 4: 4\n");

        mem_fail_after(1); /* nothing to put them together in: this one is left out */
        trace_report_inputs(req, TRACE_TENSOR_BACKEND_INPUT);
        mem_fail_after(0);
        assert_lines("8 B 4 bytes, 1 dims, first 1, memory 0 4: 4\n");
        t->options.level = TRACE_LEVEL_TIMESTAMPS;
        trace_report_inputs(req, TRACE_TENSOR_BACKEND_INPUT);
        assert_lines("");
        trace_refuse(req);
        assert_null(trace_free(t));
        request_free(req);
        fake_model_free(f);
}

static void test_an_input_without_bytes(void **state) {
        struct fake_model *f = fake_model_new(MODEL);
        struct request    *req = fake_request(f);
        struct trace      *t = new_trace(TRACE_LEVEL_TENSORS);

        (void)state;
        assert_ok(request_add_input(req, "A", DATA_TYPE_INT32, (int64_t[]){ 0 }, 1), "A");
        assert_ok(trace_begin(t, req), "begin");
        trace_report_inputs(req, TRACE_TENSOR_QUEUE_INPUT);
        assert_lines("7 A 0 bytes, 1 dims, first 0, memory 0 0:\n");
        trace_refuse(req);
        assert_null(trace_free(t));
        request_free(req);
        fake_model_free(f);
}

static void test_outputs(void **state) {
        int32_t                values[] = { 5, 6 };
        int64_t                shape[] = { 2 };
        struct trace          *t = new_trace(TRACE_LEVEL_TENSORS);
        struct response_output y = { .name = "Y",
                                     .type = DATA_TYPE_INT32,
                                     .shape = shape,
                                     .n_dims = 1,
                                     .base = values,
                                     .byte_size = sizeof(values),
                                     .attributes = { .memory_type = MEMORY_CPU, .memory_id = 2 } };
        struct response        r = { .source.trace = t, .first_output = &y };

        (void)state;
        trace_report_outputs(&r);
        assert_lines("9 Y 8 bytes, 1 dims, first 2, memory 0 2: 5 6\n");
        t->options.level = 0;
        trace_report_outputs(&r);
        assert_lines("");
        assert_null(trace_free(t));
}

/* The id of a trace is that of its W3C context, or its number. */
static void test_exemplars(void **state) {
        static const struct {
                const char *context;
                const char *id; /* NULL: the trace's number */
        } rows[] = {
                { NULL, NULL },
                { "{\"traceparent\":\"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\"}",
                  "0af7651916cd43dd8448eb211c80319c" },
                { "{\"tracestate\":\"a=b\"}", NULL },
                { "{\"traceparent\":\"", NULL },
                { "{\"traceparent\":\"00", NULL },
                { "{\"traceparent\":\"00-0af7\"}", NULL },
                { "{\"traceparent\":\"00-0af7651916cd43dd8448eb211c80319c0-b7\"}", NULL },
                { "{\"traceparent\":\"00-0AF7651916CD43DD8448EB211C80319C-b7\"}", NULL },
        };
        const struct request_times times = { .request_start_ns = 1, .request_end_ns = 5000 };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct fake_model *f = fake_model_new(MODEL);
                struct trace      *t = new_trace(0);
                char               number[64], wanted[128];
                AUTO_STRBUF        page;

                model_stats_show(f->model.stats, 1);
                assert_ok(trace_set_context(t, rows[i].context), "context");
                trace_mark_latency(t, f->model.stats, &times);
                snprintf(number, sizeof(number), "%llu", (unsigned long long)t->id);
                snprintf(wanted, sizeof(wanted), " # {trace_id=\"%s\"} 4.999e-06 ",
                         rows[i].id != NULL ? rows[i].id : number);
                strbuf_init(&page, 0);
                metric_registry_print_exemplars(f->registry, &page);
                if (strstr(strbuf_cstr(&page), wanted) == NULL)
                        fail_msg("row %zu: no '%s' in:\n%s", i, wanted, strbuf_cstr(&page));
                assert_null(trace_free(t));
                fake_model_free(f);
        }
}

#define TEST(function) cmocka_unit_test_setup(function, set_up)

SUITE(trace) {
        const struct CMUnitTest tests[] = {
                TEST(test_levels),
                TEST(test_no_tensor_callback),
                TEST(test_custom_names),
                TEST(test_held_by_an_inference),
                TEST(test_a_refused_request_reports_its_end),
                TEST(test_children),
                TEST(test_short_of_memory),
                TEST(test_inputs),
                TEST(test_an_input_without_bytes),
                TEST(test_outputs),
                TEST(test_exemplars),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
