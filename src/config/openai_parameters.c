/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/openai_parameters.h"

#include "base/compiler.h"
#include "base/str.h"

#define N_NEEDED 2

struct format_row {
        const char *name;
        const char *needs[N_NEEDED]; /* inputs */
};

static const struct format_row formats[] = {
        { "vllm", { "text_input", "sampling_parameters" } },
        { "trtllm", { "text_input", "max_tokens" } },
        { "llmapi", { "text_input", "sampling_param_max_tokens" } },
        { "openai", { "openai_request" } },
        { "embed", { NULL } },
};

static struct error *refuse_parameter(const struct model_config *c, const char *key,
                                      const char *value, const char *expected) {
        return model_config_at_parameter(
                c, key,
                error_new(ERR_INVALID_ARG,
                          "the parameter '%s' of model '%s' is '%s', but must be %s", key,
                          c->pb->name, value, expected));
}

static bool has_input(const struct model_config *c, const char *name) {
        for (size_t i = 0; i < c->pb->n_input; i++)
                if (config_text_is(c->pb->input[i]->name, name))
                        return true;
        return false;
}

static struct error *check_inputs(const struct model_config *c, const struct format_row *format) {
        for (size_t i = 0; i < N_NEEDED && c->pb->n_input > 0; i++)
                if (format->needs[i] != NULL && !has_input(c, format->needs[i]))
                        return model_config_at_parameter(
                                c, "openai_format",
                                error_new(ERR_INVALID_ARG,
                                          "the parameter 'openai_format' of model '%s' is '%s', "
                                          "but the model has no input '%s'",
                                          c->pb->name, format->name, format->needs[i]));
        return NULL;
}

static struct error *check_format(const struct model_config *c) {
        const char *format = model_config_find_parameter(c, "openai_format");

        if (format == NULL)
                return NULL;
        for (size_t i = 0; i < ARRAY_LEN(formats); i++)
                if (strcmp(format, formats[i].name) == 0)
                        return check_inputs(c, &formats[i]);
        return refuse_parameter(c, "openai_format", format,
                                "'vllm', 'trtllm', 'llmapi', 'openai' or 'embed'");
}

/* Models of the formats vllm and openai say themselves whether they make embeddings. */
static bool is_embed(const struct model_config *c) {
        const char *kind = model_config_find_parameter(c, "openai");
        const char *format = model_config_find_parameter(c, "openai_format");

        if (format != NULL)
                return strcmp(format, "embed") == 0;
        return kind != NULL && strcmp(kind, "embeddings") == 0 && !has_input(c, "openai_request") &&
               !has_input(c, "text_input");
}

static struct error *check_embed(const struct model_config *c) {
        const char *key =
                model_config_find_parameter(c, "openai") != NULL ? "openai" : "openai_format";
        const Inference__ModelConfig *pb = c->pb;

        if (!is_embed(c) || pb->n_input == 0)
                return NULL;
        if (pb->input[0]->data_type == INFERENCE__DATA_TYPE__TYPE_STRING &&
            (pb->n_input == 1 ||
             (pb->n_input == 2 && config_text_is(pb->input[1]->name, "dimensions"))))
                return NULL;
        return model_config_at_parameter(
                c, key,
                error_new(ERR_INVALID_ARG,
                          "model '%s' cannot serve embeddings: it needs one input of the type "
                          "TYPE_STRING, and may have a second one, 'dimensions'",
                          pb->name));
}

static struct error *check_kind(const struct model_config *c) {
        const char *kind = model_config_find_parameter(c, "openai");

        if (kind != NULL && strcmp(kind, "embeddings") != 0 && strcmp(kind, "off") != 0)
                return refuse_parameter(c, "openai", kind, "'embeddings' or 'off'");
        return NULL;
}

static struct error *check_max_tokens(const struct model_config *c) {
        const char *tokens = model_config_find_parameter(c, "openai_max_tokens");
        uint64_t    n;

        if (tokens == NULL || (str_to_u64(str_of(tokens), &n) && n > 0 && n <= INT32_MAX))
                return NULL;
        return refuse_parameter(c, "openai_max_tokens", tokens, "a positive integer");
}

static struct error *check_dimensions(const struct model_config *c) {
        const char *dimensions = model_config_find_parameter(c, "openai_dimensions");

        if (dimensions == NULL || strcmp(dimensions, "truncate") == 0)
                return NULL;
        return refuse_parameter(c, "openai_dimensions", dimensions, "'truncate'");
}

struct error *openai_parameters_check(const struct model_config *c) {
        TRY(check_kind(c));
        TRY(check_format(c));
        TRY(check_embed(c));
        TRY(check_max_tokens(c));
        return check_dimensions(c);
}
