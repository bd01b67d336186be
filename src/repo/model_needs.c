/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/model_needs.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "config/chain_line.h"
#include "config/config_edit.h"
#include "config/model_config.h"
#include "repo/model_files.h"
#include "repo/repo_environment.h"

#include <string.h>

static void add_need(struct model_needs *needs, const char *name, const char *namespace,
                     int64_t version) {
        needs->items = mem_realloc(needs->items, (needs->n + 1) * sizeof(*needs->items));
        needs->items[needs->n++] = (struct model_need){
                .name = mem_strdup(name),
                .namespace = mem_strdup(namespace),
                .version = version,
        };
}

/* Each step of an ensemble may be an ensemble: twenty of two steps each execute a million models for one request,
 * and take as long to be asked whether they are ready. */
struct error *model_needs_check_size(const char *name, size_t n_all) {
        if (n_all <= MAX_ALL_STEPS)
                return NULL;
        return error_new(ERR_INVALID_ARG,
                         "'%s' executes %zu models for a request, counting those of its steps, at "
                         "most %d are supported",
                         name, n_all, MAX_ALL_STEPS);
}

/* The number is checked first: each model that is needed is looked for, also with locks held. */
static struct error *read_ensemble(const struct model_config *c, struct model_needs *needs) {
        const Inference__ModelEnsembling *ensemble = c->pb->ensemble_scheduling;

        TRY(model_needs_check_size(c->pb->name, ensemble->n_step));
        needs->kind = NEEDS_STEPS;
        for (size_t i = 0; i < ensemble->n_step; i++) {
                const Inference__ModelEnsembling__Step *step = ensemble->step[i];

                add_need(needs, step->model_name,
                         config_text_is_set(step->model_namespace) ? step->model_namespace : "",
                         step->model_version);
        }
        return NULL;
}

struct error *model_needs_read(const struct model_config *c, struct model_needs *ret) {
        struct model_needs needs = { .kind = NEEDS_NOTHING };
        struct chain_line  line;

        TRY(chain_line_read(c, &line));
        if (model_config_is_ensemble(c))
                TRY_OR(read_ensemble(c, &needs), chain_line_done(&line));
        else if (line.kind != CHAIN_NONE)
                needs.kind = line.kind == CHAIN_NEXT ? NEEDS_NEXT : NEEDS_STAGES;
        for (size_t i = 0; i < line.n_stages; i++)
                add_need(&needs, line.stages[i].name, "", line.stages[i].version);
        needs.is_strict = line.is_strict;
        chain_line_done(&line);
        *ret = needs;
        return NULL;
}

void model_needs_done(struct model_needs *needs) {
        for (size_t i = 0; i < needs->n; i++) {
                free(needs->items[i].name);
                free(needs->items[i].namespace);
        }
        free(needs->items);
        *needs = (struct model_needs){ .kind = NEEDS_NOTHING };
}

/* False when the text cannot contain needs. Most configurations are then not parsed twice. */
static bool may_need(struct str text) {
        static const char *const words[] = { "ensemble_scheduling", "ensembleScheduling",
                                             "parameters", "chain" };

        for (size_t i = 0; i < ARRAY_LEN(words); i++)
                if (text.len > 0 && memmem(text.ptr, text.len, words[i], strlen(words[i])) != NULL)
                        return true;
        return false;
}

static struct error *read_file(const struct repo_environment *env, const char *directory,
                               struct model_config **ret) {
        AUTO_CHARS  path = model_files_find_config(env->config_name, directory);
        AUTO_STRBUF text = { .max = MODEL_CONFIG_TEXT_MAX_BYTES };

        if (path == NULL)
                return NULL;
        TRY(file_read(path, MODEL_CONFIG_TEXT_MAX_BYTES, &text));
        return may_need(strbuf_str(&text)) ? model_config_read_text(strbuf_str(&text), path, ret)
                                           : NULL;
}

static struct error *read_config(const struct repo_environment *env, const char *directory,
                                 const char *config_json, struct model_config **ret) {
        if (config_json == NULL)
                return read_file(env, directory, ret);
        return may_need(str_of(config_json)) ? model_config_read_json(str_of(config_json), ret)
                                             : NULL;
}

struct error *model_needs_peek(const struct repo_environment *env, const char *name,
                               const char *directory, const char *config_json,
                               struct model_needs *ret) {
        AUTO_MODEL_CONFIG config = NULL;
        AUTO_ERROR        unreadable = read_config(env, directory, config_json, &config);

        *ret = (struct model_needs){ .kind = NEEDS_NOTHING };
        /* The load of the configuration finds what is wrong with it, but memory may be back then. */
        if (unreadable != NULL && (unreadable->is_static || unreadable->code == ERR_UNAVAILABLE))
                return STEAL(unreadable);
        if (unreadable != NULL || config == NULL)
                return NULL;
        if (!config_text_is_set(config->pb->name))
                TRY(config_edit_text(config, &config->pb->name, "", name));
        return model_needs_read(config, ret);
}
