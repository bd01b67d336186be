/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/server_check.h"

#include "backend/backend_registry.h"
#include "base/file.h"
#include "base/mem.h"
#include "config/model_config.h"
#include "config/version_policy.h"
#include "infer/message.h"
#include "repo/agent.h"
#include "repo/model_files.h"
#include "repo/model_graph.h"
#include "repo/model_needs.h"
#include "server/ensemble_checks.h"
#include "server/model_check.h"
#include "server/server_options.h"

#include <string.h>

struct check_run {
        struct model_check_options options;
        struct model_graph        *graph;  /* owned; of the models that were checked so far */
        struct model_check       **checks; /* owned, and each */
        size_t                     n_checks;
        struct json_writer         writer;
};

static bool is_directory(const char *path) {
        struct file_stat stat;
        AUTO_ERROR       err = file_stat(path, &stat);

        return err == NULL && stat.is_directory;
}

static bool has_config(const struct check_run *r, const char *directory) {
        AUTO_CHARS path = model_files_find_config(r->options.config_name, directory);

        return path != NULL;
}

static bool is_version(const char *directory, const char *name) {
        AUTO_CHARS path = path_join(directory, name);
        int64_t    version;

        return version_from_name(str_of(name), &version) && is_directory(path);
}

/* A configuration, or a version without one of its own: a repository may hold a model called 1. */
static struct error *is_model(const struct check_run *r, const char *directory, bool *ret) {
        struct dir_list list;

        TRY(dir_list_read(directory, &list));
        *ret = has_config(r, directory);
        for (size_t i = 0; i < list.n_names && !*ret; i++) {
                AUTO_CHARS path = path_join(directory, list.names[i]);
                AUTO_CHARS inner = path_join(path, "1");

                *ret = is_version(directory, list.names[i]) && !has_config(r, path) &&
                       !is_directory(inner);
        }
        dir_list_done(&list);
        return NULL;
}

/* Says where the models are named. Takes `err`. */
static struct error *at_needs(const struct model_check *c, enum needs_kind kind,
                              struct error *err) {
        static const char prefix[] = "circular dependency between ensembles: ";
        struct error     *of_chain;

        if (err == NULL || kind == NEEDS_STEPS || !str_starts(str_of(err->message), str_of(prefix)))
                return error_at(err, "ensemble_scheduling");
        of_chain = error_new(err->code, "chain of model '%s' is circular: %s", c->name,
                             err->message + strlen(prefix));
        error_free(err);
        return model_config_at_parameter(c->config, kind == NEEDS_NEXT ? "next" : "stages",
                                         of_chain);
}

/* The models that this one needs; with the last model of a cycle, the cycle is found. */
static struct error *check_needs(struct check_run *r, const struct model_check *c) {
        struct model_needs needs;
        struct model_order order;
        const char       **names;
        struct error      *err;
        AUTO_ERROR         unreadable = NULL;

        if (c->config == NULL)
                return NULL;
        unreadable = model_needs_read(c->config, &needs);
        if (unreadable != NULL || needs.kind == NEEDS_NOTHING)
                return NULL; /* the check of the configuration said so */
        names = mem_alloc((needs.n + 1) * sizeof(const char *));
        for (size_t i = 0; i < needs.n; i++)
                names[i] = needs.items[i].name;
        model_graph_set(r->graph, c->name, names, needs.n);
        free(names);
        err = at_needs(c, needs.kind, model_graph_order(r->graph, &c->name, 1, &order));
        model_order_done(&order);
        model_needs_done(&needs);
        return err;
}

static void check_model(struct check_run *r, const char *directory, const char *name) {
        struct model_check *check = mem_zalloc(sizeof(*check));

        check->options = &r->options;
        check->name = mem_strdup(name);
        check->directory = mem_strdup(directory);
        model_check_run(check);
        model_check_refuse(check, check_needs(r, check));
        r->checks = mem_realloc(r->checks, (r->n_checks + 1) * sizeof(struct model_check *));
        r->checks[r->n_checks++] = check;
}

static struct error *print_checks(struct check_run *r) {
        for (size_t i = 0; i < r->n_checks; i++)
                TRY(model_check_print(r->checks[i], &r->writer));
        return NULL;
}

static void free_checks(struct check_run *r) {
        for (size_t i = 0; i < r->n_checks; i++) {
                model_check_done(r->checks[i]);
                free((char *)r->checks[i]->name);
                free((char *)r->checks[i]->directory);
                free(r->checks[i]);
        }
        free(r->checks);
}

static struct error *check_repository(struct check_run *r, const char *path) {
        struct dir_list list;

        TRY(dir_list_read(path, &list));
        for (size_t i = 0; i < list.n_names; i++) {
                AUTO_CHARS directory = path_join(path, list.names[i]);

                /* As the repository does: hidden ones are nobody's models. */
                if (list.names[i][0] != '.' && is_directory(directory))
                        check_model(r, directory, list.names[i]);
        }
        dir_list_done(&list);
        ensemble_checks_run(r->checks, r->n_checks);
        return NULL;
}

/* Without slashes at its end; the name of a model that is given as "." is the directory's. */
static struct error *clean_path(const char *path, char **ret) {
        size_t len = strlen(path);

        while (len > 1 && path[len - 1] == '/')
                len--;
        *ret = mem_strndup(path, len);
        if (is_directory(*ret))
                return NULL;
        return error_new(ERR_NOT_FOUND, "'%s' is not a directory", path);
}

static char *name_of(const char *path) {
        AUTO_CHARS full = realpath(path, NULL);

        return mem_strdup(path_basename(full != NULL ? full : path));
}

static struct error *check_path(struct check_run *r, const char *path) {
        AUTO_CHARS clean = NULL;
        AUTO_CHARS name = NULL;
        bool       is_one;

        TRY(clean_path(path, &clean));
        TRY(is_model(r, clean, &is_one));
        name = name_of(clean);
        json_begin_object(&r->writer);
        json_key(&r->writer, "path");
        json_put_string(&r->writer, clean);
        json_key(&r->writer, "is_model");
        json_put_bool(&r->writer, is_one);
        json_key(&r->writer, "models");
        json_begin_array(&r->writer);
        if (is_one)
                check_model(r, clean, name);
        else
                TRY(check_repository(r, clean));
        TRY(print_checks(r));
        json_end_array(&r->writer);
        json_end_object(&r->writer);
        return NULL;
}

struct error *server_check_models(const struct server_options *options, const char *path,
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
        struct error          *err;

        strbuf_init(&json, 0);
        r.graph = model_graph_new();
        json_writer_init(&r.writer, &json);
        err = check_path(&r, path);
        free_checks(&r);
        model_graph_free(r.graph);
        agent_registry_free(agents);
        backend_registry_free(backends);
        TRY(err);
        return message_new_take(&json, ret);
}
