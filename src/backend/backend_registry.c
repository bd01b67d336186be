/* SPDX-License-Identifier: BSD-3-Clause */
#include "backend/backend_registry.h"

#include "base/file.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "codec/json_writer.h"

#include <string.h>

struct backend_registry {
        char           *directory; /* owned */
        bool            auto_complete;
        struct gpus    *gpus; /* borrowed; NULL: there are none */
        double          min_compute_capability;
        struct settings settings;
        struct mutex    lock;    /* rank LOCK_SERVER; guards `by_path` */
        struct cond     changed; /* signalled when an opening succeeded or failed */
        struct map      by_path; /* struct backend, ref; or `being_opened` */
};

/* Placeholder for a backend that is being opened; only its address is used. */
static const struct backend being_opened;

struct backend_registry *backend_registry_new(const struct backend_registry_options *o) {
        struct backend_registry *r = mem_zalloc(sizeof(*r));

        r->directory = mem_strdup(o->directory);
        r->auto_complete = o->auto_complete;
        r->gpus = o->gpus;
        r->min_compute_capability = o->min_compute_capability;
        settings_add_all(&r->settings, o->settings, o->n_settings);
        mutex_init(&r->lock, LOCK_SERVER);
        cond_init(&r->changed);
        map_init(&r->by_path);
        return r;
}

void backend_registry_free(struct backend_registry *r) {
        if (r == NULL)
                return;
        MAP_FOR_EACH(&r->by_path, e)
                backend_unref(e->value);
        map_done(&r->by_path);
        settings_done(&r->settings);
        cond_done(&r->changed);
        mutex_done(&r->lock);
        free(r->directory);
        free(r);
}

/* Writes the settings for all backends, overridden by those for this one, in the order given. */
static void overlay_settings(const struct backend_registry *r, const char *backend,
                             struct map *values) {
        for (int specific = 0; specific < 2; specific++)
                for (size_t i = 0; i < r->settings.n_items; i++) {
                        const struct setting *s = &r->settings.items[i];

                        if (strcmp(s->group, specific ? backend : "") == 0)
                                map_set(values, str_of(s->name), (char *)(uintptr_t)s->value);
                }
}

static void print_strings(const struct map *values, struct json_writer *w) {
        json_begin_object(w);
        MAP_FOR_EACH(values, e) {
                json_key_str(w, str_range(e->key, e->key_len));
                json_put_string(w, e->value);
        }
        json_end_object(w);
}

static bool is_first_of_group(const struct backend_registry *r, size_t i) {
        for (size_t k = 0; k < i; k++)
                if (strcmp(r->settings.items[k].group, r->settings.items[i].group) == 0)
                        return false;
        return true;
}

static bool has_groups(const struct backend_registry *r) {
        for (size_t i = 0; i < r->settings.n_items; i++)
                if (*r->settings.items[i].group != '\0')
                        return true;
        return false;
}

/* Writes the settings for single backends, by backend: the python backend is opened once, and passes
 * those for a backend that is a Python program to it. */
static void print_groups(const struct backend_registry *r, struct json_writer *w) {
        json_member_object(w, "backends");
        for (size_t i = 0; i < r->settings.n_items; i++) {
                const char *group = r->settings.items[i].group;
                struct map  values;

                if (*group == '\0' || !is_first_of_group(r, i))
                        continue;
                map_init(&values);
                for (size_t k = i; k < r->settings.n_items; k++) {
                        const struct setting *s = &r->settings.items[k];

                        if (strcmp(s->group, group) == 0)
                                map_set(&values, str_of(s->name), (char *)(uintptr_t)s->value);
                }
                json_key(w, group);
                print_strings(&values, w);
                map_done(&values);
        }
        json_end_object(w);
}

static void print_config(const struct backend_registry *r, const char *backend,
                         struct strbuf *out) {
        struct json_writer w = { .out = out };
        struct map         values;
        /* A build of the reference server without GPUs says 0. */
        AUTO_CHARS capability = mem_printf("%f", r->gpus != NULL ? r->min_compute_capability : 0.0);

        map_init(&values);
        map_set(&values, STR_LIT("auto-complete-config"), r->auto_complete ? "true" : "false");
        map_set(&values, STR_LIT("backend-directory"), r->directory);
        map_set(&values, STR_LIT("default-max-batch-size"), "4");
        map_set(&values, STR_LIT("min-compute-capability"), capability);
        overlay_settings(r, backend, &values);

        json_begin_object(&w);
        json_key(&w, "cmdline");
        print_strings(&values, &w);
        if (strcmp(backend, "python") == 0 && has_groups(r))
                print_groups(r, &w);
        json_end_object(&w);
        map_done(&values);
}

static struct error *check_name(const char *library, const struct backend_registry *r,
                                const struct backend_wanted *w) {
        if (strchr(library, '/') == NULL && strcmp(library, "..") != 0)
                return NULL;
        return error_new(ERR_INVALID_ARG,
                         "backend library name '%s' escapes backend directory '%s', for model "
                         "'%s', check model config runtime field",
                         library, r->directory, w->model);
}

static struct error *refuse_sent(const char *library, const struct backend_wanted *w) {
        return error_new(ERR_UNSUPPORTED,
                         "Uploaded code is disabled: the backend library '%s' of model '%s' came "
                         "with its load. Start the server with '--allow-uploaded-backends=true' to "
                         "enable.",
                         library, w->model);
}

/* A backend that is a Python program has no library: that of the python backend runs it, opened once
 * for all such backends. NULL when it is no such program. */
static char *find_python_library(const struct backend_registry *r, const struct backend_wanted *w) {
        AUTO_CHARS program = mem_printf("%s/%s/model.py", r->directory, w->backend);
        AUTO_CHARS library = mem_printf("%s/python/libtriton_python.so", r->directory);

        if (*w->runtime != '\0' || !file_exists(program) || !file_exists(library))
                return NULL;
        return STEAL(library);
}

/* Searches the three directories in order. */
struct error *backend_registry_find(const struct backend_registry *r,
                                    const struct backend_wanted *w, char **ret_path) {
        AUTO_CHARS library = *w->runtime != '\0' ? mem_strdup(w->runtime)
                                                 : mem_printf("libtriton_%s.so", w->backend);
        AUTO_CHARS version_path =
                mem_printf("%s/%lld/%s", w->model_directory, (long long)w->version, library);
        AUTO_CHARS  model_path = mem_printf("%s/%s", w->model_directory, library);
        AUTO_CHARS  backend_path = mem_printf("%s/%s/%s", r->directory, w->backend, library);
        const char *paths[] = { version_path, model_path, backend_path };

        TRY(check_name(library, r, w));
        TRY(check_name(w->backend, r, w));
        for (size_t i = 0; i < ARRAY_LEN(paths); i++)
                if (file_exists(paths[i])) {
                        if (w->is_sent && paths[i] != backend_path)
                                return refuse_sent(library, w);
                        *ret_path = mem_strdup(paths[i]);
                        return NULL;
                }
        *ret_path = find_python_library(r, w);
        if (*ret_path != NULL)
                return NULL;
        if (*w->runtime == '\0')
                return error_new(ERR_INVALID_ARG,
                                 "unable to find backend library for backend '%s', try specifying "
                                 "runtime on the model configuration.",
                                 w->backend);
        return error_new(ERR_INVALID_ARG,
                         "unable to find backend library '%s' for model '%s', searched: '%s' '%s' "
                         "'%s' ",
                         library, w->model, version_path, model_path, backend_path);
}

/* Returns a new reference; NULL when the caller has to open the backend. Waits for a thread that is
 * opening it. */
static struct backend *get_or_claim(struct backend_registry *r, const char *path) {
        struct backend *b;

        MUTEX_GUARD(&r->lock);
        while ((b = map_find(&r->by_path, str_of(path))) == &being_opened)
                cond_wait(&r->changed, &r->lock);
        if (b == NULL)
                map_set(&r->by_path, str_of(path), (void *)(uintptr_t)&being_opened);
        else
                backend_ref(b);
        return b;
}

/* `b` NULL: it could not be opened. */
static void put_claimed(struct backend_registry *r, const char *path, struct backend *b) {
        MUTEX_GUARD(&r->lock);
        if (b != NULL)
                map_set(&r->by_path, str_of(path), b);
        else
                map_remove(&r->by_path, str_of(path));
        cond_broadcast(&r->changed);
}

/* The refusal of backend_registry_find() has the text of the reference server, which tells neither where
 * it looked nor what is there. */
static void warn_of_backend(const struct backend_registry *r, const struct backend_wanted *w) {
        struct dir_list list;
        const char     *nearest;
        AUTO_ERROR      err = dir_list_read_directories(r->directory, &list);

        if (err != NULL) {
                log_warn("model '%s': no backend is found: %s", w->model, err->message);
                return;
        }
        nearest = str_suggest(str_of(w->backend), (const char *const *)list.names, list.n_names);
        if (nearest == NULL || strcmp(nearest, w->backend) == 0)
                log_warn("model '%s': its backend would be '%s/%s/libtriton_%s.so'", w->model,
                         r->directory, w->backend, w->backend);
        else
                log_warn("model '%s': there is no backend '%s' in '%s'; did you mean '%s'?",
                         w->model, w->backend, r->directory, nearest);
        dir_list_done(&list);
}

struct error *backend_registry_get(struct backend_registry *r, const struct backend_wanted *wanted,
                                   struct backend **ret) {
        AUTO_CHARS      path = NULL;
        AUTO_STRBUF     config = { 0 };
        struct backend *b;
        struct error   *err;

        err = backend_registry_find(r, wanted, &path);
        if (err != NULL) {
                if (err->code == ERR_INVALID_ARG && *wanted->runtime == '\0')
                        warn_of_backend(r, wanted);
                return err;
        }
        b = get_or_claim(r, path);
        if (b == NULL) {
                AUTO_CHARS  python = find_python_library(r, wanted);
                const char *name =
                        python != NULL && strcmp(python, path) == 0 ? "python" : wanted->backend;

                /* The library gets its own settings, not those of the first program that needs it. */
                print_config(r, name, &config);
                err = backend_open(name, path, &config, r->gpus, &b);
                if (err == NULL)
                        backend_ref(b); /* one for the map, one for the caller */
                put_claimed(r, path, err == NULL ? b : NULL);
                if (err != NULL)
                        return err;
        }
        *ret = b;
        return NULL;
}

void backend_registry_each(struct backend_registry *r,
                           void (*each)(const struct backend *b, void *userp), void *userp) {
        MUTEX_GUARD(&r->lock);
        MAP_FOR_EACH(&r->by_path, e)
                if (e->value != &being_opened)
                        each(e->value, userp);
}
