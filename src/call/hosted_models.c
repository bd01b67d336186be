/* SPDX-License-Identifier: BSD-3-Clause */
#include "call/hosted_models.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "call/hosted_folder.h"
#include "call/model_query.h"
#include "codec/json_find.h"
#include "codec/json_writer.h"
#include "core_api/core_error.h"
#include "triton/core/neso.h"
#include "triton/core/tritonserver.h"

#include <stdlib.h>

/* SageMaker gives up an unload after 360 s. */
#define UNLOAD_TIMEOUT_NS (350 * NS_PER_S)

enum hosted_state { HOSTED_LOADING, HOSTED_LOADED, HOSTED_UNLOADING };

struct hosted_model {
        char             *name;       /* owned */
        char             *url;        /* owned; as given */
        char             *repository; /* owned; the registered path; NULL before */
        enum hosted_state state;
};

struct hosted_models {
        struct TRITONSERVER_Server *core;   /* borrowed */
        struct mutex                lock;   /* rank LOCK_SERVER; guards the table and all models */
        struct map                  models; /* name -> struct hosted_model, owned */
};

static void model_free(struct hosted_model *m) {
        free(m->name);
        free(m->url);
        free(m->repository);
        free(m);
}

struct hosted_models *hosted_models_new(struct TRITONSERVER_Server *core) {
        struct hosted_models *h = mem_zalloc(sizeof(*h));

        h->core = core;
        mutex_init(&h->lock, LOCK_SERVER);
        map_init(&h->models);
        return h;
}

void hosted_models_free(struct hosted_models *h) {
        if (h == NULL)
                return;
        MAP_FOR_EACH(&h->models, e)
                model_free(e->value);
        map_done(&h->models);
        mutex_done(&h->lock);
        free(h);
}

bool hosted_models_tells_no_memory(const char *message) {
        static const char *const signs[] = {
                "out of memory",
                "out_of_memory",
                "outofmemory",
                "memoryerror",
                "bad_alloc",
                "failed to allocate memory",
                "alloc_failed",
                "cannot allocate memory",
                "no space left on device", /* shared memory of model processes */
        };

        for (size_t i = 0; i < ARRAY_LEN(signs); i++)
                if (strcasestr(message, signs[i]) != NULL)
                        return true;
        return false;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Returns NULL unless the model is loaded. */
static struct hosted_model *find_loaded_locked(struct hosted_models *h, struct str name) {
        struct hosted_model *m = map_find(&h->models, name);

        return m != NULL && m->state == HOSTED_LOADED ? m : NULL;
}

bool hosted_models_has(struct hosted_models *h, struct str name) {
        MUTEX_GUARD(&h->lock);
        return find_loaded_locked(h, name) != NULL;
}

/* Returns the new model; NULL when the name is in use. The model stays in the table during its state, so
 * the thread that set the state may read it without the lock. */
static struct hosted_model *begin_load(struct hosted_models *h, struct str name, struct str url) {
        struct hosted_model *m;

        MUTEX_GUARD(&h->lock);
        if (map_find(&h->models, name) != NULL)
                return NULL;
        m = mem_zalloc(sizeof(*m));
        m->name = mem_strndup(name.ptr, name.len);
        m->url = mem_strndup(url.ptr, url.len);
        m->state = HOSTED_LOADING;
        map_set(&h->models, name, m);
        return m;
}

static struct hosted_model *begin_unload(struct hosted_models *h, struct str name) {
        struct hosted_model *m;

        MUTEX_GUARD(&h->lock);
        m = find_loaded_locked(h, name);
        if (m != NULL)
                m->state = HOSTED_UNLOADING;
        return m;
}

static void set_loaded(struct hosted_models *h, struct hosted_model *m) {
        MUTEX_GUARD(&h->lock);
        m->state = HOSTED_LOADED;
}

static void forget(struct hosted_models *h, struct hosted_model *m) {
        mutex_lock(&h->lock);
        map_remove(&h->models, str_of(m->name));
        mutex_unlock(&h->lock);
        model_free(m);
}

/* ---- what the core has ----------------------------------------------------------------------- */

/* `states` ends with NULL. */
static bool is_in_state(struct str index, const char *name, const char *const *states,
                        struct arena *arena) {
        JSON_FOR_EACH(index, row) {
                struct str state = json_find_text(row, "state", arena);

                if (!str_is(json_find_text(row, "name", arena), name))
                        continue;
                for (const char *const *one = states; *one != NULL; one++)
                        if (str_is(state, *one))
                                return true;
        }
        return false;
}

/* *ret is true while a version of the model is in one of the states, which end with NULL. */
static struct error *find_state(struct hosted_models *h, const char *name,
                                const char *const *states, bool *ret) {
        const struct model_query query = { .kind = MODEL_QUERY_INDEX, .model = "", .version = -1 };
        struct TRITONSERVER_Message *index;
        const char                  *text;
        size_t                       len;
        AUTO_ARENA                   arena = arena_of(0);
        struct error                *err;

        TRY(model_query_ask(&query, h->core, &index));
        err = core_error_take(TRITONSERVER_MessageSerializeToJson(index, &text, &len));
        if (err == NULL)
                *ret = is_in_state(str_range(text, len), name, states, &arena);
        core_error_drop(TRITONSERVER_MessageDelete(index));
        return err;
}

/* True while a version of the model has requests. */
static bool is_leaving(struct hosted_models *h, const char *name) {
        static const char *const states[] = { "UNLOADING", NULL };
        bool                     found = false;
        AUTO_ERROR               err = find_state(h, name, states, &found);

        return err == NULL && found;
}

static struct error *name_in_use(struct str name) {
        return error_new(ERR_ALREADY_EXISTS, "the model '%.*s' is loaded already", STR_ARG(name));
}

/* A model that another repository of the server has loaded keeps its name: a load would replace it, and clean_up()
 * would unload it. */
static struct error *check_others(struct hosted_models *h, const char *name) {
        static const char *const states[] = { "READY", "LOADING", NULL };
        bool                     found = false;

        TRY(find_state(h, name, states, &found));
        return found ? name_in_use(str_of(name)) : NULL;
}

/* ---- load ------------------------------------------------------------------------------------ */

static struct error *register_folder(struct hosted_models *h, const struct hosted_model *m,
                                     const struct hosted_folder *folder) {
        const struct TRITONSERVER_Parameter *names[1];
        struct TRITONSERVER_Parameter       *name;
        struct error                        *err;

        name = TRITONSERVER_ParameterNew(folder->directory, TRITONSERVER_PARAMETER_STRING, m->name);
        if (name == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory to load model '%s'", m->name);
        names[0] = name;
        err = core_error_take(
                TRITONSERVER_ServerRegisterModelRepository(h->core, folder->repository, names, 1));
        TRITONSERVER_ParameterDelete(name);
        return err;
}

/* What a failed load leaves behind would keep the server from being ready. */
static void clean_up(struct hosted_models *h, const struct hosted_model *m,
                     const char *repository) {
        core_error_drop(TRITONSERVER_ServerUnloadModelAndDependents(h->core, m->name));
        core_error_drop(TRITONSERVER_ServerUnregisterModelRepository(h->core, repository));
}

static struct error *load_model(struct hosted_models *h, struct hosted_model *m) {
        struct hosted_folder folder = { 0 };
        struct error        *err;

        TRY(check_others(h, m->name));
        TRY(hosted_folder_find(m->url, &folder));
        err = register_folder(h, m, &folder);
        if (err == NULL) {
                err = core_error_take(TRITONSERVER_ServerLoadModel(h->core, m->name));
                if (err == NULL)
                        m->repository = STEAL(folder.repository);
                else
                        clean_up(h, m, folder.repository);
        }
        hosted_folder_done(&folder);
        return err;
}

static enum hosted_outcome outcome_of(const struct error *err) {
        if (err == NULL)
                return HOSTED_DONE;
        if (err->code == ERR_ALREADY_EXISTS)
                return HOSTED_IN_USE;
        return hosted_models_tells_no_memory(err->message) ? HOSTED_NO_MEMORY : HOSTED_FAILED;
}

static struct error *check_name(struct str name) {
        if (name.len > 0 && name.ptr[0] != '.' && memchr(name.ptr, '/', name.len) == NULL &&
            memchr(name.ptr, '\0', name.len) == NULL)
                return NULL;
        return error_new(
                ERR_INVALID_ARG,
                "the model_name '%.*s' is empty, begins with a dot, or contains a slash or a "
                "NUL character",
                STR_ARG(name));
}

static struct error *check_lengths(struct str name, struct str url) {
        if (name.len > HOSTED_MAX_NAME)
                return error_new(ERR_INVALID_ARG,
                                 "the model_name has %zu bytes, at most %d are allowed", name.len,
                                 HOSTED_MAX_NAME);
        if (url.len > HOSTED_MAX_URL)
                return error_new(ERR_INVALID_ARG, "the url has %zu bytes, at most %d are allowed",
                                 url.len, HOSTED_MAX_URL);
        return NULL;
}

static struct error *check_load(struct str name, struct str url) {
        TRY(check_lengths(name, url));
        TRY(check_name(name));
        if (url.len > 0 && memchr(url.ptr, '\0', url.len) == NULL)
                return NULL;
        return error_new_text(ERR_INVALID_ARG, "the url is empty or contains a NUL character");
}

struct error *hosted_models_load(struct hosted_models *h, struct str name, struct str url,
                                 enum hosted_outcome *ret) {
        struct error        *err = check_load(name, url);
        struct hosted_model *m;

        *ret = HOSTED_FAILED;
        if (err != NULL)
                return err;
        m = begin_load(h, name, url);
        if (m == NULL) {
                *ret = HOSTED_IN_USE;
                return name_in_use(name);
        }
        err = load_model(h, m);
        *ret = outcome_of(err);
        if (err == NULL)
                set_loaded(h, m);
        else
                forget(h, m);
        return err;
}

/* ---- unload ---------------------------------------------------------------------------------- */

/* Wakes the thread that waits for the end of a model. */
struct end_wait {
        struct mutex lock; /* rank LOCK_LEAF: taken on threads that hold no lock */
        struct cond  changed;
        bool         has_changed;
};

static void on_changed(void *userp) {
        struct end_wait *w = userp;

        MUTEX_GUARD(&w->lock);
        w->has_changed = true;
        cond_signal(&w->changed);
}

/* False when the time has passed. */
static bool wait_for_change(struct end_wait *w, uint64_t until_ns) {
        MUTEX_GUARD(&w->lock);
        while (!w->has_changed)
                if (!cond_wait_until(&w->changed, &w->lock, until_ns))
                        return false;
        w->has_changed = false;
        return true;
}

static void wait_for_end(struct hosted_models *h, const char *name) {
        uint64_t                until_ns = clock_now_ns() + UNLOAD_TIMEOUT_NS;
        struct end_wait         w = { 0 };
        struct NESO_ReadyWatch *watch = NULL;
        AUTO_ERROR              err = NULL;

        mutex_init(&w.lock, LOCK_LEAF);
        cond_init(&w.changed);
        err = core_error_take(NESO_ReadyWatchNew(&watch, h->core, on_changed, &w));
        while (err == NULL && is_leaving(h, name))
                if (!wait_for_change(&w, until_ns)) {
                        log_warn("model '%s' still has requests %llu s after its unload", name,
                                 (unsigned long long)(UNLOAD_TIMEOUT_NS / NS_PER_S));
                        break;
                }
        core_error_drop(NESO_ReadyWatchDelete(watch));
        cond_done(&w.changed);
        mutex_done(&w.lock);
}

/* Fails when the server is about to exit; the model is unloaded all the same. */
static void remove_repository(struct hosted_models *h, const struct hosted_model *m) {
        AUTO_ERROR err = core_error_take(
                TRITONSERVER_ServerUnregisterModelRepository(h->core, m->repository));

        if (err != NULL)
                log_warn("the repository of model '%s' stays registered: %s", m->name,
                         err->message);
}

struct error *hosted_models_unload(struct hosted_models *h, struct str name,
                                   enum hosted_outcome *ret) {
        struct hosted_model *m = begin_unload(h, name);

        *ret = HOSTED_UNKNOWN;
        if (m == NULL)
                return NULL;
        *ret = HOSTED_FAILED;
        TRY_OR(core_error_take(TRITONSERVER_ServerUnloadModelAndDependents(h->core, m->name)),
               set_loaded(h, m));
        wait_for_end(h, m->name);
        remove_repository(h, m);
        forget(h, m);
        *ret = HOSTED_DONE;
        return NULL;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static void put_model(struct json_writer *w, const struct hosted_model *m) {
        json_begin_object(w);
        json_member_string(w, "modelName", m->name);
        json_member_string(w, "modelUrl", m->url);
        json_end_object(w);
}

static int by_name(const void *a, const void *b) {
        return strcmp((*(struct hosted_model *const *)a)->name,
                      (*(struct hosted_model *const *)b)->name);
}

/* Returns the loaded models, sorted; the caller owns the array. */
static struct hosted_model **list_loaded_locked(struct hosted_models *h, size_t *ret_n) {
        struct hosted_model **all = mem_zalloc((map_size(&h->models) + 1) * sizeof(*all));
        size_t                n = 0;

        MAP_FOR_EACH(&h->models, e) {
                struct hosted_model *m = e->value;

                if (m->state == HOSTED_LOADED)
                        all[n++] = m;
        }
        qsort(all, n, sizeof(*all), by_name);
        *ret_n = n;
        return all;
}

void hosted_models_print(struct hosted_models *h, struct strbuf *out) {
        struct hosted_model **all;
        struct json_writer    w = { .out = out };
        size_t                n;

        MUTEX_GUARD(&h->lock);
        all = list_loaded_locked(h, &n);
        json_begin_object(&w);
        json_member_array(&w, "models");
        for (size_t i = 0; i < n; i++)
                put_model(&w, all[i]);
        json_end_array(&w);
        json_end_object(&w);
        free(all);
}

bool hosted_models_print_one(struct hosted_models *h, struct str name, struct strbuf *out) {
        struct hosted_model *m;
        struct json_writer   w = { .out = out };

        MUTEX_GUARD(&h->lock);
        m = find_loaded_locked(h, name);
        if (m == NULL)
                return false;
        put_model(&w, m);
        return true;
}
