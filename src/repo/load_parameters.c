/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/load_parameters.h"

#include "base/file.h"
#include "base/mem.h"
#include "config/config_edit.h"
#include "config/model_config.h"
#include "repo/model_files.h"
#include "repo/repo_environment.h"

#include <string.h>

bool load_parameter_is_known(const char *name) {
        static const char *const names[] = { "next", "next_map", "chain_batching",
                                             "chain_allow_end", "chain_autoload" };

        for (size_t i = 0; i < ARRAY_LEN(names); i++)
                if (strcmp(name, names[i]) == 0)
                        return true;
        return false;
}

static struct error *read_config(const struct repo_environment *env, const char *directory,
                                 const char *config_json, struct model_config **ret) {
        AUTO_CHARS  path = NULL;
        AUTO_STRBUF text = { .max = MODEL_CONFIG_TEXT_MAX_BYTES };

        if (config_json != NULL)
                return error_wrap(model_config_read_json(str_of(config_json), ret),
                                  "Invalid config override");
        path = model_files_find_config(env->config_name, directory);
        if (path == NULL) {
                *ret = model_config_new();
                return NULL;
        }
        TRY(file_read(path, MODEL_CONFIG_TEXT_MAX_BYTES, &text));
        return error_wrap(model_config_read_text(strbuf_str(&text), path, ret),
                          "failed to read text proto from %s", path);
}

static void take_away(Inference__ModelConfig *pb, const char *name) {
        size_t n = 0;

        for (size_t i = 0; i < pb->n_parameters; i++)
                if (strcmp(pb->parameters[i]->key, name) != 0)
                        pb->parameters[n++] = pb->parameters[i];
        pb->n_parameters = n;
}

static struct error *put_parameter(struct model_config *c, const struct load_parameter *p) {
        Inference__ModelConfig                   *pb = c->pb;
        Inference__ModelConfig__ParametersEntry **all;
        Inference__ModelConfig__ParametersEntry  *entry;

        take_away(pb, p->name);
        if (*p->value == '\0')
                return NULL;
        all = arena_try_calloc(&c->arena, pb->n_parameters + 1, sizeof(*all));
        entry = config_edit_new(c, &inference__model_config__parameters_entry__descriptor);
        if (all == NULL || entry == NULL)
                return model_config_full(&c->arena);
        entry->value = config_edit_new(c, &inference__model_parameter__descriptor);
        if (entry->value == NULL)
                return model_config_full(&c->arena);
        TRY(config_edit_text(c, &entry->key, "", p->name));
        TRY(config_edit_text(c, &entry->value->string_value, "", p->value));
        for (size_t i = 0; i < pb->n_parameters; i++)
                all[i] = pb->parameters[i];
        all[pb->n_parameters++] = entry;
        pb->parameters = all;
        return NULL;
}

struct error *load_parameters_apply(const struct repo_environment *env, const char *directory,
                                    const char                  *config_json,
                                    const struct load_parameter *parameters, size_t n, char **ret) {
        AUTO_MODEL_CONFIG config = NULL;
        AUTO_STRBUF       text = { .max = MODEL_CONFIG_ARENA_MAX_BYTES };

        TRY(read_config(env, directory, config_json, &config));
        for (size_t i = 0; i < n; i++)
                TRY(put_parameter(config, &parameters[i]));
        TRY(model_config_print_json(config, MODEL_CONFIG_VERSION, &text));
        *ret = strbuf_take(&text);
        return NULL;
}
