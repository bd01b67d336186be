/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/infer_decode.h"

#include <string.h>

#include "core_api/datatype.h"
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

struct error *infer_malformed(void) {
        return error_new_text(ERR_INVALID_ARG, "failed to parse the ModelInferRequest message");
}

static ALWAYS_INLINE struct error *copy(struct infer_reading *d, struct str text, const char **ret) {
        char *place = arena_try_alloc(d->source->arena, text.len + 1);

        if (UNLIKELY(!place))
                return infer_no_memory();
        memcpy(place, text.ptr, text.len);
        place[text.len] = '\0';
        *ret = place;
        return NULL;
}

static struct error *refuse_nul(struct str text) {
        if (LIKELY(text.len == 0 || memchr(text.ptr, '\0', text.len) == NULL))
                return NULL;
        return error_new_text(ERR_INVALID_ARG,
                              "a string of the ModelInferRequest contains a NUL character");
}

struct error *infer_copy_text(struct infer_reading *d, struct str text, const char **ret) {
        if (text.len == 0) {
                *ret = "";
                return NULL;
        }
        TRY(refuse_nul(text));
        return copy(d, text, ret);
}

/* A string that may come again: the last one counts, and only that one is copied (keep_text()). */
static struct error *read_text(struct pb_reader *r, struct str *ret) {
        struct str text = pb_read_bytes(r);

        if (UNLIKELY(pb_failed(r)))
                return infer_malformed();
        if (UNLIKELY(!str_is_plain(text))) {
                if (!str_is_utf8(text))
                        return infer_malformed();
                TRY(refuse_nul(text));
        }
        *ret = text;
        return NULL;
}

static struct error *keep_text(struct infer_reading *d, struct str text, const char **ret) {
        return text.len > 0 ? copy(d, text, ret) : NULL;
}

/* ---- inputs ---- */

/* What is read of an input, until its end says that it is all: the last one of strings counts. */
struct input_scan {
        struct infer_input *in;
        struct str          name, datatype; /* borrowed: the message */
        int64_t             dims[INFER_MAX_DIMS];
};

static struct error *add_dim(struct input_scan *s, int64_t dim) {
        if (s->in->n_dims == INFER_MAX_DIMS)
                return error_new(ERR_INVALID_ARG, "shape of an input has more than %d dimensions",
                                 INFER_MAX_DIMS);
        s->dims[s->in->n_dims++] = dim;
        return NULL;
}

static struct error *read_shape(struct pb_reader *r, struct pb_tag tag, struct input_scan *s) {
        struct pb_reader packed;

        if (tag.wire == PB_WIRE_VARINT)
                return add_dim(s, (int64_t)pb_read_varint(r));
        packed = pb_read_message(r);
        while (!pb_at_end(&packed)) {
                int64_t dim = (int64_t)pb_read_varint(&packed);

                if (pb_failed(&packed))
                        return infer_malformed();
                TRY(add_dim(s, dim));
        }
        return NULL;
}

static struct error *read_datatype(struct pb_reader *r, struct input_scan *s) {
        s->datatype = pb_read_text(r);
        s->in->datatype = datatype_from_name(s->datatype);
        return UNLIKELY(s->in->datatype == TRITONSERVER_TYPE_INVALID) ? refuse_nul(s->datatype)
                                                                      : NULL;
}

static struct error *read_input_field(struct infer_reading *d, struct pb_reader *r,
                                      struct pb_tag tag, struct input_scan *s) {
        struct wire_input *wire = &d->inputs[d->wire->request.n_inputs - 1];

        if (tag.number == INPUT_SHAPE && (tag.wire == PB_WIRE_BYTES || tag.wire == PB_WIRE_VARINT))
                return read_shape(r, tag, s);
        if (tag.wire != PB_WIRE_BYTES) {
                pb_skip(r, tag);
                return NULL;
        }
        switch (tag.number) {
        case INPUT_NAME: return read_text(r, &s->name);
        case INPUT_DATATYPE: return read_datatype(r, s);
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

static struct error *keep_shape(struct infer_reading *d, const struct input_scan *s) {
        size_t   bytes = s->in->n_dims * sizeof(s->dims[0]);
        int64_t *dims;

        if (bytes == 0)
                return NULL;
        dims = arena_try_alloc(d->source->arena, bytes);
        if (!dims)
                return infer_no_memory();
        memcpy(dims, s->dims, bytes);
        s->in->shape = dims;
        return NULL;
}

/* All of it was read. */
static struct error *finish_input(struct infer_reading *d, const struct input_scan *s) {
        TRY(keep_shape(d, s));
        TRY(keep_text(d, s->name, &s->in->name));
        if (LIKELY(s->in->datatype != TRITONSERVER_TYPE_INVALID)) {
                s->in->datatype_name = datatype_name(s->in->datatype);
                return NULL;
        }
        return keep_text(d, s->datatype, &s->in->datatype_name);
}

static struct error *read_input(struct infer_reading *d, struct pb_reader *outer) {
        struct infer_request *q = &d->wire->request;
        struct pb_reader      r = pb_read_message(outer);
        struct input_scan     s;
        struct pb_tag         tag;

        TRY(add_wire_input(d));
        TRY(infer_request_add_input(q, d->source->arena, &s.in));
        s.name = s.datatype = str_range("", 0); /* and no dimension is looked at that was not read */
        s.in->name = s.in->datatype_name = "";
        d->inputs[q->n_inputs - 1] =
                (struct wire_input){ .body = str_range((const char *)r.at, pb_left(&r)) };
        while (pb_next(&r, &tag))
                TRY(read_input_field(d, &r, tag, &s));
        return pb_failed(&r) ? infer_malformed() : finish_input(d, &s);
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
        struct str                     name = STR_LIT("");
        struct pb_tag                  tag;

        TRY(infer_request_add_output(&d->wire->request, d->source->arena, &out));
        out->name = "";
        out->is_binary = true;
        while (pb_next(&r, &tag)) {
                if (tag.wire == PB_WIRE_BYTES && tag.number == OUTPUT_NAME)
                        TRY(read_text(&r, &name));
                else if (tag.wire == PB_WIRE_BYTES && tag.number == OUTPUT_PARAMETERS)
                        infer_read_tensor_parameter(&r, &parameters);
                else
                        pb_skip(&r, tag);
        }
        if (pb_failed(&r))
                return infer_malformed();
        TRY(keep_text(d, name, &out->name));
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
        if (tag.wire != PB_WIRE_BYTES) {
                pb_skip(r, tag);
                return NULL;
        }
        switch (tag.number) {
        case REQUEST_MODEL_NAME: return read_text(r, &d->model_name);
        case REQUEST_MODEL_VERSION: return read_text(r, &d->model_version);
        case REQUEST_ID: return read_text(r, &d->id);
        case REQUEST_PARAMETERS: return infer_read_parameter(d, r);
        case REQUEST_INPUTS: return read_input(d, r);
        case REQUEST_OUTPUTS: return read_output(d, r);
        case REQUEST_RAW_INPUTS: return read_raw(d, r);
        default: pb_skip(r, tag); return NULL;
        }
}

static struct error *read_message(struct infer_reading *d) {
        struct infer_wire    *w = d->wire;
        struct infer_request *q = &w->request;
        struct pb_reader      r;
        struct pb_tag         tag;

        pb_reader_init(&r, d->source->message.ptr, d->source->message.len);
        while (pb_next(&r, &tag))
                TRY(read_field(d, &r, tag));
        if (pb_failed(&r))
                return infer_malformed();
        TRY(keep_text(d, d->model_name, &w->model_name));
        TRY(keep_text(d, d->model_version, &w->model_version));
        TRY(keep_text(d, d->id, &q->id));
        TRY(infer_drop_repeated(d));
        for (uint32_t i = 0; i < q->n_inputs; i++)
                TRY(place_input(d, &d->inputs[i], &q->inputs[i]));
        return NULL;
}

/* Messages have a field for each tensor and a few more. */
#define MAX_COUNTED_FIELDS 256

size_t infer_message_work(struct str message) {
        size_t           work = message.len;
        struct pb_reader r;
        struct pb_tag    tag;

        pb_reader_init(&r, message.ptr, message.len);
        for (unsigned i = 0; pb_next(&r, &tag); i++) {
                if (i == MAX_COUNTED_FIELDS)
                        return message.len;
                if (tag.number == REQUEST_RAW_INPUTS && tag.wire == PB_WIRE_BYTES)
                        work -= pb_read_bytes(&r).len;
                else
                        pb_skip(&r, tag);
        }
        return work;
}

struct error *infer_decode(const struct infer_source *source, struct infer_wire *ret) {
        struct infer_reading d = { .source = source, .wire = ret };
        struct error        *err;
        size_t               max;

        *ret = (struct infer_wire){ .model_name = "", .model_version = "" };
        infer_request_init(&ret->request);
        ret->request.is_binary_by_default = true;
        infer_arena_limit(source->arena, source->message.len, &max);
        err = read_message(&d);
        infer_arena_release(source->arena, max);
        infer_keep_first(&ret->tensor_fault, d.data_fault);
        infer_keep_first(&ret->tensor_fault, d.output_fault);
        return err;
}

void infer_wire_done(struct infer_wire *w) {
        infer_request_done(&w->request);
        error_free(STEAL(w->parameter_fault));
        error_free(STEAL(w->tensor_fault));
}
