/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/infer_encode.h"

#include "codec/pb_reader.h"
#include "core_api/datatype.h"

#include <string.h>

/* Outputs up to this size are copied, which costs less than a part of their own. */
#define MAX_COPIED_BYTES 1024

/* A message up to this size is written into the arena, from which the call copies it, because a buffer of the
 * pool is at least a page. */
#define MAX_TEXT_IN_ARENA 4096

/* Field numbers. */
enum {
        RESPONSE_MODEL_NAME = 1,
        RESPONSE_MODEL_VERSION = 2,
        RESPONSE_ID = 3,
        RESPONSE_PARAMETERS = 4,
        RESPONSE_OUTPUTS = 5,
        RESPONSE_RAW_OUTPUTS = 6,
        OUTPUT_NAME = 1,
        OUTPUT_DATATYPE = 2,
        OUTPUT_SHAPE = 3,
        ENTRY_KEY = 1,
        ENTRY_VALUE = 2,
        PARAMETER_BOOL = 1,
        PARAMETER_INT64 = 2,
        PARAMETER_STRING = 3,
        PARAMETER_DOUBLE = 4,
        STREAM_ERROR_MESSAGE = 1,
        STREAM_INFER_RESPONSE = 2,
};

/* Sizes of the message and its outputs: the message is measured first and then written. */
struct sized_output {
        struct str name, datatype;
        size_t     dims_bytes;
        size_t     bytes; /* size of its message */
};

struct sized_answer {
        const struct infer_answer *answer;
        struct str                 model_name, model_version, id;
        struct sized_output       *outputs; /* in arena; one for each output of the answer */
        size_t                     bytes;   /* size of the response */
        size_t outside; /* included in bytes: tensors that are parts of their own */
};

struct pb_out {
        char                      *at;
        struct infer_answer_parts *parts;
        const char                *start;  /* start of the bytes that no part contains yet */
        struct buf                *holder; /* borrowed: holds the written bytes; NULL = in arena */
};

/* ---- the wire format ---- */

/* All field numbers here are below 16. */
#define TAG_BYTES 1

static size_t varint_bytes(uint64_t value) {
        size_t n = 1;

        while (value >= 0x80) { /* unlikely: most are lengths of names */
                value >>= 7;
                n++;
        }
        return n;
}

/* Size of a field with `len` bytes, including tag and length. */
static size_t field_bytes(size_t len) {
        return TAG_BYTES + varint_bytes(len) + len;
}

static size_t text_bytes(struct str text) {
        return text.len > 0 ? field_bytes(text.len) : 0;
}

static char *put_tag(char *at, unsigned number, enum pb_wire wire) {
        *at++ = (char)(number << 3 | wire);
        return at;
}

static char *put_varint(char *at, uint64_t value) {
        for (; (value >= 0x80); value >>= 7)
                *at++ = (char)(value | 0x80);
        *at++ = (char)value;
        return at;
}

static char *put_head(char *at, unsigned number, size_t len) {
        return put_varint(put_tag(at, number, PB_WIRE_BYTES), len);
}

static char *put_field(char *at, unsigned number, struct str bytes) {
        at = put_head(at, number, bytes.len);
        memcpy(at, bytes.ptr, bytes.len);
        return at + bytes.len;
}

static char *put_text(char *at, unsigned number, struct str text) {
        return text.len > 0 ? put_field(at, number, text) : at;
}

/* ---- parameters ---- */

static size_t value_bytes(const struct infer_parameter *p) {
        switch (p->type) {
        case TRITONSERVER_PARAMETER_BOOL: return TAG_BYTES + 1;
        case TRITONSERVER_PARAMETER_INT:
                return TAG_BYTES + varint_bytes((uint64_t)p->value.integer);
        case TRITONSERVER_PARAMETER_DOUBLE: return TAG_BYTES + sizeof(p->value.real);
        default: return field_bytes(strlen(p->value.text));
        }
}

static char *put_value(char *at, const struct infer_parameter *p) {
        switch (p->type) {
        case TRITONSERVER_PARAMETER_BOOL:
                return put_varint(put_tag(at, PARAMETER_BOOL, PB_WIRE_VARINT), p->value.boolean);
        case TRITONSERVER_PARAMETER_INT:
                return put_varint(put_tag(at, PARAMETER_INT64, PB_WIRE_VARINT),
                                  (uint64_t)p->value.integer);
        case TRITONSERVER_PARAMETER_DOUBLE:
                at = put_tag(at, PARAMETER_DOUBLE, PB_WIRE_FIXED64);
                memcpy(at, &p->value.real, sizeof(p->value.real));
                return at + sizeof(p->value.real);
        default: return put_field(at, PARAMETER_STRING, str_of(p->value.text));
        }
}

static size_t entry_bytes(const struct infer_parameter *p) {
        return field_bytes(strlen(p->name)) + field_bytes(value_bytes(p));
}

static char *put_entry(char *at, const struct infer_parameter *p) {
        at = put_head(at, RESPONSE_PARAMETERS, entry_bytes(p));
        at = put_field(at, ENTRY_KEY, str_of(p->name));
        return put_value(put_head(at, ENTRY_VALUE, value_bytes(p)), p);
}

static struct infer_parameter final_parameter(const struct infer_answer *a) {
        return (struct infer_parameter){
                .name = "triton_final_response",
                .type = TRITONSERVER_PARAMETER_BOOL,
                .value.boolean = a->is_final,
        };
}

static size_t parameters_bytes(const struct infer_answer *a) {
        size_t bytes = 0;

        for (uint32_t i = 0; i < a->n_parameters; i++)
                bytes += field_bytes(entry_bytes(&a->parameters[i]));
        if (a->has_final) {
                struct infer_parameter final = final_parameter(a);

                bytes += field_bytes(entry_bytes(&final));
        }
        return bytes;
}

static char *put_parameters(char *at, const struct infer_answer *a) {
        for (uint32_t i = 0; i < a->n_parameters; i++)
                at = put_entry(at, &a->parameters[i]);
        if (a->has_final) {
                struct infer_parameter final = final_parameter(a);

                at = put_entry(at, &final);
        }
        return at;
}

/* ---- outputs ---- */

static struct sized_output measure_output(const struct infer_output *out) {
        struct sized_output s = { .name = str_of(out->name),
                                  .datatype = datatype_str(out->datatype) };

        for (uint32_t i = 0; i < out->n_dims; i++)
                s.dims_bytes += varint_bytes((uint64_t)out->shape[i]);
        s.bytes = text_bytes(s.name) + text_bytes(s.datatype);
        if (out->n_dims > 0)
                s.bytes += field_bytes(s.dims_bytes);
        return s;
}

static char *put_output(char *at, const struct infer_output *out, const struct sized_output *s) {
        at = put_head(at, RESPONSE_OUTPUTS, s->bytes);
        at = put_text(at, OUTPUT_NAME, s->name);
        at = put_text(at, OUTPUT_DATATYPE, s->datatype);
        if (out->n_dims > 0)
                at = put_head(at, OUTPUT_SHAPE, s->dims_bytes);
        for (uint32_t i = 0; i < out->n_dims; i++)
                at = put_varint(at, (uint64_t)out->shape[i]);
        return at;
}

static size_t raw_bytes(const struct infer_output *out) {
        return out->form == INFER_OUTPUT_SHARED_MEMORY ? 0 : out->bytes.len;
}

static bool is_copied(const struct infer_output *out) {
        return out->holder == NULL || raw_bytes(out) <= MAX_COPIED_BYTES;
}

static void add_part(struct infer_answer_parts *p, const void *ptr, size_t len,
                     struct buf *holder) {
        if (len == 0)
                return;
        if (holder != NULL)
                buf_ref(holder);
        p->parts[p->n_parts++] = (struct grpc_part){ ptr, len, holder };
}

static void end_text(struct pb_out *o) {
        add_part(o->parts, o->start, (size_t)(o->at - o->start), o->holder);
        o->start = o->at;
}

static void put_raw(struct pb_out *o, const struct infer_output *out) {
        size_t len = raw_bytes(out);

        o->at = put_head(o->at, RESPONSE_RAW_OUTPUTS, len);
        if (is_copied(out)) {
                if (len > 0)
                        memcpy(o->at, out->bytes.ptr, len);
                o->at += len;
                return;
        }
        end_text(o);
        add_part(o->parts, out->bytes.ptr, len, out->holder);
}

/* ---- the message ---- */

/* Returns false when memory is short. The sum cannot overflow, because the tensors are in memory. */
static bool measure_answer(const struct infer_answer *a, struct arena *arena,
                           struct sized_answer *ret) {
        struct sized_answer s = { .answer = a,
                                  .model_name = str_of(a->model_name),
                                  .model_version = str_of(a->model_version),
                                  .id = str_of(a->id) };

        if (a->n_outputs > 0) {
                s.outputs = arena_try_alloc(arena, a->n_outputs * sizeof(*s.outputs));
                if (s.outputs == NULL)
                        return false;
        }
        s.bytes = text_bytes(s.model_name) + text_bytes(s.model_version) + text_bytes(s.id) +
                  parameters_bytes(a);
        for (uint32_t i = 0; i < a->n_outputs; i++) {
                const struct infer_output *out = &a->outputs[i];

                s.outputs[i] = measure_output(out);
                s.bytes += field_bytes(s.outputs[i].bytes) + field_bytes(raw_bytes(out));
                if (!is_copied(out))
                        s.outside += raw_bytes(out);
        }
        *ret = s;
        return true;
}

static void put_response(struct pb_out *o, const struct sized_answer *s) {
        const struct infer_answer *a = s->answer;
        char                      *at = o->at;

        at = put_text(at, RESPONSE_MODEL_NAME, s->model_name);
        at = put_text(at, RESPONSE_MODEL_VERSION, s->model_version);
        at = put_text(at, RESPONSE_ID, s->id);
        at = put_parameters(at, a);
        for (uint32_t i = 0; i < a->n_outputs; i++)
                at = put_output(at, &a->outputs[i], &s->outputs[i]);
        o->at = at;
        for (uint32_t i = 0; i < a->n_outputs; i++)
                put_raw(o, &a->outputs[i]);
}

/* Size of the part of a ModelStreamInferResponse in front of the response. */
static size_t stream_head_bytes(const struct infer_answer *a, size_t response_bytes) {
        if (!a->is_streamed)
                return 0;
        return text_bytes(str_of(a->error_message)) + TAG_BYTES + varint_bytes(response_bytes);
}

static char *put_stream_head(char *at, const struct infer_answer *a, size_t response_bytes) {
        if (!a->is_streamed)
                return at;
        at = put_text(at, STREAM_ERROR_MESSAGE, str_of(a->error_message));
        return put_head(at, STREAM_INFER_RESPONSE, response_bytes);
}

static struct error *no_memory(size_t bytes) {
        return error_new(ERR_UNAVAILABLE, "out of memory for the response of %zu bytes", bytes);
}

static struct error *open_memory(const struct infer_answer_memory *m, size_t bytes,
                                 struct pb_out *o) {
        if (bytes <= MAX_TEXT_IN_ARENA) {
                o->at = arena_try_alloc(
                        m->arena, bytes + 1); /* an empty message needs a valid pointer as well */
        } else {
                o->holder = buf_new(m->pool, bytes + 1);
                o->at = o->holder != NULL ? o->holder->bytes : NULL;
        }
        o->start = o->at;
        return o->at != NULL ? NULL : no_memory(bytes);
}

struct error *infer_encode(const struct infer_answer *a, const struct infer_answer_memory *m,
                           struct infer_answer_parts *ret) {
        struct infer_answer_parts parts = { 0 };
        struct pb_out             o = { .parts = &parts };
        struct sized_answer       sized;

        if (!measure_answer(a, m->arena, &sized))
                return no_memory(a->n_outputs * sizeof(*sized.outputs));
        parts.bytes = stream_head_bytes(a, sized.bytes) + sized.bytes;
        if (parts.bytes > INFER_MAX_ANSWER_BYTES)
                return error_new(ERR_INVALID_ARG,
                                 "Response has byte size %zu which exceeds gRPC's byte size limit "
                                 "%zu.",
                                 parts.bytes, INFER_MAX_ANSWER_BYTES);
        /* At most one part for each output and one of text before it, and the last text. */
        parts.parts =
                arena_try_alloc(m->arena, (2 * (size_t)a->n_outputs + 1) * sizeof(*parts.parts));
        if (parts.parts == NULL)
                return no_memory(parts.bytes);
        TRY(open_memory(m, parts.bytes - sized.outside, &o));
        o.at = put_stream_head(o.at, a, sized.bytes);
        put_response(&o, &sized);
        end_text(&o);
        buf_unref(o.holder);
        *ret = parts;
        return NULL;
}

void infer_answer_parts_done(struct infer_answer_parts *p) {
        for (size_t i = 0; i < p->n_parts; i++)
                buf_unref(p->parts[i].buf);
        p->n_parts = 0;
}
