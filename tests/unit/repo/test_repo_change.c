/* SPDX-License-Identifier: BSD-3-Clause */
/* What a load, a reload and an unload change, and above all what they leave alone. */
#include "suite.h"

#include "backend/log_lines.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "infer/fake_model.h"
#include "repo/model_instances.h"
#include "repo/override.h"
#include "repo/reaper.h"
#include "repo/repo.h"
#include "repo/repo_place.h"
#include "repo/repo_private.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const one_folder[] = { "models" };

#define ALL_VERSIONS "version_policy { all { } } "

/* Calls of the backend since the last look. */
struct calls {
        unsigned models, models_ended, instances, instances_ended;
};

static struct calls calls_now(void) {
        return (struct calls){ fake_host_count(FAKE_MODEL_INITIALIZE),
                               fake_host_count(FAKE_MODEL_FINALIZE),
                               fake_host_count(FAKE_INSTANCE_INITIALIZE),
                               fake_host_count(FAKE_INSTANCE_FINALIZE) };
}

static void assert_calls(struct calls *since, struct calls expected) {
        struct calls now = calls_now();

        assert_int_equal(now.models - since->models, expected.models);
        assert_int_equal(now.models_ended - since->models_ended, expected.models_ended);
        assert_int_equal(now.instances - since->instances, expected.instances);
        assert_int_equal(now.instances_ended - since->instances_ended, expected.instances_ended);
        *since = now;
}

static void begin(struct repo_place *p) {
        repo_place_begin(p);
        p->is_followed = true;
}

/* "m" with this configuration and version 1, loaded. */
static struct calls begin_loaded(struct repo_place *p, const char *config) {
        begin(p);
        repo_place_add(p, "m", config);
        repo_place_open(p, one_folder, 1);
        assert_ok(repo_load(p->repo, "m", NULL), "load");
        return calls_now();
}

static void assert_index(struct repo_place *p, const char *expected) {
        AUTO_CHARS index = repo_place_index(p);

        assert_string_equal(index, expected);
}

static struct model *get(struct repo_place *p, int64_t version) {
        struct model *model;

        assert_ok(repo_get(p->repo, "m", version, &model), "get");
        return model;
}

/* Waits until models that were replaced have ended. */
static void await_ended(struct calls *since, unsigned n) {
        fake_host_await(FAKE_MODEL_FINALIZE, since->models_ended + n);
}

static char *config_of(struct model *model) {
        AUTO_STRBUF text = { 0 };

        strbuf_init(&text, 0);
        assert_ok(model_print_config(model, 1, &text), "config");
        return strbuf_take(&text);
}

static void assert_fails(struct error *err) {
        assert_non_null(err);
        error_free(err);
}

static struct error *load_json(struct repo_place *p, const char *json) {
        return repo_load(p->repo, "m", &(struct repo_override){ .config_json = json });
}

static void test_nothing_changed(void **state) {
        struct repo_place p;
        struct calls      calls = begin_loaded(&p, "");
        struct model     *before = get(&p, -1), *after;

        (void)state;
        assert_ok(repo_load(p.repo, "m", NULL), "again");
        after = get(&p, -1);
        assert_ptr_equal(before, after);
        assert_calls(&calls, (struct calls){ 0 });
        model_unref(before);
        model_unref(after);
        repo_place_end(&p);
}

/* Memory that is short at any point of a load: an error, or a model that serves; never a success
 * without a model. */
static void test_load_without_memory(void **state) {
        unsigned n = 0, n_failed = 0;
        bool     was_hit;

        (void)state;
        do {
                struct repo_place p;
                struct error     *err;

                begin(&p);
                repo_place_add(&p, "m", "");
                repo_place_open(&p, one_folder, 1);
                mem_fail_after(++n);
                err = repo_load(p.repo, "m", NULL);
                was_hit = mem_fail_was_hit();
                mem_fail_after(0);
                if (err == NULL)
                        model_unref(get(&p, 1));
                n_failed += err != NULL;
                error_free(err);
                repo_place_end(&p);
        } while (was_hit);
        assert_true(n_failed > 10);
}

/* Each of these is a change of the files after which the model is loaded anew. */
static void test_reload(void **state) {
        static const char *const files[][2] = {
                { "models/m/config.pbtxt", REPO_PLACE_CONFIG "parameters { key: 'x' value { "
                                                             "string_value: 'y' } }" },
                { "models/m/labels.txt", "cat" },
                { "models/m/1/model.bin", "other" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(files); i++) {
                struct repo_place p;
                struct calls      calls = begin_loaded(&p, "");
                struct model     *before = get(&p, 1), *after;

                temp_tree_write(&p.tree, files[i][0], files[i][1]);
                assert_ok(repo_load(p.repo, "m", NULL), files[i][0]);
                after = get(&p, 1);
                assert_ptr_not_equal(before, after);
                /* Who has the old one keeps it. */
                assert_calls(&calls, (struct calls){ .models = 1, .instances = 1 });
                assert_index(&p, "m:1:READY:-\n");
                model_unref(before);
                model_unref(after);
                await_ended(&calls, 1);
                assert_calls(&calls, (struct calls){ .models_ended = 1, .instances_ended = 1 });
                repo_place_end(&p);
        }
}

static void test_failed_reload_changes_nothing(void **state) {
        struct repo_place p;
        struct calls      calls = begin_loaded(&p, "");
        struct model     *before = get(&p, -1), *after;
        AUTO_CHARS        config = config_of(before);

        (void)state;
        temp_tree_write(&p.tree, "models/m/1/model.bin", "other");
        log_lines_begin();
        fake_host_fail(FAKE_MODEL_INITIALIZE, "m", TRITONSERVER_ERROR_UNSUPPORTED, "no luck");
        assert_error(repo_load(p.repo, "m", NULL), ERR_INVALID_ARG,
                     "load failed for model 'm': version 1 is at UNAVAILABLE state: Unsupported: "
                     "no luck;\n");
        temp_tree_write(&p.tree, "models/m/config.pbtxt", "nonsense");
        assert_error(repo_load(p.repo, "m", NULL), ERR_INTERNAL,
                     "failed to load 'm', failed to poll from model repository");
        log_lines_end();
        after = get(&p, -1);
        assert_ptr_equal(before, after);
        AUTO_CHARS config_after = config_of(after);

        assert_string_equal(config, config_after);
        assert_index(&p, "m:1:READY:-\n");
        assert_true(repo_all_ready(p.repo));
        model_unref(before);
        model_unref(after);
        calls.models++; /* the one that failed */
        calls.models_ended++;
        /* Put right, it loads. */
        fake_host_fail(FAKE_MODEL_INITIALIZE, NULL, 0, NULL);
        repo_place_add(&p, "m", "");
        assert_ok(repo_load(p.repo, "m", NULL), "put right");
        await_ended(&calls, 1);
        assert_calls(&calls, (struct calls){ 1, 1, 1, 1 });
        repo_place_end(&p);
}

static void test_versions_come_and_go(void **state) {
        struct repo_place p;
        struct calls      calls = begin_loaded(&p, ALL_VERSIONS);
        struct model     *first = get(&p, -1), *second, *again;
        AUTO_CHARS        folder = temp_tree_path(&p.tree, "models/m/2");

        (void)state;
        temp_tree_write(&p.tree, "models/m/2/model.bin", "two");
        assert_ok(repo_load(p.repo, "m", NULL), "one more");
        assert_calls(&calls, (struct calls){ .models = 1, .instances = 1 });
        assert_index(&p, "m:1:READY:-\nm:2:READY:-\n");
        second = get(&p, -1);
        assert_int_equal(second->version, 2);
        again = get(&p, 1);
        assert_ptr_equal(first, again); /* it was left alone */
        model_unref(again);
        temp_tree_unlink(&p.tree, "models/m/2/model.bin");
        assert_int_equal(rmdir(folder), 0);
        assert_ok(repo_load(p.repo, "m", NULL), "one fewer");
        /* Who has it goes on; nobody gets it any more. */
        assert_index(&p, "m:1:READY:-\nm:2:UNLOADING:-\n");
        assert_error(repo_get(p.repo, "m", 2, &again), ERR_UNAVAILABLE,
                     "Request for unknown model: 'm' version 2 is not at ready state");
        again = get(&p, -1);
        assert_ptr_equal(first, again);
        assert_calls(&calls, (struct calls){ 0 });
        model_unref(again);
        model_unref(second);
        repo_place_await_index(&p, "m:1:READY:-\nm:2:UNAVAILABLE:unloaded\n");
        assert_calls(&calls, (struct calls){ .models_ended = 1, .instances_ended = 1 });
        assert_true(repo_all_ready(p.repo));
        model_unref(first);
        repo_place_end(&p);
}

/* The policy alone is no reason to load anything again. */
static void test_version_policy(void **state) {
        struct repo_place p;
        struct calls      calls;

        (void)state;
        begin(&p);
        repo_place_add_model(&p, "m", ALL_VERSIONS, (int64_t[]){ 1, 2, 3 }, 3);
        repo_place_open(&p, one_folder, 1);
        assert_ok(repo_load(p.repo, "m", NULL), "load");
        calls = calls_now();
        assert_int_equal(calls.models, 3);
        repo_place_add(&p, "m", "version_policy { specific { versions: [1, 3] } }");
        assert_ok(repo_load(p.repo, "m", NULL), "specific");
        repo_place_await_index(&p, "m:1:READY:-\nm:2:UNAVAILABLE:unloaded\nm:3:READY:-\n");
        assert_calls(&calls, (struct calls){ .models_ended = 1, .instances_ended = 1 });
        repo_place_add(&p, "m", "");
        assert_ok(repo_load(p.repo, "m", NULL), "the latest");
        repo_place_await_index(&p, "m:1:UNAVAILABLE:unloaded\nm:2:UNAVAILABLE:unloaded\n"
                                   "m:3:READY:-\n");
        assert_calls(&calls, (struct calls){ .models_ended = 1, .instances_ended = 1 });
        repo_place_end(&p);
}

static void test_a_version_that_fails_stops_all(void **state) {
        struct repo_place p;
        struct calls      calls = begin_loaded(&p, ALL_VERSIONS);
        AUTO_CHARS        folder = temp_tree_path(&p.tree, "models/m/2");

        (void)state;
        temp_tree_folder(&p.tree, "models/m/2");
        temp_tree_folder(&p.tree, "models/m/3");
        log_lines_begin();
        fake_host_fail(FAKE_INSTANCE_INITIALIZE, "m/2", TRITONSERVER_ERROR_INTERNAL, "boom");
        assert_error(repo_load(p.repo, "m", NULL), ERR_INVALID_ARG,
                     "load failed for model 'm': version 2 is at UNAVAILABLE state: Internal: "
                     "boom;\n");
        log_lines_end();
        assert_index(&p, "m:1:READY:-\nm:2:UNAVAILABLE:Internal: boom\n"
                         "m:3:UNAVAILABLE:unloaded\n");
        await_ended(&calls, 2);
        /* Without the one that fails: nothing is left of it. */
        assert_int_equal(rmdir(folder), 0);
        assert_ok(repo_load(p.repo, "m", NULL), "without it");
        assert_index(&p, "m:1:READY:-\nm:3:READY:-\n");
        assert_true(repo_all_ready(p.repo));
        repo_place_end(&p);
}

/* ---- instances ------------------------------------------------------------------------------- */

#define COUNT(n) "instance_group { count: " #n " kind: KIND_CPU } "

static const struct instance_row {
        const char  *before, *after;
        struct calls calls;
} instance_rows[] = {
        { COUNT(1), COUNT(3), { .instances = 2 } },
        { COUNT(3), COUNT(1), { .instances_ended = 2 } },
        { "", COUNT(2), { .instances = 1 } },
        { COUNT(1), "instance_group { name: 'other' count: 1 kind: KIND_CPU }", { 0 } },
        { COUNT(2), COUNT(1) COUNT(1), { 0 } },
        { COUNT(1) COUNT(2), COUNT(4), { .instances = 1 } },
        { COUNT(2),
          "instance_group { count: 2 kind: KIND_MODEL }",
          { .instances = 2, .instances_ended = 2 } },
        { COUNT(2),
          COUNT(1) "instance_group { count: 2 kind: KIND_MODEL }",
          { .instances = 2, .instances_ended = 1 } },
        { COUNT(2),
          COUNT(1) "instance_group { count: 1 kind: KIND_CPU host_policy: 'mine' }",
          { .instances = 1, .instances_ended = 1 } },
        { COUNT(1), COUNT(2) ALL_VERSIONS, { .instances = 1 } },
        /* Anything else besides: everything is loaded anew. */
        { COUNT(1),
          COUNT(2) "parameters { key: 'x' value { string_value: 'y' } }",
          { 1, 1, 2, 1 } },
};

static void test_instances(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(instance_rows); i++) {
                const struct instance_row *row = &instance_rows[i];
                struct repo_place          p;
                struct calls               calls = begin_loaded(&p, row->before);

                print_message("%s -> %s\n", row->before, row->after);
                repo_place_add(&p, "m", row->after);
                assert_ok(repo_load(p.repo, "m", NULL), row->after);
                await_ended(&calls, row->calls.models_ended);
                assert_calls(&calls, row->calls);
                assert_true(repo_version_is_ready(p.repo, "m", 1));
                /* And nothing at all the next time. */
                assert_ok(repo_load(p.repo, "m", NULL), row->after);
                assert_calls(&calls, (struct calls){ 0 });
                repo_place_end(&p);
        }
}

static void test_the_configuration_tells_the_instances(void **state) {
        struct repo_place p;
        struct model     *model;

        (void)state;
        begin_loaded(&p, COUNT(1));
        repo_place_add(&p, "m", COUNT(3));
        assert_ok(repo_load(p.repo, "m", NULL), "three");
        model = get(&p, -1);
        AUTO_CHARS config = config_of(model);

        assert_non_null(strstr(config, "\"count\":3"));
        model_unref(model);
        repo_place_end(&p);
}

static void test_instance_that_fails(void **state) {
        struct repo_place p;
        struct calls      calls = begin_loaded(&p, COUNT(1));
        struct model     *before = get(&p, -1), *after;
        AUTO_CHARS        config = config_of(before);

        (void)state;
        repo_place_add(&p, "m", COUNT(4));
        log_lines_begin();
        fake_host_fail(FAKE_INSTANCE_INITIALIZE, "m_0_2", TRITONSERVER_ERROR_UNAVAILABLE, "full");
        assert_error(repo_load(p.repo, "m", NULL), ERR_INVALID_ARG,
                     "load failed for model 'm': version 1 is at UNAVAILABLE state: Unavailable: "
                     "full;\n");
        log_lines_end();
        /* Those that had been made are gone, the one that was there is not. */
        assert_int_equal(calls_now().instances_ended - calls.instances_ended,
                         calls_now().instances - calls.instances);
        after = get(&p, -1);
        assert_ptr_equal(before, after);
        AUTO_CHARS config_after = config_of(after);

        assert_string_equal(config, config_after);
        assert_true(repo_version_is_ready(p.repo, "m", 1));
        model_unref(before);
        model_unref(after);
        fake_host_fail(FAKE_INSTANCE_INITIALIZE, NULL, 0, NULL);
        calls = calls_now();
        assert_ok(repo_load(p.repo, "m", NULL), "now");
        assert_calls(&calls, (struct calls){ .instances = 3 });
        repo_place_end(&p);
}

static void test_too_many_instances(void **state) {
        struct repo_place p;
        struct calls      calls = begin_loaded(&p, COUNT(1));

        (void)state;
        repo_place_add(&p, "m", COUNT(4097));
        log_lines_begin();
        assert_error(repo_load(p.repo, "m", NULL), ERR_INVALID_ARG,
                     "load failed for model 'm': version 1 is at UNAVAILABLE state: Invalid "
                     "argument: instance group m_0 of model m has count 4097: a model may have at "
                     "most 4096 instances in all;\n");
        log_lines_end();
        assert_calls(&calls, (struct calls){ 0 });
        repo_place_end(&p);
}

/* ---- what comes with a request --------------------------------------------------------------- */

/* A second later than it was. */
static void touch(struct repo_place *p, const char *file) {
        AUTO_CHARS      path = temp_tree_path(&p->tree, file);
        struct timespec times[2];
        struct stat     native;

        assert_int_equal(stat(path, &native), 0);
        times[0] = native.st_atim;
        times[1] = native.st_mtim;
        times[1].tv_sec++;
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* As clients do it: ask for the configuration, change the count, send it back. */
static void test_sent_configuration_with_another_count(void **state) {
        struct repo_place p;
        struct calls      calls;
        struct model     *model;

        (void)state;
        begin(&p);
        repo_place_add(&p, "m", COUNT(1));
        repo_place_open(&p, one_folder, 1);
        assert_ok(repo_load(p.repo, "m", NULL), "load");
        calls = calls_now();
        model = get(&p, -1);
        AUTO_CHARS config = config_of(model);
        char      *count = strstr(config, "\"count\":1");

        count[strlen("\"count\":")] = '3';
        model_unref(model);
        assert_ok(load_json(&p, config), "three");
        assert_calls(&calls, (struct calls){ .instances = 2 });
        /* Plain loads keep it, until the file is another one; then they go back to that, by the
         * same way. */
        assert_ok(repo_load(p.repo, "m", NULL), "plain");
        assert_calls(&calls, (struct calls){ 0 });
        touch(&p, "models/m/config.pbtxt");
        assert_ok(repo_load(p.repo, "m", NULL), "touched");
        assert_calls(&calls, (struct calls){ .instances_ended = 2 });
        assert_ok(repo_load(p.repo, "m", NULL), "plain again");
        assert_calls(&calls, (struct calls){ 0 });
        repo_place_end(&p);
}

#define JSON_CONFIG(more)                                                                          \
        "{ \"backend\": \"fake\", \"max_batch_size\": 4, "                                         \
        "\"input\": [{ \"name\": \"IN\", \"data_type\": \"TYPE_INT32\", \"dims\": [2] }], "        \
        "\"output\": [{ \"name\": \"OUT\", \"data_type\": \"TYPE_INT32\", \"dims\": [2] }]" more   \
        "}"

static void test_sent_configuration(void **state) {
        struct repo_place p;
        struct calls      calls = begin_loaded(&p, "");
        struct model     *model;

        (void)state;
        assert_ok(load_json(&p, JSON_CONFIG(", \"parameters\": { \"sent\": { \"string_value\": "
                                            "\"yes\" } }")),
                  "sent");
        await_ended(&calls, 1);
        assert_calls(&calls, (struct calls){ 1, 1, 1, 1 });
        model = get(&p, -1);
        AUTO_CHARS config = config_of(model);

        assert_non_null(strstr(config, "\"sent\""));
        model_unref(model);
        assert_ok(repo_load(p.repo, "m", NULL), "plain");
        assert_calls(&calls, (struct calls){ 0 });
        log_lines_begin();
        assert_error(load_json(&p, "{ nonsense"), ERR_INTERNAL,
                     "failed to load 'm', failed to poll from model repository");
        log_lines_end();
        assert_calls(&calls, (struct calls){ 0 });
        repo_place_end(&p);
}

#define SENT(value)                                                                                \
        JSON_CONFIG(", \"parameters\": { \"sent\": { \"string_value\": \"" value "\" } }")

/* The value of the parameter "sent" in the configuration in force; "" without one. */
static void assert_sent(struct repo_place *p, const char *expected) {
        struct model *model = get(p, -1);
        AUTO_CHARS    config = config_of(model);
        AUTO_CHARS    wanted = mem_printf("\"sent\":{\"string_value\":\"%s\"}", expected);

        model_unref(model);
        if (*expected == '\0')
                assert_null(strstr(config, "\"sent\""));
        else
                assert_non_null(strstr(config, wanted));
}

/* What was sent holds for later loads whatever else changes, until the file of the configuration
 * changes, another one is sent, or the model is unloaded. */
static void test_sent_configuration_is_kept(void **state) {
        struct repo_place p;
        struct calls      calls = begin_loaded(&p, "");

        (void)state;
        assert_ok(load_json(&p, SENT("first")), "first");
        await_ended(&calls, 1);
        temp_tree_write(&p.tree, "models/m/1/model.bin", "other");
        calls = calls_now();
        assert_ok(repo_load(p.repo, "m", NULL), "another model");
        await_ended(&calls, 1);
        assert_calls(&calls, (struct calls){ 1, 1, 1, 1 });
        assert_sent(&p, "first");
        assert_ok(load_json(&p, SENT("second")), "second");
        await_ended(&calls, 1);
        temp_tree_folder(&p.tree, "models/m/2");
        assert_ok(repo_load(p.repo, "m", NULL), "another version");
        repo_place_await_index(&p, "m:1:UNAVAILABLE:unloaded\nm:2:READY:-\n");
        assert_sent(&p, "second");

        /* A load that fails takes nothing away, sent or not. */
        log_lines_begin();
        assert_fails(load_json(&p, JSON_CONFIG(", \"version_policy\": { \"specific\": { "
                                               "\"versions\": [9] } }")));
        temp_tree_write(&p.tree, "models/m/config.pbtxt", "nonsense");
        assert_fails(repo_load(p.repo, "m", NULL));
        log_lines_end();
        assert_sent(&p, "second");
        temp_tree_write(&p.tree, "models/m/config.pbtxt", REPO_PLACE_CONFIG);
        assert_ok(repo_load(p.repo, "m", NULL), "a newer file");
        assert_sent(&p, "");
        assert_ok(repo_load(p.repo, "m", NULL), "plain");
        assert_sent(&p, "");

        assert_ok(load_json(&p, SENT("third")), "third");
        assert_sent(&p, "third");
        assert_ok(repo_unload(p.repo, "m"), "unload");
        assert_ok(repo_load(p.repo, "m", NULL), "load");
        assert_sent(&p, "");
        repo_place_end(&p);
}

/* The configuration is kept, the files are not: those of the repository are loaded with it. */
static void test_sent_files_are_not_kept(void **state) {
        const struct override_file files[] = { { "7/model.bin", "seven", 5 } };
        const struct repo_override o = { .config_json = SENT("with files"),
                                         .files = files,
                                         .n_files = 1 };
        struct repo_place          p;

        (void)state;
        begin_loaded(&p, "");
        assert_ok(repo_load(p.repo, "m", &o), "sent");
        repo_place_await_index(&p, "m:1:UNAVAILABLE:unloaded\nm:7:READY:-\n");
        assert_ok(repo_load(p.repo, "m", NULL), "plain");
        repo_place_await_index(&p, "m:1:READY:-\nm:7:UNAVAILABLE:unloaded\n");
        assert_sent(&p, "with files");
        touch(&p, "models/m/config.pbtxt");
        assert_ok(repo_load(p.repo, "m", NULL), "touched");
        assert_sent(&p, "");

        /* A file that came while no repository had the model is a newer one. */
        assert_ok(repo_load(p.repo, "late", &o), "sent");
        repo_place_add(&p, "late", "");
        assert_ok(repo_load(p.repo, "late", NULL), "plain");
        assert_true(repo_version_is_ready(p.repo, "late", 1));
        assert_false(repo_version_is_ready(p.repo, "late", 7));
        repo_place_end(&p);
}

static void test_sent_files(void **state) {
        const struct override_file files[] = { { "7/model.bin", "seven", 5 } };
        struct repo_override       o = { .files = files, .n_files = 1 };
        struct repo_place          p;
        struct calls               calls = begin_loaded(&p, "");

        (void)state;
        log_lines_begin();
        assert_error(repo_load(p.repo, "m", &o), ERR_INTERNAL,
                     "failed to load 'm', failed to poll from model repository");
        assert_int_equal(log_lines_count("E failed to poll model 'm': Load parameter 'config' must "
                                         "be specified for model file override"),
                         1);
        log_lines_end();
        assert_calls(&calls, (struct calls){ 0 });
        o.config_json = JSON_CONFIG("");
        assert_ok(repo_load(p.repo, "m", &o), "sent");
        repo_place_await_index(&p, "m:1:UNAVAILABLE:unloaded\nm:7:READY:-\n");
        assert_calls(&calls, (struct calls){ 1, 1, 1, 1 });
        /* Sent again: as often as it is asked for. */
        assert_ok(repo_load(p.repo, "m", &o), "sent");
        await_ended(&calls, 1);
        assert_calls(&calls, (struct calls){ 1, 1, 1, 1 });
        assert_ok(repo_load(p.repo, "m", NULL), "plain");
        repo_place_await_index(&p, "m:1:READY:-\nm:7:UNAVAILABLE:unloaded\n");
        /* A model that no repository has. */
        assert_ok(repo_load(p.repo, "sent", &o), "sent");
        assert_true(repo_version_is_ready(p.repo, "sent", 7));
        repo_place_end(&p);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void test_unload_and_load(void **state) {
        struct repo_place p;
        struct calls      calls = begin_loaded(&p, "");
        struct model     *model = get(&p, -1), *none;

        (void)state;
        assert_ok(repo_unload(p.repo, "m"), "unload");
        assert_index(&p, "m:1:UNLOADING:-\n");
        assert_error(repo_get(p.repo, "m", -1, &none), ERR_NOT_FOUND,
                     "Request for unknown model: 'm' has no available versions");
        /* It may be loaded again before the old one has ended. */
        assert_ok(repo_load(p.repo, "m", NULL), "load");
        assert_index(&p, "m:1:READY:-\n");
        model_unref(model);
        await_ended(&calls, 1);
        assert_index(&p, "m:1:READY:-\n");
        assert_ok(repo_unload(p.repo, "m"), "unload");
        repo_place_await_index(&p, "m:1:UNAVAILABLE:unloaded\n");
        assert_ok(repo_unload(p.repo, "m"), "unloaded already");
        assert_ok(repo_unload(p.repo, "nobody"), "nobody");
        assert_index(&p, "m:1:UNAVAILABLE:unloaded\n");
        assert_true(repo_all_ready(p.repo));
        assert_calls(&calls, (struct calls){ 1, 2, 1, 2 });
        repo_place_end(&p);
}

static void test_retries(void **state) {
        struct repo_place p;

        (void)state;
        begin(&p);
        p.n_load_retries = 2;
        repo_place_add(&p, "m", "");
        repo_place_open(&p, one_folder, 1);
        log_lines_begin();
        fake_host_fail(FAKE_MODEL_INITIALIZE, "m", TRITONSERVER_ERROR_INTERNAL, "boom");
        assert_error(repo_load(p.repo, "m", NULL), ERR_INVALID_ARG,
                     "load failed for model 'm': version 1 is at UNAVAILABLE state: Internal: "
                     "boom;\n");
        assert_int_equal(log_lines_count("E failed to load 'm' version 1: Internal: boom"), 3);
        log_lines_end();
        assert_int_equal(fake_host_count(FAKE_MODEL_INITIALIZE), 3);
        repo_place_end(&p);
}

/* What a client has sent is not kept once its load has failed. */
static void test_failed_loads_hold_no_configuration(void **state) {
        struct repo_place        p;
        const struct repo_entry *e;

        (void)state;
        begin(&p);
        repo_place_add(&p, "m", "");
        repo_place_open(&p, one_folder, 1);
        fake_host_fail(FAKE_MODEL_INITIALIZE, "m", TRITONSERVER_ERROR_UNSUPPORTED, "no luck");
        log_lines_begin();
        assert_fails(load_json(&p, SENT("text")));
        log_lines_end();
        mutex_lock(&p.repo->table.lock);
        e = repo_table_find_locked(&p.repo->table, &(struct model_key){ "", "m" });
        assert_non_null(e);
        assert_null(e->running_config);
        assert_null(e->sent_config);
        mutex_unlock(&p.repo->table.lock);
        fake_host_fail(FAKE_MODEL_INITIALIZE, NULL, 0, NULL);
        repo_place_end(&p);
}

/* Loads that come to nothing leave no name behind. */
static void test_failures_are_forgotten(void **state) {
        const struct override_file files[] = { { "1/a", "", 0 } };
        struct repo_override o = { .config_json = "{ nonsense", .files = files, .n_files = 1 };
        struct repo_place    p;

        (void)state;
        begin(&p);
        repo_place_add(&p, "bad", "nonsense");
        repo_place_open(&p, one_folder, 1);
        log_lines_begin();
        for (int i = 0; i < 20; i++) {
                AUTO_CHARS name = mem_printf("m%d", i);
                AUTO_ERROR sent = repo_load(p.repo, name, &o);
                AUTO_ERROR plain = repo_load(p.repo, name, NULL);
                AUTO_ERROR bad = repo_load(p.repo, "bad", NULL);

                assert_int_equal(sent->code, ERR_INTERNAL);
                assert_int_equal(plain->code, ERR_INTERNAL);
                assert_int_equal(bad->code, ERR_INTERNAL);
        }
        log_lines_end();
        assert_index(&p, "bad:-1:UNKNOWN:-\n"); /* its directory is there */
        assert_true(repo_all_ready(p.repo));
        repo_place_end(&p);
}

static void test_duplicates_can_be_resolved(void **state) {
        static const char *const folders[] = { "models", "more" };
        struct repo_place        p;
        AUTO_CHARS               from = NULL;
        AUTO_CHARS               to = NULL;

        (void)state;
        begin(&p);
        repo_place_add(&p, "m", "");
        temp_tree_folder(&p.tree, "more/m/1");
        temp_tree_write(&p.tree, "more/m/config.pbtxt", REPO_PLACE_CONFIG);
        repo_place_open(&p, folders, 2);
        log_lines_begin();
        assert_error(repo_load_named(p.repo, (char *[]){ "m" }, 1), ERR_INTERNAL,
                     "failed to load all models");
        assert_error(repo_load(p.repo, "m", NULL), ERR_INTERNAL,
                     "failed to load 'm', failed to poll from model repository");
        log_lines_end();
        assert_index(&p, "m:-1:UNAVAILABLE:model appears in two or more repositories\n");
        from = temp_tree_path(&p.tree, "more/m");
        to = temp_tree_path(&p.tree, "more/n");
        assert_int_equal(rename(from, to), 0);
        assert_ok(repo_load(p.repo, "m", NULL), "m");
        assert_ok(repo_load(p.repo, "n", NULL), "n");
        assert_index(&p, "m:1:READY:-\nn:1:READY:-\n");
        repo_place_end(&p);
}

static void test_repositories_come_and_go(void **state) {
        static const char *const folders[] = { "models" };
        const struct repo_name   names[] = { { "inside", "outside" } };
        struct repo_place        p;
        AUTO_CHARS               more = NULL;
        AUTO_CHARS               nowhere = NULL;

        (void)state;
        begin(&p);
        temp_tree_folder(&p.tree, "more/inside/1");
        temp_tree_write(&p.tree, "more/inside/config.pbtxt", REPO_PLACE_CONFIG);
        repo_place_open(&p, folders, 1);
        more = temp_tree_path(&p.tree, "more");
        nowhere = temp_tree_path(&p.tree, "nowhere");
        assert_ok(repo_add_path(p.repo, more, names, 1), "add");
        AUTO_CHARS twice = mem_printf("model repository '%s' has already been registered", more);
        AUTO_CHARS missing = mem_printf("failed to register '%s', repository not found", nowhere);
        AUTO_CHARS gone = mem_printf("failed to unregister '%s', repository not found", more);

        assert_error(repo_add_path(p.repo, more, NULL, 0), ERR_ALREADY_EXISTS, twice);
        assert_error(repo_add_path(p.repo, nowhere, NULL, 0), ERR_INVALID_ARG, missing);
        assert_index(&p, "outside:-1:UNKNOWN:-\n");
        assert_ok(repo_load(p.repo, "outside", NULL), "load");
        assert_index(&p, "outside:1:READY:-\n");
        assert_ok(repo_remove_path(p.repo, more), "remove");
        assert_error(repo_remove_path(p.repo, more), ERR_INVALID_ARG, gone);
        assert_index(&p, "outside:1:READY:-\n"); /* what serves is not touched */
        log_lines_begin();
        assert_error(repo_load(p.repo, "outside", NULL), ERR_INTERNAL,
                     "failed to load 'outside', failed to poll from model repository");
        log_lines_end();
        assert_ok(repo_unload(p.repo, "outside"), "unload");
        repo_place_end(&p);
}

SUITE(repo_change) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_nothing_changed),
                cmocka_unit_test(test_load_without_memory),
                cmocka_unit_test(test_reload),
                cmocka_unit_test(test_failed_reload_changes_nothing),
                cmocka_unit_test(test_versions_come_and_go),
                cmocka_unit_test(test_version_policy),
                cmocka_unit_test(test_a_version_that_fails_stops_all),
                cmocka_unit_test(test_instances),
                cmocka_unit_test(test_the_configuration_tells_the_instances),
                cmocka_unit_test(test_instance_that_fails),
                cmocka_unit_test(test_too_many_instances),
                cmocka_unit_test(test_sent_configuration_with_another_count),
                cmocka_unit_test(test_sent_configuration),
                cmocka_unit_test(test_sent_configuration_is_kept),
                cmocka_unit_test(test_sent_files_are_not_kept),
                cmocka_unit_test(test_sent_files),
                cmocka_unit_test(test_unload_and_load),
                cmocka_unit_test(test_retries),
                cmocka_unit_test(test_failed_loads_hold_no_configuration),
                cmocka_unit_test(test_failures_are_forgotten),
                cmocka_unit_test(test_duplicates_can_be_resolved),
                cmocka_unit_test(test_repositories_come_and_go),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
