/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "backend/host_policy.h"
#include "backend/log_lines.h"
#include "backend/probe.h"
#include "base/byte_budget.h"
#include "base/clock.h"
#include "base/mem.h"
#include "infer/fake_model.h"
#include "infer/request_prepare.h"
#include "repo/loaded_model.h"
#include "repo/model_files.h"
#include "repo/model_instances.h"
#include "repo/model_kind.h"
#include "repo/model_load.h"
#include "repo/reaper.h"
#include "repo/repo_place.h"

#define WARMUP                                                                                     \
        "model_warmup [{ name: 's' batch_size: 1 count: 2 inputs { key: 'IN' value "               \
        "{ data_type: TYPE_INT32 dims: [ 2 ] zero_data: true } } }] "

/* Loads version 3 of model "m" with this text after REPO_PLACE_CONFIG. */
static struct error *load(struct repo_place *p, const char *config, struct model **ret) {
        AUTO_CHARS         directory = temp_tree_path(&p->tree, "models/m");
        struct model_files files;
        struct error      *err;

        repo_place_add_model(p, "m", config, (int64_t[]){ 3 }, 1);
        assert_ok(model_files_read(&p->env,
                                   &(struct model_source){ .key = { "", "m" },
                                                           .directory = directory },
                                   &files),
                  config);
        err = model_load(&p->env, &files, 3, ret);
        model_files_done(&files);
        return err;
}

static struct model *load_well(struct repo_place *p, const char *config) {
        struct model *model = NULL;

        assert_ok(load(p, config, &model), config);
        return model;
}

static void unload(struct repo_place *p, struct model *model) {
        model_unref(model);
        assert_int_equal(reaper_wait(p->env.reaper, CLOCK_NEVER), 0);
}

static void test_loads(void **state) {
        struct repo_place p;
        struct model     *model;

        (void)state;
        repo_place_begin(&p);
        model = load_well(&p, "instance_group [{ count: 2 }, { name: 'mine' count: 1 }]");
        assert_string_equal(model->name, "m");
        assert_int_equal(model->version, 3);
        assert_int_equal(model->io->max_batch_size, 4);
        assert_int_equal(model->io->n_inputs, 1);
        assert_false(model->is_decoupled);
        assert_non_null(model->labels);
        assert_int_equal(fake_host_count(FAKE_MODEL_INITIALIZE), 1);
        assert_int_equal(fake_host_count(FAKE_INSTANCE_INITIALIZE), 3);
        assert_true(model_is_ready(model));

        /* Each instance has a name of its own, by which it is asked. */
        static const char *const names[] = { "m_0_0", "m_0_1", "mine_0" };

        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                fake_host_fail(FAKE_INSTANCE_READY, names[i], TRITONSERVER_ERROR_UNAVAILABLE, "no");
                assert_false(model_is_ready(model));
        }
        fake_host_fail(FAKE_INSTANCE_READY, "m_1_0", TRITONSERVER_ERROR_UNAVAILABLE, "no");
        assert_true(model_is_ready(model));

        log_lines_begin();
        unload(&p, model);
        assert_int_equal(log_lines_count("I successfully unloaded 'm' version 3"), 1);
        log_lines_end();
        assert_int_equal(fake_host_count(FAKE_INSTANCE_FINALIZE), 3);
        assert_int_equal(fake_host_count(FAKE_MODEL_FINALIZE), 1);
        repo_place_end(&p);
}

static void test_executors_know_their_place(void **state) {
        static const uint32_t      expected[][2] = { { 0, 0 }, { 0, 1 }, { 1, 0 } };
        const struct loaded_model *l;
        struct repo_place          p;
        struct model              *model;

        (void)state;
        repo_place_begin(&p);
        model = load_well(&p, "instance_group [{ count: 2 }, { name: 'mine' count: 1 }]");
        l = loaded_model_of(model);
        assert_int_equal(l->n_instances, ARRAY_LEN(expected));
        for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
                const struct executor *e = &l->instances[i]->backend->executor;

                assert_int_equal(e->group, expected[i][0]);
                assert_int_equal(e->index, expected[i][1]);
                assert_int_equal(e->min_rows, 1);
                assert_int_equal(e->max_rows, MAX(model->config->pb->max_batch_size, 1));
        }
        unload(&p, model);
        repo_place_end(&p);
}

/* A request of one row, and its answer. */
static void answer_row(struct probe *probe, struct model *model) {
        probe_init(probe, model);
        probe_add_row(probe, "IN", (const int32_t[]){ 5, 6 }, 2);
        assert_ok(request_prepare(probe->request), "prepare");
        probe->request->times.request_start_ns = clock_now_ns();
        atomic_fetch_add(&model->n_in_flight, 1);
        assert_ok(model->scheduler->ops->submit(model->scheduler, probe->request), "submit");
        probe_wait(probe);
        assert_null(probe_error(probe));
}

static void test_runs_requests(void **state) {
        struct repo_place p;
        struct probe      probe;
        struct model     *model;

        (void)state;
        repo_place_begin(&p);
        model = load_well(&p, "");
        answer_row(&probe, model);
        assert_int_equal(((const int32_t *)probe.response->first_output->base)[1], 6);

        /* Its requests and responses keep a model that was dropped. */
        model_unref(model);
        assert_int_equal(reaper_wait(p.env.reaper, 0), 1);
        probe_done(&probe);
        assert_int_equal(reaper_wait(p.env.reaper, CLOCK_NEVER), 0);
        repo_place_end(&p);
}

static void test_preferences_of_the_backend(void **state) {
        struct repo_place p;

        (void)state;
        repo_place_begin(&p);
        fake_host_prefer_instances(3);
        unload(&p, load_well(&p, ""));
        assert_int_equal(fake_host_count(FAKE_INSTANCE_INITIALIZE), 3);
        unload(&p, load_well(&p, "instance_group [{ count: 2 }]"));
        assert_int_equal(fake_host_count(FAKE_INSTANCE_INITIALIZE), 5);
        repo_place_end(&p);
}

static void test_backend_completes_the_configuration(void **state) {
        struct repo_place p;
        struct model     *model;

        (void)state;
        repo_place_begin(&p);
        fake_host_complete_config("{\"max_batch_size\":16,"
                                  "\"input\":[{\"name\":\"X\",\"data_type\":\"TYPE_FP32\","
                                  "\"dims\":[-1]}],\"output\":[{\"name\":\"Y\","
                                  "\"data_type\":\"TYPE_FP32\",\"dims\":[1]}],"
                                  "\"model_transaction_policy\":{\"decoupled\":true}}");
        model = load_well(&p, "");
        assert_int_equal(model->io->max_batch_size, 16);
        assert_int_equal(model->io->n_inputs, 1);
        assert_string_equal(model->io->inputs[0].name, "X");
        assert_true(model->is_decoupled);
        assert_true(model->needs_equal_shapes);
        unload(&p, model);

        /* What it says is checked as what a file says. */
        fake_host_complete_config("{\"input\":[{\"name\":\"X\",\"data_type\":\"TYPE_FP32\"}]}");
        model = NULL;
        assert_error(load(&p, "", &model), ERR_INVALID_ARG,
                     "model input 'X' must specify 'dims' for m");
        assert_null(model);
        assert_int_equal(fake_host_count(FAKE_MODEL_FINALIZE), 2);
        repo_place_end(&p);
}

static void test_warms_each_instance_up(void **state) {
        struct repo_place p;

        (void)state;
        repo_place_begin(&p);
        unload(&p, load_well(&p, "instance_group [{ count: 3 }] " WARMUP));
        assert_int_equal(fake_host_count(FAKE_EXECUTE), 3 * 2);
        repo_place_end(&p);
}

/* ---- host policies ------------------------------------------------------------------------- */

/* The cores of the threads that called the backend. */
struct sighting {
        struct placement last[FAKE_N_CALLS];
};

static void see_initialize(void *userp) {
        struct sighting *seen = userp;

        error_free(placement_get(&seen->last[FAKE_INSTANCE_INITIALIZE], false));
}

static void see_model_initialize(void *userp) {
        struct sighting *seen = userp;

        error_free(placement_get(&seen->last[FAKE_MODEL_INITIALIZE], false));
}

static void see_execute(void *userp) {
        struct sighting *seen = userp;

        error_free(placement_get(&seen->last[FAKE_EXECUTE], false));
}

static void sighting_begin(struct sighting *seen) {
        *seen = (struct sighting){ 0 };
        fake_host_on_call(FAKE_MODEL_INITIALIZE, see_model_initialize, seen);
        fake_host_on_call(FAKE_INSTANCE_INITIALIZE, see_initialize, seen);
        fake_host_on_call(FAKE_EXECUTE, see_execute, seen);
}

static void run_request(struct model *model) {
        struct probe probe;

        answer_row(&probe, model);
        probe_done(&probe);
}

/* The cores that this thread may use; only the last of them in *ret_one. */
static struct placement cores_here(struct placement *ret_one) {
        struct placement here;
        size_t           core = PLACEMENT_MAX_CORES - 1;

        assert_ok(placement_get(&here, false), "here");
        while (!CPU_ISSET_S(core, sizeof(here.cores), here.cores))
                core--;
        *ret_one = (struct placement){ .has_cores = true };
        CPU_SET_S(core, sizeof(ret_one->cores), ret_one->cores);
        return here;
}

static char *core_text(const struct placement *one) {
        size_t core = 0;

        while (!CPU_ISSET_S(core, sizeof(one->cores), one->cores))
                core++;
        return mem_printf("%zu", core);
}

static void assert_cores(const struct placement *seen, const struct placement *expected) {
        assert_true(CPU_EQUAL_S(sizeof(seen->cores), seen->cores, expected->cores));
}

/* An instance is made, warmed up and run where its policy says, and the model's own things are made
 * there, too, unless its instances are in several places. */
static void load_and_run(struct repo_place *p, const char *config,
                         const struct placement *expected) {
        struct sighting seen;
        struct model   *model;

        sighting_begin(&seen);
        model = load_well(p, config);
        assert_cores(&seen.last[FAKE_MODEL_INITIALIZE], expected);
        assert_cores(&seen.last[FAKE_INSTANCE_INITIALIZE], expected);
        assert_cores(&seen.last[FAKE_EXECUTE], expected);
        seen.last[FAKE_EXECUTE] = (struct placement){ 0 };
        run_request(model);
        assert_cores(&seen.last[FAKE_EXECUTE], expected);
        unload(p, model);
}

static void test_host_policies(void **state) {
        struct repo_place p;
        struct placement  one;
        struct placement  here = cores_here(&one);
        AUTO_CHARS        core = core_text(&one);
        struct sighting   seen;

        (void)state;
        repo_place_begin(&p);
        assert_ok(host_policies_new(
                          &(struct host_policies_options){
                                  .settings =
                                          (const struct setting[]){
                                                  { "mine", "cpu-cores", core },
                                                  { "model", "cpu-cores", core } },
                                  .n_settings = 2 },
                          &p.env.policies),
                  "policies");
        load_and_run(&p, "instance_group [{ host_policy: 'mine' }] " WARMUP, &one);
        load_and_run(&p, "instance_group [{ kind: KIND_MODEL }] " WARMUP, &one);
        load_and_run(&p,
                     "instance_group [{ host_policy: 'mine' }, { host_policy: 'mine' }] " WARMUP,
                     &one);
        /* Nobody has defined "cpu". It does not stay where its loader happens to be. */
        load_and_run(&p, "instance_group [{ kind: KIND_CPU }] " WARMUP, &here);
        assert_ok(placement_apply(&one), "elsewhere");
        sighting_begin(&seen);
        unload(&p, load_well(&p, "instance_group [{ host_policy: 'mine' }, { kind: KIND_CPU }]"));
        assert_cores(&seen.last[FAKE_MODEL_INITIALIZE], &here);
        load_and_run(&p, "instance_group [{ kind: KIND_CPU }] " WARMUP, &here);
        assert_ok(placement_apply(&here), "back");
        host_policies_free(p.env.policies);
        repo_place_end(&p);
}

static void test_host_policies_that_nobody_defined(void **state) {
        struct repo_place p;

        (void)state;
        repo_place_begin(&p);
        log_lines_begin();
        unload(&p, load_well(&p, "instance_group [{ count: 2 host_policy: 'mine' }]"));
        assert_int_equal(log_lines_count("W model 'm': instance group 'm_0' names the host policy "
                                         "'mine', which is not defined; its instances run on any "
                                         "core"),
                         1);
        log_lines_end();
        assert_int_equal(fake_host_count(FAKE_INSTANCE_INITIALIZE), 2);
        repo_place_end(&p);
}

static void test_failures(void **state) {
        static const struct {
                const char     *config;
                enum fake_call  call;
                const char     *name; /* whose call fails; NULL: none does */
                enum error_code code;
                const char     *text;
                unsigned        n_models, n_instances; /* that had begun, and so must end */
        } rows[] = {
                { "", FAKE_MODEL_INITIALIZE, "m/3", ERR_INVALID_ARG, "boom", 1, 0 },
                { "", FAKE_INSTANCE_INITIALIZE, "m_0", ERR_INVALID_ARG, "boom", 1, 1 },
                { "instance_group [{ count: 3 }]", FAKE_INSTANCE_INITIALIZE, "m_0_2",
                  ERR_INVALID_ARG, "boom", 1, 3 },
                { "instance_group [{ count: 3 }] " WARMUP, FAKE_EXECUTE, "m_0_1", ERR_INVALID_ARG,
                  "failed to run warmup sample 's': boom; ", 1, 2 },
                { "model_warmup [{ name: 's' batch_size: 1 count: 1 inputs { key: 'IN' value { "
                  "data_type: TYPE_INT32 dims: [ -1 ] zero_data: true } } }]",
                  FAKE_EXECUTE, NULL, ERR_INVALID_ARG,
                  "warmup setting expects all variable-size dimensions are specified for input "
                  "'IN'",
                  1, 0 },
                { "parameters { key: 'inline_execution' value { string_value: 'maybe' } }",
                  FAKE_EXECUTE, NULL, ERR_INVALID_ARG,
                  "parameter 'inline_execution' of model 'm' must be 'auto', 'never' or 'always', "
                  "got 'maybe'",
                  0, 0 },
                { "sequence_batching { state { } }", FAKE_EXECUTE, NULL, ERR_INVALID_ARG,
                  "model state must specify 'input_name' for m", 1, 0 },
                { "sequence_batching { state { input_name: 'I' output_name: 'O' "
                  "data_type: TYPE_INT32 dims: 4 initial_state { name: 'i' data_type: TYPE_INT32 "
                  "dims: 4 data_file: 'none' } } }",
                  FAKE_EXECUTE, NULL, ERR_NOT_FOUND, NULL, 1, 0 },
                { "instance_group [{ kind: KIND_GPU }]", FAKE_EXECUTE, NULL, ERR_INVALID_ARG,
                  "instance group m_0 of model m has kind KIND_GPU but no GPUs are available", 0,
                  0 },
                { "runtime: 'libmissing.so'", FAKE_EXECUTE, NULL, ERR_INVALID_ARG, NULL, 0, 0 },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct repo_place p;
                struct model     *model = NULL;
                struct error     *err;

                repo_place_begin(&p);
                if (rows[i].name != NULL)
                        fake_host_fail(rows[i].call, rows[i].name, TRITONSERVER_ERROR_INVALID_ARG,
                                       "boom");
                err = load(&p, rows[i].config, &model);
                if (rows[i].text != NULL) {
                        assert_error(err, rows[i].code, rows[i].text);
                } else {
                        assert_non_null(err);
                        assert_int_equal(err->code, rows[i].code);
                        error_free(err);
                }
                assert_null(model);
                assert_int_equal(fake_host_count(FAKE_MODEL_FINALIZE), rows[i].n_models);
                assert_int_equal(fake_host_count(FAKE_INSTANCE_FINALIZE), rows[i].n_instances);
                /* Nobody waits for a model that was never there. */
                assert_int_equal(reaper_wait(p.env.reaper, 0), 0);
                repo_place_end(&p);
        }
}

static void test_labels(void **state) {
        struct repo_place p;
        struct model     *model = NULL;

        (void)state;
        repo_place_begin(&p);
        temp_tree_write(&p.tree, "secret", "a\nb\n");
        fake_host_complete_config("{\"output\":[{\"name\":\"OUT\",\"data_type\":\"TYPE_INT32\","
                                  "\"dims\":[2],\"label_filename\":\"../../secret\"}]}");
        assert_error(
                load(&p, "", &model), ERR_INVALID_ARG,
                "label file path '../../secret' for output 'OUT' in model 'm' is outside model "
                "directory");
        assert_null(model);
        assert_int_equal(fake_host_count(FAKE_MODEL_FINALIZE), 1);
        repo_place_end(&p);
}

/* Each version holds its configuration and labels, which a client sends once for all of them. */
static void test_large_configurations_are_charged(void **state) {
        AUTO_STRBUF        config = { 0 };
        struct byte_budget budget;
        struct repo_place  p;
        struct model      *model = NULL, *refused = NULL;
        struct error      *err;
        size_t             n_used;

        (void)state;
        byte_budget_init(&budget, (size_t)1 << 20);
        repo_place_begin(&p);
        p.env.state_memory = &budget;
        unload(&p, load_well(&p, ""));
        model = load_well(&p, "parameters { key: 'small' value { string_value: 'x' } }");
        assert_int_equal(byte_budget_used(&budget), 0);
        unload(&p, model);

        strbuf_puts(&config, "parameters { key: 'large' value { string_value: '");
        for (size_t i = 0; i < (size_t)200 << 10; i++)
                strbuf_putc(&config, 'x');
        strbuf_puts(&config, "' } }");
        model = load_well(&p, strbuf_cstr(&config));
        n_used = byte_budget_used(&budget);
        assert_true(n_used > (size_t)300 << 10); /* the message and its JSON form */
        assert_ok(byte_budget_take(&budget, ((size_t)1 << 20) / 8 * 7 - n_used - 1000)
                          ? NULL
                          : error_new(ERR_INTERNAL, "it does not fit"),
                  "another use");
        err = load(&p, strbuf_cstr(&config), &refused);
        assert_non_null(err);
        assert_int_equal(err->code, ERR_UNAVAILABLE);
        assert_non_null(strstr(err->message, "no room for the configuration and labels of version "
                                             "3 of model 'm', "));
        error_free(err);
        assert_null(refused);
        unload(&p, model);
        assert_int_equal(byte_budget_used(&budget), ((size_t)1 << 20) / 8 * 7 - n_used - 1000);
        repo_place_end(&p);
}

static bool metrics_have(struct repo_place *p, const char *text) {
        AUTO_STRBUF page = { 0 };

        strbuf_init(&page, 0);
        metric_registry_print(p->metrics, &page);
        return strstr(strbuf_cstr(&page), text) != NULL;
}

static void test_is_on_the_board_while_published(void **state) {
        static const char line[] =
                "nv_inference_count{_team=\"vision\",model=\"m\",version=\"3\"} 0\n";
        struct repo_place p;
        struct model     *model;

        (void)state;
        repo_place_begin(&p);
        model = load_well(&p, "metric_tags { key: 'team' value: 'vision' }");
        assert_false(metrics_have(&p, line));
        model_publish(model);
        assert_true(metrics_have(&p, line));
        assert_true(metrics_have(&p, "nv_model_load_duration_secs{_team=\"vision\",model=\"m\""));
        unload(&p, model);
        assert_false(metrics_have(&p, "model=\"m\""));

        fake_host_fail(FAKE_INSTANCE_INITIALIZE, NULL, TRITONSERVER_ERROR_INTERNAL, "boom");
        assert_error(load(&p, "", &model), ERR_INTERNAL, "boom");
        assert_false(metrics_have(&p, "model=\"m\""));
        repo_place_end(&p);
}

SUITE(model_load) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_loads),
                cmocka_unit_test(test_executors_know_their_place),
                cmocka_unit_test(test_runs_requests),
                cmocka_unit_test(test_preferences_of_the_backend),
                cmocka_unit_test(test_backend_completes_the_configuration),
                cmocka_unit_test(test_warms_each_instance_up),
                cmocka_unit_test(test_host_policies),
                cmocka_unit_test(test_host_policies_that_nobody_defined),
                cmocka_unit_test(test_failures),
                cmocka_unit_test(test_labels),
                cmocka_unit_test(test_large_configurations_are_charged),
                cmocka_unit_test(test_is_on_the_board_while_published),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
