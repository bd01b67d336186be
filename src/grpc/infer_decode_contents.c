/* SPDX-License-Identifier: BSD-3-Clause */
/* Typed contents (InferTensorContents): elements in protobuf's own encoding, one field for each
 * family of datatypes, packed or one by one. They are counted first, so that the tensor is
 * allocated once, and then converted.
 */
#include <string.h>

#include "base/mem.h"
#include "core_api/datatype.h"
#include "grpc/infer_reading.h"

/* Field numbers of InferTensorContents. */
enum contents_field {
        CONTENTS_BOOL = 1,
        CONTENTS_INT = 2,
        CONTENTS_INT64 = 3,
        CONTENTS_UINT = 4,
        CONTENTS_UINT64 = 5,
        CONTENTS_FP32 = 6,
        CONTENTS_FP64 = 7,
        CONTENTS_BYTES = 8,
        N_CONTENTS = 9,
};

#define INPUT_CONTENTS 5 /* in InferInputTensor */

/* Tensors up to this size are converted into the arena: a buffer of the pool is a page. */
#define MAX_BYTES_IN_ARENA 1024

struct contents_count {
        size_t     n[N_CONTENTS];        /* elements */
        size_t     n_pieces[N_CONTENTS]; /* packed runs, single elements */
        struct str last_run;             /* packed, of CONTENTS_FP32 or CONTENTS_FP64 */
        size_t     text_bytes;           /* of CONTENTS_BYTES, with lengths */
};

static enum pb_wire wire_of(enum contents_field field) {
        if (field == CONTENTS_FP32)
                return PB_WIRE_FIXED32;
        return field == CONTENTS_FP64 ? PB_WIRE_FIXED64 : PB_WIRE_VARINT;
}

static size_t count_varints(struct str run) {
        size_t n = 0;

        for (size_t i = 0; i < run.len; i++)
                n += (unsigned char)run.ptr[i] < 0x80;
        return n;
}

static void count_run(struct pb_reader *r, enum contents_field field, struct contents_count *c) {
        struct str run = pb_read_bytes(r);
        size_t     width = field == CONTENTS_FP32 ? 4 : 8;

        c->n_pieces[field]++;
        if (field == CONTENTS_BYTES) {
                c->n[field]++;
                c->text_bytes += sizeof(uint32_t) + run.len;
                return;
        }
        if (wire_of(field) == PB_WIRE_VARINT) {
                c->n[field] += count_varints(run);
                if (run.len > 0 && (unsigned char)run.ptr[run.len - 1] >= 0x80)
                        pb_fail(r); /* the last one has no end */
                return;
        }
        c->last_run = run;
        c->n[field] += run.len / width;
        if (run.len % width != 0)
                pb_fail(r);
}

static void count_contents(struct pb_reader *r, struct contents_count *c) {
        struct pb_tag tag;

        while (pb_next(r, &tag)) {
                enum contents_field field = (enum contents_field)MIN(tag.number, N_CONTENTS);

                if (field != N_CONTENTS && tag.wire == PB_WIRE_BYTES) {
                        count_run(r, field, c);
                        continue;
                }
                if (field < CONTENTS_BYTES && tag.wire == wire_of(field)) {
                        c->n[field]++;
                        c->n_pieces[field]++;
                }
                pb_skip(r, tag);
        }
}

/* Where elements go. */
struct contents_out {
        char  *at;
        char  *end;
        size_t width; /* of an element; 0 = BYTES */
};

static void put(struct contents_out *out, const void *bytes, size_t len) {
        if (len > (size_t)(out->end - out->at))
                return; /* not what was counted: the reader has failed */
        if (len > 0)
                memcpy(out->at, bytes, len);
        out->at += len;
}

/* The low bytes of a number. */
static void put_number(struct contents_out *out, uint64_t value) {
        uint8_t  u8 = (uint8_t)value;
        uint16_t u16 = (uint16_t)value;
        uint32_t u32 = (uint32_t)value;

        switch (out->width) {
        case 1: put(out, &u8, sizeof(u8)); break;
        case 2: put(out, &u16, sizeof(u16)); break;
        case 4: put(out, &u32, sizeof(u32)); break;
        default: put(out, &value, sizeof(value)); break;
        }
}

static void convert_one(struct pb_reader *r, enum contents_field field, struct contents_out *out) {
        switch (field) {
        case CONTENTS_BOOL: put_number(out, pb_read_bool(r)); break;
        case CONTENTS_FP32: put_number(out, pb_read_fixed32(r)); break;
        case CONTENTS_FP64: put_number(out, pb_read_fixed64(r)); break;
        default: put_number(out, pb_read_varint(r)); break;
        }
}

static void convert_text(struct pb_reader *r, struct contents_out *out) {
        struct str text = pb_read_bytes(r);
        uint32_t   len = (uint32_t)text.len;

        put(out, &len, sizeof(len));
        put(out, text.ptr, text.len);
}

static void convert_run(struct pb_reader *r, enum contents_field field, struct contents_out *out) {
        struct pb_reader run = pb_read_message(r);

        while (!pb_at_end(&run) && !pb_failed(&run))
                convert_one(&run, field, out);
        if (pb_failed(&run))
                pb_fail(r);
}

static void convert_contents(struct pb_reader *r, enum contents_field field,
                             struct contents_out *out) {
        struct pb_tag tag;

        while (pb_next(r, &tag)) {
                bool is_run = tag.wire == PB_WIRE_BYTES;

                if (tag.number != field)
                        pb_skip(r, tag);
                else if (is_run && field == CONTENTS_BYTES)
                        convert_text(r, out);
                else if (is_run)
                        convert_run(r, field, out);
                else if (field != CONTENTS_BYTES && tag.wire == wire_of(field))
                        convert_one(r, field, out);
                else
                        pb_skip(r, tag);
        }
}

/* A singular message that comes more than once is merged: its lists are joined. */
static struct error *walk(struct str input, enum contents_field field, struct contents_count *count,
                          struct contents_out *out) {
        struct pb_reader r, inner;
        struct pb_tag    tag;

        pb_reader_init(&r, input.ptr, input.len);
        while (pb_next(&r, &tag)) {
                if (tag.number != INPUT_CONTENTS || tag.wire != PB_WIRE_BYTES) {
                        pb_skip(&r, tag);
                        continue;
                }
                inner = pb_read_message(&r);
                if (out)
                        convert_contents(&inner, field, out);
                else
                        count_contents(&inner, count);
                if (pb_failed(&inner))
                        return infer_malformed();
        }
        return NULL;
}

/* The datatype that a field carries, given what the input says it is. */
static TRITONSERVER_DataType type_of(enum contents_field field, TRITONSERVER_DataType datatype) {
        static const TRITONSERVER_DataType types[N_CONTENTS] = {
                [CONTENTS_BOOL] = TRITONSERVER_TYPE_BOOL,
                [CONTENTS_INT] = TRITONSERVER_TYPE_INT32,
                [CONTENTS_INT64] = TRITONSERVER_TYPE_INT64,
                [CONTENTS_UINT] = TRITONSERVER_TYPE_UINT32,
                [CONTENTS_UINT64] = TRITONSERVER_TYPE_UINT64,
                [CONTENTS_FP32] = TRITONSERVER_TYPE_FP32,
                [CONTENTS_FP64] = TRITONSERVER_TYPE_FP64,
                [CONTENTS_BYTES] = TRITONSERVER_TYPE_BYTES,
        };

        if (field == CONTENTS_INT &&
            (datatype == TRITONSERVER_TYPE_INT8 || datatype == TRITONSERVER_TYPE_INT16))
                return datatype;
        if (field == CONTENTS_UINT &&
            (datatype == TRITONSERVER_TYPE_UINT8 || datatype == TRITONSERVER_TYPE_UINT16))
                return datatype;
        return types[field];
}

/* The one field that has elements; 0 when none has. */
static struct error *choose_field(const struct infer_reading *d, const struct contents_count *c,
                                  const struct infer_input *in, enum contents_field *ret) {
        *ret = 0;
        for (unsigned i = CONTENTS_BOOL; i < N_CONTENTS; i++) {
                TRITONSERVER_DataType type = type_of((enum contents_field)i, in->datatype);

                if (c->n[i] == 0)
                        continue;
                if (*ret != 0)
                        return error_new(ERR_INVALID_ARG,
                                         "unexpected explicit tensor data for input tensor '%s' "
                                         "for model '%s', binary data was already supplied.",
                                         in->name, d->wire->model_name);
                if (type != in->datatype)
                        return error_new(ERR_INVALID_ARG,
                                         "unexpected explicit tensor data for input tensor '%s' "
                                         "for model '%s' of type '%s', expected datatype '%s'",
                                         in->name, d->wire->model_name, datatype_name(type),
                                         datatype_name(in->datatype));
                *ret = (enum contents_field)i;
        }
        return NULL;
}

static char *allocate(struct infer_reading *d, struct infer_input *in, size_t bytes) {
        if (bytes <= MAX_BYTES_IN_ARENA)
                return arena_try_alloc(d->source->arena, bytes);
        in->converted = buf_new(d->source->pool, bytes);
        return in->converted ? in->converted->bytes : NULL;
}

/* Floats are on the wire what they are in memory. */
static bool is_borrowed(const struct contents_count *c, enum contents_field field) {
        return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && wire_of(field) != PB_WIRE_VARINT &&
               field != CONTENTS_BYTES && c->n_pieces[field] == 1 && c->last_run.len > 0;
}

struct error *infer_read_contents(struct infer_reading *d, const struct wire_input *wire,
                                  struct infer_input *in) {
        struct contents_count count = { 0 };
        struct contents_out   out = { .width = datatype_bytes(in->datatype) };
        enum contents_field   field;
        struct error         *fault;
        size_t                bytes;

        TRY(walk(wire->body, 0, &count, NULL));
        fault = choose_field(d, &count, in, &field);
        infer_keep_first(&d->data_fault, fault);
        if (fault || field == 0)
                return NULL;
        if (is_borrowed(&count, field)) {
                in->bytes = count.last_run;
                return NULL;
        }
        bytes = count.text_bytes;
        if (field != CONTENTS_BYTES && !size_mul(count.n[field], out.width, &bytes))
                return infer_no_memory();
        out.at = allocate(d, in, bytes);
        if (!out.at)
                return infer_no_memory();
        out.end = out.at + bytes;
        in->bytes = str_range(out.at, bytes);
        TRY(walk(wire->body, field, NULL, &out));
        return out.at == out.end ? NULL : infer_malformed();
}
