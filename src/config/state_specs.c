/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/state_specs.h"

#include "base/byte_budget.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "config/config_edit.h"
#include "config/model_config.h"
#include "config/shape.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STATE_FILE_MAX_BYTES ((size_t)1 << 31)
#define STRING_LENGTH_BYTES 4

typedef Inference__ModelSequenceBatching__State        config_state;
typedef Inference__ModelSequenceBatching__InitialState config_initial;

#define FROM_FILE INFERENCE__MODEL_SEQUENCE_BATCHING__INITIAL_STATE__STATE_DATA_DATA_FILE

static struct error *set_dims(const Inference__ModelConfig *pb, const config_state *state,
                              struct state_spec *ret) {
        const config_initial *initial = state->n_initial_state > 0 ? state->initial_state[0] : NULL;
        size_t                n_batch = pb->max_batch_size > 0 ? 1 : 0;
        int64_t              *dims = try_alloc((state->n_dims + n_batch + 1) * sizeof(*dims));
        int64_t               n_elements;

        if (dims == NULL)
                return config_out_of_memory();
        ret->dims = dims;
        ret->n_dims = (uint32_t)(state->n_dims + n_batch);
        if (n_batch > 0)
                dims[0] = 1;
        for (size_t i = 0; i < state->n_dims; i++) {
                int64_t dim = state->dims[i] == SHAPE_ANY_DIM ? 1 : state->dims[i];

                dims[n_batch + i] = initial != NULL ? initial->dims[i] : dim;
        }
        n_elements = shape_element_count(dims, ret->n_dims);
        if (n_elements < 0 ||
            !size_mul((size_t)n_elements,
                      ret->type == DATA_TYPE_BYTES ? STRING_LENGTH_BYTES
                                                   : data_type_size(ret->type),
                      &ret->n_bytes) ||
            ret->n_bytes > SIZE_MAX / 4)
                return error_in_field("dims", "state '%s' of model '%s' is larger than any memory",
                                      state->input_name, pb->name);
        return NULL;
}

/* Size of n_strings texts, each with its length before it; false when n_bytes end earlier. */
static bool measure_strings(const char *at, size_t n_bytes, size_t n_strings, size_t *ret) {
        size_t done = 0;

        for (size_t i = 0; i < n_strings; i++) {
                uint32_t length;

                if (n_bytes - done < sizeof(length))
                        return false;
                memcpy(&length, at + done, sizeof(length));
                done += sizeof(length);
                if (n_bytes - done < length)
                        return false;
                done += length;
        }
        *ret = done;
        return true;
}

static struct error *check_content(const config_initial *initial, struct state_spec *spec,
                                   const struct strbuf *content) {
        const char *input = spec->input_name;

        if (content->len < spec->n_bytes)
                return error_new(ERR_INVALID_ARG,
                                 "initial_state setting expects %zu bytes, but the data provided "
                                 "from %sonly has %zu bytes.",
                                 spec->n_bytes, initial->data_file, content->len);
        if (spec->type != DATA_TYPE_BYTES ||
            measure_strings(content->ptr, content->len, spec->n_bytes / STRING_LENGTH_BYTES,
                            &spec->n_bytes))
                return NULL;
        return error_new(ERR_INVALID_ARG,
                         "initial_state of state '%s': the file '%s' does not have %zu strings, "
                         "each with its length in 4 bytes before it",
                         input, initial->data_file, spec->n_bytes / STRING_LENGTH_BYTES);
}

/* Like the reference server, ignores the rest of a file that is too long. */
static struct error *read_initial(const config_initial *initial, const char *model_directory,
                                  struct state_specs *p, struct state_spec *spec) {
        AUTO_CHARS    directory = path_join(model_directory, "initial_state");
        AUTO_STRBUF   content = { .max = STATE_FILE_MAX_BYTES };
        struct error *err;
        int           fd;

        TRY(error_wrap(file_open_beneath(directory, initial->data_file, &fd),
                       "failed to open the initial state '%s' of state '%s'", initial->data_file,
                       spec->input_name));
        err = file_read_fd(fd, initial->data_file, STATE_FILE_MAX_BYTES, &content);
        close(fd);
        TRY(err);
        TRY(check_content(initial, spec, &content));
        if (p->budget != NULL && !byte_budget_take(p->budget, content.len))
                return error_new(ERR_UNAVAILABLE,
                                 "no room for the %zu bytes of '%s': the memory for states of "
                                 "sequences is used up",
                                 content.len, initial->data_file);
        p->n_charged += content.len;
        spec->initial = strbuf_take(&content);
        return NULL;
}

static struct error *set_state(const Inference__ModelConfig *pb, const char *model_directory,
                               const config_state *state, struct state_specs *p) {
        struct state_spec *ret = &p->states[p->n++];

        *ret = (struct state_spec){ .input_name = mem_strdup(state->input_name),
                                    .output_name = mem_strdup(state->output_name),
                                    .type = (enum data_type)state->data_type,
                                    .is_in_place = state->use_same_buffer_for_input_output,
                                    .is_growable = state->use_growable_memory };
        TRY(set_dims(pb, state, ret));
        if (state->n_initial_state == 0 || state->initial_state[0]->state_data_case != FROM_FILE)
                return NULL;
        return error_at(read_initial(state->initial_state[0], model_directory, p, ret),
                        "initial_state[0].data_file");
}

/* The states of one sequence must fit into an empty budget, or every request would fail. */
static struct error *check_sizes(const Inference__ModelConfig *pb, const struct state_specs *p) {
        const struct byte_budget *b = p->budget;
        size_t                    room = b != NULL ? b->max - b->max / 8 : SIZE_MAX;
        size_t                    n_bytes = 0;

        for (uint32_t i = 0; i < p->n; i++)
                if (!size_add(n_bytes, p->states[i].n_bytes, &n_bytes))
                        n_bytes = SIZE_MAX;
        if (n_bytes <= room)
                return NULL;
        return error_new(
                ERR_INVALID_ARG,
                "the states of a sequence of model '%s' take %zu bytes, but the server has "
                "%zu bytes for the states of all sequences",
                pb->name, n_bytes, room);
}

struct error *state_specs_new(const struct model_config *c, const char *model_directory,
                              struct byte_budget *budget, struct state_specs **ret) {
        const Inference__ModelSequenceBatching *sequence = c->pb->sequence_batching;
        struct state_specs                     *p;

        *ret = NULL;
        if (c->pb->scheduling_choice_case !=
                    INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING ||
            sequence->n_state == 0)
                return NULL;
        p = mem_zalloc(sizeof(*p));
        p->budget = budget;
        p->states = mem_zalloc(sequence->n_state * sizeof(*p->states));
        for (size_t i = 0; i < sequence->n_state; i++)
                TRY_OR(error_at(set_state(c->pb, model_directory, sequence->state[i], p),
                                "sequence_batching.state[%zu]", i),
                       state_specs_free(p));
        TRY_OR(error_at(check_sizes(c->pb, p), "sequence_batching.state"), state_specs_free(p));
        *ret = p;
        return NULL;
}

void state_specs_free(struct state_specs *p) {
        if (p == NULL)
                return;
        for (uint32_t i = 0; i < p->n; i++) {
                free(p->states[i].input_name);
                free(p->states[i].output_name);
                free(p->states[i].dims);
                free(p->states[i].initial);
        }
        free(p->states);
        if (p->budget != NULL)
                byte_budget_give(p->budget, p->n_charged);
        free(p);
}
