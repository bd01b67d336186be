/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/infer_decode.h"

#include "base/mem.h"
#include "codec/pb_reader.h"
#include "core_api/datatype.h"

#include <stdlib.h>
#include <string.h>

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

/* Field numbers of InferInputTensor and InferRequestedOutputTensor. */
enum {
        INPUT_NAME = 1,
        INPUT_DATATYPE = 2,
        INPUT_SHAPE = 3,
        INPUT_PARAMETERS = 4,
        INPUT_CONTENTS = 5,
        OUTPUT_NAME = 1,
        OUTPUT_PARAMETERS = 2,
};

/* Which member of the oneof of an InferParameter is set; the last one counts. */
enum wire_kind {
        WIRE_ABSENT, /* no such parameter */
        WIRE_UNSET,  /* a parameter without a value */
        WIRE_BOOL,
        WIRE_INT64,
        WIRE_STRING,
        WIRE_DOUBLE,
        WIRE_UINT64,
};

struct wire_value {
        enum wire_kind kind;
        union {
                bool       boolean;
                int64_t    int64;
                uint64_t   uint64;
                double     real;
                struct str text; /* borrowed: the message */
        };
};

/* The known parameters of an input or output. */
struct wire_tensor_parameters {
        struct wire_value region, offset, byte_size, classification;
};

/* State of an input in addition to its struct infer_input. */
struct wire_input {
        struct str                    body; /* borrowed: its bytes in the message */
        bool                          has_contents;
        struct wire_tensor_parameters parameters;
};

struct infer_decoder {
        const struct infer_source *source; /* borrowed */
        struct infer_wire         *wire;   /* borrowed */
        struct wire_input         *inputs; /* in arena; one for each of the request's inputs */
        struct str                *raws;   /* in arena; raw_input_contents */
        uint32_t                   n_raws, next_raw;
        struct str    model_name, model_version, id; /* borrowed; the last one of each counts */
        struct error *data_fault, *output_fault;     /* owned */
};

static struct error *malformed_request(void) {
        return error_new_text(ERR_INVALID_ARG, "failed to parse the ModelInferRequest message");
}

static ALWAYS_INLINE struct error *copy(struct infer_decoder *d, struct str text,
                                        const char **ret) {
        char *place = arena_try_alloc(d->source->arena, text.len + 1);

        if (place == NULL)
                return infer_no_memory();
        memcpy(place, text.ptr, text.len);
        place[text.len] = '\0';
        *ret = place;
        return NULL;
}

static struct error *refuse_nul(struct str text) {
        if (text.len == 0 || memchr(text.ptr, '\0', text.len) == NULL)
                return NULL;
        return error_new_text(ERR_INVALID_ARG,
                              "a string of the ModelInferRequest contains a NUL character");
}

static struct error *copy_text(struct infer_decoder *d, struct str text, const char **ret) {
        if (text.len == 0) {
                *ret = "";
                return NULL;
        }
        TRY(refuse_nul(text));
        return copy(d, text, ret);
}

/* ---- parameters ---- */

/* The reference's limit of a correlation id that is a string. */
#define MAX_SEQUENCE_NAME_BYTES 128

/* Field numbers of InferParameter. */
enum {
        PARAMETER_BOOL = 1,
        PARAMETER_INT64 = 2,
        PARAMETER_STRING = 3,
        PARAMETER_DOUBLE = 4,
        PARAMETER_UINT64 = 5,
};

static void read_value(struct pb_reader *outer, struct wire_value *ret) {
        struct pb_reader r = pb_read_message(outer);
        struct pb_tag    tag;

        while (pb_next(&r, &tag)) {
                if (tag.number == PARAMETER_BOOL && tag.wire == PB_WIRE_VARINT)
                        *ret = (struct wire_value){ WIRE_BOOL, { .boolean = pb_read_bool(&r) } };
                else if (tag.number == PARAMETER_INT64 && tag.wire == PB_WIRE_VARINT)
                        *ret = (struct wire_value){ WIRE_INT64,
                                                    { .int64 = (int64_t)pb_read_varint(&r) } };
                else if (tag.number == PARAMETER_STRING && tag.wire == PB_WIRE_BYTES)
                        *ret = (struct wire_value){ WIRE_STRING, { .text = pb_read_text(&r) } };
                else if (tag.number == PARAMETER_DOUBLE && tag.wire == PB_WIRE_FIXED64)
                        *ret = (struct wire_value){ WIRE_DOUBLE, { .real = pb_read_f64(&r) } };
                else if (tag.number == PARAMETER_UINT64 && tag.wire == PB_WIRE_VARINT)
                        *ret = (struct wire_value){ WIRE_UINT64, { .uint64 = pb_read_varint(&r) } };
                else
                        pb_skip(&r, tag);
        }
        if (pb_failed(&r))
                pb_fail(outer);
}

static struct str read_entry(struct pb_reader *outer, struct wire_value *ret) {
        struct pb_reader r = pb_read_message(outer);
        struct str       key = STR_LIT("");
        struct pb_tag    tag;

        *ret = (struct wire_value){ .kind = WIRE_UNSET };
        while (pb_next(&r, &tag)) {
                if (tag.number == 1 && tag.wire == PB_WIRE_BYTES)
                        key = pb_read_text(&r);
                else if (tag.number == 2 && tag.wire == PB_WIRE_BYTES)
                        read_value(&r, ret);
                else
                        pb_skip(&r, tag);
        }
        if (pb_failed(&r))
                pb_fail(outer);
        return key;
}

/* ---- parameters of the request ---- */

static struct error *read_sequence_id(struct infer_decoder *d, const struct wire_value *v,
                                      struct error **fault) {
        struct infer_request *q = &d->wire->request;

        if (v->kind == WIRE_INT64) {
                q->sequence_id = (uint64_t)v->int64;
                q->sequence_name = NULL;
        } else if (v->kind != WIRE_STRING) {
                *fault = error_new_text(ERR_INVALID_ARG,
                                        "invalid value type for 'sequence_id' parameter, expected "
                                        "int64_param or string_param.");
        } else if (v->text.len > MAX_SEQUENCE_NAME_BYTES) {
                *fault = error_new(ERR_UNSUPPORTED,
                                   "string correlation ID cannot be longer than %d characters",
                                   MAX_SEQUENCE_NAME_BYTES);
        } else {
                return copy_text(d, v->text, &q->sequence_name);
        }
        return NULL;
}

static struct error *expect_bool(const char *key, const struct wire_value *v) {
        if (v->kind == WIRE_BOOL)
                return NULL;
        return error_new(ERR_INVALID_ARG,
                         "invalid value type for '%s' parameter, expected bool_param.", key);
}

static struct error *read_flag(struct infer_request *q, const char *key, const struct wire_value *v,
                               uint32_t flag) {
        TRY(expect_bool(key, v));
        q->flags = v->boolean ? q->flags | flag : q->flags & ~flag;
        return NULL;
}

static struct error *read_priority(struct infer_request *q, const struct wire_value *v) {
        if (v->kind == WIRE_UINT64) {
                q->priority = v->uint64;
                return NULL;
        }
        if (v->kind != WIRE_INT64)
                return error_new_text(ERR_INVALID_ARG,
                                      "invalid value type for 'priority' parameter, expected "
                                      "int64_param or uint64_param.");
        if (v->int64 < 0)
                return error_new_text(ERR_INVALID_ARG,
                                      "invalid value for 'priority', expected value >= 0.");
        q->priority = (uint64_t)v->int64;
        return NULL;
}

static struct error *read_timeout(struct infer_request *q, const struct wire_value *v) {
        if (v->kind != WIRE_INT64)
                return error_new_text(ERR_INVALID_ARG, "invalid value type for 'timeout' "
                                                       "parameter, expected int64_param.");
        q->timeout_us = (uint64_t)v->int64;
        return NULL;
}

static struct error *read_reserved(struct infer_wire *w, struct str key,
                                   const struct wire_value *v) {
        if (!STR_IS(key, "triton_enable_empty_final_response"))
                return error_new_text(ERR_INVALID_ARG,
                                      "parameter keys starting with 'triton_' are reserved for "
                                      "Triton usage. Only the following keys starting with "
                                      "'triton_' are allowed: triton_enable_empty_final_response");
        TRY(expect_bool("triton_enable_empty_final_response", v));
        w->wants_empty_final = v->boolean;
        return NULL;
}

static struct error *read_free_parameter(struct infer_decoder *d, struct str key,
                                         const struct wire_value *v, struct error **fault) {
        struct infer_parameter p = { 0 }, *slot;

        switch (v->kind) {
        case WIRE_BOOL:
                p.type = TRITONSERVER_PARAMETER_BOOL;
                p.value.boolean = v->boolean;
                break;
        case WIRE_INT64:
                p.type = TRITONSERVER_PARAMETER_INT;
                p.value.integer = v->int64;
                break;
        case WIRE_DOUBLE:
                p.type = TRITONSERVER_PARAMETER_DOUBLE;
                p.value.real = v->real;
                break;
        case WIRE_STRING:
                p.type = TRITONSERVER_PARAMETER_STRING;
                TRY(copy_text(d, v->text, &p.value.text));
                break;
        default:
                *fault = error_new(ERR_INVALID_ARG,
                                   "invalid value type for '%.*s' parameter, expected int64_param, "
                                   "bool_param, or string_param.",
                                   STR_ARG(key));
                return NULL;
        }
        TRY(copy_text(d, key, &p.name));
        TRY(infer_request_add_parameter(&d->wire->request, d->source->arena, &slot));
        *slot = p;
        return NULL;
}

static struct error *read_parameter(struct infer_decoder *d, struct pb_reader *r) {
        struct infer_request *q = &d->wire->request;
        struct error         *fault = NULL, *err = NULL;
        struct wire_value     v;
        struct str            key = read_entry(r, &v);

        if (pb_failed(r))
                return malformed_request();
        if (STR_IS(key, "sequence_id"))
                err = read_sequence_id(d, &v, &fault);
        else if (STR_IS(key, "sequence_start"))
                fault = read_flag(q, "sequence_start", &v,
                                  TRITONSERVER_REQUEST_FLAG_SEQUENCE_START);
        else if (STR_IS(key, "sequence_end"))
                fault = read_flag(q, "sequence_end", &v, TRITONSERVER_REQUEST_FLAG_SEQUENCE_END);
        else if (STR_IS(key, "priority"))
                fault = read_priority(q, &v);
        else if (STR_IS(key, "timeout"))
                fault = read_timeout(q, &v);
        else if (str_starts(key, STR_LIT("triton_")))
                fault = read_reserved(d->wire, key, &v);
        else
                err = read_free_parameter(d, key, &v, &fault);
        error_keep_first(&d->wire->parameter_fault, fault);
        return err;
}

struct named {
        const char *name;
        uint32_t    index;
};

static int compare_named(const void *left, const void *right) {
        const struct named *a = left, *b = right;
        int                 order = strcmp(a->name, b->name);

        return order ? order : (a->index > b->index) - (a->index < b->index);
}

/* Drops repeated parameters but the last. Sorts them, because a hostile message may have thousands. */
static struct error *drop_repeated(struct infer_decoder *d) {
        struct infer_request *q = &d->wire->request;
        struct named         *sorted;
        uint32_t              n = 0;

        if (q->n_parameters < 2)
                return NULL;
        sorted = arena_try_alloc(d->source->arena, q->n_parameters * sizeof(*sorted));
        if (sorted == NULL)
                return infer_no_memory();
        for (uint32_t i = 0; i < q->n_parameters; i++)
                sorted[i] = (struct named){ q->parameters[i].name, i };
        qsort(sorted, q->n_parameters, sizeof(*sorted), compare_named);
        for (uint32_t i = 0; i + 1 < q->n_parameters; i++)
                if (strcmp(sorted[i].name, sorted[i + 1].name) == 0)
                        q->parameters[sorted[i].index].name = NULL;
        for (uint32_t i = 0; i < q->n_parameters; i++)
                if (q->parameters[i].name != NULL)
                        q->parameters[n++] = q->parameters[i];
        q->n_parameters = n;
        return NULL;
}

/* ---- parameters of tensors ---- */

static void read_tensor_parameter(struct pb_reader *r, struct wire_tensor_parameters *p) {
        struct wire_value v;
        struct str        key = read_entry(r, &v);

        if (STR_IS(key, "shared_memory_region"))
                p->region = v;
        else if (STR_IS(key, "shared_memory_offset"))
                p->offset = v;
        else if (STR_IS(key, "shared_memory_byte_size"))
                p->byte_size = v;
        else if (STR_IS(key, "classification"))
                p->classification = v;
}

static struct error *refuse_type(const char *key, const char *tensor, const char *expected) {
        return error_new(ERR_INVALID_ARG,
                         "invalid value type for '%s' parameter for tensor '%s', expected %s.", key,
                         tensor, expected);
}

static struct error *read_number(const struct wire_value *v, bool has_region, const char *key,
                                 const char *tensor, uint64_t *ret) {
        if (v->kind == WIRE_ABSENT)
                return NULL;
        if (!has_region)
                return error_new(ERR_INVALID_ARG,
                                 "'%s' can not be specified without 'shared_memory_region' "
                                 "parameter for tensor '%s'",
                                 key, tensor);
        if (v->kind != WIRE_INT64)
                return refuse_type(key, tensor, "int64_param");
        *ret = (uint64_t)v->int64;
        return NULL;
}

static struct error *check_region(const struct wire_tensor_parameters *p, const char *tensor,
                                  struct infer_shared_memory *ret) {
        bool has_region = p->region.kind != WIRE_ABSENT;

        if (has_region && p->region.kind != WIRE_STRING)
                return refuse_type("shared_memory_region", tensor, "string_param");
        TRY(read_number(&p->offset, has_region, "shared_memory_offset", tensor, &ret->offset));
        TRY(read_number(&p->byte_size, has_region, "shared_memory_byte_size", tensor,
                        &ret->byte_size));
        if (has_region && p->byte_size.kind == WIRE_ABSENT)
                return error_new(ERR_INVALID_ARG,
                                 "'shared_memory_byte_size' must be specified along with "
                                 "'shared_memory_region' parameter for tensor '%s'",
                                 tensor);
        return NULL;
}

static struct error *read_region(struct infer_decoder *d, const struct wire_tensor_parameters *p,
                                 const char *tensor, struct infer_shared_memory *ret,
                                 struct error **fault) {
        *fault = check_region(p, tensor, ret);
        if (*fault != NULL || p->region.kind == WIRE_ABSENT)
                return NULL;
        return copy_text(d, p->region.text, &ret->region);
}

/* ---- typed contents ---- */

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

/* Tensors up to this size are converted into the arena, because a buffer of the pool is at least a page. */
#define MAX_BYTES_IN_ARENA 1024

struct contents_count {
        size_t     n[N_CONTENTS];        /* number of elements */
        size_t     n_pieces[N_CONTENTS]; /* number of packed runs and single elements */
        struct str last_run;             /* the last packed run of FP32 or FP64 */
        size_t     text_bytes;           /* of CONTENTS_BYTES, including the lengths */
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
                        pb_fail(r); /* the last varint is incomplete */
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

/* Destination of converted elements. */
struct contents_out {
        char  *at;
        char  *end;
        size_t width; /* size of an element; 0 = BYTES */
};

static void put_contents(struct contents_out *out, const void *bytes, size_t len) {
        if (len > (size_t)(out->end - out->at))
                return; /* differs from the count because the reader has failed */
        if (len > 0)
                memcpy(out->at, bytes, len);
        out->at += len;
}

/* Puts the low bytes of a number. */
static void put_number(struct contents_out *out, uint64_t value) {
        uint8_t  u8 = (uint8_t)value;
        uint16_t u16 = (uint16_t)value;
        uint32_t u32 = (uint32_t)value;

        switch (out->width) {
        case 1: put_contents(out, &u8, sizeof(u8)); break;
        case 2: put_contents(out, &u16, sizeof(u16)); break;
        case 4: put_contents(out, &u32, sizeof(u32)); break;
        default: put_contents(out, &value, sizeof(value)); break;
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

        put_contents(out, &len, sizeof(len));
        put_contents(out, text.ptr, text.len);
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

/* Counts or converts the contents of an input. A singular message that occurs more than once is merged, so
 * its lists are joined. */
static struct error *walk_contents(struct str input, enum contents_field field,
                                   struct contents_count *count, struct contents_out *out) {
        struct pb_reader r, inner;
        struct pb_tag    tag;

        pb_reader_init(&r, input.ptr, input.len);
        while (pb_next(&r, &tag)) {
                if (tag.number != INPUT_CONTENTS || tag.wire != PB_WIRE_BYTES) {
                        pb_skip(&r, tag);
                        continue;
                }
                inner = pb_read_message(&r);
                if (out != NULL)
                        convert_contents(&inner, field, out);
                else
                        count_contents(&inner, count);
                if (pb_failed(&inner))
                        return malformed_request();
        }
        return NULL;
}

/* Returns the datatype that a field carries for an input of `datatype`. */
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

/* Finds the one field that has elements; 0 if none has. */
static struct error *choose_field(const struct infer_decoder *d, const struct contents_count *c,
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

static char *allocate_input(struct infer_decoder *d, struct infer_input *in, size_t bytes) {
        if (bytes <= MAX_BYTES_IN_ARENA)
                return arena_try_alloc(d->source->arena, bytes);
        in->converted = buf_new(d->source->pool, bytes);
        return in->converted != NULL ? in->converted->bytes : NULL;
}

/* True for a single packed run of floats, which have the same form on the wire and in memory. */
static bool is_borrowed(const struct contents_count *c, enum contents_field field) {
        return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && wire_of(field) != PB_WIRE_VARINT &&
               field != CONTENTS_BYTES && c->n_pieces[field] == 1 && c->last_run.len > 0;
}

static struct error *read_contents(struct infer_decoder *d, const struct wire_input *wire,
                                   struct infer_input *in) {
        struct contents_count count = { 0 };
        struct contents_out   out = { .width = datatype_bytes(in->datatype) };
        enum contents_field   field;
        struct error         *fault;
        size_t                bytes;

        TRY(walk_contents(wire->body, 0, &count, NULL));
        fault = choose_field(d, &count, in, &field);
        error_keep_first(&d->data_fault, fault);
        if (fault != NULL || field == 0)
                return NULL;
        if (is_borrowed(&count, field)) {
                in->bytes = count.last_run;
                return NULL;
        }
        bytes = count.text_bytes;
        if (field != CONTENTS_BYTES && !size_mul(count.n[field], out.width, &bytes))
                return infer_no_memory();
        out.at = allocate_input(d, in, bytes);
        if (out.at == NULL)
                return infer_no_memory();
        out.end = out.at + bytes;
        in->bytes = str_range(out.at, bytes);
        TRY(walk_contents(wire->body, field, NULL, &out));
        return out.at == out.end ? NULL : malformed_request();
}

/* ---- strings ---- */

/* Reads a string that may occur again. The last one counts, so only that one is copied, by keep_text(). */
static struct error *read_text(struct pb_reader *r, struct str *ret) {
        struct str text = pb_read_bytes(r);

        if (pb_failed(r))
                return malformed_request();
        if (!str_is_plain(text)) {
                if (!str_is_utf8(text))
                        return malformed_request();
                TRY(refuse_nul(text));
        }
        *ret = text;
        return NULL;
}

static struct error *keep_text(struct infer_decoder *d, struct str text, const char **ret) {
        return text.len > 0 ? copy(d, text, ret) : NULL;
}

/* ---- inputs ---- */

/* State of reading an input. The last one of each string counts. */
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
                        return malformed_request();
                TRY(add_dim(s, dim));
        }
        return NULL;
}

static struct error *read_datatype(struct pb_reader *r, struct input_scan *s) {
        s->datatype = pb_read_text(r);
        s->in->datatype = datatype_from_name(s->datatype);
        return s->in->datatype == TRITONSERVER_TYPE_INVALID ? refuse_nul(s->datatype) : NULL;
}

static struct error *read_input_field(struct infer_decoder *d, struct pb_reader *r,
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
        case INPUT_PARAMETERS: read_tensor_parameter(r, &wire->parameters); return NULL;
        case INPUT_CONTENTS: wire->has_contents = true; break;
        default: break;
        }
        pb_skip(r, tag);
        return NULL;
}

/* Makes room for one more input. */
static struct error *add_wire_input(struct infer_decoder *d) {
        void *inputs = d->inputs;

        TRY(infer_array_grow(d->source->arena, &inputs, d->wire->request.n_inputs,
                             sizeof(*d->inputs)));
        d->inputs = inputs;
        return NULL;
}

static struct error *keep_shape(struct infer_decoder *d, const struct input_scan *s) {
        size_t   bytes = s->in->n_dims * sizeof(s->dims[0]);
        int64_t *dims;

        if (bytes == 0)
                return NULL;
        dims = arena_try_alloc(d->source->arena, bytes);
        if (dims == NULL)
                return infer_no_memory();
        memcpy(dims, s->dims, bytes);
        s->in->shape = dims;
        return NULL;
}

/* Copies the shape and the strings after the whole input was read. */
static struct error *finish_input(struct infer_decoder *d, const struct input_scan *s) {
        TRY(keep_shape(d, s));
        TRY(keep_text(d, s->name, &s->in->name));
        if (s->in->datatype != TRITONSERVER_TYPE_INVALID) {
                s->in->datatype_name = datatype_name(s->in->datatype);
                return NULL;
        }
        return keep_text(d, s->datatype, &s->in->datatype_name);
}

static struct error *read_input(struct infer_decoder *d, struct pb_reader *outer) {
        struct infer_request *q = &d->wire->request;
        struct pb_reader      r = pb_read_message(outer);
        struct input_scan     s;
        struct pb_tag         tag;

        TRY(add_wire_input(d));
        TRY(infer_request_add_input(q, d->source->arena, &s.in));
        s.name = s.datatype = str_range("", 0); /* `dims` is valid up to n_dims only */
        s.in->name = s.in->datatype_name = "";
        d->inputs[q->n_inputs - 1] =
                (struct wire_input){ .body = str_range((const char *)r.at, pb_left(&r)) };
        while (pb_next(&r, &tag))
                TRY(read_input_field(d, &r, tag, &s));
        return pb_failed(&r) ? malformed_request() : finish_input(d, &s);
}

/* ---- the bytes of inputs ---- */

static struct error *refuse_no_data(const struct infer_decoder *d, const struct infer_input *in) {
        return error_new(ERR_INVALID_ARG,
                         "unable to find data for input tensor '%s' for model '%s' in request.",
                         in->name, d->wire->model_name);
}

static struct error *check_no_contents(struct infer_decoder *d, const struct wire_input *wire,
                                       const struct infer_input *in) {
        if (!wire->has_contents)
                return NULL;
        return error_new(ERR_INVALID_ARG,
                         "unexpected 'content' provided when using shared memory for input tensor "
                         "'%s' for model '%s'",
                         in->name, d->wire->model_name);
}

static struct error *place_input(struct infer_decoder *d, const struct wire_input *wire,
                                 struct infer_input *in) {
        struct error *fault = NULL;

        TRY(read_region(d, &wire->parameters, in->name, &in->shared_memory, &fault));
        error_keep_first(&d->data_fault, fault);
        if (fault != NULL)
                return NULL;
        if (in->shared_memory.region != NULL) {
                error_keep_first(&d->data_fault, check_no_contents(d, wire, in));
                return NULL;
        }
        if (wire->has_contents && d->n_raws > 0) {
                error_keep_first(&d->data_fault,
                                 error_new(ERR_INVALID_ARG,
                                           "contents field must not be specified when using "
                                           "raw_input_contents for '%s' for model '%s'",
                                           in->name, d->wire->model_name));
                return NULL;
        }
        if (wire->has_contents)
                return read_contents(d, wire, in);
        if (d->next_raw < d->n_raws)
                in->bytes = d->raws[d->next_raw++];
        else
                error_keep_first(&d->data_fault, refuse_no_data(d, in));
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

static struct error *place_output(struct infer_decoder *d, const struct wire_tensor_parameters *p,
                                  struct infer_requested_output *out) {
        struct error *fault = NULL;

        TRY(read_region(d, p, out->name, &out->shared_memory, &fault));
        if (fault == NULL)
                fault = read_classification(&p->classification, &out->n_classes);
        if (fault == NULL && out->shared_memory.region != NULL && out->n_classes > 0)
                fault = error_new_text(ERR_INVALID_ARG, "output can't set both "
                                                        "'shared_memory_region' and "
                                                        "'classification'");
        error_keep_first(&d->output_fault, fault);
        return NULL;
}

static struct error *read_output(struct infer_decoder *d, struct pb_reader *outer) {
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
                        read_tensor_parameter(&r, &parameters);
                else
                        pb_skip(&r, tag);
        }
        if (pb_failed(&r))
                return malformed_request();
        TRY(keep_text(d, name, &out->name));
        return place_output(d, &parameters, out);
}

/* ---- the message ---- */

/* Raw contents usually come last, but need not. Those beyond the limit of tensors cannot belong to an input
 * and are ignored. */
static struct error *read_raw(struct infer_decoder *d, struct pb_reader *r) {
        struct str bytes = pb_read_bytes(r);
        void      *raws = d->raws;

        if (d->n_raws == INFER_MAX_TENSORS)
                return NULL;
        TRY(infer_array_grow(d->source->arena, &raws, d->n_raws, sizeof(*d->raws)));
        d->raws = raws;
        d->raws[d->n_raws++] = bytes;
        return NULL;
}

static struct error *read_field(struct infer_decoder *d, struct pb_reader *r, struct pb_tag tag) {
        if (tag.wire != PB_WIRE_BYTES) {
                pb_skip(r, tag);
                return NULL;
        }
        switch (tag.number) {
        case REQUEST_MODEL_NAME: return read_text(r, &d->model_name);
        case REQUEST_MODEL_VERSION: return read_text(r, &d->model_version);
        case REQUEST_ID: return read_text(r, &d->id);
        case REQUEST_PARAMETERS: return read_parameter(d, r);
        case REQUEST_INPUTS: return read_input(d, r);
        case REQUEST_OUTPUTS: return read_output(d, r);
        case REQUEST_RAW_INPUTS: return read_raw(d, r);
        default: pb_skip(r, tag); return NULL;
        }
}

static struct error *read_message(struct infer_decoder *d) {
        struct infer_wire    *w = d->wire;
        struct infer_request *q = &w->request;
        struct pb_reader      r;
        struct pb_tag         tag;

        pb_reader_init(&r, d->source->message.ptr, d->source->message.len);
        while (pb_next(&r, &tag))
                TRY(read_field(d, &r, tag));
        if (pb_failed(&r))
                return malformed_request();
        TRY(keep_text(d, d->model_name, &w->model_name));
        TRY(keep_text(d, d->model_version, &w->model_version));
        TRY(keep_text(d, d->id, &q->id));
        TRY(drop_repeated(d));
        for (uint32_t i = 0; i < q->n_inputs; i++)
                TRY(place_input(d, &d->inputs[i], &q->inputs[i]));
        return NULL;
}

/* Limit of the fields that infer_message_work() reads. A usual message has one for each tensor and a few
 * more. */
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
        struct infer_decoder d = { .source = source, .wire = ret };
        struct error        *err;
        size_t               max;

        *ret = (struct infer_wire){ .model_name = "", .model_version = "" };
        infer_request_init(&ret->request);
        ret->request.is_binary_by_default = true;
        infer_arena_limit(source->arena, source->message.len, &max);
        err = read_message(&d);
        infer_arena_release(source->arena, max);
        error_keep_first(&ret->tensor_fault, d.data_fault);
        error_keep_first(&ret->tensor_fault, d.output_fault);
        return err;
}

void infer_wire_done(struct infer_wire *w) {
        infer_request_done(&w->request);
        error_free(STEAL(w->parameter_fault));
        error_free(STEAL(w->tensor_fault));
}
