/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "backend/log_lines.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "infer/fake_model.h"
#include "repo/agent.h"
#include "repo/agent_host.h"

#include <string.h>

struct place {
        struct temp_tree       tree;
        char                  *directory; /* owned */
        struct agent_registry *registry;
};

static struct place place_begin(void) {
        struct place p = { .tree = temp_tree_make() };

        agent_host_begin();
        temp_tree_folder(&p.tree, "agents");
        p.directory = temp_tree_path(&p.tree, "agents");
        p.registry = agent_registry_new(p.directory);
        return p;
}

static void place_end(struct place *p) {
        agent_registry_free(p->registry);
        agent_host_end();
        temp_tree_remove(&p->tree);
        free(p->directory);
}

/* "$" in the text is the directory of agents. */
static void assert_refused(struct place *p, const char *name, enum error_code code,
                           const char *text) {
        AUTO_STRBUF   full = { 0 };
        struct agent *a;

        strbuf_init(&full, 0);
        for (const char *at = text; *at != '\0'; at++)
                if (*at == '$')
                        strbuf_puts(&full, p->directory);
                else
                        strbuf_putc(&full, *at);
        assert_error(agent_registry_get(p->registry, name, "m", &a), code, strbuf_cstr(&full));
}

static void test_libraries_that_cannot_be_used(void **state) {
        static const struct {
                const char     *name;
                enum error_code code;
                const char     *text;
        } rows[] = {
                { "", ERR_INVALID_ARG, "model 'm' asks for a repository agent without a name" },
                { "..", ERR_INVALID_ARG,
                  "repository agent name '..' of model 'm' leads out of the repository agent "
                  "directory '$'" },
                { ".", ERR_INVALID_ARG,
                  "repository agent name '.' of model 'm' leads out of the repository agent "
                  "directory '$'" },
                { "a/../../b", ERR_INVALID_ARG,
                  "repository agent name 'a/../../b' of model 'm' leads out of the repository "
                  "agent directory '$'" },
                { "absent", ERR_INVALID_ARG,
                  "unable to find the library of repository agent 'absent' for model 'm', "
                  "searched: '$/absent/libtritonrepoagent_absent.so'" },
                { "actionless", ERR_NOT_FOUND,
                  "unable to open repository agent 'actionless' for model 'm': unable to find "
                  "symbol 'TRITONREPOAGENT_ModelAction' in shared library "
                  "'$/actionless/libtritonrepoagent_actionless.so'" },
        };
        struct place        p = place_begin();
        struct fake_library library = agent_host_add(&p.tree, "fake_agent_no_action", "actionless");

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                assert_refused(&p, rows[i].name, rows[i].code, rows[i].text);
        agent_host_assert(""); /* nothing in it was called */
        fake_library_close(&library);
        place_end(&p);
}

static void test_file_that_is_no_library(void **state) {
        struct place  p = place_begin();
        struct agent *a;
        struct error *err;
        AUTO_CHARS    start = mem_printf(
                   "unable to open repository agent 'text' for model 'm': unable to load shared "
                      "library '%s/text/libtritonrepoagent_text.so': ",
                   p.directory);

        (void)state;
        temp_tree_write(&p.tree, "agents/text/libtritonrepoagent_text.so", "no library");
        err = agent_registry_get(p.registry, "text", "m", &a);
        assert_non_null(err);
        assert_int_equal(err->code, ERR_INTERNAL);
        assert_memory_equal(err->message, start, strlen(start));
        error_free(err);
        place_end(&p);
}

static void put_agent(const struct agent *a, void *userp) {
        strbuf_printf(userp, "%s %s\n", a->name, a->path);
}

static void test_opens_each_once(void **state) {
        struct place        p = place_begin();
        struct fake_library full = agent_host_add(&p.tree, "fake_agent", "full");
        struct fake_library bare = agent_host_add(&p.tree, "fake_agent_bare", "bare");
        struct agent       *a, *again, *b;
        AUTO_STRBUF         text = { 0 };
        AUTO_CHARS          expected = mem_printf("full %s\nbare %s\n", full.path, bare.path);

        (void)state;
        strbuf_init(&text, 0);
        assert_ok(agent_registry_get(p.registry, "full", "m", &a), "full");
        assert_ok(agent_registry_get(p.registry, "bare", "m", &b), "bare");
        assert_ok(agent_registry_get(p.registry, "full", "n", &again), "full again");
        assert_ptr_equal(a, again);
        assert_null(b->entry.initialize);
        assert_null(b->entry.model_finalize);
        agent_host_assert("full Initialize");
        agent_registry_each(p.registry, put_agent, &text);
        assert_string_equal(strbuf_cstr(&text), expected);
        agent_registry_free(p.registry);
        agent_host_assert("full Finalize");
        assert_true(fake_library_is_loaded(full.path)); /* by the test alone */
        fake_library_close(&full);
        fake_library_close(&bare);
        p.registry = NULL;
        place_end(&p);
}

static TRITONSERVER_Error *refuse(TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model) {
        (void)agent;
        (void)model;
        return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "no keys");
}

static void test_failures_of_the_library(void **state) {
        struct place        p = place_begin();
        struct fake_library library = agent_host_add(&p.tree, "fake_agent", "keys");
        struct agent       *a;

        (void)state;
        agent_host_react("keys", "Initialize", refuse);
        agent_host_react("keys", "Finalize", refuse);
        assert_refused(&p, "keys", ERR_UNAVAILABLE,
                       "unable to open repository agent 'keys' for model 'm': failed to initialize "
                       "'$/keys/libtritonrepoagent_keys.so' (repository agent API 0.1): no keys");
        agent_host_assert("keys Initialize, keys Finalize"); /* it may have kept something */
        agent_host_react("keys", "Initialize", NULL);
        assert_ok(agent_registry_get(p.registry, "keys", "m", &a), "the next time");
        log_lines_begin();
        agent_registry_free(p.registry);
        assert_int_equal(log_lines_count("E repository agent 'keys' failed to finalize: no keys"),
                         1);
        log_lines_end();
        agent_host_assert("keys Initialize, keys Finalize");
        p.registry = NULL;
        fake_library_close(&library);
        place_end(&p);
}

SUITE(agent) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_libraries_that_cannot_be_used),
                cmocka_unit_test(test_file_that_is_no_library),
                cmocka_unit_test(test_opens_each_once),
                cmocka_unit_test(test_failures_of_the_library),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
