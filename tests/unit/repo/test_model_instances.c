/* SPDX-License-Identifier: BSD-3-Clause */
/* Instance groups that change while a model serves: which instances stay, which are made, how they are named,
 * and what a change that is cancelled or fails leaves behind.
 */
#include "suite.h"

#include "backend/backend_instance.h"
#include "backend/log_lines.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "base/thread.h"
#include "infer/fake_model.h"
#include "repo/loaded_model.h"
#include "repo/model_files.h"
#include "repo/model_instances.h"
#include "repo/model_load.h"
#include "repo/reaper.h"
#include "repo/repo_place.h"

#define COUNT(n) "instance_group { count: " #n " kind: KIND_CPU } "
#define GROUP(group, n) "instance_group { name: '" group "' count: " #n " kind: KIND_CPU } "
#define OF_MODEL(n) "instance_group { count: " #n " kind: KIND_MODEL } "
#define POLICY(name) "instance_group { count: 1 kind: KIND_CPU host_policy: '" name "' } "
#define RANGES "parameters { key: 'batch_ranges' value { string_value: 'b1:1-1,b4:1-4' } } "

static const struct row {
        const char *before, *after;
        const char *names; /* of the instances afterwards; those that stay come first */
        unsigned    n_made, n_ended;
} rows[] = {
        { COUNT(1), COUNT(3), "m_0_0 m_0_1 m_0_2 ", 2, 0 },
        { COUNT(3), COUNT(1), "m_0_0 ", 0, 2 },
        { COUNT(2), COUNT(1) COUNT(1), "m_0_0 m_0_1 ", 0, 0 },
        { COUNT(1) COUNT(2), COUNT(4), "m_0_0 m_1_0 m_1_1 m_0_1 ", 1, 0 },
        /* The name of a group does not matter, but no two instances have the same one. */
        { GROUP("a", 2), GROUP("b", 2), "a_0 a_1 ", 0, 0 },
        { GROUP("a", 2), GROUP("b", 3), "a_0 a_1 b_0 ", 1, 0 },
        { GROUP("a", 2), GROUP("b", 1) GROUP("a", 2), "a_0 a_1 a_2 ", 1, 0 },
        { GROUP("a", 3), GROUP("b", 1) GROUP("a", 1), "a_0 a_1 ", 0, 1 },
        /* What else a group says does: the new ones are made before the old ones go. */
        { COUNT(2), OF_MODEL(2), "m_0_0 m_0_1 ", 2, 2 },
        { COUNT(2), COUNT(1) OF_MODEL(2), "m_0_0 m_1_0 m_1_1 ", 2, 1 },
        { COUNT(1), POLICY("mine"), "m_0_0 ", 1, 1 },
        { POLICY("mine"), POLICY("mine") COUNT(1), "m_0_0 m_1_0 ", 1, 0 },
        /* In a composite model the name of a group determines the batches of its instances. */
        { GROUP("b1", 2) GROUP("b4", 1), GROUP("b1", 1) GROUP("b4", 2), "b1_0 b1_1 b4_0 ", 0, 0 },
        { RANGES GROUP("b1", 2) GROUP("b4", 1), RANGES GROUP("b1", 1) GROUP("b4", 2),
          "b1_0 b4_0 b4_1 ", 1, 1 },
        { RANGES GROUP("b1", 1) GROUP("b4", 1), RANGES GROUP("b4", 1) GROUP("b1", 1), "b4_0 b1_0 ",
          0, 0 },
};

/* The files of model "m" with this configuration. */
static void read_files(struct repo_place *p, const char *config, struct model_files *ret) {
        AUTO_CHARS directory = temp_tree_path(&p->tree, "models/m");

        repo_place_add(p, "m", config);
        assert_ok(model_files_read(&p->env,
                                   &(struct model_source){ .key = { "", "m" },
                                                           .directory = directory },
                                   ret),
                  config);
}

static struct model *load(struct repo_place *p, const char *config) {
        struct model      *model = NULL;
        struct model_files files;

        read_files(p, config, &files);
        assert_ok(model_load(&p->env, &files, 1, &model), config);
        model_files_done(&files);
        return model;
}

static void unload(struct repo_place *p, struct model *model) {
        model_unref(model);
        assert_int_equal(reaper_wait(p->env.reaper, CLOCK_NEVER), 0);
}

static struct error *prepare(struct repo_place *p, struct model *model, const char *config,
                             struct model_update **ret) {
        struct model_files files;
        struct error      *err;

        read_files(p, config, &files);
        err = model_update_prepare(loaded_model_of(model), files.config, ret);
        model_files_done(&files);
        return err;
}

static void add_name(struct backend_instance *in, void *userp) {
        strbuf_printf(userp, "%s ", in->name);
}

/* "m_0_0 m_0_1 " */
static char *names_of(struct model *model) {
        AUTO_STRBUF names = { 0 };

        strbuf_init(&names, 0);
        model_instances_visit(loaded_model_of(model), add_name, &names);
        return strbuf_take(&names);
}

static char *config_of(struct model *model) {
        AUTO_STRBUF config = { 0 };

        strbuf_init(&config, 0);
        assert_ok(model_print_config(model, 1, &config), "config");
        return strbuf_take(&config);
}

/* What the backend was asked to do since the last look. */
struct calls {
        unsigned n_made, n_ended;
};

static void assert_calls(struct calls *since, unsigned n_made, unsigned n_ended) {
        struct calls now = { fake_host_count(FAKE_INSTANCE_INITIALIZE),
                             fake_host_count(FAKE_INSTANCE_FINALIZE) };

        assert_int_equal(now.n_made - since->n_made, n_made);
        assert_int_equal(now.n_ended - since->n_ended, n_ended);
        *since = now;
}

static struct calls calls_now(void) {
        return (struct calls){ fake_host_count(FAKE_INSTANCE_INITIALIZE),
                               fake_host_count(FAKE_INSTANCE_FINALIZE) };
}

/* What a model that is loaded with this configuration says of it. No other model is loaded. */
static char *config_when_loaded(struct repo_place *p, const char *config) {
        struct model *model = load(p, config);
        char         *text = config_of(model);

        unload(p, model);
        return text;
}

static void assert_is(struct model *model, const char *names, const char *config) {
        AUTO_CHARS names_now = names_of(model);
        AUTO_CHARS config_now = config_of(model);

        assert_string_equal(names_now, names);
        assert_string_equal(config_now, config);
}

static void check_row(const struct row *row) {
        struct model_update *u = NULL;
        struct repo_place    p;
        struct model        *model;
        struct calls         calls;

        repo_place_begin(&p);
        log_lines_begin(); /* of policies that are not defined */
        AUTO_CHARS config_before = config_when_loaded(&p, row->before);
        AUTO_CHARS config_after = config_when_loaded(&p, row->after);

        model = load(&p, row->before);
        AUTO_CHARS names_before = names_of(model);

        calls = calls_now();
        assert_ok(prepare(&p, model, row->after, &u), row->after);
        assert_non_null(u);
        assert_calls(&calls, row->n_made, 0);
        model_update_cancel(u);
        assert_calls(&calls, 0, row->n_made);
        assert_is(model, names_before, config_before);

        assert_ok(prepare(&p, model, row->after, &u), row->after);
        model_update_commit(u);
        assert_calls(&calls, row->n_made, row->n_ended);
        assert_is(model, row->names, config_after);
        assert_true(model_instances_are_ready(loaded_model_of(model)));

        assert_ok(prepare(&p, model, row->after, &u), "again");
        assert_null(u); /* nothing differs */
        assert_calls(&calls, 0, 0);
        unload(&p, model);
        log_lines_end();
        repo_place_end(&p);
}

static void test_changes(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                print_message("%s -> %s\n", rows[i].before, rows[i].after);
                check_row(&rows[i]);
        }
}

static void change(struct repo_place *p, struct model *model, const char *config) {
        struct model_update *u = NULL;

        assert_ok(prepare(p, model, config, &u), config);
        model_update_commit(u);
}

/* Numbers go on after those that are used, over all of them. */
static void test_many(void **state) {
        struct repo_place p;
        struct model     *model;

        (void)state;
        repo_place_begin(&p);
        model = load(&p, GROUP("a", 2));
        change(&p, model, GROUP("b", 3) GROUP("a", 497));
        AUTO_CHARS many = names_of(model);

        assert_int_equal(strncmp(many, "a_0 a_1 b_0 a_2 a_3 ", 20), 0);
        assert_string_equal(many + strlen(many) - 12, "a_497 a_498 ");
        change(&p, model, GROUP("a", 100));
        change(&p, model, GROUP("a", 400));
        AUTO_CHARS again = names_of(model);

        assert_string_equal(again + strlen(again) - 12, "a_397 a_398 ");
        unload(&p, model);
        repo_place_end(&p);
}

/* Those that were made before it are ended; those that serve are not touched. */
static void test_one_that_fails(void **state) {
        struct model_update *u = NULL;
        struct repo_place    p;
        struct model        *model;
        struct calls         calls;

        (void)state;
        repo_place_begin(&p);
        AUTO_CHARS config = config_when_loaded(&p, COUNT(2));

        model = load(&p, COUNT(2));
        calls = calls_now();
        fake_host_fail(FAKE_INSTANCE_INITIALIZE, "m_0_4", TRITONSERVER_ERROR_NOT_FOUND, "no arm");
        assert_error(prepare(&p, model, COUNT(5), &u), ERR_NOT_FOUND, "no arm");
        assert_null(u);
        assert_calls(&calls, 3, 3);
        assert_is(model, "m_0_0 m_0_1 ", config);
        unload(&p, model);
        repo_place_end(&p);
}

/* ---- a visit meanwhile ----------------------------------------------------------------------- */

/* Two threads: one visits the instances, one takes two of the three away. */
struct visit {
        struct model        *model;
        struct model_update *update;
        struct mutex         lock; /* rank LOCK_SERVER; guards everything below */
        struct cond          changed;
        bool                 is_inside, may_leave, is_committed;
        unsigned             n_visited, n_ended_meanwhile;
};

static void stay(struct backend_instance *in, void *userp) {
        struct visit *v = userp;

        MUTEX_GUARD(&v->lock);
        v->is_inside = true;
        cond_broadcast(&v->changed);
        while (!v->may_leave)
                cond_wait(&v->changed, &v->lock);
        v->n_visited += strncmp(in->name, "m_0_", 4) == 0;
        v->n_ended_meanwhile += fake_host_count(FAKE_INSTANCE_FINALIZE);
}

static void visit_main(void *arg) {
        struct visit *v = arg;

        model_instances_visit(loaded_model_of(v->model), stay, v);
}

static void commit_main(void *arg) {
        struct visit *v = arg;

        model_update_commit(v->update);
        MUTEX_GUARD(&v->lock);
        v->is_committed = true;
        cond_broadcast(&v->changed);
}

static bool is_committed_by(struct visit *v, uint64_t until_ns) {
        MUTEX_GUARD(&v->lock);
        while (!v->is_committed && cond_wait_until(&v->changed, &v->lock, until_ns))
                ;
        return v->is_committed;
}

/* Until the change is in force, which nothing announces, and for so long that its instances would be ended. */
static void await_one_instance(struct visit *v) {
        bool is_one = false;

        while (!is_one) {
                AUTO_CHARS names = names_of(v->model);

                is_one = strcmp(names, "m_0_0 ") == 0;
                assert_false(is_committed_by(v, clock_now_ns() + NS_PER_MS));
        }
        assert_false(is_committed_by(v, clock_now_ns() + 20 * NS_PER_MS));
}

static void test_a_visited_instance_is_not_ended(void **state) {
        struct thread     visiting = { 0 }, committing = { 0 };
        struct repo_place p;
        struct visit      v = { .is_inside = false };

        (void)state;
        repo_place_begin(&p);
        mutex_init(&v.lock, LOCK_SERVER);
        cond_init(&v.changed);
        v.model = load(&p, COUNT(3));
        assert_ok(prepare(&p, v.model, COUNT(1), &v.update), "one");
        assert_ok(thread_start(&visiting, "visits", visit_main, &v), "thread");
        mutex_lock(&v.lock);
        while (!v.is_inside)
                cond_wait(&v.changed, &v.lock);
        mutex_unlock(&v.lock);
        assert_ok(thread_start(&committing, "commits", commit_main, &v), "thread");
        await_one_instance(&v);
        mutex_lock(&v.lock);
        v.may_leave = true;
        cond_broadcast(&v.changed);
        mutex_unlock(&v.lock);
        thread_join(&visiting);
        thread_join(&committing);
        assert_int_equal(v.n_visited, 3);
        assert_int_equal(v.n_ended_meanwhile, 0);
        assert_int_equal(fake_host_count(FAKE_INSTANCE_FINALIZE), 2);
        unload(&p, v.model);
        cond_done(&v.changed);
        mutex_done(&v.lock);
        repo_place_end(&p);
}

SUITE(model_instances) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_changes),
                cmocka_unit_test(test_one_that_fails),
                cmocka_unit_test(test_many),
                cmocka_unit_test(test_a_visited_instance_is_not_ended),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
