/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/agent_host.h"

#include "base/mem.h"
#include "base/strbuf.h"
#include "repo/agent.h"
#include "repo/fake_agent.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX_REACTIONS 8

struct reaction {
        const char       *agent;
        const char       *call;
        agent_reaction_fn react;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t  changed = PTHREAD_COND_INITIALIZER;

/* Under the lock. */
static struct strbuf   lines;
static char           *last; /* owned */
static struct reaction reactions[MAX_REACTIONS];
static size_t          n_reactions;

void agent_host_begin(void) {
        strbuf_init(&lines, 0);
        last = NULL;
        n_reactions = 0;
}

void agent_host_end(void) {
        strbuf_done(&lines);
        free(last);
}

void agent_host_react(const char *agent, const char *call, agent_reaction_fn react) {
        size_t i = 0;

        pthread_mutex_lock(&lock);
        while (i < n_reactions &&
               (strcmp(reactions[i].agent, agent) != 0 || strcmp(reactions[i].call, call) != 0))
                i++;
        assert_true(i < MAX_REACTIONS);
        n_reactions += i == n_reactions;
        reactions[i] = (struct reaction){ agent, call, react };
        pthread_mutex_unlock(&lock);
}

char *agent_host_take(void) {
        char *text;

        pthread_mutex_lock(&lock);
        text = mem_strdup(strbuf_cstr(&lines));
        strbuf_clear(&lines);
        pthread_mutex_unlock(&lock);
        return text;
}

void agent_host_assert(const char *expected) {
        AUTO_CHARS text = agent_host_take();

        assert_string_equal(text, expected);
}

void agent_host_await(const char *line) {
        pthread_mutex_lock(&lock);
        while (last == NULL || strcmp(last, line) != 0)
                pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static agent_reaction_fn find_locked(const char *agent, const char *call) {
        for (size_t i = 0; i < n_reactions; i++)
                if (strcmp(reactions[i].agent, agent) == 0 && strcmp(reactions[i].call, call) == 0)
                        return reactions[i].react;
        return NULL;
}

static TRITONSERVER_Error *enter(TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model,
                                 const char *call) {
        const char       *name = ((struct agent *)agent)->name;
        void             *number = NULL;
        agent_reaction_fn react;

        if (model != NULL)
                assert_null(TRITONREPOAGENT_ModelState(model, &number));
        pthread_mutex_lock(&lock);
        free(last);
        last = model == NULL ? mem_printf("%s %s", name, call)
                             : mem_printf("%s#%u %s", name, (unsigned)(uintptr_t)number, call);
        strbuf_printf(&lines, "%s%s", lines.len > 0 ? ", " : "", last);
        react = find_locked(name, call);
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
        return react != NULL ? react(agent, model) : NULL;
}

static TRITONSERVER_Error *initialize(TRITONREPOAGENT_Agent *agent) {
        return enter(agent, NULL, "Initialize");
}

static TRITONSERVER_Error *finalize(TRITONREPOAGENT_Agent *agent) {
        return enter(agent, NULL, "Finalize");
}

/* Counts agent models in the agent's state, which loads of several models share: as in a real
 * agent, its own lock orders them. */
static TRITONSERVER_Error *model_initialize(TRITONREPOAGENT_Agent      *agent,
                                            TRITONREPOAGENT_AgentModel *model) {
        void *n;

        pthread_mutex_lock(&lock);
        assert_null(TRITONREPOAGENT_State(agent, &n));
        n = (void *)((uintptr_t)n + 1);
        assert_null(TRITONREPOAGENT_SetState(agent, n));
        pthread_mutex_unlock(&lock);
        assert_null(TRITONREPOAGENT_ModelSetState(model, n));
        return enter(agent, model, "ModelInitialize");
}

static TRITONSERVER_Error *model_finalize(TRITONREPOAGENT_Agent      *agent,
                                          TRITONREPOAGENT_AgentModel *model) {
        return enter(agent, model, "ModelFinalize");
}

static TRITONSERVER_Error *model_action(TRITONREPOAGENT_Agent      *agent,
                                        TRITONREPOAGENT_AgentModel *model,
                                        TRITONREPOAGENT_ActionType  action) {
        static const char *const names[] = { "LOAD", "LOAD_COMPLETE", "LOAD_FAIL", "UNLOAD",
                                             "UNLOAD_COMPLETE" };

        return enter(agent, model, names[action]);
}

/* ---- libraries ------------------------------------------------------------------------------- */

static const struct fake_agent_hooks hooks = {
        .initialize = initialize,
        .finalize = finalize,
        .model_initialize = model_initialize,
        .model_finalize = model_finalize,
        .model_action = model_action,
};

struct fake_library agent_host_add(const struct temp_tree *tree, const char *kind,
                                   const char *name) {
        AUTO_CHARS          to = mem_printf("agents/%s/libtritonrepoagent_%s.so", name, name);
        AUTO_CHARS          from = mem_printf("%s/lib%s.so", FAKE_AGENT_DIR, kind);
        struct fake_library library = { .path = temp_tree_path(tree, to) };
        const struct fake_agent_hooks **variable;

        temp_tree_copy(tree, from, to);
        library.native = dlopen(library.path, RTLD_NOW | RTLD_LOCAL);
        if (library.native == NULL)
                fail_msg("%s", dlerror());
        variable = dlsym(library.native, "fake_agent_hooks");
        assert_non_null(variable);
        *variable = &hooks;
        return library;
}
