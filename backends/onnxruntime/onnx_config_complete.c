/* SPDX-License-Identifier: BSD-3-Clause */
#include "onnxruntime/onnx_config_complete.h"

#include "kit/text.h"
#include "onnxruntime/onnx_config_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One of the two lists that are completed: inputs or outputs. */
struct side {
        const char              *member; /* list of the configuration */
        const struct ort_tensor *file;
        size_t                   n_file;
        bool (*is_ours)(const struct kit_model *model, const char *name); /* tensors that clients do
                                                                           * not send */
        bool adds_missing; /* also to a list that is not empty */
};

static bool all_first_dims_open(const struct ort_tensor *tensors, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (tensors[i].n_dims == 0 || tensors[i].dims[0] != -1)
                        return false;
        return true;
}

/* Returns false when the given dims count the batch dimension, too: then the configuration
 * describes a model that does not batch. */
static bool dims_leave_room(const struct kit_tensor *given, uint32_t n,
                            const struct ort_tensor *file, size_t n_file) {
        for (uint32_t i = 0; i < n; i++)
                for (size_t j = 0; j < n_file; j++)
                        if (strcmp(given[i].name, file[j].name) == 0 && given[i].n_dims > 0 &&
                            given[i].n_dims >= file[j].n_dims)
                                return false;
        return true;
}

static bool can_batch(const struct session *session) {
        return all_first_dims_open(session->inputs, session->n_required) &&
               all_first_dims_open(session->outputs, session->n_outputs);
}

static int64_t complete_batch_size(const struct kit_model *model, const struct session *session) {
        if (model->max_batch_size > 0 || session->n_required == 0)
                return model->max_batch_size;
        if (!can_batch(session) ||
            !dims_leave_room(model->inputs, model->n_inputs, session->inputs, session->n_inputs) ||
            !dims_leave_room(model->outputs, model->n_outputs, session->outputs,
                             session->n_outputs))
                return 0;
        return session->ort->default_max_batch_size;
}

/* Adds "dims":[..] of a tensor of the file. A scalar, which has no dims, is [1] for clients; where
 * rows are batched, its `reshape` is the model's own empty shape. */
static void print_dims(struct kit_text *text, const struct ort_tensor *file, bool has_batch) {
        size_t skipped = has_batch && file->n_dims > 0 ? 1 : 0;

        kit_text_print(text, "\"dims\":");
        if (file->n_dims > skipped) {
                kit_text_add_shape(text, file->dims + skipped, file->n_dims - skipped);
                return;
        }
        kit_text_print(text, "[1]");
        if (has_batch)
                kit_text_print(text, ",\"reshape\":{\"shape\":[]}");
}

static void print_tensor(struct kit_text *text, const struct ort_tensor *file, bool has_batch) {
        kit_text_print(text, "{\"name\":");
        kit_text_add_json(text, file->name);
        kit_text_print(text, ",\"data_type\":\"%s\",", kit_type_to_config(file->type));
        print_dims(text, file, has_batch);
        kit_text_print(text, "}");
}

/* Adds a JSON scalar as text. The members of a tensor's configuration are printed again with it. */
static void print_value(struct kit_text *text, const struct kit_json_value *value);

static void print_children(struct kit_text *text, const struct kit_json_value *value) {
        bool is_object = value->type == KIT_JSON_OBJECT;

        kit_text_print(text, is_object ? "{" : "[");
        for (const struct kit_json_value *at = value->first; at != NULL; at = at->next) {
                if (is_object) {
                        kit_text_add_json(text, at->key);
                        kit_text_print(text, ":");
                }
                print_value(text, at);
                if (at->next != NULL)
                        kit_text_print(text, ",");
        }
        kit_text_print(text, is_object ? "}" : "]");
}

/* kit_json_read() has limited the depth of the document, and so the recursion. */
static void print_value(struct kit_text *text, const struct kit_json_value *value) {
        switch (value->type) {
        case KIT_JSON_NULL: kit_text_print(text, "null"); break;
        case KIT_JSON_FALSE: kit_text_print(text, "false"); break;
        case KIT_JSON_TRUE: kit_text_print(text, "true"); break;
        case KIT_JSON_NUMBER: kit_text_add(text, value->text, value->end - value->begin); break;
        case KIT_JSON_STRING: kit_text_add_json(text, value->text); break;
        case KIT_JSON_ARRAY:
        case KIT_JSON_OBJECT: print_children(text, value); break;
        }
}

/* Adds a tensor of the configuration, with its type and dims when it lacks them. */
static void print_given(struct kit_text *text, const struct kit_json_value *given,
                        const struct ort_tensor *file, bool has_batch) {
        const struct kit_json_value *type = kit_json_find(given, "data_type");
        bool lacks_type = strcmp(kit_json_string(type, "TYPE_INVALID"), "TYPE_INVALID") == 0;
        bool lacks_dims = kit_json_count(kit_json_find(given, "dims")) == 0;

        if (file == NULL || (!lacks_type && !lacks_dims)) {
                print_value(text, given);
                return;
        }
        kit_text_print(text, "{");
        for (const struct kit_json_value *at = given->first; at != NULL; at = at->next) {
                if ((lacks_type && strcmp(at->key, "data_type") == 0) ||
                    (lacks_dims &&
                     (strcmp(at->key, "dims") == 0 || strcmp(at->key, "reshape") == 0)))
                        continue;
                kit_text_add_json(text, at->key);
                kit_text_print(text, ":");
                print_value(text, at);
                kit_text_print(text, ",");
        }
        if (lacks_type)
                kit_text_print(text, "\"data_type\":\"%s\"%s", kit_type_to_config(file->type),
                               lacks_dims ? "," : "");
        if (lacks_dims)
                print_dims(text, file, has_batch);
        kit_text_print(text, "}");
}

static const struct ort_tensor *find_file(const struct side *side, const char *name) {
        for (size_t i = 0; i < side->n_file; i++)
                if (strcmp(side->file[i].name, name) == 0)
                        return &side->file[i];
        return NULL;
}

static bool is_listed(const struct kit_json_value *list, const char *name) {
        const struct kit_json_value *at = list != NULL ? list->first : NULL;

        for (; at != NULL; at = at->next)
                if (strcmp(kit_json_string(kit_json_find(at, "name"), ""), name) == 0)
                        return true;
        return false;
}

/* A list with a name that the file does not have is not completed. It does not fit, and
 * onnx_config_check() reports that. */
static bool all_are_known(const struct side *side, const struct kit_json_value *list) {
        for (const struct kit_json_value *at = list != NULL ? list->first : NULL; at != NULL;
             at = at->next)
                if (find_file(side, kit_json_string(kit_json_find(at, "name"), "")) == NULL)
                        return false;
        return true;
}

/* Returns the completed list; NULL when memory is short. */
static char *complete_list(const struct kit_model *model, const struct side *side, bool has_batch) {
        const struct kit_json_value *list =
                kit_json_find(kit_json_root(model->config), side->member);
        const struct kit_json_value *at = list != NULL ? list->first : NULL;
        bool            adds = at == NULL || (side->adds_missing && all_are_known(side, list));
        struct kit_text text = { 0 };
        const char     *comma = "";

        kit_text_print(&text, "[");
        for (; at != NULL; at = at->next) {
                const char *name = kit_json_string(kit_json_find(at, "name"), "");

                kit_text_print(&text, "%s", comma);
                print_given(&text, at, find_file(side, name), has_batch);
                comma = ",";
        }
        for (size_t i = 0; adds && i < side->n_file; i++) {
                const char *name = side->file[i].name;

                if (side->file[i].has_default || is_listed(list, name) ||
                    side->is_ours(model, name))
                        continue;
                kit_text_print(&text, "%s", comma);
                print_tensor(&text, &side->file[i], has_batch);
                comma = ",";
        }
        kit_text_print(&text, "]");
        return kit_text_take(&text);
}

static bool has_scheduler(const struct kit_model *model) {
        const struct kit_json_value *root = kit_json_root(model->config);

        return kit_json_find(root, "dynamic_batching") != NULL ||
               kit_json_find(root, "sequence_batching") != NULL ||
               kit_json_find(root, "ensemble_scheduling") != NULL;
}

static TRITONSERVER_Error *set_completed(struct kit_model *model, int64_t batch_size,
                                         const char *inputs, const char *outputs) {
        struct kit_json_edit edits[4] = {
                { "input", inputs },
                { "output", outputs },
        };
        size_t              n = 2;
        TRITONSERVER_Error *err;
        char                size[24], *json;

        (void)snprintf(size, sizeof(size), "%" PRId64, batch_size);
        edits[n++] = (struct kit_json_edit){ "max_batch_size", size };
        if (model->max_batch_size == 0 && batch_size > 1 && !has_scheduler(model))
                edits[n++] = (struct kit_json_edit){ "dynamic_batching", "{}" };
        json = kit_json_edited(model->config, edits, n);
        if (json == NULL)
                return kit_error_no_memory(0, "the completed configuration");
        err = kit_model_set_config(model, json);
        free(json);
        return err;
}

static TRITONSERVER_Error *complete(struct kit_model *model, const struct session *session) {
        const struct side   inputs = { "input", session->inputs, session->n_inputs,
                                       config_has_server_input, true };
        const struct side   outputs = { "output", session->outputs, session->n_outputs,
                                        config_is_state_output, false };
        int64_t             batch_size = complete_batch_size(model, session);
        char               *input_list = complete_list(model, &inputs, batch_size > 0);
        char               *output_list = complete_list(model, &outputs, batch_size > 0);
        TRITONSERVER_Error *err;

        if (input_list != NULL && output_list != NULL)
                err = set_completed(model, batch_size, input_list, output_list);
        else
                err = kit_error_no_memory(0, "the completed configuration");
        free(input_list);
        free(output_list);
        return err;
}

TRITONSERVER_Error *onnx_config_complete(struct kit_model *model, const struct session *session) {
        if (model->max_batch_size > 0 && !can_batch(session))
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "autofill failed for model '%s': model does not support batching "
                                 "while non-zero max_batch_size is specified",
                                 model->name);
        return complete(model, session);
}
