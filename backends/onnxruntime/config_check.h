/* SPDX-License-Identifier: BSD-3-Clause */
/* The model configuration held against the model file: a model that cannot work fails at load,
 * with a text that prints both sides.
 *
 * Threads.  Nothing here has state.
 */
#pragma once

#include "kit/model.h"
#include "onnxruntime/session.h"

/* INVALID_ARG for the first thing that does not fit: a tensor that the file does not have, an
 * input of the file that nothing provides, another type, another shape. */
TRITONSERVER_Error *config_check(const struct kit_model *model, const struct session *session);

/* Whether the configuration makes the server feed the input besides its `input` list: as a control
 * of sequences or as a state. */
bool config_has_server_input(const struct kit_model *model, const char *name);

/* Whether the output is the next state of a sequence. */
bool config_is_state_output(const struct kit_model *model, const char *name);

/* Whether the state with this output_name sets use_same_buffer_for_input_output. */
bool config_is_state_in_place(const struct kit_model *model, const char *output);

/* By the name of its input: whether the shape of its values may change. */
bool config_state_varies(const struct kit_model *model, const char *input);
