/* SPDX-License-Identifier: BSD-3-Clause */
/* Repositories that a program registers with a running server, and names that it gives to their
 * directories.
 *
 *   test_repositories <directory of backends>
 *
 * Each directory has a version of its own, which shows the directory that was loaded:
 *
 *     empty/
 *     one/    lamp 1
 *     two/    lamp 2, chair 3
 *     named/  box 4    its configuration has the name "crate"
 */
#include "api_assert.h"
#include "embedded.h"
#include "model_place.h"
#include "triton/core/neso.h"
#include "triton/core/tritonserver.h"

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define CONFIG                                                                                     \
        "backend: \"identity\"\n"                                                                  \
        "input [ { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ -1 ] } ]\n"                       \
        "output [ { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ -1 ] } ]\n"

static const char *backend_directory;

struct place {
        struct model_place          models;
        struct TRITONSERVER_Server *server;
};

static void add_model(struct model_place *p, const char *directory, int version,
                      const char *config) {
        char path[128];

        model_place_add_folder(p, directory);
        snprintf(path, sizeof(path), "%s/config.pbtxt", directory);
        model_place_add_file(p, path, config);
        snprintf(path, sizeof(path), "%s/%d", directory, version);
        model_place_add_folder(p, path);
}

/* The path of one of the repositories; valid until the next call. */
static const char *path_of(const struct place *p, const char *repository) {
        static char path[256];

        snprintf(path, sizeof(path), "%s/%s", p->models.root, repository);
        return path;
}

static void begin(struct place *p, TRITONSERVER_ModelControlMode mode) {
        static const char *const           repositories[] = { "empty", "one", "two", "named" };
        struct TRITONSERVER_ServerOptions *options;

        model_place_open(&p->models);
        for (size_t i = 0; i < sizeof(repositories) / sizeof(*repositories); i++)
                model_place_add_folder(&p->models, repositories[i]);
        add_model(&p->models, "one/lamp", 1, CONFIG);
        add_model(&p->models, "two/lamp", 2, CONFIG);
        add_model(&p->models, "two/chair", 3, CONFIG);
        add_model(&p->models, "named/box", 4, "name: \"crate\"\n" CONFIG);
        options = embedded_options(path_of(p, "empty"), backend_directory);
        assert_ok(TRITONSERVER_ServerOptionsSetModelControlMode(options, mode));
        p->server = embedded_start(options);
}

static void end(struct place *p) {
        assert_ok(TRITONSERVER_ServerStop(p->server));
        assert_ok(TRITONSERVER_ServerDelete(p->server));
        model_place_close(&p->models);
}

#define MAX_NAMES 4

/* Registers the repository with these names, "directory=model directory=model". */
static struct TRITONSERVER_Error *add(const struct place *p, const char *repository,
                                      const char *names) {
        struct TRITONSERVER_Parameter       *owned[MAX_NAMES];
        const struct TRITONSERVER_Parameter *mapping[MAX_NAMES];
        struct TRITONSERVER_Error           *err;
        char                                 text[128], *rest = text, *word;
        uint32_t                             n = 0;

        snprintf(text, sizeof(text), "%s", names);
        while ((word = strtok_r(rest, " ", &rest)) != NULL) {
                char *model = strchr(word, '=');

                assert_true(n < MAX_NAMES);
                *model++ = '\0';
                owned[n] = TRITONSERVER_ParameterNew(word, TRITONSERVER_PARAMETER_STRING, model);
                mapping[n] = owned[n];
                n++;
        }
        err = TRITONSERVER_ServerRegisterModelRepository(p->server, path_of(p, repository),
                                                         n > 0 ? mapping : NULL, n);
        for (uint32_t i = 0; i < n; i++)
                TRITONSERVER_ParameterDelete(owned[i]);
        return err;
}

static struct TRITONSERVER_Error *take_away(const struct place *p, const char *repository) {
        return TRITONSERVER_ServerUnregisterModelRepository(p->server, path_of(p, repository));
}

/* `format` has the path of the repository, and perhaps a name. */
static void assert_refused(const struct place *p, struct TRITONSERVER_Error *err,
                           TRITONSERVER_Error_Code code, const char *format, const char *repository,
                           const char *name) {
        char text[512];

        (void)snprintf(text, sizeof(text), format, path_of(p, repository), name);
        assert_error(err, code, text);
}

static bool is_ready(const struct place *p, const char *model, int version) {
        bool ready = false;

        assert_ok(TRITONSERVER_ServerModelIsReady(p->server, model, version, &ready));
        return ready;
}

static void assert_loads(const struct place *p, const char *model, int version) {
        assert_ok(TRITONSERVER_ServerLoadModel(p->server, model));
        assert_true(is_ready(p, model, version));
        assert_true(is_ready(p, model, -1));
}

static void assert_not_found(const struct place *p, const char *model) {
        char text[128];

        snprintf(text, sizeof(text), "failed to load '%s', failed to poll from model repository",
                 model);
        assert_error(TRITONSERVER_ServerLoadModel(p->server, model), TRITONSERVER_ERROR_INTERNAL,
                     text);
}

static bool has_index(const struct place *p, const char *expected) {
        struct TRITONSERVER_Message *message;
        const char                  *json;
        size_t                       len;
        bool                         is_equal;

        assert_ok(TRITONSERVER_ServerModelIndex(p->server, 0, &message));
        assert_ok(TRITONSERVER_MessageSerializeToJson(message, &json, &len));
        is_equal = len == strlen(expected) && memcmp(json, expected, len) == 0;
        assert_ok(TRITONSERVER_MessageDelete(message));
        return is_equal;
}

static void on_change(void *userp) {
        sem_post(userp);
}

/* An unloaded model ends a little later. */
static void wait_for_index(const struct place *p, const char *expected) {
        struct NESO_ReadyWatch *watch;
        sem_t                   changes;

        sem_init(&changes, 0, 0);
        assert_ok(NESO_ReadyWatchNew(&watch, p->server, on_change, &changes));
        while (!has_index(p, expected))
                sem_wait(&changes);
        assert_ok(NESO_ReadyWatchDelete(watch));
        sem_destroy(&changes);
}

static void assert_index(const struct place *p, uint32_t flags, const char *expected) {
        struct TRITONSERVER_Message *message;
        const char                  *json;
        size_t                       len;

        assert_ok(TRITONSERVER_ServerModelIndex(p->server, flags, &message));
        assert_ok(TRITONSERVER_MessageSerializeToJson(message, &json, &len));
        assert_int_equal(len, strlen(expected));
        assert_memory_equal(json, expected, len);
        assert_ok(TRITONSERVER_MessageDelete(message));
}

static void test_a_repository_comes(void **state) {
        struct place p;

        (void)state;
        begin(&p, TRITONSERVER_MODEL_CONTROL_EXPLICIT);
        assert_not_found(&p, "lamp");
        assert_ok(add(&p, "one", ""));
        assert_loads(&p, "lamp", 1);
        assert_refused(&p, add(&p, "one", ""), TRITONSERVER_ERROR_ALREADY_EXISTS,
                       "model repository '%s' has already been registered", "one", NULL);
        assert_refused(&p, add(&p, "empty", ""), TRITONSERVER_ERROR_ALREADY_EXISTS,
                       "model repository '%s' has already been registered", "empty", NULL);
        assert_refused(&p, add(&p, "nowhere", ""), TRITONSERVER_ERROR_INVALID_ARG,
                       "failed to register '%s', repository not found", "nowhere", NULL);
        assert_refused(&p, add(&p, "one/lamp/config.pbtxt", ""), TRITONSERVER_ERROR_INVALID_ARG,
                       "failed to register '%s', repository not found", "one/lamp/config.pbtxt",
                       NULL);
        end(&p);
}

static void test_a_repository_goes(void **state) {
        struct place p;

        (void)state;
        begin(&p, TRITONSERVER_MODEL_CONTROL_EXPLICIT);
        assert_refused(&p, take_away(&p, "one"), TRITONSERVER_ERROR_INVALID_ARG,
                       "failed to unregister '%s', repository not found", "one", NULL);
        assert_ok(add(&p, "one", ""));
        assert_loads(&p, "lamp", 1);
        assert_ok(take_away(&p, "one"));
        assert_true(is_ready(&p, "lamp", 1));
        assert_not_found(&p, "lamp");
        assert_true(is_ready(&p, "lamp", 1));
        assert_refused(&p, take_away(&p, "one"), TRITONSERVER_ERROR_INVALID_ARG,
                       "failed to unregister '%s', repository not found", "one", NULL);
        /* The one of the start, too; and again. */
        assert_ok(take_away(&p, "empty"));
        assert_ok(add(&p, "empty", ""));
        assert_ok(take_away(&p, "empty"));
        assert_ok(add(&p, "one", ""));
        assert_ok(take_away(&p, "one"));
        end(&p);
}

static bool is_server_ready(const struct place *p) {
        bool ready = false;

        assert_ok(TRITONSERVER_ServerIsReady(p->server, &ready));
        return ready;
}

/* Models of a removed repository that do not serve: an unloaded one, and one whose load has failed. */
static void test_what_is_over_is_forgotten(void **state) {
        struct TRITONSERVER_Error *err;
        struct place               p;

        (void)state;
        begin(&p, TRITONSERVER_MODEL_CONTROL_EXPLICIT);
        assert_ok(add(&p, "two", ""));
        assert_loads(&p, "lamp", 2);
        assert_loads(&p, "chair", 3);
        assert_ok(TRITONSERVER_ServerUnloadModel(p.server, "lamp"));
        assert_ok(take_away(&p, "two"));
        wait_for_index(&p, "[{\"name\":\"chair\",\"version\":\"3\",\"state\":\"READY\"}]");
        model_place_add_folder(&p.models, "bad");
        add_model(&p.models, "bad/broken", 1, "backend: \"missing\"\n");
        assert_ok(add(&p, "bad", ""));
        err = TRITONSERVER_ServerLoadModel(p.server, "broken");
        assert_non_null(err);
        TRITONSERVER_ErrorDelete(err);
        assert_false(is_server_ready(&p));
        assert_ok(take_away(&p, "bad"));
        assert_true(is_server_ready(&p));
        assert_index(&p, 0, "[{\"name\":\"chair\",\"version\":\"3\",\"state\":\"READY\"}]");
        end(&p);
}

/* The directory has the given name only, whatever its configuration says. */
static void test_a_directory_gets_a_name(void **state) {
        struct place p;

        (void)state;
        begin(&p, TRITONSERVER_MODEL_CONTROL_EXPLICIT);
        assert_ok(add(&p, "one", "lamp=light"));
        assert_ok(add(&p, "named", "box=chest"));
        assert_index(&p, 0, "[{\"name\":\"chest\"},{\"name\":\"light\"}]");
        assert_not_found(&p, "lamp");
        assert_loads(&p, "light", 1);
        assert_not_found(&p, "box");
        assert_not_found(&p, "crate");
        assert_loads(&p, "chest", 4);
        assert_index(&p, TRITONSERVER_INDEX_FLAG_READY,
                     "[{\"name\":\"chest\",\"version\":\"4\",\"state\":\"READY\"},"
                     "{\"name\":\"light\",\"version\":\"1\",\"state\":\"READY\"}]");
        assert_ok(TRITONSERVER_ServerUnloadModel(p.server, "light"));
        assert_false(is_ready(&p, "light", 1));
        end(&p);
}

/* The directory "." is the repository itself, which is one model then. */
static void test_a_repository_is_one_model(void **state) {
        struct place p;

        (void)state;
        begin(&p, TRITONSERVER_MODEL_CONTROL_EXPLICIT);
        model_place_add_folder(&p.models, "flat");
        model_place_add_file(&p.models, "flat/config.pbtxt", "name: \"other\"\n" CONFIG);
        assert_ok(add(&p, "two/lamp", ".=table"));
        assert_ok(add(&p, "flat", ".=floor"));
        assert_index(&p, 0, "[{\"name\":\"floor\"},{\"name\":\"table\"}]");
        assert_loads(&p, "table", 2);
        assert_loads(&p, "floor", 1);
        assert_not_found(&p, "lamp");
        assert_refused(&p, add(&p, "one/lamp", ".=table"), TRITONSERVER_ERROR_ALREADY_EXISTS,
                       "failed to register 'table', there is a conflicting mapping for 'table'",
                       "one/lamp", NULL);
        assert_ok(TRITONSERVER_ServerUnloadModel(p.server, "floor"));
        assert_ok(take_away(&p, "flat"));
        assert_not_found(&p, "floor");
        end(&p);
}

/* Its files are copied one directory at a time. */
static void test_a_remote_repository_is_not_one_model(void **state) {
        struct TRITONSERVER_Parameter       *name;
        const struct TRITONSERVER_Parameter *mapping[1];
        struct place                         p;

        (void)state;
        begin(&p, TRITONSERVER_MODEL_CONTROL_EXPLICIT);
        name = TRITONSERVER_ParameterNew(".", TRITONSERVER_PARAMETER_STRING, "table");
        mapping[0] = name;
        assert_error(
                TRITONSERVER_ServerRegisterModelRepository(p.server, "s3://bucket/model", mapping,
                                                           1),
                TRITONSERVER_ERROR_UNSUPPORTED,
                "failed to register 's3://bucket/model': a remote repository cannot be one model, "
                "name the directory of the model");
        TRITONSERVER_ParameterDelete(name);
        end(&p);
}

/* Also the name that the configuration has. Without a mapping the directory's name counts. */
static void test_a_directory_gets_its_configured_name(void **state) {
        struct place p;

        (void)state;
        begin(&p, TRITONSERVER_MODEL_CONTROL_EXPLICIT);
        assert_ok(add(&p, "named", ""));
        assert_not_found(&p, "box");
        assert_ok(take_away(&p, "named"));
        assert_ok(add(&p, "named", "box=crate"));
        assert_loads(&p, "crate", 4);
        end(&p);
}

static void test_a_directory_gets_two_names(void **state) {
        struct place p;

        (void)state;
        begin(&p, TRITONSERVER_MODEL_CONTROL_EXPLICIT);
        assert_ok(add(&p, "one", "lamp=light lamp=lantern"));
        assert_index(&p, 0, "[{\"name\":\"lantern\"},{\"name\":\"light\"}]");
        assert_loads(&p, "light", 1);
        assert_loads(&p, "lantern", 1);
        assert_not_found(&p, "lamp");
        end(&p);
}

/* A given name goes before the name of a directory. */
static void test_a_name_that_a_directory_has(void **state) {
        struct place p;

        (void)state;
        begin(&p, TRITONSERVER_MODEL_CONTROL_EXPLICIT);
        assert_ok(add(&p, "two", "lamp=chair"));
        assert_index(&p, 0, "[{\"name\":\"chair\"}]");
        assert_loads(&p, "chair", 2);
        assert_false(is_ready(&p, "chair", 3));
        assert_not_found(&p, "lamp");
        end(&p);
}

static void test_names_that_conflict(void **state) {
        static const char within[] = "failed to register '%s', there is a conflicting mapping for "
                                     "'%s'";
        struct place      p;

        (void)state;
        begin(&p, TRITONSERVER_MODEL_CONTROL_EXPLICIT);
        assert_refused(&p, add(&p, "two", "lamp=thing chair=thing"), TRITONSERVER_ERROR_INVALID_ARG,
                       within, "two", "thing");
        assert_refused(&p, add(&p, "two", "lamp=thing lamp=thing"), TRITONSERVER_ERROR_INVALID_ARG,
                       within, "two", "thing");
        assert_refused(&p, take_away(&p, "two"), TRITONSERVER_ERROR_INVALID_ARG,
                       "failed to unregister '%s', repository not found", "two", NULL);
        assert_ok(add(&p, "one", "lamp=thing"));
        assert_error(add(&p, "two", "chair=thing"), TRITONSERVER_ERROR_ALREADY_EXISTS,
                     "failed to register 'thing', there is a conflicting mapping for 'thing'");
        assert_ok(take_away(&p, "one"));
        assert_ok(add(&p, "two", "chair=thing"));
        assert_loads(&p, "thing", 3);
        end(&p);
}

/* Two directories of one name are no model, until a mapping or a repository less tells them apart. */
static void test_a_name_in_two_repositories(void **state) {
        struct place p;

        (void)state;
        begin(&p, TRITONSERVER_MODEL_CONTROL_EXPLICIT);
        assert_ok(add(&p, "one", ""));
        assert_ok(add(&p, "two", ""));
        assert_not_found(&p, "lamp");
        assert_loads(&p, "chair", 3);
        assert_ok(take_away(&p, "two"));
        assert_loads(&p, "lamp", 1);
        assert_true(is_ready(&p, "chair", 3));
        assert_ok(add(&p, "two", "lamp=light"));
        assert_loads(&p, "light", 2);
        assert_loads(&p, "lamp", 1);
        assert_ok(take_away(&p, "one"));
        assert_ok(add(&p, "one", "lamp=lantern"));
        assert_loads(&p, "lantern", 1);
        assert_loads(&p, "chair", 3);
        end(&p);
}

/* A mapping of a directory to its own name decides which of two is meant. */
static void test_a_directory_keeps_its_name(void **state) {
        struct place p;

        (void)state;
        begin(&p, TRITONSERVER_MODEL_CONTROL_EXPLICIT);
        assert_ok(add(&p, "one", "lamp=lamp"));
        assert_ok(add(&p, "two", ""));
        assert_index(&p, 0, "[{\"name\":\"chair\"},{\"name\":\"lamp\"}]");
        assert_loads(&p, "lamp", 1);
        assert_loads(&p, "chair", 3);
        end(&p);
}

static void test_other_names_later(void **state) {
        struct place p;

        (void)state;
        begin(&p, TRITONSERVER_MODEL_CONTROL_EXPLICIT);
        assert_ok(add(&p, "one", ""));
        assert_loads(&p, "lamp", 1);
        assert_ok(take_away(&p, "one"));
        assert_ok(add(&p, "one", "lamp=light"));
        assert_not_found(&p, "lamp");
        assert_loads(&p, "light", 1);
        assert_true(is_ready(&p, "lamp", 1));
        end(&p);
}

/* A name for a directory that is not there: the repository is registered, the model is missing. */
static void test_a_name_for_nothing(void **state) {
        struct place p;

        (void)state;
        begin(&p, TRITONSERVER_MODEL_CONTROL_EXPLICIT);
        assert_ok(add(&p, "two", "sofa=chair"));
        assert_not_found(&p, "chair");
        assert_not_found(&p, "sofa");
        assert_loads(&p, "lamp", 2);
        end(&p);
}

static void test_what_is_no_name(void **state) {
        struct place                         p;
        bool                                 yes = true;
        struct TRITONSERVER_Parameter       *odd;
        const struct TRITONSERVER_Parameter *mapping[1];

        (void)state;
        begin(&p, TRITONSERVER_MODEL_CONTROL_EXPLICIT);
        odd = TRITONSERVER_ParameterNew("lamp", TRITONSERVER_PARAMETER_BOOL, &yes);
        mapping[0] = odd;
        assert_error(TRITONSERVER_ServerRegisterModelRepository(p.server, path_of(&p, "one"),
                                                                mapping, 1),
                     TRITONSERVER_ERROR_INVALID_ARG,
                     "Mapped model name must be a string, found another type for lamp");
        mapping[0] = NULL;
        assert_error(TRITONSERVER_ServerRegisterModelRepository(p.server, path_of(&p, "one"),
                                                                mapping, 1),
                     TRITONSERVER_ERROR_INVALID_ARG, "a name mapping is NULL");
        TRITONSERVER_ParameterDelete(odd);
        end(&p);
}

static void test_other_modes(void **state) {
        static const TRITONSERVER_ModelControlMode modes[] = { TRITONSERVER_MODEL_CONTROL_NONE,
                                                               TRITONSERVER_MODEL_CONTROL_POLL };
        struct place                               p;

        (void)state;
        for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
                begin(&p, modes[i]);
                assert_error(add(&p, "one", ""), TRITONSERVER_ERROR_UNSUPPORTED,
                             "repository registration is not allowed if model control mode is not "
                             "EXPLICIT");
                assert_error(take_away(&p, "empty"), TRITONSERVER_ERROR_UNSUPPORTED,
                             "repository unregistration is not allowed if model control mode is "
                             "not EXPLICIT");
                end(&p);
        }
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_repository_comes),
                cmocka_unit_test(test_a_repository_goes),
                cmocka_unit_test(test_what_is_over_is_forgotten),
                cmocka_unit_test(test_a_directory_gets_a_name),
                cmocka_unit_test(test_a_repository_is_one_model),
                cmocka_unit_test(test_a_remote_repository_is_not_one_model),
                cmocka_unit_test(test_a_directory_gets_its_configured_name),
                cmocka_unit_test(test_a_directory_gets_two_names),
                cmocka_unit_test(test_a_name_that_a_directory_has),
                cmocka_unit_test(test_names_that_conflict),
                cmocka_unit_test(test_a_name_in_two_repositories),
                cmocka_unit_test(test_a_directory_keeps_its_name),
                cmocka_unit_test(test_other_names_later),
                cmocka_unit_test(test_a_name_for_nothing),
                cmocka_unit_test(test_what_is_no_name),
                cmocka_unit_test(test_other_modes),
        };

        if (argc != 2) {
                fprintf(stderr, "usage: %s <directory of backends>\n", argv[0]);
                return 2;
        }
        backend_directory = argv[1];
        return cmocka_run_group_tests(tests, NULL, NULL);
}
