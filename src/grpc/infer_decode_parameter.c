/* SPDX-License-Identifier: BSD-3-Clause */
/* Parameters of an infer request and of its tensors ("KServe v2, parameters, sequence, schedule
 * policy and shared memory extensions"): those with a meaning here, and those that travel to the
 * backend.
 */
#include <stdlib.h>
#include <string.h>

#include "grpc/infer_reading.h"

/* The reference's limit for a correlation id that is text. */
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

struct str infer_read_entry(struct pb_reader *outer, struct wire_value *ret) {
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

/* ---- of the request ---- */

static struct error *read_sequence_id(struct infer_reading *d, const struct wire_value *v,
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
                return infer_copy_text(d, v->text, &q->sequence_name);
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

static struct error *read_free_parameter(struct infer_reading *d, struct str key,
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
                TRY(infer_copy_text(d, v->text, &p.value.text));
                break;
        default:
                *fault = error_new(ERR_INVALID_ARG,
                                   "invalid value type for '%.*s' parameter, expected int64_param, "
                                   "bool_param, or string_param.",
                                   STR_ARG(key));
                return NULL;
        }
        TRY(infer_copy_text(d, key, &p.name));
        TRY(infer_request_add_parameter(&d->wire->request, d->source->arena, &slot));
        *slot = p;
        return NULL;
}

struct error *infer_read_parameter(struct infer_reading *d, struct pb_reader *r) {
        struct infer_request *q = &d->wire->request;
        struct error         *fault = NULL, *err = NULL;
        struct wire_value     v;
        struct str            key = infer_read_entry(r, &v);

        if (UNLIKELY(pb_failed(r)))
                return infer_malformed();
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
        infer_keep_first(&d->wire->parameter_fault, fault);
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

/* Sorted, because a hostile message has thousands of them. */
struct error *infer_drop_repeated(struct infer_reading *d) {
        struct infer_request *q = &d->wire->request;
        struct named         *sorted;
        uint32_t              n = 0;

        if (q->n_parameters < 2)
                return NULL;
        sorted = arena_try_alloc(d->source->arena, q->n_parameters * sizeof(*sorted));
        if (!sorted)
                return infer_no_memory();
        for (uint32_t i = 0; i < q->n_parameters; i++)
                sorted[i] = (struct named){ q->parameters[i].name, i };
        qsort(sorted, q->n_parameters, sizeof(*sorted), compare_named);
        for (uint32_t i = 0; i + 1 < q->n_parameters; i++)
                if (strcmp(sorted[i].name, sorted[i + 1].name) == 0)
                        q->parameters[sorted[i].index].name = NULL;
        for (uint32_t i = 0; i < q->n_parameters; i++)
                if (q->parameters[i].name)
                        q->parameters[n++] = q->parameters[i];
        q->n_parameters = n;
        return NULL;
}

/* ---- of tensors ---- */

void infer_read_tensor_parameter(struct pb_reader *r, struct wire_tensor_parameters *p) {
        struct wire_value v;
        struct str        key = infer_read_entry(r, &v);

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

struct error *infer_read_region(struct infer_reading *d, const struct wire_tensor_parameters *p,
                                const char *tensor, struct infer_shared_memory *ret,
                                struct error **fault) {
        *fault = check_region(p, tensor, ret);
        if (*fault || p->region.kind == WIRE_ABSENT)
                return NULL;
        return infer_copy_text(d, p->region.text, &ret->region);
}
