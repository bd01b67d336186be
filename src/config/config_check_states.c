/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of implicit state, which the server keeps for each sequence. */
#include "base/map.h"
#include "config/config_check.h"
#include "config/data_type.h"
#include "config/shape.h"

#include <inttypes.h>

/* More dimensions than any real model has. With a batch dimension it is the limit of a request's
 * tensors. */
#define STATE_MAX_DIMS 63

static struct error *check_initial_dims(
        const Inference__ModelSequenceBatching__State        *state,
        const Inference__ModelSequenceBatching__InitialState *initial) {
        if (initial->n_dims != state->n_dims)
                return error_in_field("dims",
                                      "Number of dimensions in 'initial_state' doesn't match the "
                                      "size of 'state' dimensions for state input '%s'. %zu != %zu",
                                      state->input_name, initial->n_dims, state->n_dims);
        for (size_t i = 0; i < initial->n_dims; i++) {
                if (initial->dims[i] < 0)
                        return error_at(
                                error_new(
                                        ERR_INVALID_ARG,
                                        "'initial_state' field for state input name '%s' contains "
                                        "variable dimensions.",
                                        state->input_name),
                                "dims[%zu]", i);
                if (state->dims[i] != SHAPE_ANY_DIM && initial->dims[i] != state->dims[i])
                        return error_at(
                                error_new(ERR_INVALID_ARG,
                                          "'initial_state' dim for input name '%s' doesn't match "
                                          "'state' dim description. %" PRId64 " != %" PRId64,
                                          state->input_name, initial->dims[i], state->dims[i]),
                                "dims[%zu]", i);
        }
        return NULL;
}

static struct error *check_initial(const Inference__ModelSequenceBatching__State *state) {
        const Inference__ModelSequenceBatching__InitialState *initial;

        if (state->n_initial_state > 1)
                return error_in_field("initial_state",
                                      "initial_state field for state input '%s' must contain "
                                      "exactly one or zero element. Found '%zu' elements.",
                                      state->input_name, state->n_initial_state);
        if (state->n_initial_state == 0)
                return NULL;
        initial = state->initial_state[0];
        if (initial->data_type != state->data_type)
                return error_in_field("initial_state[0].data_type",
                                      "The data type used for 'initial_state' field of state '%s' "
                                      "does not match the state data type.",
                                      state->input_name);
        if (!config_text_is_set(initial->name))
                return error_in_field(
                        "initial_state[0]",
                        "Field 'name' must be set when using initial_state for state input '%s'.",
                        state->input_name);
        TRY(error_at(check_initial_dims(state, initial), "initial_state[0]"));
        if (initial->state_data_case ==
            INFERENCE__MODEL_SEQUENCE_BATCHING__INITIAL_STATE__STATE_DATA__NOT_SET)
                return error_in_field(
                        "initial_state[0]",
                        "initial_state setting expects state'%s' to have state_data set",
                        state->input_name);
        return NULL;
}

static bool has_only_gpu_groups(const Inference__ModelConfig *pb) {
        for (size_t i = 0; i < pb->n_instance_group; i++)
                if (pb->instance_group[i]->kind != INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU)
                        return false;
        return true;
}

static struct error *check_memory(const Inference__ModelConfig                  *pb,
                                  const Inference__ModelSequenceBatching__State *state) {
        if (!state->use_growable_memory)
                return NULL;
        if (!state->use_same_buffer_for_input_output)
                return error_in_field("use_growable_memory",
                                      "In order to 'use_growable_memory', you must also enable "
                                      "'use_single_buffer' for state input name '%s'.",
                                      state->input_name);
        if (!has_only_gpu_groups(pb))
                return error_in_field(
                        "use_growable_memory",
                        "'use_growable_memory' can only work with KIND_GPU model instances right "
                        "now. Please either change the instance type to KIND_GPU or set "
                        "'use_growable_memory' to false for state input '%s'.",
                        state->input_name);
        return NULL;
}

static struct error *check_states(const Inference__ModelConfig *pb, struct map *seen) {
        const Inference__ModelSequenceBatching *sequence = pb->sequence_batching;

        for (size_t i = 0; i < sequence->n_state; i++) {
                Inference__ModelSequenceBatching__State *state = sequence->state[i];

                if (map_set(seen, str_of(state->input_name), state) != NULL)
                        return error_at(error_new(ERR_INVALID_ARG,
                                                  "State input name '%s' specified more than once.",
                                                  state->input_name),
                                        "state[%zu].input_name", i);
                TRY(error_at(check_initial(state), "state[%zu]", i));
                TRY(error_at(check_memory(pb, state), "state[%zu]", i));
        }
        return NULL;
}

/* ---- checks that the reference server does not have ------------------------------------------- */

static struct error *refuse_state(const Inference__ModelConfig                  *pb,
                                  const Inference__ModelSequenceBatching__State *state,
                                  const char                                    *reason) {
        return error_new(ERR_INVALID_ARG, "model state '%s' %s for %s", state->input_name, reason,
                         pb->name);
}

static struct error *check_tensor(const Inference__ModelConfig                  *pb,
                                  const Inference__ModelSequenceBatching__State *state) {
        if (!config_text_is_set(state->input_name))
                return error_new(ERR_INVALID_ARG, "model state must specify 'input_name' for %s",
                                 pb->name);
        if (!config_text_is_set(state->output_name))
                return refuse_state(pb, state, "must specify 'output_name'");
        if (data_type_name((enum data_type)state->data_type) == data_type_name(DATA_TYPE_INVALID))
                return error_at(refuse_state(pb, state, "must specify 'data_type'"), "data_type");
        if (state->n_dims > STATE_MAX_DIMS)
                return error_at(refuse_state(pb, state, "has too many dimensions"), "dims");
        for (size_t i = 0; i < state->n_dims; i++)
                if (state->dims[i] < 1 && state->dims[i] != SHAPE_ANY_DIM)
                        return error_at(
                                refuse_state(pb, state,
                                             "dimension must be integer >= 1, or -1 to indicate "
                                             "a variable-size dimension"),
                                "dims[%zu]", i);
        return NULL;
}

/* The server provides the input, so neither a client nor a control may provide it. */
static struct error *check_giver(const Inference__ModelConfig                  *pb,
                                 const Inference__ModelSequenceBatching__State *state) {
        const Inference__ModelSequenceBatching *sequence = pb->sequence_batching;
        const char                             *other = NULL;

        for (size_t i = 0; i < pb->n_input; i++)
                if (config_text_is(pb->input[i]->name, state->input_name))
                        other = "an input";
        for (size_t i = 0; i < sequence->n_control_input; i++)
                if (config_text_is(sequence->control_input[i]->name, state->input_name))
                        other = "a control input";
        if (other == NULL)
                return NULL;
        return error_in_field("input_name",
                              "model '%s': '%s' is %s and a state input of sequence_batching",
                              pb->name, state->input_name, other);
}

static struct error *check_tensors(const Inference__ModelConfig *pb, struct map *seen) {
        const Inference__ModelSequenceBatching *sequence = pb->sequence_batching;

        for (size_t i = 0; i < sequence->n_state; i++) {
                Inference__ModelSequenceBatching__State *state = sequence->state[i];

                TRY(error_at(check_tensor(pb, state), "state[%zu]", i));
                TRY(error_at(check_giver(pb, state), "state[%zu]", i));
                if (map_set(seen, str_of(state->output_name), state) != NULL)
                        return error_at(
                                error_new(ERR_INVALID_ARG,
                                          "State output name '%s' specified more than once.",
                                          state->output_name),
                                "state[%zu].output_name", i);
        }
        return NULL;
}

struct error *model_config_check_states(const struct model_config *c) {
        struct map    inputs, outputs;
        struct error *err;

        if (c->pb->scheduling_choice_case !=
            INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING)
                return NULL;
        map_init(&inputs);
        map_init(&outputs);
        err = check_states(c->pb, &inputs);
        if (err == NULL)
                err = check_tensors(c->pb, &outputs);
        map_done(&inputs);
        map_done(&outputs);
        return error_at(err, "sequence_batching");
}
