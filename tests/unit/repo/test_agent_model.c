/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "infer/fake_model.h"
#include "infer/model.h"
#include "repo/agent_host.h"
#include "repo/agent_model.h"
#include "repo/loaded_model.h"
#include "repo/reaper.h"
#include "repo/repo_place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCAL TRITONREPOAGENT_ARTIFACT_FILESYSTEM

static const char *const one_folder[] = { "models" };

static struct repo_place   place;
static struct fake_library a, b;
static char               *tmpdir;   /* owned; NULL: none */
static char               *acquired; /* owned; by the agent of the test */

static void begin(const char *agents) {
        AUTO_CHARS config = mem_printf("model_repository_agents { agents [ %s ] }", agents);

        agent_host_begin();
        repo_place_begin(&place);
        tmpdir = mem_strdup(getenv("TMPDIR"));
        setenv("TMPDIR", place.tree.path, 1); /* where agents' directories are */
        a = agent_host_add(&place.tree, "fake_agent", "a");
        b = agent_host_add(&place.tree, "fake_agent", "b");
        repo_place_add(&place, "m", config);
        repo_place_open(&place, one_folder, 1);
        acquired = NULL;
}

static void end(void) {
        AUTO_CHARS root = mem_printf("%s/neso-%u", place.tree.path, (unsigned)geteuid());

        fake_library_close(&a);
        fake_library_close(&b);
        repo_place_close(&place);
        assert_false(file_exists(root)); /* nothing is left behind */
        if (tmpdir != NULL)
                setenv("TMPDIR", tmpdir, 1);
        else
                unsetenv("TMPDIR");
        free(tmpdir);
        repo_place_end(&place);
        agent_host_end();
        free(acquired);
}

static void load(void) {
        assert_ok(repo_load(place.repo, "m", NULL), "load");
}

static void unload(void) {
        assert_ok(repo_unload(place.repo, "m"), "unload");
        assert_int_equal(reaper_wait(place.env.reaper, CLOCK_NEVER), 0);
}

static void assert_refused(TRITONSERVER_Error *err, enum error_code code, const char *text) {
        assert_error((struct error *)err, code, text);
}

/* ---- what an agent can ask ------------------------------------------------------------------- */

static TRITONSERVER_Error *ask_all(TRITONREPOAGENT_Agent      *agent,
                                   TRITONREPOAGENT_AgentModel *model) {
        AUTO_CHARS                   expected = temp_tree_path(&place.tree, "models/m");
        TRITONREPOAGENT_ArtifactType type = TRITONREPOAGENT_ARTIFACT_REMOTE_FILESYSTEM;
        TRITONSERVER_Message        *message;
        const char                  *text, *value;
        size_t                       n_bytes;
        uint32_t                     n;

        assert_null(TRITONREPOAGENT_ModelRepositoryLocation(agent, model, &type, &text));
        assert_int_equal(type, LOCAL);
        assert_string_equal(text, expected);
        assert_null(TRITONREPOAGENT_ModelParameterCount(agent, model, &n));
        assert_int_equal(n, 2);
        assert_null(TRITONREPOAGENT_ModelParameter(agent, model, 0, &text, &value));
        assert_string_equal(text, "z");
        assert_string_equal(value, "first");
        assert_null(TRITONREPOAGENT_ModelParameter(agent, model, 1, &text, &value));
        assert_string_equal(text, "k");
        assert_string_equal(value, "");
        assert_refused(TRITONREPOAGENT_ModelParameter(agent, model, 2, &text, &value),
                       ERR_INVALID_ARG,
                       "parameter 2 is out of range: the agent has 2 for this model");
        assert_refused(TRITONREPOAGENT_ModelConfig(agent, model, 2, &message), ERR_INVALID_ARG,
                       "model configuration version 2 not supported, supported versions are: 1");
        assert_null(TRITONREPOAGENT_ModelConfig(agent, model, 1, &message));
        assert_null(TRITONSERVER_MessageSerializeToJson(message, &text, &n_bytes));
        /* The file does not say its name; there is nothing yet that a load would fill in. */
        assert_non_null(strstr(text, "\"name\":\"m\""));
        assert_non_null(strstr(text, "\"instance_group\":[]"));
        TRITONSERVER_MessageDelete(message);
        return NULL;
}

static void test_questions(void **state) {
        (void)state;
        begin("{ name: 'a' parameters [{ key: 'z' value: 'first' }, { key: 'k' }] }");
        agent_host_react("a", "LOAD", ask_all);
        agent_host_react("a", "LOAD_COMPLETE", ask_all);
        agent_host_react("a", "UNLOAD_COMPLETE", ask_all);
        load();
        unload();
        end();
}

/* ---- directories of an agent ------------------------------------------------------------------ */

static TRITONSERVER_Error *acquire(TRITONREPOAGENT_Agent      *agent,
                                   TRITONREPOAGENT_AgentModel *model) {
        const char      *directory, *again;
        struct file_stat stat;
        struct dir_list  list;

        assert_refused(TRITONREPOAGENT_ModelRepositoryLocationAcquire(
                               agent, model, TRITONREPOAGENT_ARTIFACT_REMOTE_FILESYSTEM, &again),
                       ERR_UNSUPPORTED,
                       "TRITONREPOAGENT_ARTIFACT_REMOTE_FILESYSTEM is not supported: models are "
                       "loaded from local directories");
        assert_refused(TRITONREPOAGENT_ModelRepositoryLocationAcquire(
                               agent, model, (TRITONREPOAGENT_ArtifactType)7, &again),
                       ERR_INVALID_ARG, "7 is no valid artifact type");
        assert_null(
                TRITONREPOAGENT_ModelRepositoryLocationAcquire(agent, model, LOCAL, &directory));
        assert_null(TRITONREPOAGENT_ModelRepositoryLocationAcquire(agent, model, LOCAL, &again));
        assert_string_equal(again, directory);
        assert_ok(file_stat(directory, &stat), "stat");
        assert_true(stat.is_directory);
        assert_ok(dir_list_read(directory, &list), "list");
        assert_int_equal(list.n_names, 0);
        dir_list_done(&list);
        free(acquired);
        acquired = mem_strdup(directory);
        return NULL;
}

static void write_text(const char *directory, const char *name, const char *text) {
        AUTO_CHARS path = path_join(directory, name);
        FILE      *file = fopen(path, "w");

        assert_non_null(file);
        assert_true(fputs(text, file) >= 0);
        assert_int_equal(fclose(file), 0);
}

/* Another model in the acquired directory: it has version 7 alone. */
static TRITONSERVER_Error *move(TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model) {
        AUTO_CHARS                   version = NULL;
        TRITONREPOAGENT_ArtifactType type;
        const char                  *location;

        acquire(agent, model);
        version = path_join(acquired, "7");
        assert_int_equal(mkdir(version, 0700), 0);
        /* Agents that it names have no turn. */
        write_text(acquired, "config.pbtxt",
                   REPO_PLACE_CONFIG "default_model_filename: 'moved' "
                                     "model_repository_agents { agents [{ name: 'none' }] }");
        assert_null(TRITONREPOAGENT_ModelRepositoryUpdate(agent, model, LOCAL, acquired));
        assert_null(TRITONREPOAGENT_ModelRepositoryLocation(agent, model, &type, &location));
        assert_string_equal(location, acquired);
        assert_refused(TRITONREPOAGENT_ModelRepositoryLocationRelease(agent, model, "/"),
                       ERR_INVALID_ARG, "'/' is no location that was acquired for this model");
        return NULL;
}

/* What the next agent is given. */
static TRITONSERVER_Error *find_moved(TRITONREPOAGENT_Agent      *agent,
                                      TRITONREPOAGENT_AgentModel *model) {
        AUTO_CHARS                   refusal = NULL;
        TRITONREPOAGENT_ArtifactType type;
        TRITONSERVER_Message        *message;
        const char                  *text;
        size_t                       n_bytes;

        assert_null(TRITONREPOAGENT_ModelRepositoryLocation(agent, model, &type, &text));
        assert_string_equal(text, acquired);
        refusal = mem_printf("'%s' is no location that was acquired for this model", acquired);
        assert_refused(TRITONREPOAGENT_ModelRepositoryLocationRelease(agent, model, acquired),
                       ERR_INVALID_ARG, refusal); /* another agent's */
        assert_null(TRITONREPOAGENT_ModelConfig(agent, model, 1, &message));
        assert_null(TRITONSERVER_MessageSerializeToJson(message, &text, &n_bytes));
        assert_non_null(strstr(text, "\"default_model_filename\":\"moved\""));
        TRITONSERVER_MessageDelete(message);
        return NULL;
}

static TRITONSERVER_Error *release_too_early(TRITONREPOAGENT_Agent      *agent,
                                             TRITONREPOAGENT_AgentModel *model) {
        AUTO_CHARS text =
                mem_printf("'%s' cannot be released while it is the model's location", acquired);

        assert_refused(TRITONREPOAGENT_ModelRepositoryLocationRelease(agent, model, acquired),
                       ERR_INVALID_ARG, text);
        assert_refused(TRITONREPOAGENT_ModelRepositoryUpdate(agent, model, LOCAL, "/"),
                       ERR_INVALID_ARG,
                       "the location of a model can be changed in the action LOAD only");
        return NULL;
}

static TRITONSERVER_Error *release(TRITONREPOAGENT_Agent      *agent,
                                   TRITONREPOAGENT_AgentModel *model) {
        assert_true(file_exists(acquired));
        assert_null(TRITONREPOAGENT_ModelRepositoryLocationRelease(agent, model, acquired));
        assert_false(file_exists(acquired));
        assert_non_null(strstr(acquired, "neso-"));
        return NULL;
}

static TRITONSERVER_Error *refuse(TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model) {
        (void)agent;
        (void)model;
        return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, "no");
}

static void test_moves_a_model(void **state) {
        struct model *model;

        (void)state;
        begin("{ name: 'a' }, { name: 'b' }");
        agent_host_react("a", "LOAD", move);
        agent_host_react("a", "LOAD_COMPLETE", release_too_early);
        agent_host_react("a", "UNLOAD", release_too_early);
        agent_host_react("b", "LOAD", find_moved);
        load();
        assert_ok(repo_get(place.repo, "m", -1, &model), "get");
        assert_int_equal(model->version, 7);
        assert_string_equal(loaded_model_of(model)->directory, acquired);
        assert_string_equal(model->config->pb->default_model_filename, "moved");
        model_unref(model);
        /* What is watched is the repository, where nothing has changed. */
        free(agent_host_take());
        load();
        agent_host_assert("");
        unload();
        assert_false(file_exists(acquired));
        end();
}

static void test_directory_lasts_as_long_as_the_model(void **state) {
        struct model *model;

        (void)state;
        begin("{ name: 'a' }");
        agent_host_react("a", "LOAD", move);
        load();
        assert_ok(repo_get(place.repo, "m", 7, &model), "get");
        assert_ok(repo_unload(place.repo, "m"), "unload");
        assert_true(file_exists(acquired));
        model_unref(model);
        assert_int_equal(reaper_wait(place.env.reaper, CLOCK_NEVER), 0);
        assert_false(file_exists(acquired));
        end();
}

static void test_releases_by_itself(void **state) {
        (void)state;
        begin("{ name: 'a' }");
        agent_host_react("a", "LOAD", move);
        agent_host_react("a", "UNLOAD_COMPLETE", release);
        load();
        unload();
        assert_false(file_exists(acquired));
        end();
}

static TRITONSERVER_Error *acquire_and_release(TRITONREPOAGENT_Agent      *agent,
                                               TRITONREPOAGENT_AgentModel *model) {
        acquire(agent, model);
        release(agent, model);
        acquire(agent, model); /* a new one */
        return NULL;
}

static void test_directory_that_is_not_used(void **state) {
        struct model *model;

        (void)state;
        begin("{ name: 'a' }");
        agent_host_react("a", "LOAD", acquire_and_release);
        load();
        assert_ok(repo_get(place.repo, "m", -1, &model), "get");
        assert_int_equal(model->version, 1);
        model_unref(model);
        assert_true(file_exists(acquired));
        unload();
        assert_false(file_exists(acquired));
        end();
}

static void test_directory_goes_with_a_failure(void **state) {
        (void)state;
        begin("{ name: 'a' }, { name: 'b' }");
        agent_host_react("a", "LOAD", move);
        agent_host_react("b", "LOAD", refuse);
        for (int releases = 0; releases < 2; releases++) {
                agent_host_react("a", "LOAD_FAIL", releases ? release : NULL);
                assert_error(repo_load(place.repo, "m", NULL), ERR_INTERNAL,
                             "failed to load 'm', failed to poll from model repository");
                assert_non_null(acquired);
                assert_false(file_exists(acquired));
        }
        end();
}

static TRITONSERVER_Error *move_to_bad_places(TRITONREPOAGENT_Agent      *agent,
                                              TRITONREPOAGENT_AgentModel *model) {
        AUTO_CHARS          file = temp_tree_path(&place.tree, "models/m/config.pbtxt");
        AUTO_CHARS          text = mem_printf("'%s' is no directory, so it cannot be the location "
                                                       "of a model",
                                              file);
        TRITONSERVER_Error *err;

        assert_refused(TRITONREPOAGENT_ModelRepositoryUpdate(agent, model, LOCAL, file),
                       ERR_INVALID_ARG, text);
        assert_refused(TRITONREPOAGENT_ModelRepositoryUpdate(
                               agent, model, TRITONREPOAGENT_ARTIFACT_REMOTE_FILESYSTEM, "s3://x"),
                       ERR_UNSUPPORTED,
                       "TRITONREPOAGENT_ARTIFACT_REMOTE_FILESYSTEM is not supported: models are "
                       "loaded from local directories");
        err = TRITONREPOAGENT_ModelRepositoryUpdate(agent, model, LOCAL, "/nowhere/at/all");
        assert_int_equal(TRITONSERVER_ErrorCode(err), TRITONSERVER_ERROR_NOT_FOUND);
        return err;
}

static void test_bad_places(void **state) {
        (void)state;
        begin("{ name: 'a' }");
        agent_host_react("a", "LOAD", move_to_bad_places);
        assert_error(repo_load(place.repo, "m", NULL), ERR_INTERNAL,
                     "failed to load 'm', failed to poll from model repository");
        end();
}

static TRITONSERVER_Error *move_outside_of_load(TRITONREPOAGENT_Agent      *agent,
                                                TRITONREPOAGENT_AgentModel *model) {
        return TRITONREPOAGENT_ModelRepositoryUpdate(agent, model, LOCAL, "/");
}

static void test_agent_without_entry_points(void **state) {
        struct fake_library bare;

        (void)state;
        begin("{ name: 'bare' }");
        bare = agent_host_add(&place.tree, "fake_agent_bare", "bare");
        load();
        unload();
        agent_host_assert("bare#0 LOAD, bare#0 LOAD_COMPLETE, bare#0 UNLOAD, "
                          "bare#0 UNLOAD_COMPLETE");
        fake_library_close(&bare);
        end();
}

static void test_moves_in_load_only(void **state) {
        (void)state;
        begin("{ name: 'a' }");
        agent_host_react("a", "ModelInitialize", move_outside_of_load);
        assert_error(repo_load(place.repo, "m", NULL), ERR_INTERNAL,
                     "failed to load 'm', failed to poll from model repository");
        agent_host_assert("a Initialize, a#1 ModelInitialize, a#1 ModelFinalize");
        end();
}

SUITE(agent_model) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_questions),
                cmocka_unit_test(test_moves_a_model),
                cmocka_unit_test(test_directory_lasts_as_long_as_the_model),
                cmocka_unit_test(test_releases_by_itself),
                cmocka_unit_test(test_directory_that_is_not_used),
                cmocka_unit_test(test_directory_goes_with_a_failure),
                cmocka_unit_test(test_bad_places),
                cmocka_unit_test(test_agent_without_entry_points),
                cmocka_unit_test(test_moves_in_load_only),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
