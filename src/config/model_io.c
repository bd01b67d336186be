/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/model_io.h"

#include "base/mem.h"
#include "config/config_edit.h"

#include <string.h>

#define SAME_VALUE(name, value, config_name, ...)                                                  \
        _Static_assert((int)INFERENCE__DATA_TYPE__TYPE_##config_name == (value),                   \
                       "data types differ");
DATA_TYPES(SAME_VALUE)

/* The fields that inputs and outputs have in common in the message. */
struct io_source {
        const char                          *name;
        Inference__DataType                  type;
        const int64_t                       *dims;
        size_t                               n_dims;
        const Inference__ModelTensorReshape *reshape; /* may be NULL */
        bool                                 is_shape_tensor;
};

/* NULL only when memory is short; n 0 gives a valid pointer. */
static const int64_t *copy_dims(struct arena *a, const int64_t *dims, size_t n) {
        int64_t *copy = arena_try_alloc(a, MAX(n, 1) * sizeof(*copy));

        if (copy != NULL && n > 0)
                memcpy(copy, dims, n * sizeof(*copy));
        return copy;
}

static struct error *compile_io(struct arena *a, const struct io_source *from,
                                struct model_io *io) {
        size_t  n_reshape = from->reshape != NULL ? from->reshape->n_shape : 0;
        int64_t bytes;

        if (from->n_dims > UINT32_MAX || n_reshape > UINT32_MAX)
                return error_new(ERR_INVALID_ARG, "too many dimensions for '%s'", from->name);
        io->name = arena_try_str(a, str_of(from->name));
        io->dims = copy_dims(a, from->dims, from->n_dims);
        if (io->name == NULL || io->dims == NULL)
                return config_out_of_memory();
        io->name_len = (uint32_t)strlen(io->name);
        io->type = (enum data_type)from->type;
        io->n_dims = (uint32_t)from->n_dims;
        io->is_variable = shape_is_variable(io->dims, io->n_dims);
        io->has_reshape = from->reshape != NULL;
        if (io->has_reshape) {
                io->reshape = copy_dims(a, from->reshape->shape, n_reshape);
                io->n_reshape = (uint32_t)n_reshape;
                if (io->reshape == NULL)
                        return config_out_of_memory();
        }
        bytes = shape_byte_size(io->type, io->dims, io->n_dims);
        if (bytes == SHAPE_OVERFLOW || bytes == SHAPE_BYTES_OVERFLOW)
                return error_new(ERR_INVALID_ARG, "tensor '%s' has more bytes than can be counted",
                                 from->name);
        if (bytes > 0 && !io->has_reshape && !from->is_shape_tensor)
                io->fixed_bytes = (uint64_t)bytes;
        io->is_shape_tensor = from->is_shape_tensor;
        return NULL;
}

static struct error *compile_input(struct model_io_set *s, const Inference__ModelInput *pb,
                                   struct model_io *io) {
        struct io_source from = { pb->name,   pb->data_type, pb->dims,
                                  pb->n_dims, pb->reshape,   pb->is_shape_tensor };

        TRY(compile_io(&s->arena, &from, io));
        io->is_optional = pb->optional;
        io->is_ragged = pb->allow_ragged_batch;
        s->n_required_inputs += !io->is_optional;
        return NULL;
}

static struct error *compile_output(struct model_io_set *s, const Inference__ModelOutput *pb,
                                    struct model_io *io) {
        struct io_source from = { pb->name,   pb->data_type, pb->dims,
                                  pb->n_dims, pb->reshape,   pb->is_shape_tensor };

        TRY(compile_io(&s->arena, &from, io));
        if (config_text_is_set(pb->label_filename)) {
                io->label_filename = arena_try_str(&s->arena, str_of(pb->label_filename));
                if (io->label_filename == NULL)
                        return config_out_of_memory();
        }
        return NULL;
}

static struct error *alloc_list(struct arena *a, size_t n, struct model_io **ret) {
        *ret = n <= UINT32_MAX ? arena_try_calloc(a, n, sizeof(**ret)) : NULL;
        return *ret != NULL ? NULL : config_out_of_memory();
}

/* With more tensors, a walk over the names takes longer than a hash of one. */
#define MAX_WALK 32

/* The first one of a name counts, as for a walk. */
static void list_names(struct map *names, struct model_io *ios, uint32_t n) {
        for (uint32_t i = 0; n > MAX_WALK && i < n; i++) {
                struct str name = { ios[i].name, ios[i].name_len };

                if (map_find(names, name) == NULL)
                        map_set(names, name, &ios[i]);
        }
}

static struct error *compile(struct model_io_set *s, const Inference__ModelConfig *pb) {
        TRY(alloc_list(&s->arena, pb->n_input, &s->inputs));
        TRY(alloc_list(&s->arena, pb->n_output, &s->outputs));
        s->output_names = arena_try_alloc(&s->arena, MAX(pb->n_output, 1) * sizeof(char *));
        if (s->output_names == NULL)
                return config_out_of_memory();
        s->max_batch_size = (uint32_t)MAX(pb->max_batch_size, 0);
        s->n_inputs = (uint32_t)pb->n_input;
        s->n_outputs = (uint32_t)pb->n_output;
        for (size_t i = 0; i < pb->n_input; i++)
                TRY(compile_input(s, pb->input[i], &s->inputs[i]));
        for (size_t i = 0; i < pb->n_output; i++) {
                TRY(compile_output(s, pb->output[i], &s->outputs[i]));
                s->output_names[i] = s->outputs[i].name;
        }
        list_names(&s->inputs_by_name, s->inputs, s->n_inputs);
        list_names(&s->outputs_by_name, s->outputs, s->n_outputs);
        return NULL;
}

struct error *model_io_set_new(const struct model_config *c, struct model_io_set **ret) {
        struct model_io_set *s = mem_zalloc(sizeof(*s));

        arena_init(&s->arena, NULL, 0, MODEL_CONFIG_ARENA_MAX_BYTES);
        map_init(&s->inputs_by_name);
        map_init(&s->outputs_by_name);
        TRY_OR(compile(s, c->pb), model_io_set_free(s));
        *ret = s;
        return NULL;
}

void model_io_set_free(struct model_io_set *s) {
        if (s == NULL)
                return;
        map_done(&s->inputs_by_name);
        map_done(&s->outputs_by_name);
        arena_done(&s->arena);
        free(s);
}

static inline bool has_name(const struct model_io *io, struct str name) {
        return io->name_len == name.len && memcmp(io->name, name.ptr, name.len) == 0;
}

static const struct model_io *find_io(const struct model_io *ios, uint32_t n,
                                      const struct map *names, struct str name, uint32_t hint) {
        if (hint < n && has_name(&ios[hint], name))
                return &ios[hint];
        if (n > MAX_WALK)
                return map_find(names, name);
        for (uint32_t i = 0; i < n; i++)
                if (has_name(&ios[i], name))
                        return &ios[i];
        return NULL;
}

const struct model_io *model_io_find_input(const struct model_io_set *s, struct str name,
                                           uint32_t hint) {
        return find_io(s->inputs, s->n_inputs, &s->inputs_by_name, name, hint);
}

const struct model_io *model_io_find_output(const struct model_io_set *s, struct str name,
                                            uint32_t hint) {
        return find_io(s->outputs, s->n_outputs, &s->outputs_by_name, name, hint);
}

const struct model_io *model_io_find_output_text(const struct model_io_set *s, const char *name,
                                                 uint32_t hint) {
        const struct model_io *likely = hint < s->n_outputs ? &s->outputs[hint] : NULL;

        if (likely != NULL && strcmp(likely->name, name) == 0)
                return likely;
        return model_io_find_output(s, str_of(name), 0);
}
