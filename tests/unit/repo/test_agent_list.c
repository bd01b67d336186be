/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "backend/log_lines.h"
#include "base/clock.h"
#include "base/mem.h"
#include "infer/fake_model.h"
#include "infer/model.h"
#include "repo/agent.h"
#include "repo/agent_host.h"
#include "repo/agent_list.h"
#include "repo/reaper.h"
#include "repo/repo_place.h"

#include <stdio.h>
#include <string.h>

/* Two agents; what is told of them is told of both. */
#define AGENTS "model_repository_agents { agents [{ name: 'a' }, { name: 'b' }] } "

#define OPENED                                                                                     \
        "a Initialize, a#1 ModelInitialize, a#1 LOAD, b Initialize, b#1 ModelInitialize, b#1 LOAD"
#define OPENED_AGAIN(n)                                                                            \
        "a#" n " ModelInitialize, a#" n " LOAD, b#" n " ModelInitialize, b#" n " LOAD"
#define BOTH(n, call) "b#" n " " call ", a#" n " " call
#define LOADED(n) BOTH(n, "LOAD_COMPLETE")
#define FAILED(n) BOTH(n, "LOAD_FAIL") ", " BOTH(n, "ModelFinalize")
#define UNLOADED(n) BOTH(n, "UNLOAD") ", " BOTH(n, "UNLOAD_COMPLETE") ", " BOTH(n, "ModelFinalize")

static const char *const one_folder[] = { "models" };

struct scene {
        struct repo_place   place;
        struct fake_library a, b;
        struct model       *held; /* ref; NULL: none */
        unsigned            n_writes;
};

static void write_config(struct scene *s, const char *more) {
        /* A comment of another length: the file has changed even within one tick of its clock. */
        AUTO_CHARS text = mem_printf("%s%s%s # %0*d\n", REPO_PLACE_CONFIG, AGENTS, more,
                                     (int)++s->n_writes, 0);

        temp_tree_write(&s->place.tree, "models/m/config.pbtxt", text);
}

static void scene_begin(struct scene *s) {
        *s = (struct scene){ 0 };
        agent_host_begin();
        repo_place_begin(&s->place);
        s->a = agent_host_add(&s->place.tree, "fake_agent", "a");
        s->b = agent_host_add(&s->place.tree, "fake_agent", "b");
        temp_tree_folder(&s->place.tree, "models/m/1");
        temp_tree_folder(&s->place.tree, "models/m/2");
        write_config(s, "");
        repo_place_open(&s->place, one_folder, 1);
}

static void scene_end(struct scene *s) {
        fake_library_close(&s->a);
        fake_library_close(&s->b);
        repo_place_end(&s->place);
        agent_host_end();
}

static TRITONSERVER_Error *refuse(TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model) {
        (void)agent;
        (void)model;
        return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "not today");
}

/* ---- steps of a scenario --------------------------------------------------------------------- */

static void load(struct scene *s) {
        assert_ok(repo_load(s->place.repo, "m", NULL), "load");
}

/* As it fails when nothing was tried; the log says why. */
static void load_not_polled(struct scene *s) {
        assert_error(repo_load(s->place.repo, "m", NULL), ERR_INTERNAL,
                     "failed to load 'm', failed to poll from model repository");
}

static void load_version_fails(struct scene *s) {
        struct error *err = repo_load(s->place.repo, "m", NULL);

        assert_non_null(err);
        assert_string_equal(err->message, "load failed for model 'm': version 2 is at UNAVAILABLE "
                                          "state: Invalid argument: boom;\n");
        error_free(err);
}

static void load_with_config(struct scene *s) {
        struct repo_override o = {
                .config_json = "{\"backend\":\"fake\",\"max_batch_size\":4,"
                               "\"input\":[{\"name\":\"IN\",\"data_type\":\"TYPE_INT32\","
                               "\"dims\":[\"2\"]}],"
                               "\"output\":[{\"name\":\"OUT\",\"data_type\":\"TYPE_INT32\","
                               "\"dims\":[\"2\"]}],"
                               "\"model_repository_agents\":{\"agents\":[{\"name\":\"b\"}]}}",
        };

        assert_ok(repo_load(s->place.repo, "m", &o), "load");
}

static void touch(struct scene *s) {
        write_config(s, "");
}

static void regroup(struct scene *s) {
        write_config(s, "instance_group [{ count: 2 kind: KIND_CPU }]");
}

static void all_versions(struct scene *s) {
        write_config(s, "version_policy { all { } }");
}

static void spoil(struct scene *s) {
        write_config(s, "name: 'other'");
}

static void no_agents(struct scene *s) {
        temp_tree_write(&s->place.tree, "models/m/config.pbtxt", REPO_PLACE_CONFIG);
}

static void unload(struct scene *s) {
        assert_ok(repo_unload(s->place.repo, "m"), "unload");
}

static void await_end(struct scene *s) {
        assert_int_equal(reaper_wait(s->place.env.reaper, CLOCK_NEVER), 0);
}

static void await_first(struct scene *s) {
        (void)s;
        agent_host_await("a#1 ModelFinalize");
}

static void hold(struct scene *s) {
        assert_ok(repo_get(s->place.repo, "m", -1, &s->held), "get");
}

static void let_go(struct scene *s) {
        model_unref(s->held);
}

static void break_version(struct scene *s) {
        (void)s;
        fake_host_fail(FAKE_INSTANCE_INITIALIZE, "m/2", TRITONSERVER_ERROR_INVALID_ARG, "boom");
}

static void b_refuses(struct scene *s) {
        (void)s;
        agent_host_react("b", "LOAD", refuse);
}

static void b_has_no_model(struct scene *s) {
        (void)s;
        agent_host_react("b", "ModelInitialize", refuse);
}

static void b_grumbles(struct scene *s) {
        (void)s;
        agent_host_react("b", "LOAD_COMPLETE", refuse);
        agent_host_react("b", "LOAD_FAIL", refuse);
        agent_host_react("b", "UNLOAD", refuse);
        agent_host_react("b", "UNLOAD_COMPLETE", refuse);
        agent_host_react("b", "ModelFinalize", refuse);
}

static void stop(struct scene *s) {
        repo_place_close(&s->place);
}

typedef void (*step_fn)(struct scene *s);

struct step {
        step_fn     act;
        const char *reported; /* what the agents were told by it; NULL: not looked at yet */
};

#define MAX_STEPS 10

static const struct {
        const char *what;
        struct step steps[MAX_STEPS];
} scenes[] = {
        { "a load, an unload",
          { { load, OPENED ", " LOADED("1") },
            { unload, NULL },
            { await_end, UNLOADED("1") },
            { unload, "" },
            { load, OPENED_AGAIN("2") ", " LOADED("2") } } },
        { "nothing has changed", { { load, OPENED ", " LOADED("1") }, { load, "" } } },
        { "an agent refuses",
          { { b_refuses, "" },
            { load_not_polled, OPENED ", " FAILED("1") },
            { load_not_polled, OPENED_AGAIN("2") ", " FAILED("2") } } },
        { "an agent has no room for a model: it has none that could be told of",
          { { b_has_no_model, "" },
            { load_not_polled, "a Initialize, a#1 ModelInitialize, a#1 LOAD, b Initialize, "
                               "b#1 ModelInitialize, b#1 ModelFinalize, a#1 LOAD_FAIL, "
                               "a#1 ModelFinalize" } } },
        { "the configuration is wrong",
          { { spoil, "" }, { load_not_polled, OPENED ", " FAILED("1") } } },
        { "several versions are one load",
          { { all_versions, "" },
            { load, OPENED ", " LOADED("1") },
            { unload, NULL },
            { await_end, UNLOADED("1") } } },
        { "one of several versions fails",
          { { all_versions, "" },
            { break_version, "" },
            { load_version_fails, NULL },
            { await_end, OPENED ", " FAILED("1") } } },
        { "a reload",
          { { load, OPENED ", " LOADED("1") },
            { touch, "" },
            { load, NULL },
            { await_first, OPENED_AGAIN("2") ", " LOADED("2") ", " UNLOADED("1") } } },
        { "a reload that could have kept the versions",
          { { load, OPENED ", " LOADED("1") },
            { regroup, "" },
            { load, NULL },
            { await_first, OPENED_AGAIN("2") ", " LOADED("2") ", " UNLOADED("1") } } },
        { "a reload that an agent refuses",
          { { load, OPENED ", " LOADED("1") },
            { b_refuses, "" },
            { touch, "" },
            { load_not_polled, OPENED_AGAIN("2") ", " FAILED("2") },
            { unload, NULL },
            { await_end, UNLOADED("1") } } },
        { "a reload without agents",
          { { load, OPENED ", " LOADED("1") },
            { no_agents, "" },
            { load, NULL },
            { await_first, UNLOADED("1") },
            { unload, "" } } },
        { "agents come with a reload",
          { { no_agents, "" }, { load, "" }, { touch, "" }, { load, OPENED ", " LOADED("1") } } },
        { "a configuration that comes with the request has agents of its own",
          { { load, OPENED ", " LOADED("1") },
            { load_with_config, NULL },
            { await_first, "b#2 ModelInitialize, b#2 LOAD, b#2 LOAD_COMPLETE, " UNLOADED("1") } } },
        { "a request is at work while the model is unloaded",
          { { load, OPENED ", " LOADED("1") },
            { hold, "" },
            { unload, BOTH("1", "UNLOAD") },
            { let_go, NULL },
            { await_end, BOTH("1", "UNLOAD_COMPLETE") ", " BOTH("1", "ModelFinalize") } } },
        { "a request is at work while the model is replaced",
          { { load, OPENED ", " LOADED("1") },
            { hold, "" },
            { touch, "" },
            { load, OPENED_AGAIN("2") ", " LOADED("2") ", " BOTH("1", "UNLOAD") },
            { let_go, NULL },
            { await_first, BOTH("1", "UNLOAD_COMPLETE") ", " BOTH("1", "ModelFinalize") } } },
        { "errors of the later actions change nothing",
          { { b_grumbles, "" },
            { load, OPENED ", " LOADED("1") },
            { unload, NULL },
            { await_end, UNLOADED("1") },
            { b_refuses, "" },
            { load_not_polled, OPENED_AGAIN("2") ", " FAILED("2") } } },
        { "the server stops", { { load, OPENED ", " LOADED("1") }, { stop, UNLOADED("1") } } },
};

static void test_order_of_actions(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(scenes); i++) {
                struct scene s;

                scene_begin(&s);
                for (size_t k = 0; k < MAX_STEPS && scenes[i].steps[k].act != NULL; k++) {
                        const struct step *step = &scenes[i].steps[k];

                        step->act(&s);
                        if (step->reported == NULL)
                                continue;

                        AUTO_CHARS reported = agent_host_take();

                        if (strcmp(reported, step->reported) != 0)
                                fail_msg("%s, step %zu:\n  told     %s\n  expected %s",
                                         scenes[i].what, k, reported, step->reported);
                }
                scene_end(&s);
        }
}

/* Each agent's library ends last, after all models. */
static void test_libraries_end_last(void **state) {
        struct repo_place   p;
        struct fake_library a;
        AUTO_CHARS          reported = NULL;

        (void)state;
        agent_host_begin();
        repo_place_begin(&p);
        a = agent_host_add(&p.tree, "fake_agent", "a");
        repo_place_add(&p, "m", "model_repository_agents { agents [{ name: 'a' }] }");
        repo_place_add(&p, "n", "model_repository_agents { agents [{ name: 'a' }] }");
        repo_place_open(&p, one_folder, 1);
        assert_ok(repo_load_all(p.repo), "load");
        free(agent_host_take());
        repo_place_close(&p);
        agent_registry_free(p.env.agents);
        p.env.agents = NULL;
        reported = agent_host_take();
        assert_non_null(strstr(reported, "ModelFinalize, a Finalize"));
        assert_string_equal(strstr(reported, "a Finalize"), "a Finalize");
        fake_library_close(&a);
        repo_place_end(&p);
        agent_host_end();
}

static void test_what_the_log_says(void **state) {
        struct scene s;

        (void)state;
        scene_begin(&s);
        log_lines_begin();
        b_refuses(&s);
        load_not_polled(&s);
        assert_int_equal(log_lines_count("E Poll failed for model directory 'm': repository agent "
                                         "'b' does not let model 'm' be loaded: not today"),
                         1);
        b_has_no_model(&s);
        load_not_polled(&s);
        assert_int_equal(log_lines_count("E Poll failed for model directory 'm': repository agent "
                                         "'b' failed to initialize model 'm': not today"),
                         1);
        assert_int_equal(log_lines_count_prefix("E "), 2);
        agent_host_react("b", "LOAD", NULL);
        agent_host_react("b", "ModelInitialize", NULL);
        b_grumbles(&s);
        load(&s);
        assert_int_equal(log_lines_count("E repository agent 'b', action LOAD_COMPLETE of model "
                                         "'m': not today"),
                         1);
        unload(&s);
        await_end(&s);
        assert_int_equal(log_lines_count("E repository agent 'b', action UNLOAD of model 'm': not "
                                         "today"),
                         1);
        assert_int_equal(log_lines_count("E repository agent 'b', action UNLOAD_COMPLETE of model "
                                         "'m': not today"),
                         1);
        assert_int_equal(log_lines_count("E repository agent 'b' failed to finalize model 'm': not "
                                         "today"),
                         1);
        assert_int_equal(log_lines_count_prefix("E "), 6);
        log_lines_end();
        scene_end(&s);
}

SUITE(agent_list) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_order_of_actions),
                cmocka_unit_test(test_libraries_end_last),
                cmocka_unit_test(test_what_the_log_says),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
