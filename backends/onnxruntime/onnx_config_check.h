/* SPDX-License-Identifier: BSD-3-Clause */
/* The comparison of the model configuration with the model file. A model that cannot work fails at
 * load, with a message that has both sides.
 *
 * Threads.  The functions have no state.
 */
#pragma once

#include "kit/model.h"
#include "onnxruntime/onnx_session.h"

/* Returns INVALID_ARG for the first mismatch: a tensor that the file does not have, an input of the
 * file that nothing feeds, another type, another shape. */
TRITONSERVER_Error *onnx_config_check(const struct kit_model *model, const struct session *session);

/* True when the configuration makes the server feed an input that is not in its `input` list: a
 * sequence control, a state or a tensor that is made of the batch. */
bool config_has_server_input(const struct kit_model *model, const char *name);

/* True when the output is the next state of a sequence. */
bool config_is_state_output(const struct kit_model *model, const char *name);

/* True when the state with this output_name sets use_same_buffer_for_input_output. */
bool config_is_state_in_place(const struct kit_model *model, const char *output);

/* True when the shape of the state with this input_name may change. */
bool config_state_varies(const struct kit_model *model, const char *input);
