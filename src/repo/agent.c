/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/agent.h"

#include "base/dl.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"

#include <string.h>

struct agent_registry {
        char        *directory; /* owned */
        struct mutex lock;      /* rank LOCK_SERVER; guards the map */
        struct cond  changed;   /* a thread has opened an agent, or has failed to */
        struct map   by_name;   /* struct agent, owned; or `being_opened` */
};

/* Placeholder of an agent that a thread is opening. Only its address counts. */
static const struct agent being_opened;

/* ---- one library ----------------------------------------------------------------------------- */

#define FIND(a, member, symbol)                                                                    \
        (a)->entry.member = (__typeof__((a)->entry.member))dl_find((a)->library, symbol)

static struct error *find_entry_points(struct agent *a) {
        dl_symbol_fn action;

        /* First: a library without this symbol is no agent, and none of its functions may be
         * called. */
        TRY(dl_get(a->library, "TRITONREPOAGENT_ModelAction", &action));
        a->entry.model_action = (agent_action_fn)action;
        FIND(a, initialize, "TRITONREPOAGENT_Initialize");
        FIND(a, finalize, "TRITONREPOAGENT_Finalize");
        FIND(a, model_initialize, "TRITONREPOAGENT_ModelInitialize");
        FIND(a, model_finalize, "TRITONREPOAGENT_ModelFinalize");
        return NULL;
}

static struct error *call(struct agent *a, agent_life_fn function, const char *name) {
        PLUGIN_CALL(&a->place, name);

        return (struct error *)function((TRITONREPOAGENT_Agent *)a);
}

/* agent_close() calls TRITONREPOAGENT_Finalize after a failure too: the agent may hold what it
 * allocated before it failed. */
static struct error *start_agent(struct agent *a) {
        if (a->entry.initialize == NULL)
                return NULL;
        return error_wrap(call(a, a->entry.initialize, "TRITONREPOAGENT_Initialize"),
                          "failed to initialize '%s' (repository agent API %d.%d)", a->path,
                          TRITONREPOAGENT_API_VERSION_MAJOR, TRITONREPOAGENT_API_VERSION_MINOR);
}

static void agent_close(struct agent *a) {
        if (a->entry.finalize != NULL) {
                AUTO_ERROR err = call(a, a->entry.finalize, "TRITONREPOAGENT_Finalize");

                if (err != NULL)
                        log_error("repository agent '%s' failed to finalize: %s", a->name,
                                  err->message);
        }
        dl_close(a->library);
        free(a->path);
        free(a->name);
        free(a);
}

static struct error *agent_open(const char *name, const char *path, struct agent **ret) {
        struct agent *a = mem_zalloc(sizeof(*a));

        a->name = mem_strdup(name);
        a->path = mem_strdup(path);
        a->place = (struct plugin_place){ .library = a->path };
        TRY_OR(dl_open(path, &a->library), agent_close(a));
        TRY_OR(find_entry_points(a), agent_close(a));
        TRY_OR(start_agent(a), agent_close(a));
        *ret = a;
        return NULL;
}

/* ---- the registry ---------------------------------------------------------------------------- */

struct agent_registry *agent_registry_new(const char *directory) {
        struct agent_registry *r = mem_zalloc(sizeof(*r));

        r->directory = mem_strdup(directory);
        mutex_init(&r->lock, LOCK_SERVER);
        cond_init(&r->changed);
        map_init(&r->by_name);
        return r;
}

void agent_registry_free(struct agent_registry *r) {
        if (r == NULL)
                return;
        MAP_FOR_EACH(&r->by_name, e)
                agent_close(e->value);
        map_done(&r->by_name);
        cond_done(&r->changed);
        mutex_done(&r->lock);
        free(r->directory);
        free(r);
}

struct error *agent_registry_find(const struct agent_registry *r, const char *name,
                                  const char *model, char **ret_path) {
        AUTO_CHARS path = NULL;

        if (*name == '\0')
                return error_new(ERR_INVALID_ARG,
                                 "model '%s' asks for a repository agent without a name", model);
        if (strchr(name, '/') != NULL || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
                return error_new(ERR_INVALID_ARG,
                                 "repository agent name '%s' of model '%s' leads out of the "
                                 "repository agent directory '%s'",
                                 name, model, r->directory);
        path = mem_printf("%s/%s/libtritonrepoagent_%s.so", r->directory, name, name);
        if (!file_exists(path))
                return error_new(ERR_INVALID_ARG,
                                 "unable to find the library of repository agent '%s' for model "
                                 "'%s', searched: '%s'",
                                 name, model, path);
        *ret_path = STEAL(path);
        return NULL;
}

/* Returns NULL when the caller has to open the agent. Waits while another thread opens it. */
static struct agent *find_or_claim(struct agent_registry *r, const char *name) {
        struct agent *a;

        MUTEX_GUARD(&r->lock);
        while ((a = map_find(&r->by_name, str_of(name))) == &being_opened)
                cond_wait(&r->changed, &r->lock);
        if (a == NULL)
                map_set(&r->by_name, str_of(name), (void *)(uintptr_t)&being_opened);
        return a;
}

/* Ends a claim with the agent; `a` NULL: it could not be opened. */
static void put_claimed(struct agent_registry *r, const char *name, struct agent *a) {
        MUTEX_GUARD(&r->lock);
        if (a != NULL)
                map_set(&r->by_name, str_of(name), a);
        else
                map_remove(&r->by_name, str_of(name));
        cond_broadcast(&r->changed);
}

struct error *agent_registry_get(struct agent_registry *r, const char *name, const char *model,
                                 struct agent **ret) {
        AUTO_CHARS    path = NULL;
        struct error *err = NULL;
        struct agent *a;

        TRY(agent_registry_find(r, name, model, &path));
        a = find_or_claim(r, name);
        if (a == NULL) {
                err = agent_open(name, path, &a);
                put_claimed(r, name, err == NULL ? a : NULL);
        }
        if (err != NULL)
                return error_wrap(err, "unable to open repository agent '%s' for model '%s'", name,
                                  model);
        *ret = a;
        return NULL;
}

void agent_registry_each(struct agent_registry *r, void (*each)(const struct agent *a, void *userp),
                         void                  *userp) {
        MUTEX_GUARD(&r->lock);
        MAP_FOR_EACH(&r->by_name, e)
                if (e->value != &being_opened)
                        each(e->value, userp);
}
