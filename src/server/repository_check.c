/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/repository_check.h"

#include "backend/backend_registry.h"
#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"
#include "config/model_config.h"
#include "config/version_policy.h"
#include "gpu/gpu.h"
#include "infer/message.h"
#include "repo/agent.h"
#include "repo/bare_model.h"
#include "repo/model_files.h"
#include "repo/model_graph.h"
#include "repo/model_needs.h"
#include "server/ensemble_steps_check.h"
#include "server/model_check.h"
#include "server/server_options.h"

#include <string.h>

struct check_run {
        struct model_check_options options;
        const char                *repository; /* borrowed: contains the models to be checked */
        struct model_graph  *graph;  /* owned; which of the models read so far need which, by key */
        struct model_check **checks; /* owned, with its items; requested models come first */
        size_t               n_checks;
        size_t               n_requested;
        struct map           keys; /* key -> struct model_check */
        struct json_writer   writer;
};

static bool has_config(const struct check_run *r, const char *directory) {
        AUTO_CHARS path = model_files_find_config(r->options.config_name, directory);

        return path != NULL;
}

/* Decides whether a directory is a model or a repository. A model in development may have no version
 * yet. */
static struct error *is_model(const struct check_run *r, const char *directory, bool *ret) {
        enum bare_form form;

        TRY(bare_model_find(r->options.config_name, directory, &form));
        *ret = form == BARE_VERSIONS || has_config(r, directory);
        return NULL;
}

/* Returns the error of a cycle, located at the setting that names the needed models. */
static struct error *circular(const struct model_check *c, enum needs_kind kind,
                              const struct model_order *cycle) {
        AUTO_CHARS text = NULL;

        if (kind != NEEDS_STEPS)
                return model_config_at_parameter(c->config, kind == NEEDS_NEXT ? "next" : "stages",
                                                 model_order_circular_chain(c->name, cycle));
        text = model_order_print_cycle(cycle);
        return error_in_field("ensemble_scheduling", "circular dependency between ensembles: %s",
                              text);
}

static char *key_of(const struct check_run *r, const struct model_check *user,
                    const struct model_need *need) {
        return model_check_key(r->repository,
                               model_check_repository(user->repository, need->namespace),
                               need->name);
}

/* False when the model needs no others, or its configuration is unreadable, which its check has
 * reported. */
static bool read_needs(const struct model_check *c, struct model_needs *ret) {
        AUTO_ERROR unreadable = NULL;

        if (c->config == NULL)
                return false;
        unreadable = model_needs_read(c->config, ret);
        return unreadable == NULL && ret->kind != NEEDS_NOTHING;
}

static void set_needs(struct check_run *r, const struct model_check *c) {
        struct model_needs needs;
        const char       **names;

        if (!read_needs(c, &needs))
                return;
        names = mem_alloc((needs.n + 1) * sizeof(const char *));
        for (size_t i = 0; i < needs.n; i++)
                names[i] = key_of(r, c, &needs.items[i]);
        model_graph_set(r->graph, c->key, names, needs.n);
        for (size_t i = 0; i < needs.n; i++)
                free((char *)names[i]);
        free(names);
        model_needs_done(&needs);
}

/* Returns an error when the model completes a cycle of the models read so far. */
static struct error *check_order(const struct check_run *r, const struct model_check *c) {
        struct model_needs needs;
        struct model_order cycle;
        struct error      *err = NULL;

        if (!read_needs(c, &needs))
                return NULL;
        model_graph_find_cycle(r->graph, c->key, &cycle);
        if (cycle.n > 0)
                err = circular(c, needs.kind, &cycle);
        model_order_done(&cycle);
        model_needs_done(&needs);
        return err;
}

static struct model_check *read_model(struct check_run *r, const char *repository,
                                      const char *directory, const char *name) {
        struct model_check *check = mem_zalloc(sizeof(*check));

        check->options = &r->options;
        check->name = mem_strdup(name);
        check->directory = mem_strdup(directory);
        check->repository = mem_strdup(repository);
        check->key = model_check_key(r->repository, repository, name);
        model_check_run(check);
        set_needs(r, check);
        r->checks = mem_realloc(r->checks, (r->n_checks + 1) * sizeof(struct model_check *));
        r->checks[r->n_checks++] = check;
        map_set(&r->keys, str_of(check->key), check);
        return check;
}

/* ---- models that the requested ones need ------------------------------------------------------- */

static void read_needed(struct check_run *r, const struct model_check *user,
                        const struct model_need *need) {
        const char *repository = model_check_repository(user->repository, need->namespace);
        AUTO_CHARS  key = key_of(r, user, need);
        AUTO_CHARS  directory = path_join(repository, need->name);

        /* As in a repository: a name must not lead out of it. */
        if (map_find(&r->keys, str_of(key)) == NULL && strchr(need->name, '/') == NULL &&
            need->name[0] != '.' && file_is_directory(directory))
                (void)read_model(r, repository, directory, need->name);
}

/* Reads all models that the requested ones need, directly or indirectly, and that were not read yet:
 * others of the repository when one model is checked, and those of other repositories. */
static void read_all_needed(struct check_run *r) {
        r->n_requested = r->n_checks;
        for (size_t i = 0; i < r->n_checks; i++) {
                struct model_needs needs;

                if (!read_needs(r->checks[i], &needs))
                        continue;
                for (size_t k = 0; k < needs.n; k++)
                        read_needed(r, r->checks[i], &needs.items[k]);
                model_needs_done(&needs);
        }
}

static struct error *check_stage(const struct check_run *r, const struct model_check *c,
                                 const char *what, const struct model_need *need) {
        AUTO_CHARS                key = key_of(r, c, need);
        const struct model_check *stage = map_find(&r->keys, str_of(key));

        if (stage == NULL)
                return error_new(ERR_INVALID_ARG,
                                 "%s '%s' of model '%s' is neither loaded nor in a model "
                                 "repository",
                                 what, need->name, c->name);
        if (need->version != -1 && stage->problems.n_errors == 0 &&
            !version_pick_has(&stage->versions, need->version))
                return error_new(ERR_INVALID_ARG,
                                 "%s '%s' of model '%s' has no version %lld loaded", what,
                                 need->name, c->name, (long long)need->version);
        return NULL;
}

/* Checks that the models of a chain exist; ensemble_steps_check.h checks the steps of ensembles. */
static struct error *check_stages(const struct check_run *r, const struct model_check *c) {
        struct model_needs needs;
        struct error      *err = NULL;
        bool               is_next;

        if (!read_needs(c, &needs))
                return NULL;
        is_next = needs.kind == NEEDS_NEXT;
        for (size_t i = 0; needs.kind != NEEDS_STEPS && i < needs.n && err == NULL; i++)
                err = check_stage(r, c, is_next ? "next model" : "stage", &needs.items[i]);
        if (err != NULL)
                err = model_config_at_parameter(c->config, is_next ? "next" : "stages", err);
        model_needs_done(&needs);
        return err;
}

static void check_together(struct check_run *r) {
        for (size_t i = 0; i < r->n_requested; i++)
                model_check_refuse(r->checks[i], check_stages(r, r->checks[i]));
        ensemble_steps_check(r->checks, r->n_checks, r->repository);
}

static struct error *print_checks(struct check_run *r) {
        for (size_t i = 0; i < r->n_requested; i++)
                TRY(model_check_print(r->checks[i], &r->writer));
        return NULL;
}

static void free_checks(struct check_run *r) {
        for (size_t i = 0; i < r->n_checks; i++) {
                model_check_done(r->checks[i]);
                free((char *)r->checks[i]->name);
                free((char *)r->checks[i]->directory);
                free((char *)r->checks[i]->repository);
                free((char *)r->checks[i]->key);
                free(r->checks[i]);
        }
        free(r->checks);
}

static struct error *check_repository(struct check_run *r, const char *path) {
        struct dir_list list;

        TRY(dir_list_read(path, &list));
        for (size_t i = 0; i < list.n_names; i++) {
                AUTO_CHARS          directory = path_join(path, list.names[i]);
                struct model_check *check;

                /* As in a repository: hidden directories are not models. */
                if (list.names[i][0] == '.' || !file_is_directory(directory))
                        continue;
                check = read_model(r, path, directory, list.names[i]);
                model_check_refuse(check, check_order(r, check));
        }
        dir_list_done(&list);
        read_all_needed(r);
        check_together(r);
        return NULL;
}

/* Checks a model together with the models of the same repository that it needs. */
static void check_one(struct check_run *r, const char *directory, const char *name) {
        struct model_check *check = read_model(r, r->repository, directory, name);

        read_all_needed(r);
        model_check_refuse(check, check_order(r, check));
        check_together(r);
}

/* Removes trailing slashes. NOT_FOUND when the path is not a directory. */
static struct error *clean_path(const char *path, char **ret) {
        size_t len = strlen(path);

        while (len > 1 && path[len - 1] == '/')
                len--;
        *ret = mem_strndup(path, len);
        if (file_is_directory(*ret))
                return NULL;
        return error_new(ERR_NOT_FOUND, "'%s' is not a directory", path);
}

/* The absolute path, whose last part is the model's name also for ".". */
static char *full_path(const char *path) {
        char *full = realpath(path, NULL);

        return full != NULL ? full : mem_strdup(path);
}

static struct error *check_path(struct check_run *r, const char *path) {
        AUTO_CHARS clean = NULL;
        AUTO_CHARS full = NULL;
        AUTO_CHARS parent = NULL;
        bool       is_one;

        TRY(clean_path(path, &clean));
        TRY(is_model(r, clean, &is_one));
        full = full_path(clean);
        parent = path_dirname(full);
        r->repository = is_one ? parent : clean;
        json_begin_object(&r->writer);
        json_member_string(&r->writer, "path", clean);
        json_member_bool(&r->writer, "is_model", is_one);
        json_member_array(&r->writer, "models");
        if (is_one)
                check_one(r, clean, path_basename(full));
        else
                TRY(check_repository(r, clean));
        TRY(print_checks(r));
        json_end_array(&r->writer);
        json_end_object(&r->writer);
        return NULL;
}

/* The ids of the GPUs that a server with these options uses; the caller owns them. */
static struct error *find_gpus(const struct server_options *options, int32_t **ret, size_t *ret_n) {
        struct gpus *gpus;

        TRY(gpus_open(&(struct gpus_options){ .min_compute_capability =
                                                      options->min_compute_capability,
                                              .is_quiet = true },
                      &gpus));
        *ret_n = gpus_count(gpus);
        *ret = mem_zalloc((*ret_n + 1) * sizeof(**ret));
        for (size_t i = 0; i < *ret_n; i++)
                (*ret)[i] = gpus_at(gpus, i)->device;
        gpus_close(gpus);
        return NULL;
}

struct error *repository_check(const struct server_options *options, const char *path,
                               struct message **ret) {
        struct backend_registry *backends = backend_registry_new(
                &(struct backend_registry_options){ .directory = options->backend_directory });
        struct agent_registry *agents = agent_registry_new(options->repoagent_directory);
        struct check_run       r = { .options = { .backends = backends,
                                                  .agents = agents,
                                                  .agent_directory = options->repoagent_directory,
                                                  .backend_directory = options->backend_directory,
                                                  .scheduler_directory = options->scheduler_directory,
                                                  .config_name = options->model_config_name,
                                                  .auto_complete = !options->strict_model_config } };
        AUTO_STRBUF            json = { 0 };
        int32_t               *gpus = NULL;
        struct error          *err;

        r.options.min_compute_capability = options->min_compute_capability;
        err = find_gpus(options, &gpus, &r.options.n_gpus);
        r.options.gpus = gpus;
        r.graph = model_graph_new();
        map_init(&r.keys);
        json_writer_init(&r.writer, &json);
        if (err == NULL)
                err = check_path(&r, path);
        free_checks(&r);
        map_done(&r.keys);
        model_graph_free(r.graph);
        agent_registry_free(agents);
        backend_registry_free(backends);
        free(gpus);
        TRY(err);
        return message_new_take(&json, ret);
}
