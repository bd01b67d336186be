/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/infer_encode.h"

#include <string.h>

#include "base/compiler.h"
#include "codec/pb_reader.h"
#include "frontend/datatype.h"

/* Outputs up to this size are cheaper to copy than to write as a part of their own. */
#define MAX_COPIED_BYTES 1024

/* Up to here the text is made in the arena, and copied by the call: a buffer of the pool is a page
 * at least. */
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

/* One code for measuring and for writing: without memory, bytes are only counted. */
struct pb_out {
        char  *at;      /* NULL: count */
        size_t bytes;   /* so far */
        size_t outside; /* of these, tensors that are parts of their own */

        struct infer_answer_parts *parts;  /* when writing */
        const char                *start;  /* of the text that is in no part yet */
        struct buf                *holder; /* borrowed: of the text; NULL = in arena */
};

typedef void (*put_fn)(struct pb_out *o, const void *what);

static bool is_copied(const struct infer_output *out) {
        return out->holder == NULL || out->bytes.len <= MAX_COPIED_BYTES;
}

static void put_bytes(struct pb_out *o, const void *bytes, size_t len) {
        if (o->at && len > 0) {
                memcpy(o->at, bytes, len);
                o->at += len;
        }
        o->bytes += len;
}

static void put_byte(struct pb_out *o, unsigned value) {
        if (o->at)
                *o->at++ = (char)value;
        o->bytes++;
}

static void put_varint(struct pb_out *o, uint64_t value) {
        char   bytes[10]; /* 64 bits, 7 in each */
        size_t n = 0;

        if (LIKELY(value < 0x80)) { /* nearly all: tags, and lengths of names */
                put_byte(o, (unsigned)value);
                return;
        }
        for (; value >= 0x80; value >>= 7)
                bytes[n++] = (char)(value | 0x80);
        bytes[n++] = (char)value;
        put_bytes(o, bytes, n);
}

static void put_tag(struct pb_out *o, unsigned number, enum pb_wire wire) {
        put_varint(o, number << 3 | wire);
}

static void put_text(struct pb_out *o, unsigned number, const char *text) {
        size_t len = strlen(text);

        put_tag(o, number, PB_WIRE_BYTES);
        put_varint(o, len);
        put_bytes(o, text, len);
}

static void put_text_if_any(struct pb_out *o, unsigned number, const char *text) {
        if (text[0] != '\0')
                put_text(o, number, text);
}

static void put_message(struct pb_out *o, unsigned number, put_fn put, const void *what) {
        struct pb_out count = { 0 };

        put(&count, what);
        put_tag(o, number, PB_WIRE_BYTES);
        put_varint(o, count.bytes);
        put(o, what);
}

/* ---- parameters ---- */

static void put_value(struct pb_out *o, const void *what) {
        const struct infer_parameter *p = what;

        switch (p->type) {
        case TRITONSERVER_PARAMETER_BOOL:
                put_tag(o, PARAMETER_BOOL, PB_WIRE_VARINT);
                put_varint(o, p->value.boolean);
                break;
        case TRITONSERVER_PARAMETER_INT:
                put_tag(o, PARAMETER_INT64, PB_WIRE_VARINT);
                put_varint(o, (uint64_t)p->value.integer);
                break;
        case TRITONSERVER_PARAMETER_DOUBLE:
                put_tag(o, PARAMETER_DOUBLE, PB_WIRE_FIXED64);
                put_bytes(o, &p->value.real, sizeof(p->value.real));
                break;
        default: put_text(o, PARAMETER_STRING, p->value.text); break;
        }
}

static void put_entry(struct pb_out *o, const void *what) {
        const struct infer_parameter *p = what;

        put_text(o, ENTRY_KEY, p->name);
        put_message(o, ENTRY_VALUE, put_value, p);
}

static void put_parameters(struct pb_out *o, const struct infer_answer *a) {
        struct infer_parameter final = {
                .name = "triton_final_response",
                .type = TRITONSERVER_PARAMETER_BOOL,
                .value.boolean = a->is_final,
        };

        for (uint32_t i = 0; i < a->n_parameters; i++)
                put_message(o, RESPONSE_PARAMETERS, put_entry, &a->parameters[i]);
        if (a->has_final)
                put_message(o, RESPONSE_PARAMETERS, put_entry, &final);
}

/* ---- outputs ---- */

static void put_dims(struct pb_out *o, const void *what) {
        const struct infer_output *out = what;

        for (uint32_t i = 0; i < out->n_dims; i++)
                put_varint(o, (uint64_t)out->shape[i]);
}

static void put_output(struct pb_out *o, const void *what) {
        const struct infer_output *out = what;

        put_text_if_any(o, OUTPUT_NAME, out->name);
        put_text_if_any(o, OUTPUT_DATATYPE, datatype_name(out->datatype));
        if (out->n_dims > 0)
                put_message(o, OUTPUT_SHAPE, put_dims, out);
}

static void add_part(struct infer_answer_parts *p, const void *ptr, size_t len,
                     struct buf *holder) {
        if (len == 0)
                return;
        if (holder)
                buf_ref(holder);
        p->parts[p->n_parts++] = (struct grpc_part){ ptr, len, holder };
}

static void end_text(struct pb_out *o) {
        add_part(o->parts, o->start, (size_t)(o->at - o->start), o->holder);
        o->start = o->at;
}

static void put_raw(struct pb_out *o, const struct infer_output *out) {
        size_t len = out->form == INFER_OUTPUT_SHARED_MEMORY ? 0 : out->bytes.len;

        put_tag(o, RESPONSE_RAW_OUTPUTS, PB_WIRE_BYTES);
        put_varint(o, len);
        if (len == 0 || is_copied(out)) {
                put_bytes(o, out->bytes.ptr, len);
                return;
        }
        o->bytes += len;
        o->outside += len;
        if (!o->at)
                return;
        end_text(o);
        add_part(o->parts, out->bytes.ptr, len, out->holder);
}

/* ---- the message ---- */

static void put_response(struct pb_out *o, const struct infer_answer *a) {
        put_text_if_any(o, RESPONSE_MODEL_NAME, a->model_name);
        put_text_if_any(o, RESPONSE_MODEL_VERSION, a->model_version);
        put_text_if_any(o, RESPONSE_ID, a->id);
        put_parameters(o, a);
        for (uint32_t i = 0; i < a->n_outputs; i++)
                put_message(o, RESPONSE_OUTPUTS, put_output, &a->outputs[i]);
        for (uint32_t i = 0; i < a->n_outputs; i++)
                put_raw(o, &a->outputs[i]);
}

static void put_stream_head(struct pb_out *o, const struct infer_answer *a, size_t response_bytes) {
        if (!a->is_streamed)
                return;
        if (a->error_message)
                put_text_if_any(o, STREAM_ERROR_MESSAGE, a->error_message);
        put_tag(o, STREAM_INFER_RESPONSE, PB_WIRE_BYTES);
        put_varint(o, response_bytes);
}

static struct error *no_memory(size_t bytes) {
        return error_new(ERR_UNAVAILABLE, "out of memory for the response of %zu bytes", bytes);
}

static struct error *open_memory(const struct infer_answer_memory *m, size_t bytes,
                                 struct pb_out *o) {
        if (bytes <= MAX_TEXT_IN_ARENA) {
                o->at = arena_try_alloc(m->arena, bytes + 1); /* an empty message has a place too */
        } else {
                o->holder = buf_new(m->pool, bytes + 1);
                o->at = o->holder ? o->holder->bytes : NULL;
        }
        o->start = o->at;
        return o->at ? NULL : no_memory(bytes);
}

struct error *infer_encode(const struct infer_answer *a, const struct infer_answer_memory *m,
                           struct infer_answer_parts *ret) {
        struct infer_answer_parts parts = { 0 };
        struct pb_out             response = { 0 }, head = { 0 };
        struct pb_out             o = { .parts = &parts };

        put_response(&response, a);
        put_stream_head(&head, a, response.bytes);
        parts.bytes = head.bytes + response.bytes;
        if (parts.bytes > INFER_MAX_ANSWER_BYTES)
                return error_new(ERR_INVALID_ARG,
                                 "Response has byte size %zu which exceeds gRPC's byte size limit "
                                 "%zu.",
                                 parts.bytes, INFER_MAX_ANSWER_BYTES);
        /* At most one part for each output and one of text before it, and the last text. */
        parts.parts =
                arena_try_alloc(m->arena, (2 * (size_t)a->n_outputs + 1) * sizeof(*parts.parts));
        if (!parts.parts)
                return no_memory(parts.bytes);
        TRY(open_memory(m, parts.bytes - response.outside, &o));
        put_stream_head(&o, a, response.bytes);
        put_response(&o, a);
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
