/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/request_prepare.h"

#include "base/strbuf.h"
#include "config/shape.h"
#include "infer/host_inputs.h"
#include "infer/model.h"
#include "infer/request.h"
#include "infer/request_strings.h"

#define BATCH_NOTE                                                                                 \
        "NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension "  \
        "to be prepended to each input shape. If you want to specify the full shape including "    \
        "the batch dim in your input dims config, try setting max_batch_size to zero. See the "    \
        "model configuration docs for more info on max_batch_size."

static const char *model_name(const struct request *req) {
        return req->model->name;
}

bool request_runs_chain(const struct request *req) {
        const struct parameter *p;

        if (!req->model->has_next || req->is_inner)
                return false;
        p = req->parameters.n > 0 ? parameter_list_find(&req->parameters, "chain") : NULL;
        return p != NULL && p->type == PARAMETER_BOOL ? p->boolean : !req->runs_alone;
}

/* Sets the output names for the backend: those requested, or all. */
static struct error *prepare_outputs(struct request *req) {
        const struct model_io_set *io = req->model->io;
        uint32_t                   n = req->n_outputs;
        const char               **names;
        uint32_t                   at = 0;

        /* The requested outputs of a chain are outputs of its last model; the chain checks their
         * names. */
        if (n == 0 || request_runs_chain(req)) {
                req->output_names = io->output_names;
                req->n_output_names = io->n_outputs;
                return NULL;
        }
        names = arena_room_get(&req->arena, &request_spares(req)->output_names_room,
                               n * sizeof(*names));
        if (names == NULL)
                return request_error(req, ERR_UNAVAILABLE, "out of memory");
        req->output_names = names;
        req->n_output_names = 0;
        for (struct requested_output *o = req->first_output; o != NULL; o = o->next, at++) {
                const struct model_io *found = model_io_find_output(io, str_of(o->name), at);

                if (found == NULL)
                        return error_new(ERR_INVALID_ARG,
                                         "unexpected inference output '%s' for model '%s'", o->name,
                                         model_name(req));
                names[at] = found->name;
        }
        req->n_output_names = n;
        return NULL;
}

static void list_missing(const struct request *req, struct strbuf *out) {
        const struct model_io_set *io = req->model->io;
        size_t                     before;

        strbuf_putc(out, '[');
        before = out->len;
        for (uint32_t i = 0; i < io->n_inputs; i++)
                if (!io->inputs[i].is_optional &&
                    request_find_input(req, io->inputs[i].name) == NULL)
                        strbuf_printf(out, "%s'%s'", out->len > before ? "," : "",
                                      io->inputs[i].name);
        strbuf_putc(out, ']');
}

static COLD struct error *wrong_input_count(const struct request *req) {
        const struct model_io_set *io = req->model->io;
        AUTO_STRBUF                got = { 0 };
        AUTO_STRBUF                missing = { 0 };

        for (struct request_input *in = req->first_input; in != NULL; in = in->next)
                strbuf_printf(&got, "%s'%s'", got.len > 0 ? "," : "", in->name);
        list_missing(req, &missing);
        TRY(strbuf_check(&got, "the text of an error"));
        TRY(strbuf_check(&missing, "the text of an error"));
        /* The reference drops the opening bracket of an empty list of missing inputs. */
        const char *missing_text = missing.len == 2 ? "]" : strbuf_cstr(&missing);

        if (io->n_required_inputs == io->n_inputs)
                return request_error(req, ERR_INVALID_ARG,
                                     "expected %u inputs but got %u inputs for model '%s'. Got "
                                     "input(s) [%s], but missing required input(s) %s. Please "
                                     "provide all required input(s).",
                                     io->n_inputs, req->n_inputs, model_name(req),
                                     strbuf_cstr(&got), missing_text);
        return request_error(req, ERR_INVALID_ARG,
                             "expected number of inputs between %u and %u but got %u inputs for "
                             "model '%s'. Got input(s) [%s], but missing required input(s) %s. "
                             "Please provide all required input(s).",
                             io->n_required_inputs, io->n_inputs, req->n_inputs, model_name(req),
                             strbuf_cstr(&got), missing_text);
}

/* Shape tensors have no batch dimension: their values hold for the whole batch. */
static bool is_shape_tensor(const struct request_input *in) {
        return in->io != NULL && in->io->is_shape_tensor;
}

static struct error *check_batch(struct request *req) {
        const struct model_io_set  *io = req->model->io;
        const struct request_input *first = NULL; /* the others must have its batch size */
        int64_t                     batch = 0;

        req->batch_size = 0;
        if (io->max_batch_size == 0)
                return NULL;
        for (struct request_input *in = req->first_input; in != NULL; in = in->next) {
                if (is_shape_tensor(in))
                        continue;
                if (in->n_given_dims == 0)
                        return request_error(req, ERR_INVALID_ARG,
                                             "input '%s' has no shape but model requires batch "
                                             "dimension for '%s'",
                                             in->name, model_name(req));
                if (first == NULL) {
                        first = in;
                        batch = in->given_shape[0];
                }
                if (in->given_shape[0] != batch)
                        return request_error(req, ERR_INVALID_ARG,
                                             "input '%s' batch size does not match other inputs "
                                             "for '%s'",
                                             in->name, model_name(req));
        }
        /* The reference reads a negative batch size as a very large one. */
        if (batch < 0 || batch > (int64_t)io->max_batch_size)
                return request_error(req, ERR_INVALID_ARG,
                                     "inference request batch-size must be <= %u for '%s'",
                                     io->max_batch_size, model_name(req));
        req->batch_size = (uint64_t)batch;
        return NULL;
}

/* Prepends the uint32 length to the bytes of a BYTES element. */
static struct error *prefix_length(struct request *req, struct request_input *in) {
        struct input_chunk *chunk;

        if (in->byte_size > UINT32_MAX)
                return request_error(req, ERR_INVALID_ARG,
                                     "raw input '%s' has %llu bytes, a string at most %u", in->name,
                                     (unsigned long long)in->byte_size, UINT32_MAX);
        chunk = request_prepend_chunk(req, in);
        if (chunk == NULL)
                return request_error(req, ERR_UNAVAILABLE, "out of memory");
        in->raw_length = (uint32_t)in->byte_size;
        chunk->base = &in->raw_length;
        chunk->attributes = (struct buffer_attributes){ .byte_size = sizeof(in->raw_length) };
        in->byte_size += sizeof(in->raw_length);
        return NULL;
}

/* Multiplies the fixed dimensions of the input; at most one may be variable. */
static struct error *count_known(const struct request *req, const struct model_io *t,
                                 int64_t *ret_known, uint32_t *ret_n_variable) {
        int64_t  known = 1;
        uint32_t n_variable = 0;

        for (uint32_t i = 0; i < t->n_dims; i++)
                if (t->dims[i] < 0)
                        n_variable++;
                else if (__builtin_mul_overflow(known, t->dims[i], &known))
                        return request_error(req, ERR_INVALID_ARG,
                                             "byte size overflow for input '%s' for model '%s'",
                                             t->name, model_name(req));
        if (n_variable > 1)
                return request_error(req, ERR_INVALID_ARG,
                                     "The shape of the raw input '%s' can not be deduced because "
                                     "there are more than one variable-sized dimension",
                                     t->name);
        *ret_known = known;
        *ret_n_variable = n_variable;
        return NULL;
}

/* Makes a raw input the model's only input: name, type and shape are those of the configuration, and
 * one variable dimension follows from the byte size. Afterwards it is treated like any other input. */
static struct error *prepare_raw(struct request *req, struct request_input *in) {
        const struct model_io_set *io = req->model->io;
        const struct model_io     *t = &io->inputs[0];
        uint32_t                   n_batch = io->max_batch_size > 0 ? 1 : 0;
        uint32_t                   n_variable;
        int64_t                    known;
        int64_t                   *shape;

        TRY(count_known(req, t, &known, &n_variable));
        if (t->type == DATA_TYPE_BYTES && (n_variable > 0 || known != 1))
                return request_error(req, ERR_INVALID_ARG,
                                     "For BYTE datatype raw input '%s', the model must have input "
                                     "shape [1]",
                                     t->name);
        shape = arena_room_get(&req->arena, &in->shape_room,
                               ((size_t)t->n_dims + n_batch) * sizeof(*shape));
        if (shape == NULL)
                return request_error(req, ERR_UNAVAILABLE, "out of memory");
        if (n_batch > 0)
                shape[0] = 1;
        for (uint32_t i = 0; i < t->n_dims; i++) {
                shape[n_batch + i] = t->dims[i];
                if (t->dims[i] < 0)
                        shape[n_batch + i] =
                                known > 0
                                        ? (int64_t)(in->byte_size / data_type_size(t->type)) / known
                                        : 0;
        }
        if (t->type == DATA_TYPE_BYTES)
                TRY(prefix_length(req, in));
        in->io = t;
        in->name = t->name;
        in->type = t->type;
        in->given_shape = in->shape = shape;
        in->n_given_dims = in->n_dims = t->n_dims + n_batch;
        in->is_raw = false;
        return NULL;
}

static uint32_t n_batch_dims_of(const struct request *req, const struct model_io *t) {
        return req->model->io->max_batch_size > 0 && !t->is_shape_tensor ? 1 : 0;
}

static COLD struct error *wrong_shape(const struct request *req, const struct request_input *in) {
        bool        is_batched = n_batch_dims_of(req, in->io) > 0;
        AUTO_STRBUF expected = { 0 };
        AUTO_STRBUF got = { 0 };

        shape_print(in->io->dims, in->io->n_dims, &expected);
        if (is_batched) {
                struct strbuf with_batch = { 0 };

                strbuf_puts(&with_batch, in->io->n_dims > 0 ? "[-1," : "[-1");
                if (expected.len > 0) /* skips the opening bracket; empty when memory was short */
                        strbuf_puts(&with_batch, strbuf_cstr(&expected) + 1);
                strbuf_spoil(&with_batch, &expected);
                strbuf_done(&expected);
                expected = with_batch;
        }
        shape_print(in->given_shape, in->n_given_dims, &got);
        TRY(strbuf_check(&expected, "the text of an error"));
        TRY(strbuf_check(&got, "the text of an error"));
        return request_error(req, ERR_INVALID_ARG,
                             "unexpected shape for input '%s' for model '%s'. Expected %s, got %s. "
                             "%s",
                             in->name, model_name(req), strbuf_cstr(&expected), strbuf_cstr(&got),
                             is_batched ? BATCH_NOTE : "");
}

/* Sets the shape that the backend sees when the configuration reshapes the input. */
static struct error *apply_reshape(struct request *req, struct request_input *in,
                                   uint32_t n_batch_dims) {
        const struct model_io *t = in->io;
        int64_t               *shape = arena_room_get(&req->arena, &input_rooms(in)->reshaped,
                                                      ((size_t)t->n_reshape + 1) * sizeof(*shape));

        if (shape == NULL)
                return request_error(req, ERR_UNAVAILABLE, "out of memory");
        if (n_batch_dims > 0)
                shape[0] = in->given_shape[0];
        if (!shape_reshape((struct shape_form){ t->dims, t->n_dims },
                           (struct shape_form){ t->reshape, t->n_reshape },
                           in->given_shape + n_batch_dims, shape + n_batch_dims))
                return wrong_shape(req, in);
        in->shape = shape;
        in->n_dims = t->n_reshape + n_batch_dims;
        return NULL;
}

static struct error *check_shape(struct request *req, struct request_input *in) {
        const struct model_io *t = in->io;
        uint32_t               n_batch_dims = n_batch_dims_of(req, t);

        for (uint32_t i = 0; i < in->n_given_dims; i++) {
                if (in->given_shape[i] >= 0)
                        continue;
                AUTO_STRBUF got = { 0 };

                shape_print(in->given_shape, in->n_given_dims, &got);
                TRY(strbuf_check(&got, "the text of an error"));
                return request_error(req, ERR_INVALID_ARG,
                                     "All input dimensions should be specified for input '%s' for "
                                     "model '%s', got %s",
                                     in->name, model_name(req), strbuf_cstr(&got));
        }
        if (in->n_given_dims < n_batch_dims ||
            !shape_matches(t->dims, t->n_dims, in->given_shape + n_batch_dims,
                           in->n_given_dims - n_batch_dims))
                return wrong_shape(req, in);
        in->shape = in->given_shape;
        in->n_dims = in->n_given_dims;
        return t->has_reshape ? apply_reshape(req, in, n_batch_dims) : NULL;
}

static struct error *check_bytes(const struct request *req, const struct request_input *in) {
        bool    is_bytes = in->type == DATA_TYPE_BYTES;
        int64_t expected = is_bytes ? shape_element_count(in->given_shape, in->n_given_dims)
                                    : shape_byte_size(in->type, in->given_shape, in->n_given_dims);

        if (expected < 0)
                return request_error(req, ERR_INVALID_ARG,
                                     "byte size overflow for input '%s' for model '%s'", in->name,
                                     model_name(req));
        if (is_bytes)
                return request_check_strings(req, in);
        if ((uint64_t)expected != in->byte_size)
                return request_error(req, ERR_INVALID_ARG,
                                     "input byte size mismatch for input '%s' for model '%s'. "
                                     "Expected %lld, got %llu",
                                     in->name, model_name(req), (long long)expected,
                                     (unsigned long long)in->byte_size);
        return NULL;
}

static struct error *check_input(struct request *req, struct request_input *in) {
        if (in->io == NULL)
                return error_new(ERR_INVALID_ARG, "unexpected inference input '%s' for model '%s'",
                                 in->name, model_name(req));
        if (in->type != in->io->type)
                return request_error(req, ERR_INVALID_ARG,
                                     "inference input '%s' data-type is '%s', but model '%s' "
                                     "expects '%s'",
                                     in->name, data_type_name(in->type), model_name(req),
                                     data_type_name(in->io->type));
        TRY(check_shape(req, in));
        return check_bytes(req, in);
}

static struct error *check_input_set(const struct request *req) {
        const struct model_io_set *io = req->model->io;

        if (req->n_inputs < io->n_required_inputs || req->n_inputs > io->n_inputs)
                return wrong_input_count(req);
        if (io->n_required_inputs == io->n_inputs || req->model->counts_inputs)
                return NULL; /* names are unique and their number is right, so all are present */
        for (uint32_t i = 0; i < io->n_inputs; i++)
                if (!io->inputs[i].is_optional &&
                    request_find_input(req, io->inputs[i].name) == NULL)
                        return wrong_input_count(req);
        return NULL;
}

/* The elements of a BYTES tensor are read by check_input(), and those of a shape tensor by schedulers. */
static COLD struct error *copy_what_is_read(struct request *req) {
        host_inputs_return(req); /* of a check for another load of the model */
        for (struct request_input *in = req->first_input; in != NULL; in = in->next)
                if (in->type == DATA_TYPE_BYTES || is_shape_tensor(in))
                        TRY(host_inputs_copy_one(req, in));
        return NULL;
}

struct error *request_check(struct request *req) {
        struct error *last = NULL;

        TRY(prepare_outputs(req));
        if (req->first_input != NULL && req->first_input->is_raw) {
                if (req->model->io->n_inputs != 1)
                        return request_error(req, ERR_INVALID_ARG,
                                             "Raw request must only have 1 input (found 1) to be "
                                             "deduced but got %u inputs in '%s' model "
                                             "configuration",
                                             req->model->io->n_inputs, model_name(req));
                TRY(prepare_raw(req, req->first_input));
        }
        TRY(check_input_set(req));
        TRY(check_batch(req));
        if (req->has_device_inputs || req->has_host_copies)
                TRY(copy_what_is_read(req));
        /* With several bad inputs the reference names the last one. */
        for (struct request_input *in = req->first_input; in != NULL; in = in->next) {
                struct error *err = check_input(req, in);

                if (err != NULL) {
                        error_free(last);
                        last = err;
                }
        }
        return last;
}
