/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/infer_decode.h"

#include <string.h>

#include "frontend/datatype.h"
#include "grpc/infer_reading.h"

/* Field numbers of ModelInferRequest. */
enum {
        REQUEST_MODEL_NAME = 1,
        REQUEST_MODEL_VERSION = 2,
        REQUEST_ID = 3,
        REQUEST_PARAMETERS = 4,
        REQUEST_INPUTS = 5,
        REQUEST_OUTPUTS = 6,
        REQUEST_RAW_INPUTS = 7,
};

/* Of InferInputTensor and, the first, of InferRequestedOutputTensor. */
enum {
        INPUT_NAME = 1,
        INPUT_DATATYPE = 2,
        INPUT_SHAPE = 3,
        INPUT_PARAMETERS = 4,
        INPUT_CONTENTS = 5,
        OUTPUT_NAME = 1,
        OUTPUT_PARAMETERS = 2,
};

/* Most tensors have no more dimensions. */
#define FEW_DIMS 8

struct error *infer_malformed(void) {
        return error_new_text(ERR_INVALID_ARG, "failed to parse the ModelInferRequest message");
}

struct error *infer_no_memory(void) {
        static struct error full = ERROR_STATIC(ERR_UNAVAILABLE, "out of memory for the request");

        return &full;
}

static struct error *copy(struct infer_reading *d, struct str text, const char **ret) {
        char *place = arena_try_alloc(d->source->arena, text.len + 1);

        if (UNLIKELY(!place))
                return infer_no_memory();
        memcpy(place, text.ptr, text.len);
        place[text.len] = '\0';
        *ret = place;
        return NULL;
}

struct error *infer_copy_text(struct infer_reading *d, struct str text, const char **ret) {
        if (text.len == 0) {
                *ret = "";
                return NULL;
        }
        if (UNLIKELY(memchr(text.ptr, '\0', text.len) != NULL))
                return error_new_text(ERR_INVALID_ARG,
                                      "a string of the ModelInferRequest contains a NUL character");
        return copy(d, text, ret);
}

static struct error *read_text(struct infer_reading *d, struct pb_reader *r, const char **ret) {
        struct str text = pb_read_bytes(r);

        if (UNLIKELY(pb_failed(r)))
                return infer_malformed();
        if (LIKELY(str_is_plain(text)))
                return copy(d, text, ret);
        return str_is_utf8(text) ? infer_copy_text(d, text, ret) : infer_malformed();
}

/* ---- inputs ---- */

/* Room for all the dimensions there may be, once the first few are full. */
static COLD struct error *grow_dims(struct infer_reading *d, int64_t **dims) {
        int64_t *grown = arena_try_alloc(d->source->arena, INFER_MAX_DIMS * sizeof(*grown));

        if (!grown)
                return infer_no_memory();
        memcpy(grown, *dims, FEW_DIMS * sizeof(*grown));
        *dims = grown;
        return NULL;
}

static struct error *add_dim(struct infer_reading *d, struct infer_input *in, int64_t dim) {
        int64_t *dims = (int64_t *)in->shape; /* in the arena, and not shared yet */

        if (in->n_dims == 0) {
                dims = arena_try_alloc(d->source->arena, FEW_DIMS * sizeof(*dims));
                if (!dims)
                        return infer_no_memory();
        } else if (in->n_dims == FEW_DIMS) {
                TRY(grow_dims(d, &dims));
        } else if (in->n_dims == INFER_MAX_DIMS) {
                return error_new(ERR_INVALID_ARG, "shape of an input has more than %d dimensions",
                                 INFER_MAX_DIMS);
        }
        dims[in->n_dims++] = dim;
        in->shape = dims;
        return NULL;
}

static struct error *read_shape(struct infer_reading *d, struct pb_reader *r, struct pb_tag tag,
                                struct infer_input *in) {
        struct pb_reader packed;

        if (tag.wire == PB_WIRE_VARINT)
                return add_dim(d, in, (int64_t)pb_read_varint(r));
        packed = pb_read_message(r);
        while (!pb_at_end(&packed)) {
                int64_t dim = (int64_t)pb_read_varint(&packed);

                if (pb_failed(&packed))
                        return infer_malformed();
                TRY(add_dim(d, in, dim));
        }
        return NULL;
}

static struct error *read_datatype(struct infer_reading *d, struct pb_reader *r,
                                   struct infer_input *in) {
        struct str name = pb_read_text(r);

        in->datatype = datatype_from_name(name);
        if (UNLIKELY(in->datatype == TRITONSERVER_TYPE_INVALID))
                return infer_copy_text(d, name, &in->datatype_name);
        in->datatype_name = datatype_name(in->datatype);
        return NULL;
}

static struct error *read_input_field(struct infer_reading *d, struct pb_reader *r,
                                      struct pb_tag tag, struct infer_input *in) {
        struct wire_input *wire = &d->inputs[d->wire->request.n_inputs - 1];

        if (tag.number == INPUT_SHAPE && (tag.wire == PB_WIRE_BYTES || tag.wire == PB_WIRE_VARINT))
                return read_shape(d, r, tag, in);
        if (tag.wire != PB_WIRE_BYTES) {
                pb_skip(r, tag);
                return NULL;
        }
        switch (tag.number) {
        case INPUT_NAME: return read_text(d, r, &in->name);
        case INPUT_DATATYPE: return read_datatype(d, r, in);
        case INPUT_PARAMETERS: infer_read_tensor_parameter(r, &wire->parameters); return NULL;
        case INPUT_CONTENTS: wire->has_contents = true; break;
        default: break;
        }
        pb_skip(r, tag);
        return NULL;
}

/* Room for one more. */
static struct error *add_wire_input(struct infer_reading *d) {
        void *inputs = d->inputs;

        TRY(infer_array_grow(d->source->arena, &inputs, d->wire->request.n_inputs,
                             sizeof(*d->inputs)));
        d->inputs = inputs;
        return NULL;
}

static struct error *read_input(struct infer_reading *d, struct pb_reader *outer) {
        struct infer_request *q = &d->wire->request;
        struct pb_reader      r = pb_read_message(outer);
        struct infer_input   *in;
        struct pb_tag         tag;

        TRY(add_wire_input(d));
        TRY(infer_request_add_input(q, d->source->arena, &in));
        in->name = in->datatype_name = "";
        d->inputs[q->n_inputs - 1] =
                (struct wire_input){ .body = str_range((const char *)r.at, pb_left(&r)) };
        while (pb_next(&r, &tag))
                TRY(read_input_field(d, &r, tag, in));
        return pb_failed(&r) ? infer_malformed() : NULL;
}

/* ---- where the bytes of inputs are ---- */

static struct error *lacks_data(const struct infer_reading *d, const struct infer_input *in) {
        return error_new(ERR_INVALID_ARG,
                         "unable to find data for input tensor '%s' for model '%s' in request.",
                         in->name, d->wire->model_name);
}

static struct error *place_in_region(struct infer_reading *d, const struct wire_input *wire,
                                     const struct infer_input *in) {
        if (!wire->has_contents)
                return NULL;
        return error_new(ERR_INVALID_ARG,
                         "unexpected 'content' provided when using shared memory for input tensor "
                         "'%s' for model '%s'",
                         in->name, d->wire->model_name);
}

static struct error *place_input(struct infer_reading *d, const struct wire_input *wire,
                                 struct infer_input *in) {
        struct error *fault = NULL;

        TRY(infer_read_region(d, &wire->parameters, in->name, &in->shared_memory, &fault));
        infer_keep_first(&d->data_fault, fault);
        if (fault)
                return NULL;
        if (in->shared_memory.region) {
                infer_keep_first(&d->data_fault, place_in_region(d, wire, in));
                return NULL;
        }
        if (wire->has_contents && d->n_raws > 0) {
                infer_keep_first(&d->data_fault,
                                 error_new(ERR_INVALID_ARG,
                                           "contents field must not be specified when using "
                                           "raw_input_contents for '%s' for model '%s'",
                                           in->name, d->wire->model_name));
                return NULL;
        }
        if (wire->has_contents)
                return infer_read_contents(d, wire, in);
        if (d->next_raw < d->n_raws)
                in->bytes = d->raws[d->next_raw++];
        else
                infer_keep_first(&d->data_fault, lacks_data(d, in));
        return NULL;
}

/* ---- outputs ---- */

static struct error *read_classification(const struct wire_value *v, uint32_t *ret) {
        if (v->kind == WIRE_ABSENT)
                return NULL;
        if (v->kind != WIRE_INT64)
                return error_new_text(ERR_INVALID_ARG, "invalid value type for 'classification' "
                                                       "parameter, expected int64_param");
        if (v->int64 <= 0)
                return error_new_text(
                        ERR_INVALID_ARG,
                        "invalid value for 'classification' parameter, expected >= 0");
        *ret = (uint32_t)MIN(v->int64, UINT32_MAX);
        return NULL;
}

static struct error *place_output(struct infer_reading *d, const struct wire_tensor_parameters *p,
                                  struct infer_requested_output *out) {
        struct error *fault = NULL;

        TRY(infer_read_region(d, p, out->name, &out->shared_memory, &fault));
        if (!fault)
                fault = read_classification(&p->classification, &out->n_classes);
        if (!fault && out->shared_memory.region && out->n_classes > 0)
                fault = error_new_text(ERR_INVALID_ARG, "output can't set both "
                                                        "'shared_memory_region' and "
                                                        "'classification'");
        infer_keep_first(&d->output_fault, fault);
        return NULL;
}

static struct error *read_output(struct infer_reading *d, struct pb_reader *outer) {
        struct wire_tensor_parameters  parameters = { 0 };
        struct pb_reader               r = pb_read_message(outer);
        struct infer_requested_output *out;
        struct pb_tag                  tag;

        TRY(infer_request_add_output(&d->wire->request, d->source->arena, &out));
        out->name = "";
        out->is_binary = true;
        while (pb_next(&r, &tag)) {
                if (tag.wire == PB_WIRE_BYTES && tag.number == OUTPUT_NAME)
                        TRY(read_text(d, &r, &out->name));
                else if (tag.wire == PB_WIRE_BYTES && tag.number == OUTPUT_PARAMETERS)
                        infer_read_tensor_parameter(&r, &parameters);
                else
                        pb_skip(&r, tag);
        }
        if (pb_failed(&r))
                return infer_malformed();
        return place_output(d, &parameters, out);
}

/* ---- the message ---- */

/* Raw contents usually come last, but need not; whoever has more of them than tensors are allowed
 * has surplus ones, which mean nothing. */
static struct error *read_raw(struct infer_reading *d, struct pb_reader *r) {
        struct str bytes = pb_read_bytes(r);
        void      *raws = d->raws;

        if (d->n_raws == INFER_MAX_TENSORS)
                return NULL;
        TRY(infer_array_grow(d->source->arena, &raws, d->n_raws, sizeof(*d->raws)));
        d->raws = raws;
        d->raws[d->n_raws++] = bytes;
        return NULL;
}

static struct error *read_field(struct infer_reading *d, struct pb_reader *r, struct pb_tag tag) {
        struct infer_wire *w = d->wire;

        if (tag.wire != PB_WIRE_BYTES) {
                pb_skip(r, tag);
                return NULL;
        }
        switch (tag.number) {
        case REQUEST_MODEL_NAME: return read_text(d, r, &w->model_name);
        case REQUEST_MODEL_VERSION: return read_text(d, r, &w->model_version);
        case REQUEST_ID: return read_text(d, r, &w->request.id);
        case REQUEST_PARAMETERS: return infer_read_parameter(d, r);
        case REQUEST_INPUTS: return read_input(d, r);
        case REQUEST_OUTPUTS: return read_output(d, r);
        case REQUEST_RAW_INPUTS: return read_raw(d, r);
        default: pb_skip(r, tag); return NULL;
        }
}

static struct error *read_message(struct infer_reading *d) {
        struct infer_request *q = &d->wire->request;
        struct pb_reader      r;
        struct pb_tag         tag;

        pb_reader_init(&r, d->source->message.ptr, d->source->message.len);
        while (pb_next(&r, &tag))
                TRY(read_field(d, &r, tag));
        if (pb_failed(&r))
                return infer_malformed();
        TRY(infer_drop_repeated(d));
        for (uint32_t i = 0; i < q->n_inputs; i++)
                TRY(place_input(d, &d->inputs[i], &q->inputs[i]));
        return NULL;
}

struct error *infer_decode(const struct infer_source *source, struct infer_wire *ret) {
        struct infer_reading d = { .source = source, .wire = ret };
        struct error        *err;

        *ret = (struct infer_wire){ .model_name = "", .model_version = "" };
        infer_request_init(&ret->request);
        ret->request.is_binary_by_default = true;
        err = read_message(&d);
        infer_keep_first(&ret->tensor_fault, d.data_fault);
        infer_keep_first(&ret->tensor_fault, d.output_fault);
        return err;
}

void infer_wire_done(struct infer_wire *w) {
        infer_request_done(&w->request);
        error_free(STEAL(w->parameter_fault));
        error_free(STEAL(w->tensor_fault));
}
