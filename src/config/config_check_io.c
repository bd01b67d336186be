/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of inputs, outputs, batch inputs and batch outputs.
 */
#include "base/map.h"
#include "config/config_check.h"
#include "config/shape.h"

/* The fields that inputs and outputs have in common. */
struct io_subject {
        const char                          *role; /* "input" or "output", in the texts */
        const char                          *name;
        Inference__DataType                  type;
        const int64_t                       *dims;
        size_t                               n_dims;
        const Inference__ModelTensorReshape *reshape; /* may be NULL */
};

static struct error *refuse_io(const Inference__ModelConfig *pb, const struct io_subject *io,
                               const char *reason) {
        return error_new(ERR_INVALID_ARG, "model %s '%s' %s for %s", io->role, io->name, reason,
                         pb->name);
}

/* Index of the first bad dimension; n when all are valid. */
static size_t find_bad_dim(const int64_t *dims, size_t n) {
        size_t i = 0;

        while (i < n && (dims[i] >= 1 || dims[i] == SHAPE_ANY_DIM))
                i++;
        return i;
}

static size_t count_variable(const int64_t *dims, size_t n) {
        size_t count = 0;

        for (size_t i = 0; i < n; i++)
                count += dims[i] == SHAPE_ANY_DIM;
        return count;
}

/* Number of elements of the dimensions from *at up to the next variable one, which is skipped. */
static int64_t next_run(const int64_t *dims, size_t n, size_t *at) {
        size_t first = *at;
        size_t end = first;

        while (end < n && dims[end] != SHAPE_ANY_DIM)
                end++;
        *at = end < n ? end + 1 : n;
        return end > first ? shape_element_count(dims + first, end - first) : 1;
}

/* The runs of fixed dimensions between variable ones must have the same number of elements on both
 * sides: [2,4,-1,6] may become [8,-1,1,6]. */
static bool has_equal_runs(const struct io_subject *io) {
        size_t n_runs = count_variable(io->dims, io->n_dims) + 1;
        size_t at = 0;
        size_t reshape_at = 0;

        for (size_t i = 0; i < n_runs; i++) {
                int64_t left = next_run(io->dims, io->n_dims, &at);
                int64_t right = next_run(io->reshape->shape, io->reshape->n_shape, &reshape_at);

                if (left != right || left == SHAPE_OVERFLOW)
                        return false;
        }
        return true;
}

static struct error *check_reshape(const Inference__ModelConfig *pb, const struct io_subject *io) {
        const int64_t *shape = io->reshape->shape;
        size_t         n = io->reshape->n_shape;
        size_t         bad_dim = find_bad_dim(shape, n);

        if (bad_dim < n)
                return error_at(
                        refuse_io(pb, io,
                                  "reshape dimensions must be integer >= 1, or -1 to indicate a "
                                  "variable-size dimension"),
                        "shape[%zu]", bad_dim);
        if (shape_element_count(io->dims, io->n_dims) != shape_element_count(shape, n))
                return error_at(refuse_io(pb, io, "has different size for dims and reshape"),
                                "shape");
        if (count_variable(io->dims, io->n_dims) != count_variable(shape, n))
                return error_at(
                        refuse_io(pb, io,
                                  "has different number of variable-size dimensions for dims and "
                                  "reshape"),
                        "shape");
        if (!has_equal_runs(io))
                return error_at(refuse_io(pb, io, "has different size for dims and reshape"),
                                "shape");
        return NULL;
}

static struct error *check_shape(const Inference__ModelConfig *pb, const struct io_subject *io) {
        size_t bad_dim = find_bad_dim(io->dims, io->n_dims);

        if (!config_text_is_set(io->name))
                return error_new(ERR_INVALID_ARG, "model %s must specify 'name' for %s", io->role,
                                 pb->name);
        if (io->type == INFERENCE__DATA_TYPE__TYPE_INVALID ||
            data_type_name((enum data_type)io->type) == data_type_name(DATA_TYPE_INVALID))
                return error_at(refuse_io(pb, io, "must specify 'data_type'"), "data_type");
        if (io->n_dims == 0)
                return error_at(refuse_io(pb, io, "must specify 'dims'"), "dims");
        /* Without a batch dimension such a tensor would have no dimension at all. */
        if (io->reshape != NULL && io->reshape->n_shape == 0 && pb->max_batch_size == 0)
                return error_at(refuse_io(pb, io,
                                          "cannot have empty reshape for non-batching model as "
                                          "scalar tensors "
                                          "are not supported"),
                                "reshape");
        if (bad_dim < io->n_dims)
                return error_at(
                        refuse_io(
                                pb, io,
                                "dimension must be integer >= 1, or -1 to indicate a variable-size "
                                "dimension"),
                        "dims[%zu]", bad_dim);
        if (io->reshape != NULL)
                TRY(error_at(check_reshape(pb, io), "reshape"));
        if (shape_byte_size((enum data_type)io->type, io->dims, io->n_dims) < SHAPE_INVALID_DIM)
                return error_at(refuse_io(pb, io, "has more bytes than can be counted"), "dims");
        return NULL;
}

static struct error *check_tensorrt_only(const Inference__ModelConfig *pb, bool is_shape_tensor,
                                         bool is_non_linear) {
        if (config_text_is(pb->platform, "tensorrt_plan"))
                return NULL;
        if (is_shape_tensor)
                return error_in_field(
                        "is_shape_tensor",
                        "shape tensors are only supported for TensorRT platform for %s", pb->name);
        if (is_non_linear)
                return error_in_field(
                        "is_non_linear_format_io",
                        "Non-linear IO format is only supported for the TensorRT platform for %s",
                        pb->name);
        return NULL;
}

static struct error *check_input(const Inference__ModelConfig *pb,
                                 const Inference__ModelInput  *in) {
        struct io_subject io = {
                "input", in->name, in->data_type, in->dims, in->n_dims, in->reshape
        };

        TRY(check_shape(pb, &io));
        if (in->format != INFERENCE__MODEL_INPUT__FORMAT__FORMAT_NONE && in->n_dims != 3)
                return error_in_field("format", "model input NHWC/NCHW require 3 dims for %s",
                                      pb->name);
        TRY(check_tensorrt_only(pb, in->is_shape_tensor, in->is_non_linear_format_io));
        if (in->is_non_linear_format_io && in->n_dims != 3)
                return error_in_field("is_non_linear_format_io",
                                      "Non-linear IO format input requires 3 dims for %s",
                                      pb->name);
        return NULL;
}

static struct error *check_output(const Inference__ModelConfig *pb,
                                  const Inference__ModelOutput *out) {
        struct io_subject io = { "output",  out->name,   out->data_type,
                                 out->dims, out->n_dims, out->reshape };

        TRY(check_shape(pb, &io));
        TRY(check_tensorrt_only(pb, out->is_shape_tensor, out->is_non_linear_format_io));
        if (out->is_non_linear_format_io && out->n_dims != 3)
                return error_in_field("is_non_linear_format_io",
                                      "Non-linear IO format input requires 3 dims for %s",
                                      pb->name);
        return NULL;
}

/* Names of the model's tensors, for batch inputs and outputs. */
struct names {
        struct map inputs;
        struct map outputs;
        struct map targets; /* outputs that a batch output sets */
};

static struct error *check_source(const Inference__ModelConfig *pb, const struct names *names,
                                  const char *source) {
        if (map_find(&names->inputs, str_of(source)) == NULL)
                return error_new(ERR_INVALID_ARG, "unknown source input name '%s' for %s", source,
                                 pb->name);
        return NULL;
}

static struct error *check_batch_input(const Inference__ModelConfig *pb, const struct names *names,
                                       const Inference__BatchInput *in) {
        if (in->n_source_input != 1)
                return error_in_field(
                        "source_input",
                        "batch input kind '%s' expects 1 source input, got %zu for %s",
                        check_enum_name(&inference__batch_input__kind__descriptor, (int)in->kind),
                        in->n_source_input, pb->name);
        if (in->data_type != INFERENCE__DATA_TYPE__TYPE_INT32 &&
            in->data_type != INFERENCE__DATA_TYPE__TYPE_FP32)
                return error_in_field(
                        "data_type", "batch input data type must be TYPE_INT32 or TYPE_FP32 for %s",
                        pb->name);
        return error_at(check_source(pb, names, in->source_input[0]), "source_input[0]");
}

static struct error *check_batch_output(const Inference__ModelConfig *pb, struct names *names,
                                        const Inference__BatchOutput *out) {
        if (out->n_source_input != 1)
                return error_in_field(
                        "source_input",
                        "batch output kind '%s' expects 1 source input, got %zu for %s",
                        check_enum_name(&inference__batch_output__kind__descriptor, (int)out->kind),
                        out->n_source_input, pb->name);
        TRY(error_at(check_source(pb, names, out->source_input[0]), "source_input[0]"));
        for (size_t i = 0; i < out->n_target_name; i++) {
                char *target = out->target_name[i];

                if (map_find(&names->outputs, str_of(target)) == NULL)
                        return error_at(error_new(ERR_INVALID_ARG,
                                                  "unknown target output name '%s' for %s", target,
                                                  pb->name),
                                        "target_name[%zu]", i);
                if (map_set(&names->targets, str_of(target), target) != NULL)
                        return error_at(
                                error_new(
                                        ERR_INVALID_ARG,
                                        "target output name '%s' can only be specified once for %s",
                                        target, pb->name),
                                "target_name[%zu]", i);
        }
        return NULL;
}

static struct error *check_batch_io(const Inference__ModelConfig *pb, struct names *names) {
        for (size_t i = 0; i < pb->n_input; i++)
                map_set(&names->inputs, str_of(pb->input[i]->name), pb->input[i]);
        for (size_t i = 0; i < pb->n_output; i++)
                map_set(&names->outputs, str_of(pb->output[i]->name), pb->output[i]);
        for (size_t i = 0; i < pb->n_batch_input; i++)
                TRY(error_at(check_batch_input(pb, names, pb->batch_input[i]), "batch_input[%zu]",
                             i));
        for (size_t i = 0; i < pb->n_batch_output; i++)
                TRY(error_at(check_batch_output(pb, names, pb->batch_output[i]),
                             "batch_output[%zu]", i));
        return NULL;
}

struct error *model_config_check_input(const struct model_config *c, size_t i) {
        return error_at(check_input(c->pb, c->pb->input[i]), "input[%zu]", i);
}

struct error *model_config_check_output(const struct model_config *c, size_t i) {
        return error_at(check_output(c->pb, c->pb->output[i]), "output[%zu]", i);
}

struct error *model_config_check_batch_io(const struct model_config *c) {
        struct names  names;
        struct error *err;

        map_init(&names.inputs);
        map_init(&names.outputs);
        map_init(&names.targets);
        err = check_batch_io(c->pb, &names);
        map_done(&names.inputs);
        map_done(&names.outputs);
        map_done(&names.targets);
        return err;
}

struct error *model_config_check_io(const struct model_config *c) {
        for (size_t i = 0; i < c->pb->n_input; i++)
                TRY(model_config_check_input(c, i));
        for (size_t i = 0; i < c->pb->n_output; i++)
                TRY(model_config_check_output(c, i));
        return model_config_check_batch_io(c);
}
