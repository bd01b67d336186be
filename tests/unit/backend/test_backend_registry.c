/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "backend/backend_registry.h"
#include "backend/fake_host.h"
#include "base/mem.h"
#include "base/thread.h"
#include "infer/fake_model.h"

#include <semaphore.h>
#include <stdatomic.h>

#define N_THREADS 8

/* A model "m" and a backend directory "backends" in a tree of their own. */
struct place {
        struct temp_tree         tree;
        char                    *backends; /* owned */
        char                    *model;    /* owned */
        struct backend_registry *registry; /* owned */
};

static void begin_with(struct place *p, bool auto_complete, const struct setting *settings,
                       size_t n_settings) {
        fake_host_reset();
        p->tree = temp_tree_make();
        p->backends = temp_tree_path(&p->tree, "backends");
        p->model = temp_tree_path(&p->tree, "models/m");
        temp_tree_folder(&p->tree, "models/m/3");
        temp_tree_folder(&p->tree, "backends/fake");
        p->registry = backend_registry_new(
                &(struct backend_registry_options){ .directory = p->backends,
                                                    .auto_complete = auto_complete,
                                                    .settings = settings,
                                                    .n_settings = n_settings });
}

static void begin(struct place *p) {
        begin_with(p, true, NULL, 0);
}

static void end(struct place *p) {
        backend_registry_free(p->registry);
        temp_tree_remove(&p->tree);
        free(p->backends);
        free(p->model);
}

static struct error *get(struct place *p, const char *backend, const char *runtime,
                         struct backend **ret) {
        struct backend_wanted wanted = { .backend = backend,
                                         .runtime = runtime,
                                         .model = "m",
                                         .model_directory = p->model,
                                         .version = 3 };

        return backend_registry_get(p->registry, &wanted, ret);
}

static void assert_found(struct place *p, const char *runtime, const char *expected) {
        AUTO_CHARS      path = temp_tree_path(&p->tree, expected);
        struct backend *b;

        assert_ok(get(p, "fake", runtime, &b), expected);
        assert_string_equal(b->path, path);
        backend_unref(b);
}

static void test_search_order(void **state) {
        static const char *const paths[] = { "models/m/3/libtriton_fake.so",
                                             "models/m/libtriton_fake.so",
                                             "backends/fake/libtriton_fake.so" };
        struct fake_library      libraries[3];
        struct place             p;
        struct backend          *b = NULL;

        (void)state;
        begin(&p);
        for (size_t i = 0; i < 3; i++)
                libraries[i] = fake_library_open(&p.tree, "fake_backend", paths[i]);
        /* Beside those of other versions and backends. */
        temp_tree_write(&p.tree, "models/m/2/libtriton_fake.so", "");
        temp_tree_write(&p.tree, "backends/other/libtriton_fake.so", "");
        for (size_t i = 0; i < 3; i++) {
                assert_found(&p, "", paths[i]);
                temp_tree_unlink(&p.tree, paths[i]);
        }
        assert_error(get(&p, "fake", "", &b), ERR_INVALID_ARG,
                     "unable to find backend library for backend 'fake', try specifying runtime on "
                     "the model configuration.");
        assert_null(b);
        end(&p);
        for (size_t i = 0; i < 3; i++)
                fake_library_close(&libraries[i]);
}

/* A directory that came with a load has no say, whatever the library is named. */
static void test_sent_library(void **state) {
        static const char *const paths[] = { "models/m/3/libtriton_fake.so",
                                             "models/m/libtriton_fake.so" };
        struct place             p;
        struct backend          *b = NULL;
        struct backend_wanted    wanted = { "fake", "", "m", NULL, 3, true };
        struct fake_library      own;

        (void)state;
        begin(&p);
        wanted.model_directory = p.model;
        own = fake_library_open(&p.tree, "fake_backend", "backends/fake/libtriton_fake.so");
        for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
                temp_tree_write(&p.tree, paths[i], "not even a library");
                assert_error(backend_registry_get(p.registry, &wanted, &b), ERR_UNSUPPORTED,
                             "Uploaded code is disabled: the backend library 'libtriton_fake.so' "
                             "of model 'm' came with its load. Start the server with "
                             "'--allow-uploaded-backends=true' to enable.");
                temp_tree_unlink(&p.tree, paths[i]);
        }
        assert_ok(backend_registry_get(p.registry, &wanted, &b), "the operator's own");
        backend_unref(b);
        end(&p);
        fake_library_close(&own);
}

static void test_runtime_names_the_library(void **state) {
        static const char *const paths[] = { "models/m/3/libmine.so", "models/m/libmine.so",
                                             "backends/fake/libmine.so" };
        struct fake_library      libraries[4];
        struct place             p;
        struct backend          *b = NULL;

        (void)state;
        begin(&p);
        for (size_t i = 0; i < 3; i++)
                libraries[i] = fake_library_open(&p.tree, "fake_backend", paths[i]);
        libraries[3] = fake_library_open(&p.tree, "fake_backend", "models/m/libtriton_fake.so");
        for (size_t i = 0; i < 3; i++) {
                assert_found(&p, "libmine.so", paths[i]);
                temp_tree_unlink(&p.tree, paths[i]);
        }

        AUTO_CHARS text = mem_printf("unable to find backend library 'libmine.so' for model 'm', "
                                     "searched: '%s/3/libmine.so' '%s/libmine.so' "
                                     "'%s/fake/libmine.so' ",
                                     p.model, p.model, p.backends);

        assert_error(get(&p, "fake", "libmine.so", &b), ERR_INVALID_ARG, text);
        assert_null(b);
        end(&p);
        for (size_t i = 0; i < 4; i++)
                fake_library_close(&libraries[i]);
}

static void test_names_that_escape(void **state) {
        static const struct {
                const char *backend, *runtime, *named;
        } rows[] = {
                { "fake", "../libtriton_fake.so", "../libtriton_fake.so" },
                { "fake", "/lib/libtriton_fake.so", "/lib/libtriton_fake.so" },
                { "fake", "sub/libtriton_fake.so", "sub/libtriton_fake.so" },
                { "fake", "..", ".." },
                { "..", "libtriton_fake.so", ".." },
                { "../fake", "", "libtriton_../fake.so" },
                { "../fake", "libtriton_fake.so", "../fake" },
        };
        struct fake_library library;
        struct place        p;

        (void)state;
        begin(&p);
        /* There where each of these would lead. */
        library = fake_library_open(&p.tree, "fake_backend", "models/m/3/libtriton_fake.so");
        temp_tree_write(&p.tree, "models/m/libtriton_fake.so", "");
        temp_tree_write(&p.tree, "models/m/3/sub/libtriton_fake.so", "");
        temp_tree_write(&p.tree, "backends/libtriton_fake.so", "");
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                AUTO_CHARS text =
                        mem_printf("backend library name '%s' escapes backend directory "
                                   "'%s', for model 'm', check model config runtime field",
                                   rows[i].named, p.backends);
                struct backend *b = NULL;

                assert_error(get(&p, rows[i].backend, rows[i].runtime, &b), ERR_INVALID_ARG, text);
                assert_null(b);
        }
        assert_int_equal(fake_host_count(FAKE_INITIALIZE), 0);
        end(&p);
        fake_library_close(&library);
}

static void assert_config(struct place *p, const char *backend, const char *format) {
        AUTO_CHARS      path = mem_printf("backends/%s/libtriton_%s.so", backend, backend);
        AUTO_CHARS      expected = mem_printf(format, p->backends);
        struct backend *b;

        struct fake_library library = fake_library_open(&p->tree, "fake_bare", path);

        assert_ok(get(p, backend, "", &b), backend);
        assert_string_equal(b->config->text, expected);
        backend_unref(b);
        fake_library_close(&library);
}

/* The variable part is the backend directory. */
#pragma GCC diagnostic ignored "-Wformat-nonliteral"

static void test_configuration(void **state) {
        struct place p;

        (void)state;
        begin_with(&p, true, NULL, 0);
        assert_config(
                &p, "fake",
                "{\"cmdline\":{\"auto-complete-config\":\"true\",\"backend-directory\":\"%s\","
                "\"default-max-batch-size\":\"4\",\"min-compute-capability\":\"0.000000\"}}");
        end(&p);
        begin_with(&p, false, NULL, 0);
        assert_config(&p, "fake",
                      "{\"cmdline\":{\"auto-complete-config\":\"false\","
                      "\"backend-directory\":\"%s\",\"default-max-batch-size\":\"4\","
                      "\"min-compute-capability\":\"0.000000\"}}");
        end(&p);
}

/* A server with GPUs says which it uses. */
static void test_compute_capability(void **state) {
        static char  gpus; /* only its address is used */
        struct place p;

        (void)state;
        begin_with(&p, true, NULL, 0);
        backend_registry_free(p.registry);
        p.registry = backend_registry_new(
                &(struct backend_registry_options){ .directory = p.backends,
                                                    .auto_complete = true,
                                                    .gpus = (struct gpus *)(void *)&gpus,
                                                    .min_compute_capability = 7.5 });
        assert_config(
                &p, "fake",
                "{\"cmdline\":{\"auto-complete-config\":\"true\",\"backend-directory\":\"%s\","
                "\"default-max-batch-size\":\"4\",\"min-compute-capability\":\"7.500000\"}}");
        end(&p);
}

static void test_settings_overlay(void **state) {
        /* One for the backend counts more than one for all, whichever was given first. */
        static const struct setting settings[] = {
                { "fake", "threads", "2" },
                { "", "threads", "8" },
                { "other", "threads", "3" },
                { "", "text", "a \"b\"\\" },
                { "", "default-max-batch-size", "16" },
                { "fake", "level", "1" },
                { "fake", "level", "2" },
        };
        struct place p;

        (void)state;
        begin_with(&p, true, settings, ARRAY_LEN(settings));
        assert_config(
                &p, "fake",
                "{\"cmdline\":{\"auto-complete-config\":\"true\",\"backend-directory\":\"%s\","
                "\"default-max-batch-size\":\"16\",\"min-compute-capability\":\"0.000000\","
                "\"threads\":\"2\",\"text\":\"a \\\"b\\\"\\\\\",\"level\":\"2\"}}");
        assert_config(
                &p, "other",
                "{\"cmdline\":{\"auto-complete-config\":\"true\",\"backend-directory\":\"%s\","
                "\"default-max-batch-size\":\"16\",\"min-compute-capability\":\"0.000000\","
                "\"threads\":\"3\",\"text\":\"a \\\"b\\\"\\\\\"}}");
        assert_config(
                &p, "third",
                "{\"cmdline\":{\"auto-complete-config\":\"true\",\"backend-directory\":\"%s\","
                "\"default-max-batch-size\":\"16\",\"min-compute-capability\":\"0.000000\","
                "\"threads\":\"8\",\"text\":\"a \\\"b\\\"\\\\\"}}");
        end(&p);
}

static void test_each_library_opens_once(void **state) {
        struct fake_library library;
        struct backend     *first, *second;
        struct place        p;

        (void)state;
        begin(&p);
        library = fake_library_open(&p.tree, "fake_backend", "backends/fake/libtriton_fake.so");
        assert_ok(get(&p, "fake", "", &first), "first");
        assert_ok(get(&p, "fake", "libtriton_fake.so", &second), "second");
        assert_ptr_equal(first, second);
        backend_unref(first);
        backend_unref(second);
        /* The registry keeps it for the next model. */
        assert_int_equal(fake_host_count(FAKE_FINALIZE), 0);
        assert_ok(get(&p, "fake", "", &first), "third");
        assert_ptr_equal(first, second);
        assert_int_equal(fake_host_count(FAKE_INITIALIZE), 1);

        /* Who still uses it keeps it beyond the registry. */
        backend_registry_free(p.registry);
        p.registry = NULL;
        assert_int_equal(fake_host_count(FAKE_FINALIZE), 0);
        backend_unref(first);
        assert_int_equal(fake_host_count(FAKE_FINALIZE), 1);
        end(&p);
        fake_library_close(&library);
}

static void test_failure_is_not_kept(void **state) {
        struct fake_library library;
        struct backend     *b = NULL;
        struct place        p;

        (void)state;
        begin(&p);
        library = fake_library_open(&p.tree, "fake_backend", "backends/fake/libtriton_fake.so");
        fake_host_fail(FAKE_INITIALIZE, "fake", TRITONSERVER_ERROR_UNAVAILABLE, "not today");

        AUTO_CHARS text =
                mem_printf("unable to initialize backend 'fake' from '%s' with backend API "
                           "1.19: not today",
                           library.path);

        assert_error(get(&p, "fake", "", &b), ERR_UNAVAILABLE, text);
        assert_null(b);
        fake_host_fail(FAKE_INITIALIZE, NULL, TRITONSERVER_ERROR_UNKNOWN, NULL);
        assert_ok(get(&p, "fake", "", &b), "again");
        assert_int_equal(fake_host_count(FAKE_INITIALIZE), 2);
        backend_unref(b);
        end(&p);
        assert_int_equal(fake_host_count(FAKE_FINALIZE), 2);
        fake_library_close(&library);
}

struct getter {
        struct place   *place;
        struct thread   thread;
        struct backend *backend;
        struct error   *error;
};

static void get_one(void *arg) {
        struct getter *g = arg;

        g->error = get(g->place, "fake", "", &g->backend);
}

static void test_parallel_loads_open_once(void **state) {
        struct fake_library library;
        struct getter       getters[N_THREADS] = { 0 };
        struct place        p;

        (void)state;
        begin(&p);
        library = fake_library_open(&p.tree, "fake_backend", "backends/fake/libtriton_fake.so");
        for (size_t i = 0; i < N_THREADS; i++) {
                getters[i].place = &p;
                assert_ok(thread_start(&getters[i].thread, "getter", get_one, &getters[i]),
                          "start");
        }
        for (size_t i = 0; i < N_THREADS; i++) {
                thread_join(&getters[i].thread);
                assert_ok(getters[i].error, "get");
                assert_ptr_equal(getters[i].backend, getters[0].backend);
        }
        assert_int_equal(fake_host_count(FAKE_INITIALIZE), 1);
        for (size_t i = 0; i < N_THREADS; i++)
                backend_unref(getters[i].backend);
        end(&p);
        assert_int_equal(fake_host_count(FAKE_FINALIZE), 1);
        fake_library_close(&library);
}

static void list_name(const struct backend *b, void *userp) {
        strbuf_printf(userp, "%s ", b->name);
}

static void test_each(void **state) {
        struct fake_library first, second;
        AUTO_STRBUF         names = { 0 };
        struct backend     *b;
        struct place        p;

        (void)state;
        strbuf_init(&names, 0);
        begin(&p);
        backend_registry_each(p.registry, list_name, &names);
        assert_string_equal(strbuf_cstr(&names), "");
        first = fake_library_open(&p.tree, "fake_bare", "backends/zebra/libtriton_zebra.so");
        second = fake_library_open(&p.tree, "fake_bare", "backends/ant/libtriton_ant.so");
        assert_ok(get(&p, "zebra", "", &b), "zebra");
        backend_unref(b);
        assert_ok(get(&p, "ant", "", &b), "ant");
        backend_unref(b);
        backend_registry_each(p.registry, list_name, &names);
        assert_string_equal(strbuf_cstr(&names), "zebra ant ");
        end(&p);
        fake_library_close(&first);
        fake_library_close(&second);
}

/* A library whose Initialize waits, the first time, until it is let go. */
struct hang {
        atomic_uint n_calls;
        sem_t       begun, let_go;
};

static void hang_once(void *userp) {
        struct hang *h = userp;

        if (atomic_fetch_add(&h->n_calls, 1) > 0)
                return;
        sem_post(&h->begun);
        sem_wait(&h->let_go);
}

struct hanging_getter {
        struct place   *place;
        struct backend *backend; /* ref */
};

static void get_hanging(void *arg) {
        struct hanging_getter *g = arg;

        assert_ok(get(g->place, "fake", "libhanging.so", &g->backend), "libhanging.so");
}

/* While one library is being initialised, and that takes for ever, others are opened, and those
 * that are open are there; who wants the same one waits. */
static void test_one_that_hangs(void **state) {
        static const char *const paths[] = { "backends/fake/libopen.so",
                                             "backends/fake/libhanging.so",
                                             "backends/fake/libother.so" };
        struct fake_library      libraries[3];
        struct hang              hang = { 0 };
        struct thread            threads[2] = { { 0 } };
        struct hanging_getter    getters[2];
        struct place             p;

        (void)state;
        begin(&p);
        for (size_t i = 0; i < 3; i++)
                libraries[i] = fake_library_open(&p.tree, "fake_backend", paths[i]);
        assert_found(&p, "libopen.so", paths[0]);
        assert_int_equal(sem_init(&hang.begun, 0, 0), 0);
        assert_int_equal(sem_init(&hang.let_go, 0, 0), 0);
        fake_host_on_call(FAKE_INITIALIZE, hang_once, &hang);
        for (size_t i = 0; i < 2; i++) {
                getters[i] = (struct hanging_getter){ .place = &p };
                assert_ok(thread_start(&threads[i], "getter", get_hanging, &getters[i]), "thread");
                if (i == 0)
                        assert_int_equal(sem_wait(&hang.begun), 0);
        }
        assert_found(&p, "libopen.so", paths[0]);
        assert_found(&p, "libother.so", paths[2]);
        assert_int_equal(fake_host_count(FAKE_INITIALIZE), 3);
        assert_int_equal(sem_post(&hang.let_go), 0);
        for (size_t i = 0; i < 2; i++)
                thread_join(&threads[i]);
        assert_ptr_equal(getters[0].backend, getters[1].backend);
        for (size_t i = 0; i < 2; i++)
                backend_unref(getters[i].backend);
        fake_host_on_call(FAKE_INITIALIZE, NULL, NULL);
        assert_int_equal(fake_host_count(FAKE_INITIALIZE), 3);
        sem_destroy(&hang.begun);
        sem_destroy(&hang.let_go);
        end(&p);
        for (size_t i = 0; i < 3; i++)
                fake_library_close(&libraries[i]);
}

SUITE(backend_registry) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_search_order),
                cmocka_unit_test(test_sent_library),
                cmocka_unit_test(test_runtime_names_the_library),
                cmocka_unit_test(test_names_that_escape),
                cmocka_unit_test(test_configuration),
                cmocka_unit_test(test_compute_capability),
                cmocka_unit_test(test_settings_overlay),
                cmocka_unit_test(test_each_library_opens_once),
                cmocka_unit_test(test_failure_is_not_kept),
                cmocka_unit_test(test_parallel_loads_open_once),
                cmocka_unit_test(test_each),
                cmocka_unit_test(test_one_that_hangs),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
