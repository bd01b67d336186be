/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/model_files.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "config/chain_line.h"
#include "config/config_check.h"
#include "config/config_edit.h"
#include "config/config_fill.h"
#include "config/config_normalize.h"
#include "repo/agent_list.h"
#include "repo/dir_fingerprint.h"
#include "repo/override.h"
#include "repo/repo_environment.h"
#include "repo/uploaded_code.h"
#include "store/store_copy.h"

struct error *model_source_fingerprint(const struct model_source *source,
                                       struct dir_fingerprint   **ret) {
        return source->copy != NULL ? dir_fingerprint_of_copy(source->copy, ret)
                                    : dir_fingerprint_read(source->directory, ret);
}

char *model_files_find_config(const char *config_name, const char *directory) {
        char *path;

        if (*config_name != '\0') {
                path = mem_printf("%s/configs/%s.pbtxt", directory, config_name);
                if (file_exists(path))
                        return path;
                free(path);
        }
        path = path_join(directory, "config.pbtxt");
        if (file_exists(path))
                return path;
        free(path);
        return NULL;
}

static struct error *read_file(const struct repo_environment *env, const char *directory,
                               struct model_config **ret) {
        AUTO_CHARS  path = model_files_find_config(env->config_name, directory);
        AUTO_STRBUF text = { .max = MODEL_CONFIG_TEXT_MAX_BYTES };

        if (path == NULL && env->auto_complete) {
                *ret = model_config_new();
                return NULL;
        }
        if (path == NULL)
                return error_new(ERR_NOT_FOUND,
                                 "failed to open text file for read %s/config.pbtxt: no such file, "
                                 "and auto-completion is disabled",
                                 directory);
        TRY(file_read(path, MODEL_CONFIG_TEXT_MAX_BYTES, &text));
        return error_wrap(model_config_read_text(strbuf_str(&text), path, ret),
                          "failed to read text proto from %s", path);
}

/* Reads the configuration of the repository, which a sent one replaces. *ret is NULL when there is
 * none that can be read: then everything that was sent is new. */
static void read_own(const struct repo_environment *env, const struct model_source *source,
                     struct model_config **ret) {
        *ret = NULL;
        if (source->override == NULL)
                error_free(read_file(env, source->directory, ret));
}

/* Replaces the configuration of `f` and where its parameters come from. */
static struct error *read_config(const struct repo_environment *env,
                                 const struct model_source *source, struct model_files *f) {
        AUTO_MODEL_CONFIG own = NULL;

        model_config_free(f->config);
        f->config = NULL;
        config_origin_done(&f->origin);
        if (source->config_json == NULL)
                return read_file(env, source->directory, &f->config);
        TRY(error_wrap(model_config_read_json(str_of(source->config_json), &f->config),
                       "Invalid config override"));
        if (env->allows_uploaded_code)
                return NULL;
        read_own(env, source, &own);
        config_origin_compare(f->config, own, &f->origin);
        return uploaded_code_check_config(f->config, own, &f->origin, source->key.name);
}

/* Runs one agent. The following steps read the files at the location that the agent set. */
static struct error *run_agent(const struct repo_environment                 *env,
                               const struct model_source                     *source,
                               const Inference__ModelRepositoryAgents__Agent *agent,
                               struct model_files                            *f) {
        struct model_source moved = *source;
        const char         *directory;

        TRY(agent_list_add(f->agents, agent, f->directory, f->config, &directory));
        if (directory == NULL)
                return NULL;
        free(f->directory);
        f->directory = mem_strdup(directory);
        moved.directory = f->directory;
        return read_config(env, &moved, f);
}

/* Runs the agents of the model's own configuration. A configuration at a location that an agent set
 * adds no further agents. */
static struct error *run_agents(const struct repo_environment *env,
                                const struct model_source *source, struct model_files *f) {
        AUTO_MODEL_CONFIG                       given = NULL;
        const Inference__ModelRepositoryAgents *agents = f->config->pb->model_repository_agents;

        if (agents == NULL || agents->n_agents == 0)
                return NULL;
        TRY(model_config_copy(f->config, &given));
        agents = given->pb->model_repository_agents;
        f->agents = agent_list_new(env, f->name, agents->n_agents);
        for (size_t i = 0; i < agents->n_agents; i++)
                TRY(run_agent(env, source, agents->agents[i], f));
        return NULL;
}

struct error *model_files_print_given_config(const struct model_config *config, char **ret) {
        AUTO_MODEL_CONFIG bare = NULL;
        AUTO_STRBUF       text = { .max = MODEL_CONFIG_ARENA_MAX_BYTES };

        TRY(model_config_copy(config, &bare));
        bare->pb->n_instance_group = 0;
        bare->pb->version_policy = NULL;
        TRY(model_config_print_json(bare, MODEL_CONFIG_VERSION, &text));
        *ret = strbuf_take(&text);
        return NULL;
}

static bool is_directory(const char *parent, const char *name) {
        AUTO_CHARS path = path_join(parent, name);

        return file_is_directory(path);
}

struct error *model_files_fill(struct model_config *config, const char *name,
                               const char *first_path) {
        struct dir_list            list = { 0 };
        struct config_place_entry *entries = NULL;
        struct error              *err = NULL;

        if (first_path != NULL)
                err = dir_list_read(first_path, &list);
        if (err == NULL) {
                entries = mem_zalloc((list.n_names + 1) * sizeof(*entries));
                for (size_t i = 0; i < list.n_names; i++)
                        entries[i] = (struct config_place_entry){
                                list.names[i], is_directory(first_path, list.names[i])
                        };
                err = model_config_fill(config,
                                        &(struct config_place){ .model_name = name,
                                                                .entries = entries,
                                                                .n_entries = list.n_names });
        }
        free(entries);
        dir_list_done(&list);
        return err;
}

struct error *model_files_scan(const char *directory, struct version_scan *scan, char **ret_first) {
        struct dir_list list;

        TRY(dir_list_read(directory, &list));
        for (size_t i = 0; i < list.n_names; i++) {
                if (list.names[i][0] == '.' || !is_directory(directory, list.names[i]))
                        continue;
                if (*ret_first == NULL)
                        *ret_first = path_join(directory, list.names[i]);
                version_scan_add(scan, str_of(list.names[i]));
        }
        dir_list_done(&list);
        return NULL;
}

static struct error *set_name(struct model_config *config, const char *name) {
        config->pb->name = (char *)protobuf_c_empty_string;
        return config_edit_text(config, &config->pb->name, "", name);
}

/* The refusal of a model whose backend is unknown has the text of the reference server, which speaks of
 * the name of the directory; mostly a file is missing, or lies in the wrong place. */
static struct error *fill_config(struct model_files *f, const char *first_path) {
        const Inference__ModelConfig *pb = f->config->pb;
        struct error                 *err = model_files_fill(f->config, f->name, first_path);

        if (err != NULL && !config_text_is_set(pb->backend) && !config_text_is_set(pb->platform))
                log_warn("model '%s': no config.pbtxt names its backend, and no file such as "
                         "1/model.onnx or 1/model.py shows it",
                         f->name);
        return err;
}

static struct error *read_all(const struct repo_environment *env, const struct model_source *source,
                              struct model_files *f, struct version_scan *scan) {
        AUTO_CHARS first = NULL;

        TRY(read_config(env, source, f));
        TRY(run_agents(env, source, f));
        if (source->is_mapped)
                TRY(set_name(f->config, f->name));
        TRY(model_files_scan(f->directory, scan, &first));
        TRY(model_files_print_given_config(f->config, &f->given_config));
        TRY(fill_config(f, first));
        TRY(model_config_normalize(f->config));
        TRY(model_config_check(f->config));
        TRY(model_config_check_name(f->config, f->name));
        TRY(model_files_print_given_config(f->config, &f->effective_config));
        if (!env->auto_complete &&
            !chain_line_is_platform(f->config)) /* its stages complete the configuration */
                TRY(model_config_check_io(f->config));
        f->no_version = version_policy_pick(f->config, scan, &f->versions);
        return NULL;
}

static struct error *read_local(const struct repo_environment *env,
                                const struct model_source *source, struct model_files *ret) {
        struct model_files  f = { .name = mem_strdup(source->key.name),
                                  .namespace = mem_strdup(source->key.namespace),
                                  .directory = mem_strdup(source->directory),
                                  .override = override_files_ref(source->override),
                                  .copy = store_copy_ref(source->copy) };
        struct version_scan scan;
        struct error       *err;

        version_scan_init(&scan);
        err = read_all(env, source, &f, &scan);
        for (size_t i = 0; i < scan.n_warnings; i++)
                log_warn("model '%s': %s", source->key.name, scan.warnings[i]);
        version_scan_done(&scan);
        if (err != NULL) {
                model_files_done(&f);
                return err;
        }
        *ret = f;
        return NULL;
}

struct error *model_files_read(const struct repo_environment *env,
                               const struct model_source *source, struct model_files *ret) {
        struct model_source local = *source;

        if (source->copy != NULL)
                local.directory = store_copy_directory(source->copy);
        return read_local(env, &local, ret);
}

void model_files_done(struct model_files *f) {
        version_pick_done(&f->versions);
        error_free(f->no_version);
        model_config_free(f->config);
        config_origin_done(&f->origin);
        agent_list_unref(f->agents);
        override_files_unref(f->override);
        store_copy_unref(f->copy);
        free(f->given_config);
        free(f->effective_config);
        free(f->directory);
        free(f->namespace);
        free(f->name);
        *f = (struct model_files){ 0 };
}
