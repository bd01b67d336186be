/* SPDX-License-Identifier: BSD-3-Clause */
#include "onnxruntime/onnx_config_check.h"

#include "kit/input.h"
#include "kit/text.h"

#include <stdlib.h>
#include <string.h>

static const struct kit_json_value *sequence_list(const struct kit_model *model,
                                                  const char             *member) {
        const struct kit_json_value *sequence =
                kit_json_find(kit_json_root(model->config), "sequence_batching");
        const struct kit_json_value *list = kit_json_find(sequence, member);

        return list != NULL ? list->first : NULL;
}

static bool has_element(const struct kit_json_value *at, const char *member, const char *name) {
        for (; at != NULL; at = at->next)
                if (strcmp(kit_json_string(kit_json_find(at, member), ""), name) == 0)
                        return true;
        return false;
}

static const struct kit_json_value *first_of(const struct kit_model *model, const char *list) {
        const struct kit_json_value *found = kit_json_find(kit_json_root(model->config), list);

        return found != NULL ? found->first : NULL;
}

/* True when `name` is a target of an element of batch_input or batch_output. */
static bool has_target(const struct kit_json_value *at, const char *name) {
        for (; at != NULL; at = at->next) {
                const struct kit_json_value *target = kit_json_find(at, "target_name");

                for (target = target != NULL ? target->first : NULL; target != NULL;
                     target = target->next)
                        if (strcmp(kit_json_string(target, ""), name) == 0)
                                return true;
        }
        return false;
}

bool config_has_server_input(const struct kit_model *model, const char *name) {
        return has_target(first_of(model, "batch_input"), name) ||
               has_element(sequence_list(model, "control_input"), "name", name) ||
               has_element(sequence_list(model, "state"), "input_name", name);
}

bool config_is_state_output(const struct kit_model *model, const char *name) {
        return has_element(sequence_list(model, "state"), "output_name", name);
}

/* Returns the state whose `member` (input_name or output_name) is `name`; NULL when there is
 * none. */
static const struct kit_json_value *find_state(const struct kit_model *model, const char *member,
                                               const char *name) {
        const struct kit_json_value *at = sequence_list(model, "state");

        while (at != NULL && strcmp(kit_json_string(kit_json_find(at, member), ""), name) != 0)
                at = at->next;
        return at;
}

bool config_is_state_in_place(const struct kit_model *model, const char *output) {
        return kit_json_bool(kit_json_find(find_state(model, "output_name", output),
                                           "use_same_buffer_for_input_output"),
                             false);
}

bool config_state_varies(const struct kit_model *model, const char *input) {
        const struct kit_json_value *dims =
                kit_json_find(find_state(model, "input_name", input), "dims");

        for (const struct kit_json_value *at = dims != NULL ? dims->first : NULL; at != NULL;
             at = at->next)
                if (kit_json_int(at, 0) < 0)
                        return true;
        return false;
}

/* "unexpected inference input 'X', allowed inputs are: A, B" */
static TRITONSERVER_Error *unexpected(const char *name, const char *kind,
                                      const struct ort_tensor *tensors, size_t n) {
        struct kit_text     text = { 0 };
        TRITONSERVER_Error *err;
        char               *list;

        for (size_t i = 0; i < n; i++)
                kit_text_print(&text, "%s%s", i > 0 ? ", " : "", tensors[i].name);
        list = kit_text_take(&text);
        err = kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                        "unexpected inference %s '%s', allowed %ss are: %s", kind, name, kind,
                        list != NULL ? list : "");
        free(list);
        return err;
}

static TRITONSERVER_Error *check_type(const struct kit_model *model, const char *kind,
                                      const struct kit_tensor *config,
                                      const struct ort_tensor *file) {
        if (file->type == TRITONSERVER_TYPE_INVALID)
                return kit_error(TRITONSERVER_ERROR_UNSUPPORTED,
                                 "unsupported datatype %d of ONNX for %s '%s' for model '%s'",
                                 (int)file->onnx_type, kind, file->name, model->name);
        if (config->type == file->type)
                return NULL;
        return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                         "unable to load model '%s', unexpected datatype %s for %s '%s', the model "
                         "expects %s",
                         model->name, kit_type_to_config(config->type), kind, config->name,
                         kit_type_to_config(file->type));
}

/* Compares with the shape of the configuration: a batch dimension before the dims when the model
 * batches. */
static bool shapes_agree(const struct kit_model *model, const struct kit_tensor *config,
                         const struct ort_tensor *file) {
        size_t n_batch = model->max_batch_size > 0;

        if (file->n_dims != config->n_dims + n_batch)
                return false;
        for (size_t i = 0; i < config->n_dims; i++) {
                int64_t in_file = file->dims[i + n_batch], given = config->dims[i];

                if (in_file != given && in_file != -1 && given != -1)
                        return false;
        }
        return true;
}

static TRITONSERVER_Error *no_batch_dim(const struct kit_model  *model,
                                        const struct ort_tensor *file) {
        struct kit_text     text = { 0 };
        TRITONSERVER_Error *err;

        kit_text_add_shape(&text, file->dims, file->n_dims);
        err = kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                        "model '%s', tensor '%s': for the model to support batching the shape "
                        "should have at least 1 dimension and the first dimension must be -1; but "
                        "shape expected by the model is %s",
                        model->name, file->name, text.chars != NULL ? text.chars : "");
        kit_text_done(&text);
        return err;
}

static TRITONSERVER_Error *shape_mismatch(const struct kit_model  *model,
                                          const struct kit_tensor *config,
                                          const struct ort_tensor *file) {
        bool                has_batch = model->max_batch_size > 0;
        struct kit_text     text = { 0 };
        TRITONSERVER_Error *err;

        kit_text_print(&text, "model '%s', tensor '%s': the model expects %zu dimensions (shape ",
                       model->name, file->name, file->n_dims);
        kit_text_add_shape(&text, file->dims, file->n_dims);
        kit_text_print(&text, ") but the model configuration specifies %u dimensions (%sshape ",
                       config->n_dims + has_batch,
                       has_batch ? "an initial batch dimension because max_batch_size > 0 followed "
                                   "by the explicit tensor shape, making complete "
                                 : "");
        if (has_batch)
                kit_text_print(&text, "[-1%s", config->n_dims > 0 ? "," : "");
        else
                kit_text_print(&text, "[");
        for (uint32_t i = 0; i < config->n_dims; i++)
                kit_text_print(&text, "%s%lld", i > 0 ? "," : "", (long long)config->dims[i]);
        kit_text_print(&text, "])");
        err = kit_error(TRITONSERVER_ERROR_INVALID_ARG, "%s", text.chars != NULL ? text.chars : "");
        kit_text_done(&text);
        return err;
}

/* True for a fixed number of rows, which a member's file may have. */
static bool has_fixed_rows(const struct session *session, const struct ort_tensor *file) {
        return session->is_member && session->n_rows > 0 && file->dims[0] == session->n_rows;
}

/* A scalar of the file is [1] for clients, or, after `reshape`, []. */
static bool is_one_number(const struct kit_tensor *config) {
        return config->n_dims == 0 || (config->n_dims == 1 && config->dims[0] == 1);
}

/* A tensor of the file with an unknown shape is left to the run. The first dimension of a file that batches must be variable, except in a member's file. */
static TRITONSERVER_Error *check_shape(const struct kit_model *model, const struct session *session,
                                       const struct kit_tensor *config,
                                       const struct ort_tensor *file) {
        bool has_batch = model->max_batch_size > 0;

        if (config->is_ragged)
                return NULL;
        if (file->n_dims == 0 && !has_batch)
                return !file->is_scalar || is_one_number(config)
                               ? NULL
                               : shape_mismatch(model, config, file);
        if (has_batch &&
            (file->n_dims == 0 || (file->dims[0] != -1 && !has_fixed_rows(session, file))))
                return no_batch_dim(model, file);
        return shapes_agree(model, config, file) ? NULL : shape_mismatch(model, config, file);
}

static TRITONSERVER_Error *check_tensor(const struct kit_model *model,
                                        const struct session *session, const char *kind,
                                        const struct kit_tensor *config,
                                        const struct ort_tensor *file) {
        KIT_TRY(check_type(model, kind, config, file));
        return check_shape(model, session, config, file);
}

/* The file must also have the inputs that the server feeds, besides those of clients. */
static TRITONSERVER_Error *check_controls(const struct kit_model *model,
                                          const struct session   *session) {
        for (const struct kit_json_value *at = sequence_list(model, "control_input"); at != NULL;
             at = at->next) {
                const char *name = kit_json_string(kit_json_find(at, "name"), "");

                if (session_find_input(session, name) == NULL)
                        return unexpected(name, "input", session->inputs, session->n_inputs);
        }
        return NULL;
}

static size_t count_sequence_list(const struct kit_model *model, const char *member) {
        size_t n = 0;

        for (const struct kit_json_value *at = sequence_list(model, member); at != NULL;
             at = at->next)
                n++;
        return n;
}

static size_t count_batch_inputs(const struct kit_model *model) {
        size_t n = 0;

        for (const struct kit_json_value *at = first_of(model, "batch_input"); at != NULL;
             at = at->next)
                n += kit_json_count(kit_json_find(at, "target_name"));
        return n;
}

/* True when a client or the server sends the input. */
static bool is_provided(const struct kit_model *model, const char *name) {
        return kit_model_find_input(model, name) != NULL || config_has_server_input(model, name);
}

/* Comes before the check of names, as in the reference server. An input that has a default may be
 * configured or left out. */
static TRITONSERVER_Error *check_number_of_inputs(const struct kit_model *model,
                                                  const struct session   *session) {
        size_t n = model->n_inputs + count_sequence_list(model, "control_input") +
                   count_sequence_list(model, "state") + count_batch_inputs(model);

        for (size_t i = session->n_required; i < session->n_inputs; i++)
                if (is_provided(model, session->inputs[i].name))
                        n--;
        if (n == session->n_required)
                return NULL;
        return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                         "unable to load model '%s', configuration expects %zu inputs, model "
                         "provides %zu",
                         model->name, n, session->n_required);
}

/* Finds inputs of the file that the configuration omits although the numbers agree, for example
 * when the configuration lists one name twice. */
static TRITONSERVER_Error *check_all_provided(const struct kit_model *model,
                                              const struct session   *session) {
        for (size_t i = 0; i < session->n_required; i++) {
                const char *name = session->inputs[i].name;

                if (!is_provided(model, name))
                        return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                         "unable to load model '%s', input '%s' of the model is "
                                         "not in the configuration",
                                         model->name, name);
        }
        return NULL;
}

/* Describes a state as a tensor, under one of its two names. */
static TRITONSERVER_Error *check_state_tensor(const struct kit_model      *model,
                                              const struct session        *session,
                                              const struct kit_json_value *state,
                                              const char *member, const struct ort_tensor *file) {
        const char                  *type = kit_json_string(kit_json_find(state, "data_type"), "");
        const struct kit_json_value *list = kit_json_find(state, "dims");
        int64_t                      dims[KIT_MAX_DIMS];
        struct kit_tensor            config = { .name = file->name,
                                                .type = kit_type_from_config(type),
                                                .dims = dims };

        for (const struct kit_json_value *at = list != NULL ? list->first : NULL; at != NULL;
             at = at->next) {
                if (config.n_dims == KIT_MAX_DIMS)
                        return kit_error(TRITONSERVER_ERROR_UNSUPPORTED,
                                         "state '%s' has more than the %d dimensions supported",
                                         file->name, KIT_MAX_DIMS);
                dims[config.n_dims++] = kit_json_int(at, -1);
        }
        return check_tensor(model, session, strcmp(member, "input_name") == 0 ? "input" : "output",
                            &config, file);
}

/* A state is both an input and an output of the file. */
static TRITONSERVER_Error *check_states(const struct kit_model *model,
                                        const struct session   *session) {
        for (const struct kit_json_value *at = sequence_list(model, "state"); at != NULL;
             at = at->next) {
                const char *input = kit_json_string(kit_json_find(at, "input_name"), "");
                const char *output = kit_json_string(kit_json_find(at, "output_name"), "");
                const struct ort_tensor *in = session_find_input(session, input);
                const struct ort_tensor *out = session_find_output(session, output);

                if (in == NULL)
                        return unexpected(input, "input", session->inputs, session->n_inputs);
                if (out == NULL)
                        return unexpected(output, "output", session->outputs, session->n_outputs);
                KIT_TRY(check_state_tensor(model, session, at, "input_name", in));
                KIT_TRY(check_state_tensor(model, session, at, "output_name", out));
        }
        return NULL;
}

/* The file also has the tensors that are made of the batch. */
static TRITONSERVER_Error *check_batch_inputs(const struct kit_model *model,
                                              const struct session   *session) {
        for (const struct kit_json_value *at = first_of(model, "batch_input"); at != NULL;
             at = at->next) {
                const struct kit_json_value *list = kit_json_find(at, "target_name");
                struct kit_tensor            config = {
                                   .type = kit_type_from_config(
                                           kit_json_string(kit_json_find(at, "data_type"), "")),
                };

                for (list = list != NULL ? list->first : NULL; list != NULL; list = list->next) {
                        const struct ort_tensor *file;

                        config.name = kit_json_string(list, "");
                        file = session_find_input(session, config.name);
                        if (file == NULL)
                                return unexpected(config.name, "input", session->inputs,
                                                  session->n_inputs);
                        KIT_TRY(check_type(model, "input", &config, file));
                }
        }
        return NULL;
}

TRITONSERVER_Error *onnx_config_check(const struct kit_model *model,
                                      const struct session   *session) {
        KIT_TRY(check_number_of_inputs(model, session));
        for (uint32_t i = 0; i < model->n_inputs; i++) {
                const struct kit_tensor *config = &model->inputs[i];
                const struct ort_tensor *file = session_find_input(session, config->name);

                if (file == NULL)
                        return unexpected(config->name, "input", session->inputs,
                                          session->n_inputs);
                KIT_TRY(check_tensor(model, session, "input", config, file));
        }
        KIT_TRY(check_controls(model, session));
        KIT_TRY(check_states(model, session));
        KIT_TRY(check_batch_inputs(model, session));
        KIT_TRY(check_all_provided(model, session));
        for (uint32_t i = 0; i < model->n_outputs; i++) {
                const struct kit_tensor *config = &model->outputs[i];
                const struct ort_tensor *file = session_find_output(session, config->name);

                if (file == NULL)
                        return unexpected(config->name, "output", session->outputs,
                                          session->n_outputs);
                if (has_target(first_of(model, "batch_output"), config->name))
                        KIT_TRY(check_type(model, "output", config,
                                           file)); /* flat over the batch */
                else
                        KIT_TRY(check_tensor(model, session, "output", config, file));
        }
        return NULL;
}
