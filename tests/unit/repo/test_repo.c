/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "infer/fake_model.h"
#include "repo/repo.h"
#include "repo/repo_private.h"

#include <stdlib.h>

/* A repository whose table the test fills in; the models only count their users. */

struct stub {
        struct model model;
        unsigned     n_unused;
};

static void on_unused(struct model *model) {
        CONTAINER_OF(model, struct stub, model)->n_unused++;
}

static struct repo *new_repo(void) {
        struct repo_options options = { .env.config_name = "" };
        struct repo        *r;

        assert_ok(repo_new(&options, &r), "repo_new");
        return r;
}

static struct repo_entry *add(struct repo_table *t, const char *name, const char *directory) {
        return repo_table_add_locked(t, &(struct model_key){ "", name }, directory, "/models");
}

static struct repo_version *put(struct repo *r, const char *name, int64_t number,
                                enum version_state state, const char *reason) {
        struct repo_version *v;

        mutex_lock(&r->table.lock);
        v = repo_entry_add_version_locked(add(&r->table, name, "/"), number);
        assert_null(repo_version_set_locked(v, state, reason, NULL));
        mutex_unlock(&r->table.lock);
        return v;
}

static void put_unloaded(struct repo *r, const char *name, int64_t number) {
        struct repo_version *v = put(r, name, number, VERSION_UNKNOWN, NULL);

        mutex_lock(&r->table.lock);
        assert_null(repo_version_set_unloaded_locked(v));
        mutex_unlock(&r->table.lock);
}

static void put_ready(struct repo *r, const char *name, int64_t number, struct stub *stub) {
        struct repo_version *v = put(r, name, number, VERSION_READY, NULL);

        *stub = (struct stub){ .model.name = name,
                               .model.namespace = "",
                               .model.version = number,
                               .model.on_unused = on_unused };
        ref_init(&stub->model.ref);
        v->model = &stub->model;
}

static void test_state_names(void **state) {
        (void)state;
        assert_string_equal(version_state_name(VERSION_UNKNOWN), "UNKNOWN");
        assert_string_equal(version_state_name(VERSION_LOADING), "LOADING");
        assert_string_equal(version_state_name(VERSION_READY), "READY");
        assert_string_equal(version_state_name(VERSION_UNLOADING), "UNLOADING");
        assert_string_equal(version_state_name(VERSION_UNAVAILABLE), "UNAVAILABLE");
        assert_string_equal(version_state_name((enum version_state)77), "UNKNOWN");
}

static void test_options_are_copied(void **state) {
        char                name[] = "tuned", path[] = "/models";
        const char *const   paths[] = { path };
        struct repo_options options = { .env.config_name = name, .paths = paths, .n_paths = 1 };
        struct repo        *r;

        (void)state;
        assert_ok(repo_new(&options, &r), "repo_new");
        name[0] = path[1] = '?';
        assert_string_equal(r->env.config_name, "tuned");
        assert_int_equal(r->n_paths, 1);
        assert_string_equal(r->paths[0].path, "/models");
        assert_int_equal(r->n_load_threads, 1); /* 0 would load nothing */
        repo_free(r);
        repo_free(NULL);
}

static void test_one_path_given_twice(void **state) {
        const char *const   paths[] = { "/a", "/b", "/a", "/a/" };
        struct repo_options options = { .env.config_name = "", .paths = paths, .n_paths = 4 };
        struct repo        *r;

        (void)state;
        assert_ok(repo_new(&options, &r), "repo_new");
        assert_int_equal(r->n_paths, 3);
        assert_string_equal(r->paths[0].path, "/a");
        assert_string_equal(r->paths[1].path, "/b");
        assert_string_equal(r->paths[2].path, "/a/");
        repo_free(r);
}

static void test_looking_up(void **state) {
        struct repo *r = new_repo();
        struct stub  first, second;
        static const struct {
                int64_t         version, found;
                enum error_code code;
                const char     *text;
        } rows[] = {
                { -1, 2, 0, NULL },
                { 1, 1, 0, NULL },
                { 2, 2, 0, NULL },
                { 3, 0, ERR_UNAVAILABLE,
                  "Request for unknown model: 'm' version 3 is not at ready state" },
                { 4, 0, ERR_UNAVAILABLE,
                  "Request for unknown model: 'm' version 4 is not at ready state" },
                { 5, 0, ERR_UNAVAILABLE,
                  "Request for unknown model: 'm' version 5 is not at ready state" },
                { 0, 0, ERR_NOT_FOUND, "Request for unknown model: 'm' version 0 is not found" },
                { INT64_MAX, 0, ERR_NOT_FOUND,
                  "Request for unknown model: 'm' version 9223372036854775807 is not found" },
        };

        (void)state;
        put_ready(r, "m", 1, &first);
        put_ready(r, "m", 2, &second);
        put(r, "m", 3, VERSION_UNAVAILABLE, "Internal: broken");
        put(r, "m", 4, VERSION_LOADING, NULL);
        put(r, "m", 5, VERSION_UNLOADING, NULL);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct model *model = NULL;
                struct error *err = repo_get(r, "m", rows[i].version, &model);

                if (rows[i].text != NULL) {
                        assert_error(err, rows[i].code, rows[i].text);
                        assert_null(model);
                        continue;
                }
                assert_ok(err, "repo_get");
                assert_int_equal(model->version, rows[i].found);
                assert_int_equal(atomic_load(&model->ref.count), 2);
                model_unref(model);
        }
        repo_free(r);
        assert_int_equal(first.n_unused, 1);
        assert_int_equal(second.n_unused, 1);
}

static void test_names_that_are_not_there(void **state) {
        struct repo  *r = new_repo();
        struct model *model = NULL;

        (void)state;
        put_unloaded(r, "idle", 1);
        mutex_lock(&r->table.lock);
        add(&r->table, "never", "/");
        mutex_unlock(&r->table.lock);

        assert_error(repo_get(r, "nobody", -1, &model), ERR_NOT_FOUND,
                     "Request for unknown model: 'nobody' is not found");
        assert_error(repo_get(r, "nobody", 1, &model), ERR_NOT_FOUND,
                     "Request for unknown model: 'nobody' is not found");
        assert_error(repo_get(r, "", -1, &model), ERR_NOT_FOUND,
                     "Request for unknown model: '' is not found");
        /* A directory that was not loaded is none that requests know. */
        assert_error(repo_get(r, "never", -1, &model), ERR_NOT_FOUND,
                     "Request for unknown model: 'never' is not found");
        assert_error(repo_get(r, "idle", -1, &model), ERR_NOT_FOUND,
                     "Request for unknown model: 'idle' has no available versions");
        assert_error(repo_get(r, "idle", 1, &model), ERR_UNAVAILABLE,
                     "Request for unknown model: 'idle' version 1 is not at ready state");
        assert_error(repo_get(r, "idle", 2, &model), ERR_NOT_FOUND,
                     "Request for unknown model: 'idle' version 2 is not found");
        assert_null(model);
        assert_false(repo_version_is_ready(r, "nobody", -1));
        assert_false(repo_version_is_ready(r, "idle", 1));
        repo_free(r);
}

static void test_strict_readiness(void **state) {
        static const struct {
                enum version_state state;
                const char        *reason;
                bool               is_ready;
        } rows[] = {
                { VERSION_UNKNOWN, NULL, false },
                { VERSION_LOADING, NULL, false },
                { VERSION_UNLOADING, NULL, false },
                { VERSION_UNLOADING, "unloaded", false },
                { VERSION_UNAVAILABLE, NULL, false },
                { VERSION_UNAVAILABLE, "Internal: broken", false },
                { VERSION_UNAVAILABLE, "unloaded", false }, /* the text does not count */
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct repo *r = new_repo();

                assert_true(repo_all_ready(r)); /* nothing is all of nothing */
                put_unloaded(r, "a", 1);
                put_unloaded(r, "b", 1);
                assert_true(repo_all_ready(r));
                put_unloaded(r, "b", 3);
                assert_true(repo_all_ready(r));
                put(r, "b", 2, rows[i].state, rows[i].reason);
                assert_int_equal(repo_all_ready(r), rows[i].is_ready);
                repo_free(r);
        }
}

/* "name:version:STATE:reason" of each line. */
static void assert_index(struct repo *r, bool only_ready, const char *expected) {
        AUTO_STRBUF       text = { 0 };
        struct repo_index index;

        strbuf_init(&text, 0);
        repo_index_read(r, only_ready, &index);
        for (size_t i = 0; i < index.n_entries; i++) {
                const struct repo_index_entry *e = &index.entries[i];

                strbuf_printf(&text, "%s:%lld:%s:%s\n", e->name, (long long)e->version,
                              version_state_name(e->state), e->reason != NULL ? e->reason : "-");
        }
        repo_index_done(&index);
        assert_string_equal(strbuf_cstr(&text), expected);
}

/* Only what was to be loaded at the start counts: a model that can be loaded by request, and was
 * not, takes nothing from the server's readiness. */
static void test_readiness_without_versions(void **state) {
        struct repo       *r = new_repo();
        struct repo_entry *e;
        struct model      *model;

        (void)state;
        mutex_lock(&r->table.lock);
        e = add(&r->table, "never", "/");
        mutex_unlock(&r->table.lock);
        assert_true(repo_all_ready(r));
        mutex_lock(&r->table.lock);
        repo_entry_set_wanted_locked(e, true);
        mutex_unlock(&r->table.lock);
        assert_false(repo_all_ready(r));
        mutex_lock(&r->table.lock);
        repo_entry_set_wanted_locked(e, false);
        repo_entry_set_versionless_locked(e, true);
        mutex_unlock(&r->table.lock);
        assert_false(repo_all_ready(r));
        assert_error(repo_get(r, "never", -1, &model), ERR_NOT_FOUND,
                     "Request for unknown model: 'never' has no available versions");
        assert_index(r, false, "");
        repo_free(r);
}

static void test_index(void **state) {
        struct repo       *r = new_repo();
        struct repo_entry *twin;
        struct stub        stubs[3];

        (void)state;
        assert_index(r, false, "");
        put_ready(r, "zebra", 10, &stubs[0]);
        put_ready(r, "zebra", 9, &stubs[1]);
        put_unloaded(r, "zebra", 2);
        put(r, "mule", 1, VERSION_UNAVAILABLE, "Internal: broken");
        put_ready(r, "ant", 1, &stubs[2]);
        put(r, "ant", 7, VERSION_LOADING, NULL);
        mutex_lock(&r->table.lock);
        add(&r->table, "never", "/");
        twin = add(&r->table, "twin", "/");
        repo_entry_set_duplicate_locked(twin, true);
        mutex_unlock(&r->table.lock);

        assert_index(r, false,
                     "ant:1:READY:-\n"
                     "ant:7:LOADING:-\n"
                     "mule:1:UNAVAILABLE:Internal: broken\n"
                     "never:-1:UNKNOWN:-\n"
                     "twin:-1:UNAVAILABLE:model appears in two or more repositories\n"
                     "zebra:2:UNAVAILABLE:unloaded\n"
                     "zebra:9:READY:-\n"
                     "zebra:10:READY:-\n");
        assert_index(r, true,
                     "ant:1:READY:-\n"
                     "zebra:9:READY:-\n"
                     "zebra:10:READY:-\n");
        repo_free(r);
}

static void test_long_index(void **state) {
        struct repo      *r = new_repo();
        struct repo_index index;

        (void)state;
        for (int i = 0; i < 100; i++) {
                AUTO_CHARS name = mem_printf("m%03d", 99 - i);

                put_unloaded(r, name, 1);
        }
        repo_index_read(r, false, &index);
        assert_int_equal(index.n_entries, 100);
        for (int i = 0; i < 100; i++) {
                AUTO_CHARS name = mem_printf("m%03d", i);

                assert_string_equal(index.entries[i].name, name);
        }
        repo_index_done(&index);
        repo_free(r);
}

static void test_ready_versions(void **state) {
        struct repo *r = new_repo();
        struct stub  stubs[2];
        int64_t     *versions;

        (void)state;
        put_ready(r, "m", 12, &stubs[0]);
        put_ready(r, "m", 3, &stubs[1]);
        put(r, "m", 5, VERSION_LOADING, NULL);
        assert_int_equal(repo_ready_versions(r, &(struct model_key){ "", "m" }, &versions), 2);
        assert_int_equal(versions[0], 3);
        assert_int_equal(versions[1], 12);
        free(versions);
        assert_int_equal(repo_ready_versions(r, &(struct model_key){ "", "nobody" }, &versions), 0);
        free(versions);
        repo_free(r);
}

static void test_ready_models(void **state) {
        struct repo   *r = new_repo();
        struct stub    stubs[3];
        struct model **models, **of_one;

        (void)state;
        assert_int_equal(repo_ready_models(r, NULL, &models), 0);
        free(models);
        put_ready(r, "b", 2, &stubs[0]);
        put_ready(r, "b", 1, &stubs[1]);
        put_ready(r, "a", 5, &stubs[2]);
        put(r, "c", 1, VERSION_LOADING, NULL);
        assert_int_equal(repo_ready_models(r, NULL, &models), 3);
        assert_ptr_equal(models[0], &stubs[2].model);
        assert_ptr_equal(models[1], &stubs[1].model);
        assert_ptr_equal(models[2], &stubs[0].model);
        assert_int_equal(repo_ready_models(r, "b", &of_one), 2);
        assert_ptr_equal(of_one[0], &stubs[1].model);
        assert_ptr_equal(of_one[1], &stubs[0].model);
        model_unref(of_one[0]);
        model_unref(of_one[1]);
        free(of_one);
        assert_int_equal(repo_ready_models(r, "c", &of_one), 0);
        free(of_one);
        assert_int_equal(repo_ready_models(r, "nobody", &of_one), 0);
        free(of_one);
        repo_free(r);
        for (size_t i = 0; i < 3; i++) {
                assert_int_equal(stubs[i].n_unused, 0); /* these references are ours */
                model_unref(&stubs[i].model);
                assert_int_equal(stubs[i].n_unused, 1);
        }
        free(models);
}

static void list_busy(const struct model *m, uint64_t n, void *userp) {
        strbuf_printf(userp, "%s/%lld=%llu ", m->name, (long long)m->version,
                      (unsigned long long)n);
}

static void test_in_flight(void **state) {
        AUTO_STRBUF  text = { 0 };
        struct repo *r = new_repo();
        struct stub  stubs[3];

        (void)state;
        strbuf_init(&text, 0);
        put_ready(r, "b", 1, &stubs[0]);
        put_ready(r, "a", 2, &stubs[1]);
        put_ready(r, "a", 1, &stubs[2]);
        assert_int_equal(repo_count_in_flight(r, list_busy, &text), 0);
        atomic_store(&stubs[0].model.n_in_flight, 7);
        atomic_store(&stubs[2].model.n_in_flight, 1);
        assert_int_equal(repo_count_in_flight(r, list_busy, &text), 2);
        assert_string_equal(strbuf_cstr(&text), "a/1=1 b/1=7 ");
        for (size_t i = 0; i < 3; i++)
                assert_int_equal(atomic_load(&stubs[i].model.ref.count), 1);
        repo_free(r);
}

SUITE(repo) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_state_names),
                cmocka_unit_test(test_options_are_copied),
                cmocka_unit_test(test_one_path_given_twice),
                cmocka_unit_test(test_looking_up),
                cmocka_unit_test(test_names_that_are_not_there),
                cmocka_unit_test(test_strict_readiness),
                cmocka_unit_test(test_readiness_without_versions),
                cmocka_unit_test(test_index),
                cmocka_unit_test(test_long_index),
                cmocka_unit_test(test_ready_versions),
                cmocka_unit_test(test_ready_models),
                cmocka_unit_test(test_in_flight),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
