/* SPDX-License-Identifier: BSD-3-Clause */
#include "openai/openai_model.h"

#include "core_api/core_error.h"
#include "triton/core/neso.h"

#include <string.h>

static const char *const format_names[N_OPENAI_FORMATS] = {
        [OPENAI_FORMAT_NONE] = "none",     [OPENAI_FORMAT_VLLM] = "vllm",
        [OPENAI_FORMAT_TRTLLM] = "trtllm", [OPENAI_FORMAT_LLMAPI] = "llmapi",
        [OPENAI_FORMAT_OPENAI] = "openai", [OPENAI_FORMAT_EMBED] = "embed",
};

const char *openai_format_name(enum openai_format format) {
        return format_names[format];
}

/* Returns NONE for an unknown name. */
static enum openai_format find_format(const char *name) {
        for (int i = OPENAI_FORMAT_NONE + 1; i < N_OPENAI_FORMATS; i++)
                if (strcmp(name, format_names[i]) == 0)
                        return (enum openai_format)i;
        return OPENAI_FORMAT_NONE;
}

/* INVALID when the model has no such input. */
static TRITONSERVER_DataType input_type(const struct openai_model *m, const char *name) {
        TRITONSERVER_DataType type = TRITONSERVER_TYPE_INVALID;
        const int64_t        *dims;
        uint64_t              n_dims;
        bool                  is_batched;

        core_error_drop(NESO_InferenceRequestModelInput(m->request, name, &type, &dims, &n_dims,
                                                        &is_batched));
        return type;
}

bool openai_model_takes(const struct openai_model *m, const char *input) {
        return input_type(m, input) != TRITONSERVER_TYPE_INVALID;
}

bool openai_model_needs(const struct openai_model *m, const char *input) {
        bool is_optional = true;

        core_error_drop(NESO_InferenceRequestModelInputIsOptional(m->request, input, &is_optional));
        return !is_optional;
}

/* Returns the string value of a parameter, NULL when the model has none of that name. */
static const char *parameter(const struct openai_model *m, const char *key) {
        const char *value = NULL;

        core_error_drop(NESO_InferenceRequestModelParameter(m->request, key, &value));
        return value;
}

static enum openai_format recognise(const struct openai_model *m) {
        if (input_type(m, "openai_request") == TRITONSERVER_TYPE_BYTES)
                return OPENAI_FORMAT_OPENAI;
        if (input_type(m, "text_input") != TRITONSERVER_TYPE_BYTES)
                return OPENAI_FORMAT_NONE;
        if (openai_model_takes(m, "sampling_parameters"))
                return OPENAI_FORMAT_VLLM;
        if (openai_model_takes(m, "sampling_param_max_tokens"))
                return OPENAI_FORMAT_LLMAPI;
        return openai_model_takes(m, "max_tokens") ? OPENAI_FORMAT_TRTLLM : OPENAI_FORMAT_NONE;
}

static struct error *refuse_value(const struct openai_model *m, const char *key, const char *value,
                                  const char *expected) {
        return error_new(ERR_INVALID_ARG,
                         "the parameter '%s' of model '%s' is '%s', but must be %s", key, m->name,
                         value, expected);
}

static struct error *read_format(struct openai_model *m) {
        const char *format = parameter(m, "openai_format");
        const char *kind = parameter(m, "openai");

        m->is_off = kind != NULL && strcmp(kind, "off") == 0;
        if (kind != NULL && !m->is_off && strcmp(kind, "embeddings") != 0)
                return refuse_value(m, "openai", kind, "'embeddings' or 'off'");
        if (format != NULL) {
                m->format = find_format(format);
                return m->format != OPENAI_FORMAT_NONE
                               ? NULL
                               : refuse_value(m, "openai_format", format,
                                              "'vllm', 'trtllm', 'llmapi', 'openai' or 'embed'");
        }
        m->format = recognise(m);
        if (m->format == OPENAI_FORMAT_NONE && kind != NULL && !m->is_off)
                m->format = OPENAI_FORMAT_EMBED;
        return NULL;
}

static struct error *read_parameters(struct openai_model *m) {
        const char *tokens = parameter(m, "openai_max_tokens");
        const char *dimensions = parameter(m, "openai_dimensions");

        m->template_model = parameter(m, "openai_template");
        if (tokens != NULL && (!str_to_u64(str_of(tokens), &m->max_tokens) || m->max_tokens == 0 ||
                               m->max_tokens > INT32_MAX))
                return refuse_value(m, "openai_max_tokens", tokens, "a positive integer");
        m->truncates = dimensions != NULL && strcmp(dimensions, "truncate") == 0;
        if (dimensions != NULL && !m->truncates)
                return refuse_value(m, "openai_dimensions", dimensions, "'truncate'");
        return NULL;
}

/* The only input of the model, which must be of texts. */
static struct error *find_embed_input(struct openai_model *m) {
        const char *second = NULL;

        TRY(core_error_take(NESO_InferenceRequestModelInputName(m->request, 0, &m->input)));
        TRY(core_error_take(NESO_InferenceRequestModelInputName(m->request, 1, &second)));
        if (second != NULL && strcmp(second, "dimensions") == 0)
                second = NULL;
        if (m->input != NULL && second == NULL &&
            input_type(m, m->input) == TRITONSERVER_TYPE_BYTES)
                return NULL;
        return error_new(ERR_INVALID_ARG,
                         "model '%s' cannot serve embeddings: it needs one input of the type "
                         "TYPE_STRING, and may have a second one, 'dimensions'",
                         m->name);
}

struct error *openai_model_read(struct TRITONSERVER_InferenceRequest *request, const char *name,
                                struct openai_model *ret) {
        *ret = (struct openai_model){ .name = name, .request = request };
        TRY(core_error_take(
                NESO_InferenceRequestModelLoad(request, &ret->max_batch_size, &ret->loaded_at_s)));
        TRY(read_format(ret));
        TRY(read_parameters(ret));
        return ret->format == OPENAI_FORMAT_EMBED ? find_embed_input(ret) : NULL;
}

/* ---- what a model can serve ---- */

static struct error *check_embeddings(const struct openai_model *m) {
        if (m->format == OPENAI_FORMAT_OPENAI || m->format == OPENAI_FORMAT_EMBED)
                return NULL;
        if (m->format == OPENAI_FORMAT_VLLM && openai_model_takes(m, "embedding_request"))
                return NULL;
        return openai_fault("model", "model '%s' serves no embeddings", m->name);
}

struct error *openai_model_check(const struct openai_model *m, enum openai_endpoint endpoint) {
        if (m->is_off || m->format == OPENAI_FORMAT_NONE)
                return openai_fault("model", "model '%s' cannot be used by the OpenAI API: %s",
                                    m->name,
                                    m->is_off
                                            ? "its parameter 'openai' is 'off'"
                                            : "its inputs fit no format (docs/language_models.md)");
        if (endpoint == OPENAI_EMBEDDINGS)
                return check_embeddings(m);
        if (m->format == OPENAI_FORMAT_EMBED)
                return openai_fault("model", "model '%s' serves embeddings only", m->name);
        if (endpoint == OPENAI_CHAT && m->format != OPENAI_FORMAT_OPENAI &&
            m->template_model == NULL)
                return openai_fault("model",
                                    "model '%s' has no chat template: its parameter "
                                    "'openai_template' names the model that renders messages",
                                    m->name);
        return NULL;
}
