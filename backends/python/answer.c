/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/answer.h"

#include "kit/input.h"
#include "kit/json.h"
#include "kit/output.h"
#include "kit/scratch.h"
#include "python/device_tensor.h"

#include <stdlib.h>
#include <string.h>

static TRITONSERVER_Error *broken_answer(const struct answer_source *source) {
        region_break(source->region);
        return kit_error(TRITONSERVER_ERROR_INTERNAL, "the Python process wrote a wrong answer");
}

/* The reason why answer_copy_text() returned NULL. */
static TRITONSERVER_Error *no_text(const struct answer_source *source, struct shm_text text) {
        return atomic_load(&source->region->is_broken) ? broken_answer(source)
                                                       : kit_error_no_memory(text.len, "a text");
}

bool answer_copy(const struct answer_source *source, uint32_t at, void *to, size_t n_bytes) {
        if (at > source->n_bytes || n_bytes > source->n_bytes - at) {
                region_break(source->region);
                return false;
        }
        memcpy(to, (const char *)region_block(source->region, source->block) + at, n_bytes);
        return true;
}

char *answer_copy_text(const struct answer_source *source, struct shm_text text) {
        char *copy = NULL;

        if (text.at > source->n_bytes || text.len > source->n_bytes - text.at) {
                region_break(source->region);
                return NULL;
        }
        copy = kit_alloc_array((size_t)text.len + 1, 1);
        if (copy != NULL && text.len > 0)
                memcpy(copy, (const char *)region_block(source->region, source->block) + text.at,
                       text.len);
        return copy;
}

void answer_write_log(const struct answer_source *source) {
        struct shm_log log;
        char          *file, *text;

        if (!answer_copy(source, 0, &log, sizeof(log)))
                return;
        file = answer_copy_text(source, log.file);
        text = answer_copy_text(source, log.text);
        if (file != NULL && text != NULL && log.level <= TRITONSERVER_LOG_VERBOSE)
                kit_error_log(TRITONSERVER_LogMessage((TRITONSERVER_LogLevel)log.level, file,
                                                      (int)log.line, text),
                              "failed to log");
        free(file);
        free(text);
}

/* ---- outputs --------------------------------------------------------------------------------- */

static bool is_size_right(const struct shm_tensor *tensor, const int64_t *dims) {
        uint64_t n = 1, size = TRITONSERVER_DataTypeByteSize((TRITONSERVER_DataType)tensor->type);

        if (size == 0 && tensor->type != TRITONSERVER_TYPE_BYTES)
                return false; /* no such type */
        for (uint32_t i = 0; i < tensor->n_dims; i++)
                if (dims[i] < 0 || __builtin_mul_overflow(n, (uint64_t)dims[i], &n))
                        return false;
        if (tensor->type == TRITONSERVER_TYPE_BYTES)
                return true;
        return !__builtin_mul_overflow(n, size, &n) && n == tensor->n_bytes;
}

static bool is_wanted(const struct answer_wanted *wanted, const char *name) {
        return wanted->request == NULL || kit_wants_output(wanted->request, name);
}

/* Asks for memory of the kind where the bytes are. What it gets may be of another kind. */
static TRITONSERVER_Error *write_output(const struct answer_source *source,
                                        const struct kit_output    *output,
                                        const struct device_bytes *from, uint64_t n_bytes,
                                        TRITONBACKEND_Response *response) {
        struct kit_place       to = from->place;
        struct NESO_MemoryCopy copy;
        TRITONBACKEND_Output  *made;
        void                  *memory;

        KIT_TRY(TRITONBACKEND_ResponseOutput(response, &made, output->name, output->type,
                                             output->shape, output->n_dims));
        KIT_TRY(TRITONBACKEND_OutputBuffer(made, &memory, n_bytes, &to.type, &to.id));
        if (kit_place_is_gpu(&to) || kit_place_is_gpu(&from->place)) {
                copy = kit_copy_for_server(&(struct kit_copy){ .to = memory,
                                                               .from = from->bytes,
                                                               .n_bytes = (size_t)n_bytes,
                                                               .to_place = to,
                                                               .from_place = from->place });
                return device_copy_all(source->instance->model->backend, &copy, 1);
        }
        if (n_bytes > 0)
                memcpy(memory, from->bytes, n_bytes);
        return NULL;
}

static TRITONSERVER_Error *add_device_output(const struct answer_source *source,
                                             const struct shm_tensor    *tensor,
                                             const struct kit_output    *output,
                                             TRITONBACKEND_Response     *response) {
        struct device_tensor opened;
        TRITONSERVER_Error  *err;

        KIT_TRY(device_tensor_open(source, tensor, output->name, &opened));
        err = write_output(source, output, &opened.found, tensor->n_bytes, response);
        device_tensor_close(source->instance, &opened);
        return err;
}

static TRITONSERVER_Error *add_output(const struct answer_source *source,
                                      const struct shm_tensor *tensor, const char *name,
                                      TRITONBACKEND_Response *response) {
        int64_t             dims[SHM_MAX_DIMS];
        struct kit_output   output = { .name = name,
                                       .type = (TRITONSERVER_DataType)tensor->type,
                                       .shape = dims,
                                       .n_dims = tensor->n_dims };
        struct device_bytes from;

        if (tensor->n_dims > SHM_MAX_DIMS ||
            !answer_copy(source, tensor->dims, dims, tensor->n_dims * sizeof(*dims)) ||
            !is_size_right(tensor, dims))
                return broken_answer(source);
        if (tensor->gpu != 0)
                return add_device_output(source, tensor, &output, response);
        from = (struct device_bytes){ { TRITONSERVER_MEMORY_CPU, 0 },
                                      region_find(source->region, tensor->data, tensor->n_bytes) };
        if (from.bytes == NULL && tensor->n_bytes > 0)
                return broken_answer(source);
        return write_output(source, &output, &from, tensor->n_bytes, response);
}

/* Once for an instance: mostly a name is misspelt, and the client gets an answer without outputs. */
static void warn_of_output(struct instance *instance, const char *name) {
        if (instance->has_warned_of_output)
                return;
        instance->has_warned_of_output = true;
        kit_log(TRITONSERVER_LOG_WARN, __FILE__, __LINE__,
                "model instance '%s' answers with the output '%s', which the model's configuration "
                "does not have; it is dropped",
                instance->name, name);
}

/* Once for a model. The output is sent as it is, as by the reference server: clients see its type. */
static void check_type(struct model *model, const struct kit_tensor *known, uint32_t type) {
        if (type == known->type || known->type == TRITONSERVER_TYPE_INVALID ||
            atomic_load_explicit(&model->has_warned_of_type, memory_order_relaxed) ||
            atomic_exchange(&model->has_warned_of_type, true))
                return;
        kit_log(TRITONSERVER_LOG_WARN, __FILE__, __LINE__,
                "model '%s' answers with the output '%s' of data type %s, while its configuration "
                "has %s; it is sent as it is",
                model->kit.name, known->name,
                TRITONSERVER_DataTypeString((TRITONSERVER_DataType)type),
                TRITONSERVER_DataTypeString(known->type));
}

static TRITONSERVER_Error *add_named(const struct answer_source *source,
                                     const struct answer_wanted *wanted,
                                     const struct shm_tensor    *tensor,
                                     TRITONBACKEND_Response     *response) {
        TRITONSERVER_Error *err = NULL;
        char               *name;

        if (tensor->name_index < wanted->n_outputs) {
                const struct kit_tensor *known = &wanted->outputs[tensor->name_index];

                if (!is_wanted(wanted, known->name))
                        return NULL;
                check_type(source->instance->model, known, tensor->type);
                return add_output(source, tensor, known->name, response);
        }
        name = answer_copy_text(source, tensor->name);
        if (name == NULL)
                return no_text(source, tensor->name);
        if (is_wanted(wanted, name))
                err = add_output(source, tensor, name, response);
        else
                warn_of_output(source->instance, name);
        free(name);
        return err;
}

/* ---- parameters ------------------------------------------------------------------------------ */

static TRITONSERVER_Error *add_parameter(const struct kit_json_value *value,
                                         TRITONBACKEND_Response      *response) {
        switch (value->type) {
        case KIT_JSON_TRUE:
        case KIT_JSON_FALSE:
                return TRITONBACKEND_ResponseSetBoolParameter(response, value->key,
                                                              value->type == KIT_JSON_TRUE);
        case KIT_JSON_STRING:
                return TRITONBACKEND_ResponseSetStringParameter(response, value->key, value->text);
        case KIT_JSON_NUMBER:
                if (strpbrk(value->text, ".eE") != NULL)
                        return TRITONBACKEND_ResponseSetDoubleParameter(response, value->key,
                                                                        kit_json_double(value, 0));
                return TRITONBACKEND_ResponseSetIntParameter(response, value->key,
                                                             kit_json_int(value, 0));
        default: return NULL;
        }
}

static TRITONSERVER_Error *add_parameters(const struct answer_source *source, struct shm_text text,
                                          TRITONBACKEND_Response *response) {
        char               *chars = answer_copy_text(source, text);
        struct kit_json    *doc = NULL;
        TRITONSERVER_Error *err;

        if (chars == NULL)
                return no_text(source, text);
        err = kit_json_read(chars, text.len, "the parameters of a response", &doc);
        if (err == NULL)
                for (const struct kit_json_value *v = kit_json_root(doc)->first;
                     v != NULL && err == NULL; v = v->next)
                        err = v->key != NULL ? add_parameter(v, response) : NULL;
        kit_json_free(doc);
        free(chars);
        return err;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static TRITONSERVER_Error *fill_response(const struct answer_source *source,
                                         const struct shm_answer    *answer,
                                         const struct answer_wanted *wanted,
                                         TRITONBACKEND_Response     *response) {
        if (answer->n_outputs > SHM_MAX_OUTPUTS)
                return broken_answer(source);
        for (uint32_t i = 0; i < answer->n_outputs; i++) {
                struct shm_tensor tensor;

                if (!answer_copy(source, answer->outputs + i * (uint32_t)sizeof(tensor), &tensor,
                                 sizeof(tensor)))
                        return broken_answer(source);
                KIT_TRY(add_named(source, wanted, &tensor, response));
        }
        return answer->parameters.len > 0 ? add_parameters(source, answer->parameters, response)
                                          : NULL;
}

TRITONSERVER_Error *answer_fill(const struct answer_source *source, uint32_t at,
                                const struct answer_wanted *wanted,
                                TRITONBACKEND_Response *response, TRITONSERVER_Error **ret_error) {
        struct shm_answer answer;
        char             *text;

        *ret_error = NULL;
        if (!answer_copy(source, at, &answer, sizeof(answer)))
                return broken_answer(source);
        if (answer.kind == SHM_ANSWER_OK)
                return fill_response(source, &answer, wanted, response);
        text = answer_copy_text(source, answer.text);
        if (text == NULL)
                return no_text(source, answer.text);
        *ret_error = TRITONSERVER_ErrorNew(answer.code <= TRITONSERVER_ERROR_CANCELLED
                                                   ? (TRITONSERVER_Error_Code)answer.code
                                                   : TRITONSERVER_ERROR_INTERNAL,
                                           text);
        free(text);
        return answer.parameters.len > 0 ? add_parameters(source, answer.parameters, response)
                                         : NULL;
}
