/* SPDX-License-Identifier: BSD-3-Clause */
/* What polls see and do. Each script changes files between polls; nothing depends on time. */
#include "suite.h"

#include "backend/log_lines.h"
#include "base/clock.h"
#include "base/mem.h"
#include "infer/fake_model.h"
#include "infer/model.h"
#include "repo/loaded_model.h"
#include "repo/reaper.h"
#include "repo/repo.h"
#include "repo/repo_place.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const one_folder[] = { "models" };

enum step_kind {
        POLL,
        POLLS,  /* until nothing more can come of it */
        WRITE,  /* the file `path` of models/m: `text` */
        CONFIG, /* config.pbtxt: REPO_PLACE_CONFIG and `text` */
        RENAME, /* the folder `path` of the tree to `text` */
        FAIL,   /* the backend refuses `path` from now on; NULL: nobody */
};

struct step {
        enum step_kind kind;
        const char    *path;
        const char    *text;
        /* Afterwards: models and instances made in this step, and the index; NULL: as before. */
        unsigned    n_models, n_instances;
        const char *index;
};

#define MAX_STEPS 16

#define DO(what, on, with)                                                                         \
        { .kind = what, .path = on, .text = with }
#define LOADS(...)                                                                                 \
        { .kind = POLL, .n_models = 1, .n_instances = 1, __VA_ARGS__ }

static const struct script {
        const char *name;
        struct step steps[MAX_STEPS];
} scripts[] = {
        { "nothing changes", { { .kind = POLL }, { .kind = POLL }, { .kind = POLL } } },
        { "a changed file is loaded once it has been still for one poll",
          { DO(WRITE, "1/model.bin", "second"),
            { .kind = POLL },
            LOADS(.path = NULL),
            { .kind = POLL },
            { .kind = POLL } } },
        { "a file that is written bit by bit waits for its end",
          { DO(WRITE, "1/model.bin", "s"),
            { .kind = POLL },
            DO(WRITE, "1/model.bin", "se"),
            { .kind = POLL },
            DO(WRITE, "1/model.bin", "sec"),
            { .kind = POLL },
            DO(WRITE, "1/model.bin", "second"),
            { .kind = POLL },
            LOADS(.path = NULL),
            { .kind = POLL } } },
        { "what is put back before anybody looked is no change",
          { DO(RENAME, "models/m", "away"), DO(RENAME, "away", "models/m"), { .kind = POLLS } } },
        { "gone for one poll is not gone",
          { DO(RENAME, "models/m", "away"),
            { .kind = POLL },
            DO(RENAME, "away", "models/m"),
            { .kind = POLLS } } },
        { "gone for two is",
          { DO(RENAME, "models/m", "away"),
            { .kind = POLL, .index = "m:1:READY:-\n" },
            { .kind = POLL, .index = "m:1:UNAVAILABLE:unloaded\n" },
            { .kind = POLLS },
            DO(RENAME, "away", "models/m"),
            { .kind = POLL },
            LOADS(.index = "m:1:READY:-\n") } },
        { "swap files of editors are not looked at",
          { DO(WRITE, ".config.pbtxt.swp", "x"),
            DO(WRITE, "config.pbtxt~", "x"),
            DO(WRITE, "4913", "x"),
            DO(WRITE, "1/__pycache__/x.pyc", "x"),
            { .kind = POLLS } } },
        { "only instances: the model stays",
          { DO(CONFIG, NULL, "instance_group { count: 3 kind: KIND_CPU }"),
            { .kind = POLL },
            { .kind = POLL, .n_instances = 2 },
            { .kind = POLLS } } },
        { "labels", { DO(WRITE, "labels.txt", "cat"), { .kind = POLL }, LOADS(.path = NULL) } },
        { "a higher version takes over",
          { DO(WRITE, "2/model.bin", "two"),
            { .kind = POLL },
            LOADS(.index = "m:1:UNAVAILABLE:unloaded\nm:2:READY:-\n"),
            { .kind = POLLS },
            DO(RENAME, "models/m/2", "away"),
            { .kind = POLL },
            LOADS(.index = "m:1:READY:-\nm:2:UNAVAILABLE:unloaded\n") } },
        { "a broken configuration is tried once, and the old model serves",
          { DO(WRITE, "config.pbtxt", "nonsense"),
            { .kind = POLL },
            { .kind = POLL, .index = "m:1:READY:-\n" },
            { .kind = POLLS },
            DO(CONFIG, NULL, "parameters { key: 'x' value { string_value: 'y' } }"),
            { .kind = POLL },
            LOADS(.index = "m:1:READY:-\n") } },
        { "a model that does not load is tried once, until it looks different",
          { DO(FAIL, "m", NULL),
            DO(WRITE, "1/model.bin", "second"),
            { .kind = POLL },
            { .kind = POLL, .n_models = 1, .index = "m:1:READY:-\n" },
            { .kind = POLLS },
            DO(FAIL, NULL, NULL),
            { .kind = POLLS },
            DO(WRITE, "1/model.bin", "third one"),
            { .kind = POLL },
            LOADS(.index = "m:1:READY:-\n") } },
        { "the last version is not taken away",
          { DO(RENAME, "models/m/1", "away"), { .kind = POLLS, .index = "m:1:READY:-\n" } } },
        { "a new model",
          { DO(RENAME, "new", "models/n"),
            { .kind = POLL, .index = "m:1:READY:-\nn:-1:UNKNOWN:-\n" },
            LOADS(.index = "m:1:READY:-\nn:1:READY:-\n"),
            { .kind = POLLS } } },
        { "a new model that is broken, and goes",
          { DO(RENAME, "broken", "models/b"),
            { .kind = POLLS, .index = "b:-1:UNKNOWN:-\nm:1:READY:-\n" },
            DO(RENAME, "models/b", "broken"),
            { .kind = POLLS, .index = "m:1:READY:-\n" } } },
};

static void play(struct repo_place *p, const struct step *s) {
        AUTO_CHARS relative = s->path != NULL ? mem_printf("models/m/%s", s->path) : NULL;
        AUTO_CHARS text = NULL;
        AUTO_CHARS from = NULL;
        AUTO_CHARS to = NULL;

        switch (s->kind) {
        case POLL: repo_poll(p->repo); break;
        case POLLS:
                for (int i = 0; i < 4; i++)
                        repo_poll(p->repo);
                break;
        case WRITE: temp_tree_write(&p->tree, relative, s->text); break;
        case CONFIG:
                text = mem_printf("%s%s", REPO_PLACE_CONFIG, s->text);
                temp_tree_write(&p->tree, "models/m/config.pbtxt", text);
                break;
        case RENAME:
                from = temp_tree_path(&p->tree, s->path);
                to = temp_tree_path(&p->tree, s->text);
                assert_int_equal(rename(from, to), 0);
                break;
        case FAIL:
                fake_host_fail(FAKE_MODEL_INITIALIZE, s->path, TRITONSERVER_ERROR_INTERNAL,
                               s->path != NULL ? "boom" : NULL);
                break;
        }
}

static void run_script(const struct script *script) {
        struct repo_place p;

        print_message("%s\n", script->name);
        repo_place_begin(&p);
        p.is_followed = true;
        repo_place_add(&p, "m", "instance_group { count: 1 kind: KIND_CPU }");
        temp_tree_write(&p.tree, "new/config.pbtxt", REPO_PLACE_CONFIG);
        temp_tree_folder(&p.tree, "new/1");
        temp_tree_write(&p.tree, "broken/config.pbtxt", "nonsense");
        repo_place_open(&p, one_folder, 1);
        log_lines_begin();
        assert_ok(repo_load_all(p.repo), "load");
        repo_poll(p.repo);
        for (size_t i = 0; i < MAX_STEPS; i++) {
                const struct step *s = &script->steps[i];
                unsigned           n_models = fake_host_count(FAKE_MODEL_INITIALIZE);
                unsigned           n_instances = fake_host_count(FAKE_INSTANCE_INITIALIZE);

                play(&p, s);
                if (fake_host_count(FAKE_MODEL_INITIALIZE) - n_models != s->n_models ||
                    fake_host_count(FAKE_INSTANCE_INITIALIZE) - n_instances != s->n_instances)
                        fail_msg("%s, step %zu: %u models and %u instances were made", script->name,
                                 i, fake_host_count(FAKE_MODEL_INITIALIZE) - n_models,
                                 fake_host_count(FAKE_INSTANCE_INITIALIZE) - n_instances);
                if (s->index != NULL)
                        repo_place_await_index(&p, s->index);
        }
        log_lines_end();
        repo_place_end(&p);
}

static void test_scripts(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(scripts); i++)
                run_script(&scripts[i]);
}

static void write_third(void *place) {
        temp_tree_write(&((struct repo_place *)place)->tree, "models/m/1/model.bin", "third one");
}

/* What changes while it is being loaded is seen afterwards. */
static void test_changes_during_a_failing_load(void **state) {
        struct repo_place p;

        (void)state;
        repo_place_begin(&p);
        p.is_followed = true;
        repo_place_add(&p, "m", "");
        repo_place_open(&p, one_folder, 1);
        log_lines_begin();
        assert_ok(repo_load_all(p.repo), "load");
        repo_poll(p.repo);
        fake_host_fail(FAKE_MODEL_INITIALIZE, "m", TRITONSERVER_ERROR_INTERNAL, "boom");
        temp_tree_write(&p.tree, "models/m/1/model.bin", "second");
        repo_poll(p.repo);
        fake_host_on_call(FAKE_MODEL_INITIALIZE, write_third, &p);
        repo_poll(p.repo); /* fails, and meanwhile the file is put right */
        fake_host_on_call(FAKE_MODEL_INITIALIZE, NULL, NULL);
        fake_host_fail(FAKE_MODEL_INITIALIZE, NULL, 0, NULL);
        assert_int_equal(fake_host_count(FAKE_MODEL_INITIALIZE), 2);
        repo_poll(p.repo);
        repo_poll(p.repo);
        assert_int_equal(fake_host_count(FAKE_MODEL_INITIALIZE), 3);
        assert_int_equal(fake_host_count(FAKE_INSTANCE_INITIALIZE), 2);
        log_lines_end();
        repo_place_end(&p);
}

/* What may have been read while it was written does not replace what serves. */
static void test_changes_during_a_load(void **state) {
        struct repo_place p;
        struct model     *before, *after;

        (void)state;
        repo_place_begin(&p);
        p.is_followed = true;
        repo_place_add(&p, "m", "");
        repo_place_open(&p, one_folder, 1);
        log_lines_begin();
        assert_ok(repo_load_all(p.repo), "load");
        repo_poll(p.repo);
        assert_ok(repo_get(p.repo, "m", -1, &before), "get");
        temp_tree_write(&p.tree, "models/m/1/model.bin", "second");
        repo_poll(p.repo);
        fake_host_on_call(FAKE_MODEL_INITIALIZE, write_third, &p);
        repo_poll(p.repo);
        fake_host_on_call(FAKE_MODEL_INITIALIZE, NULL, NULL);
        assert_int_equal(fake_host_count(FAKE_MODEL_INITIALIZE), 2);
        assert_int_equal(log_lines_count("E failed to poll model 'm': the files changed while they "
                                         "were being loaded"),
                         1);
        assert_ok(repo_get(p.repo, "m", -1, &after), "get");
        assert_ptr_equal(before, after);
        model_unref(after);
        repo_poll(p.repo);
        repo_poll(p.repo);
        assert_int_equal(fake_host_count(FAKE_MODEL_INITIALIZE), 3);
        assert_ok(repo_get(p.repo, "m", -1, &after), "get");
        assert_ptr_not_equal(before, after);
        log_lines_end();
        model_unref(before);
        model_unref(after);
        repo_place_end(&p);
}

/* A repository that cannot be read now is no reason to unload its models. */
static void test_unreadable_repository(void **state) {
        struct repo_place p;
        AUTO_CHARS        models = NULL;
        AUTO_CHARS        away = NULL;

        (void)state;
        repo_place_begin(&p);
        p.is_followed = true;
        repo_place_add(&p, "m", "");
        repo_place_open(&p, one_folder, 1);
        models = temp_tree_path(&p.tree, "models");
        away = temp_tree_path(&p.tree, "away");
        log_lines_begin();
        assert_ok(repo_load_all(p.repo), "load");
        repo_poll(p.repo);
        assert_int_equal(rename(models, away), 0);
        for (int i = 0; i < 4; i++)
                repo_poll(p.repo);
        assert_int_equal(log_lines_count_prefix("E failed to read model repository"), 1);
        assert_true(repo_version_is_ready(p.repo, "m", 1));
        assert_int_equal(rename(away, models), 0);
        for (int i = 0; i < 4; i++)
                repo_poll(p.repo);
        assert_int_equal(fake_host_count(FAKE_MODEL_INITIALIZE), 1);
        log_lines_end();
        repo_place_end(&p);
}

/* Polls "more" as it should, while "models" is away; what serves from there stays. */
static void test_unreadable_among_others(void **state) {
        static const char *const folders[] = { "models", "more" };
        struct repo_place        p;
        AUTO_CHARS               models = NULL;
        AUTO_CHARS               away = NULL;
        struct error            *err;
        struct model            *model;

        (void)state;
        repo_place_begin(&p);
        p.is_followed = true;
        repo_place_add(&p, "m", "");
        repo_place_add(&p, "twin", "");
        temp_tree_folder(&p.tree, "more");
        repo_place_open(&p, folders, 2);
        models = temp_tree_path(&p.tree, "models");
        away = temp_tree_path(&p.tree, "away");
        log_lines_begin();
        assert_ok(repo_load_all(p.repo), "load");
        repo_poll(p.repo);
        assert_int_equal(rename(models, away), 0);
        temp_tree_write(&p.tree, "more/new/config.pbtxt", REPO_PLACE_CONFIG);
        temp_tree_folder(&p.tree, "more/new/1");
        temp_tree_write(&p.tree, "more/twin/config.pbtxt", REPO_PLACE_CONFIG);
        temp_tree_folder(&p.tree, "more/twin/1");
        for (int i = 0; i < 4; i++)
                repo_poll(p.repo);
        repo_place_await_index(&p, "m:1:READY:-\nnew:1:READY:-\ntwin:1:READY:-\n");
        assert_ok(repo_get(p.repo, "twin", 1, &model), "get");
        assert_memory_equal(loaded_model_of(model)->directory, models, strlen(models));
        model_unref(model);

        /* By request the same holds: the one elsewhere is not taken for it. */
        err = repo_load(p.repo, "new", NULL);
        assert_ok(err, "load");
        assert_error(repo_load(p.repo, "m", NULL), ERR_INTERNAL,
                     "failed to load 'm', failed to poll from model repository");
        assert_error(repo_load(p.repo, "twin", NULL), ERR_INTERNAL,
                     "failed to load 'twin', failed to poll from model repository");
        assert_int_equal(log_lines_count_prefix("E failed to poll model 'm': failed to read model "
                                                "repository '"),
                         1);
        assert_int_equal(fake_host_count(FAKE_MODEL_INITIALIZE), 3);

        temp_tree_write(&p.tree, "more/new/1/model.bin", "second");
        for (int i = 0; i < 2; i++)
                repo_poll(p.repo);
        assert_int_equal(fake_host_count(FAKE_MODEL_INITIALIZE), 4);
        assert_int_equal(log_lines_count_prefix("E failed to read model repository"), 1);
        assert_int_equal(rename(away, models), 0);
        for (int i = 0; i < 4; i++)
                repo_poll(p.repo);
        repo_place_await_index(&p, "m:1:READY:-\nnew:1:READY:-\n"
                                   "twin:-1:UNAVAILABLE:model appears in two or more repositories\n"
                                   "twin:1:READY:-\n");
        assert_int_equal(fake_host_count(FAKE_MODEL_INITIALIZE), 4);
        log_lines_end();
        repo_place_end(&p);
}

/* Neither of two of one name is loaded because the other's repository is away for a while. */
static void test_twins_stay_twins(void **state) {
        static const char *const folders[] = { "models", "more" };
        static const char twins[] = "m:-1:UNAVAILABLE:model appears in two or more repositories\n";
        struct repo_place p;
        AUTO_CHARS        models = NULL;
        AUTO_CHARS        away = NULL;

        (void)state;
        repo_place_begin(&p);
        p.is_followed = true;
        repo_place_add(&p, "m", "");
        temp_tree_write(&p.tree, "more/m/config.pbtxt", REPO_PLACE_CONFIG);
        temp_tree_folder(&p.tree, "more/m/1");
        repo_place_open(&p, folders, 2);
        models = temp_tree_path(&p.tree, "models");
        away = temp_tree_path(&p.tree, "away");
        log_lines_begin();
        error_free(repo_load_all(p.repo));
        assert_int_equal(rename(models, away), 0);
        for (int i = 0; i < 4; i++)
                repo_poll(p.repo);
        repo_place_await_index(&p, twins);
        assert_int_equal(rename(away, models), 0);
        for (int i = 0; i < 2; i++)
                repo_poll(p.repo);
        repo_place_await_index(&p, twins);
        assert_int_equal(fake_host_count(FAKE_MODEL_INITIALIZE), 0);
        log_lines_end();
        repo_place_end(&p);
}

/* The first load from now on waits until it is let go. */
struct hang {
        pthread_mutex_t lock;
        pthread_cond_t  changed;
        unsigned        n_calls;
        bool            is_over;
};

static void hang_first(void *userp) {
        struct hang *h = userp;

        pthread_mutex_lock(&h->lock);
        pthread_cond_broadcast(&h->changed);
        if (h->n_calls++ == 0)
                while (!h->is_over)
                        pthread_cond_wait(&h->changed, &h->lock);
        pthread_mutex_unlock(&h->lock);
}

static void await_hang(struct hang *h) {
        pthread_mutex_lock(&h->lock);
        while (h->n_calls == 0)
                pthread_cond_wait(&h->changed, &h->lock);
        pthread_mutex_unlock(&h->lock);
}

static void let_go(struct hang *h) {
        pthread_mutex_lock(&h->lock);
        h->is_over = true;
        pthread_cond_broadcast(&h->changed);
        pthread_mutex_unlock(&h->lock);
}

/* Polls go on for others: they come, change and go. What changes of the hanging one waits. */
static void test_a_load_that_hangs(void **state) {
        struct hang       hang = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, false };
        struct repo_place p;
        AUTO_CHARS        gone = NULL;
        AUTO_CHARS        away = NULL;

        (void)state;
        repo_place_begin(&p);
        p.is_followed = true;
        repo_place_add(&p, "gone", "");
        repo_place_add(&p, "m", "");
        repo_place_add(&p, "other", "");
        repo_place_open(&p, one_folder, 1);
        gone = temp_tree_path(&p.tree, "models/gone");
        away = temp_tree_path(&p.tree, "away");
        log_lines_begin();
        assert_ok(repo_load_all(p.repo), "load");
        repo_start_poll(p.repo);
        fake_host_on_call(FAKE_MODEL_INITIALIZE, hang_first, &hang);
        temp_tree_write(&p.tree, "models/m/1/model.bin", "second");
        repo_start_poll(p.repo);
        repo_start_poll(p.repo);
        await_hang(&hang);
        assert_true(repo_version_is_ready(p.repo, "m", 1));

        /* Not begun a second time, whatever becomes of its files. */
        temp_tree_write(&p.tree, "models/m/1/model.bin", "third one");
        temp_tree_write(&p.tree, "models/other/2/model.bin", "two");
        temp_tree_write(&p.tree, "models/new/config.pbtxt", REPO_PLACE_CONFIG);
        temp_tree_folder(&p.tree, "models/new/1");
        assert_int_equal(rename(gone, away), 0);
        for (int i = 0; i < 3; i++)
                repo_start_poll(p.repo);
        repo_place_await_index(&p, "gone:1:UNAVAILABLE:unloaded\n"
                                   "m:1:READY:-\n"
                                   "new:1:READY:-\n"
                                   "other:1:UNAVAILABLE:unloaded\n"
                                   "other:2:READY:-\n");
        assert_int_equal(fake_host_count(FAKE_MODEL_INITIALIZE), 6);

        let_go(&hang);
        repo_place_await_index(&p, "gone:1:UNAVAILABLE:unloaded\n"
                                   "m:1:READY:-\n"
                                   "new:1:READY:-\n"
                                   "other:1:UNAVAILABLE:unloaded\n"
                                   "other:2:READY:-\n");
        while (fake_host_count(FAKE_MODEL_INITIALIZE) < 7)
                repo_poll(p.repo);
        log_lines_end();
        repo_place_end(&p);
}

#define NEXT(model) "parameters { key: 'next' value { string_value: '" model "' } } "

static void poll_often(struct repo_place *p) {
        for (int i = 0; i < 4; i++)
                repo_poll(p->repo);
}

/* Files that need a model which comes later are tried again then, whether the model serves already or not. */
static void test_a_need_that_comes_later(void **state) {
        struct repo_place p;

        (void)state;
        repo_place_begin(&p);
        p.is_followed = true;
        repo_place_add(&p, "m", "");
        repo_place_add(&p, "new", NEXT("z"));
        repo_place_open(&p, one_folder, 1);
        log_lines_begin();
        error_free(repo_load_all(p.repo));
        poll_often(&p);
        repo_place_add(&p, "m", NEXT("z"));
        poll_often(&p);
        poll_often(&p);
        assert_int_equal(log_lines_count_prefix("E failed to poll model 'm'"), 1);
        repo_place_await_index(&p, "m:1:READY:-\nnew:-1:UNKNOWN:-\n");
        repo_place_add(&p, "z", "");
        poll_often(&p);
        repo_place_await_index(&p, "m:1:READY:-\nnew:1:READY:-\nz:1:READY:-\n");
        assert_int_equal(fake_host_count(FAKE_MODEL_INITIALIZE), 4);
        assert_int_equal(log_lines_count_prefix("E failed to poll model 'm'"), 1);
        log_lines_end();
        repo_place_end(&p);
}

struct change_of_z {
        struct repo_place *place;
        unsigned           n_calls;
        bool               has_failed;
};

static void change_z_in_first(void *userp) {
        struct change_of_z *c = userp;

        if (c->n_calls++ == 0)
                c->has_failed = repo_unload(c->place->repo, "z") != NULL;
}

/* The model that is needed may change just before the load fails. */
static void test_a_need_that_changes_during_a_failing_load(void **state) {
        struct repo_place  p;
        struct change_of_z change = { .place = &p };

        (void)state;
        repo_place_begin(&p);
        p.is_followed = true;
        repo_place_add(&p, "m", "");
        repo_place_add(&p, "z", "");
        repo_place_open(&p, one_folder, 1);
        log_lines_begin();
        assert_ok(repo_load_all(p.repo), "load");
        repo_poll(p.repo);
        repo_place_add(&p, "m", NEXT("z"));
        repo_poll(p.repo);
        fake_host_fail(FAKE_MODEL_INITIALIZE, "m", TRITONSERVER_ERROR_INTERNAL, "boom");
        fake_host_on_call(FAKE_MODEL_INITIALIZE, change_z_in_first, &change);
        repo_poll(p.repo);
        assert_int_equal(change.n_calls, 1);
        assert_false(change.has_failed);
        fake_host_fail(FAKE_MODEL_INITIALIZE, NULL, 0, NULL);
        poll_often(&p); /* loads z, and m */
        repo_place_await_index(&p, "m:1:READY:-\nz:1:READY:-\n");
        assert_true(change.n_calls >= 3);
        fake_host_on_call(FAKE_MODEL_INITIALIZE, NULL, NULL);
        log_lines_end();
        repo_place_end(&p);
}

void __real_heap_end_trim(void);
void __wrap_heap_end_trim(void);

static _Thread_local unsigned n_trims; /* of this thread's heap */

void __wrap_heap_end_trim(void) {
        __real_heap_end_trim();
        n_trims++;
}

/* A poll frees what it has read of all models on the thread that polls, which does not end. */
static void test_a_poll_returns_its_memory(void **state) {
        struct repo_place p;
        unsigned          n;

        (void)state;
        repo_place_begin(&p);
        repo_place_open(&p, one_folder, 1);
        n = n_trims;
        repo_poll(p.repo);
        assert_int_equal(n_trims, n + 1);
        repo_start_poll(p.repo);
        assert_int_equal(n_trims, n + 2);
        repo_place_end(&p);
}

SUITE(repo_poll) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_scripts),
                cmocka_unit_test(test_changes_during_a_failing_load),
                cmocka_unit_test(test_changes_during_a_load),
                cmocka_unit_test(test_a_load_that_hangs),
                cmocka_unit_test(test_a_need_that_comes_later),
                cmocka_unit_test(test_a_need_that_changes_during_a_failing_load),
                cmocka_unit_test(test_unreadable_repository),
                cmocka_unit_test(test_unreadable_among_others),
                cmocka_unit_test(test_twins_stay_twins),
                cmocka_unit_test(test_a_poll_returns_its_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
