/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_infer_decode.h"

#include "core_api/datatype.h"
#include "http/http_infer_values.h"

#include <string.h>

/* ---- parameters ---- */

/* The reference's limit of a correlation id that is a string. */
#define MAX_SEQUENCE_NAME_BYTES 128

/* For a number that is no uint64_t the reference reports a string error. */
static struct error *read_sequence_number(struct http_infer_decoder *d) {
        AUTO_ERROR err = http_infer_read_u64(d, "sequence_id", &d->request->sequence_id);

        return err != NULL ? error_new(ERR_INVALID_ARG,
                                       "Unable to parse 'sequence_id': attempt to access "
                                       "JSON non-string as string")
                           : NULL;
}

static struct error *read_sequence_id(struct http_infer_decoder *d) {
        struct infer_request *q = d->request;

        if (json_peek(&d->json) == JSON_NUMBER)
                return read_sequence_number(d);
        TRY(http_infer_read_text(d, "sequence_id", &q->sequence_name));
        if (str_of(q->sequence_name).len > MAX_SEQUENCE_NAME_BYTES)
                return error_new(ERR_UNSUPPORTED,
                                 "string correlation ID cannot be longer than %d characters",
                                 MAX_SEQUENCE_NAME_BYTES);
        return NULL;
}

static struct error *read_flag(struct http_infer_decoder *d, const char *key, uint32_t flag) {
        bool is_set = false;

        TRY(http_infer_read_bool(d, key, &is_set));
        if (is_set)
                d->request->flags |= flag;
        return NULL;
}

static void store_number(struct json_number n, struct infer_parameter *p) {
        bool is_int64 =
                n.is_integer && n.magnitude <= (uint64_t)INT64_MAX + (n.is_negative ? 1 : 0);

        if (!is_int64) {
                p->type = TRITONSERVER_PARAMETER_DOUBLE;
                p->value.real = n.real;
                return;
        }
        p->type = TRITONSERVER_PARAMETER_INT;
        p->value.integer = (int64_t)(n.is_negative ? 0 - n.magnitude : n.magnitude);
}

struct error *http_infer_read_free_parameter(struct http_infer_decoder *d, struct str key) {
        struct infer_parameter  p = { 0 };
        struct infer_parameter *slot;

        TRY_OR(http_infer_copy_text(d, "parameters", key, &p.name), json_skip(&d->json));
        switch (json_peek(&d->json)) {
        case JSON_STRING:
                p.type = TRITONSERVER_PARAMETER_STRING;
                TRY(http_infer_read_text(d, p.name, &p.value.text));
                break;
        case JSON_BOOL:
                p.type = TRITONSERVER_PARAMETER_BOOL;
                p.value.boolean = json_read_bool(&d->json);
                break;
        case JSON_NUMBER: store_number(json_read_number(&d->json), &p); break;
        default:
                json_skip(&d->json);
                return error_new(ERR_INVALID_ARG,
                                 "parameter '%s' has invalid type. It should be either 'int', "
                                 "'bool', or 'string'.",
                                 p.name);
        }
        TRY(infer_request_add_parameter(d->request, d->source->arena, &slot));
        *slot = p;
        return NULL;
}

static struct error *read_parameter(struct http_infer_decoder *d, struct str key) {
        if (STR_IS(key, "sequence_id"))
                return read_sequence_id(d);
        if (STR_IS(key, "sequence_start"))
                return read_flag(d, "sequence_start", TRITONSERVER_REQUEST_FLAG_SEQUENCE_START);
        if (STR_IS(key, "sequence_end"))
                return read_flag(d, "sequence_end", TRITONSERVER_REQUEST_FLAG_SEQUENCE_END);
        if (STR_IS(key, "priority"))
                return http_infer_read_u64(d, "priority", &d->request->priority);
        if (STR_IS(key, "timeout"))
                return http_infer_read_u64(d, "timeout", &d->request->timeout_us);
        if (STR_IS(key, "binary_data_output"))
                return http_infer_read_bool(d, "binary_data_output",
                                            &d->request->is_binary_by_default);

        if (str_starts(key, STR_LIT("triton_"))) {
                json_skip(&d->json);
                return error_new(ERR_INVALID_ARG,
                                 "parameter keys starting with 'triton_' are reserved for Triton "
                                 "usage and should not be specified.");
        }
        return http_infer_read_free_parameter(d, key);
}

static struct error *read_parameters(struct http_infer_decoder *d) {
        struct error *first = NULL;
        struct str    key;

        if (!json_try_enter(&d->json, JSON_OBJECT)) {
                json_skip(&d->json);
                return error_new(ERR_INVALID_ARG,
                                 "failed to get request params.: attempt to get members for "
                                 "non-object");
        }
        while (json_next_key(&d->json, d->source->arena, &key)) {
                if (first != NULL)
                        json_skip(&d->json);
                else
                        first = read_parameter(d, key);
        }
        return first;
}

/* ---- inputs ---- */

/* Known members of an input, as bits. */
enum input_member {
        MEMBER_OTHER = 0,
        MEMBER_NAME = 1,
        MEMBER_SHAPE = 2,
        MEMBER_DATATYPE = 4,
        MEMBER_PARAMETERS = 8,
        MEMBER_DATA = 16,
};

/* State of reading one input. */
struct input_scan {
        struct infer_input     *in;
        unsigned                seen; /* set of enum input_member */
        struct http_infer_place place;
        bool                    has_data, has_binary, has_region;
        bool                    has_name, has_datatype, has_shape; /* read without an error */
        bool                    is_data_read;
        struct str              data; /* JSON of "data" that came before name, shape and datatype */
        uint64_t                binary_bytes;

        /* First error of each part; owned; NULL = none. */
        struct error *name_error, *datatype_error, *shape_error, *parameters_error, *data_error;
};

static struct error *read_name(struct http_infer_decoder *d, struct input_scan *s) {
        TRY(http_infer_read_text(d, "name", &s->in->name));
        s->has_name = true;
        return NULL;
}

static struct error *read_datatype(struct http_infer_decoder *d, struct input_scan *s) {
        struct str name;

        TRY(http_infer_read_str(d, "datatype", &name));
        s->in->datatype_name = name.ptr;
        s->in->datatype = datatype_from_name(name);
        s->has_datatype = true;
        return NULL;
}

/* `dims` has room for INFER_MAX_DIMS numbers. */
static struct error *read_dims(struct http_infer_decoder *d, int64_t *dims, uint32_t *ret_n) {
        struct error *first = NULL;
        uint32_t      n = 0;

        while (json_next_element(&d->json)) {
                uint64_t dim = 0;

                if (first != NULL) {
                        json_skip(&d->json);
                        continue;
                }
                first = http_infer_read_u64(d, "shape", &dim);
                if (first == NULL && n == INFER_MAX_DIMS)
                        first = error_new(ERR_INVALID_ARG,
                                          "Unable to parse 'shape': more than %d dimensions",
                                          INFER_MAX_DIMS);
                if (first == NULL)
                        dims[n++] = (int64_t)dim;
        }
        *ret_n = n;
        return first;
}

/* The dimensions go into the arena once their number is known. */
static struct error *read_shape(struct http_infer_decoder *d, struct input_scan *s) {
        int64_t  dims[INFER_MAX_DIMS], *kept;
        uint32_t n;

        TRY(http_infer_enter(d, "shape", JSON_ARRAY));
        TRY(read_dims(d, dims, &n));
        kept = arena_try_alloc(d->source->arena, (size_t)n * sizeof(*kept));
        if (kept == NULL)
                return infer_no_memory();
        for (uint32_t i = 0; i < n; i++)
                kept[i] = dims[i];
        s->in->shape = kept;
        s->in->n_dims = n;
        s->has_shape = true;
        return NULL;
}

static struct error *read_input_parameter(struct http_infer_decoder *d, struct input_scan *s,
                                          struct str key) {
        if (STR_IS(key, "binary_data_size") && !s->has_binary) {
                s->has_binary = true;
                return http_infer_read_u64(d, "binary_data_size", &s->binary_bytes);
        }
        if (STR_IS(key, "shared_memory_region"))
                s->has_region = true;
        return http_infer_read_place(d, key, &s->place, &s->in->shared_memory);
}

static struct error *read_input_parameters(struct http_infer_decoder *d, struct input_scan *s) {
        struct error *first = NULL;
        struct str    key;

        TRY(http_infer_enter(d, "parameters", JSON_OBJECT));
        while (json_next_key(&d->json, d->source->arena, &key))
                error_keep_first(&first, read_input_parameter(d, s, key));
        return first;
}

static struct error *read_data(struct http_infer_decoder *d, struct input_scan *s) {
        s->has_data = true;
        if (s->has_name && s->has_datatype && s->has_shape && !s->has_binary && !s->has_region) {
                s->is_data_read = true;
                return http_infer_read_tensor(d, &d->json, s->in);
        }
        s->data = json_skip(&d->json);
        return NULL;
}

static enum input_member find_member(struct str key) {
        if (STR_IS(key, "name"))
                return MEMBER_NAME;
        if (STR_IS(key, "shape"))
                return MEMBER_SHAPE;
        if (STR_IS(key, "datatype"))
                return MEMBER_DATATYPE;
        if (STR_IS(key, "parameters"))
                return MEMBER_PARAMETERS;
        return STR_IS(key, "data") ? MEMBER_DATA : MEMBER_OTHER;
}

/* The first of several equal keys counts, as in the reference; the others cost no memory. */
static void read_input_member(struct http_infer_decoder *d, struct input_scan *s, struct str key) {
        enum input_member member = find_member(key);

        if (member == MEMBER_OTHER || (s->seen & member) != 0) {
                json_skip(&d->json);
                return;
        }
        s->seen |= member;
        switch (member) {
        case MEMBER_NAME: s->name_error = read_name(d, s); break;
        case MEMBER_SHAPE: s->shape_error = read_shape(d, s); break;
        case MEMBER_DATATYPE: s->datatype_error = read_datatype(d, s); break;
        case MEMBER_PARAMETERS: s->parameters_error = read_input_parameters(d, s); break;
        case MEMBER_DATA: s->data_error = read_data(d, s); break;
        case MEMBER_OTHER: break;
        }
}

static struct error *check_one_source(const struct input_scan *s) {
        if (s->has_data + s->has_binary + s->has_region == 1)
                return NULL;
        return error_new(ERR_INVALID_ARG,
                         "Input must set only one of the following fields: 'data', "
                         "'binary_data_size' in 'parameters', 'shared_memory_region' in "
                         "'parameters'. But%s%s%s%s",
                         s->has_data || s->has_binary || s->has_region ? " set"
                                                                       : " no field is set",
                         s->has_data ? " 'data'" : "", s->has_binary ? " 'binary_data_size'" : "",
                         s->has_region ? " 'shared_memory_region'" : "");
}

static struct error *take_binary(struct http_infer_decoder *d, struct input_scan *s) {
        if (s->binary_bytes > d->binary.len)
                return error_new(ERR_INVALID_ARG,
                                 "unexpected size for input '%s', expecting %llu additional bytes "
                                 "for model '%s'",
                                 s->in->name, (unsigned long long)(s->binary_bytes - d->binary.len),
                                 d->source->model_name);
        s->in->bytes = str_range(d->binary.ptr, (size_t)s->binary_bytes);
        d->binary.ptr += s->binary_bytes;
        d->binary.len -= (size_t)s->binary_bytes;
        return NULL;
}

/* Returns the first error of an input, which moves out of the scan. */
static struct error *finish_input(struct http_infer_decoder *d, struct input_scan *s) {
        TRY(check_one_source(s));
        if (s->name_error != NULL)
                return STEAL(s->name_error);
        if (!s->has_name)
                return http_infer_missing("name");
        if (s->datatype_error != NULL)
                return STEAL(s->datatype_error);
        if (!s->has_datatype)
                return http_infer_missing("datatype");
        if (s->shape_error != NULL)
                return STEAL(s->shape_error);
        if (!s->has_shape)
                return http_infer_missing("shape");
        if (s->parameters_error != NULL)
                return STEAL(s->parameters_error);
        if (s->data_error != NULL)
                return STEAL(s->data_error);

        if (s->has_binary)
                return take_binary(d, s);
        if (s->has_data && !s->is_data_read) {
                struct json_reader early;

                json_reader_init(&early, s->data);
                return http_infer_read_tensor(d, &early, s->in);
        }
        return NULL;
}

/* Frees the errors that are not reported. */
static COLD void free_errors(struct input_scan *s) {
        error_free(s->name_error);
        error_free(s->datatype_error);
        error_free(s->shape_error);
        error_free(s->parameters_error);
        error_free(s->data_error);
}

static struct error *read_input(struct http_infer_decoder *d) {
        struct input_scan s = { 0 };
        struct error     *err = infer_request_add_input(d->request, d->source->arena, &s.in);
        struct str        key;

        if (err != NULL || !json_try_enter(&d->json, JSON_OBJECT)) {
                json_skip(&d->json);
                return err != NULL ? err : check_one_source(&s);
        }
        while (json_next_key(&d->json, d->source->arena, &key))
                read_input_member(d, &s, key);
        if (!json_failed(&d->json))
                err = finish_input(d, &s);

        if (err != NULL || json_failed(&d->json))
                free_errors(&s);
        return err;
}

/* ---- outputs ---- */

struct output_scan {
        struct infer_requested_output *out;
        bool                           has_name, has_parameters, has_binary, has_classification;
        struct http_infer_place        place;

        /* First error of each part; owned; NULL = none. */
        struct error *name_error, *parameters_error;
};

/* The reference writes "set" here, and "parse" for all other members. */
static struct error *read_classification(struct http_infer_decoder     *d,
                                         struct infer_requested_output *out) {
        uint64_t      n = 0;
        struct error *err = http_infer_read_u64(d, "classification", &n);

        if (err != NULL) {
                error_free(err);
                return error_new(ERR_INVALID_ARG,
                                 "Unable to set 'classification': attempt to access JSON "
                                 "non-unsigned-integer as unsigned-integer");
        }
        out->n_classes = (uint32_t)MIN(n, UINT32_MAX);
        return NULL;
}

/* The first of several equal keys counts, as in the reference. */
static struct error *read_output_parameter(struct http_infer_decoder *d, struct output_scan *s,
                                           struct str key) {
        if (STR_IS(key, "binary_data") && !s->has_binary) {
                s->has_binary = true;
                return http_infer_read_bool(d, "binary_data", &s->out->is_binary);
        }
        if (STR_IS(key, "classification") && !s->has_classification) {
                s->has_classification = true;
                return read_classification(d, s->out);
        }
        return http_infer_read_place(d, key, &s->place, &s->out->shared_memory);
}

static struct error *read_output_parameters(struct http_infer_decoder *d, struct output_scan *s) {
        struct error *first = NULL;
        struct str    key;

        TRY(http_infer_enter(d, "parameters", JSON_OBJECT));
        while (json_next_key(&d->json, d->source->arena, &key))
                error_keep_first(&first, read_output_parameter(d, s, key));
        return first;
}

static void read_output_member(struct http_infer_decoder *d, struct output_scan *s,
                               struct str key) {
        if (STR_IS(key, "name") && !s->has_name) {
                s->has_name = true;
                s->name_error = http_infer_read_text(d, "name", &s->out->name);
        } else if (STR_IS(key, "parameters") && !s->has_parameters) {
                s->has_parameters = true;
                s->parameters_error = read_output_parameters(d, s);
        } else {
                json_skip(&d->json);
        }
}

static struct error *finish_output(struct output_scan *s) {
        const char *region = s->out->shared_memory.region;

        if (s->name_error != NULL)
                return STEAL(s->name_error);
        if (!s->has_name)
                return http_infer_missing("name");
        if (s->parameters_error != NULL)
                return STEAL(s->parameters_error);
        if (region != NULL && s->out->n_classes > 0)
                return error_new(ERR_INVALID_ARG, "Output can't set both 'shared_memory_region' "
                                                  "and 'classification'");
        if (region != NULL && s->out->is_binary)
                return error_new(ERR_INVALID_ARG, "Output can't set both 'shared_memory_region' "
                                                  "and 'binary_data'");
        return NULL;
}

static struct error *read_output(struct http_infer_decoder *d) {
        struct output_scan s = { 0 };
        struct error      *err = infer_request_add_output(d->request, d->source->arena, &s.out);
        struct str         key;

        if (err != NULL || !json_try_enter(&d->json, JSON_OBJECT)) {
                json_skip(&d->json);
                return err != NULL ? err : http_infer_missing("name");
        }
        while (json_next_key(&d->json, d->source->arena, &key))
                read_output_member(d, &s, key);
        if (!json_failed(&d->json))
                err = finish_output(&s);

        if (err != NULL || json_failed(&d->json)) {
                error_free(s.name_error);
                error_free(s.parameters_error);
        }
        return err;
}

/* ---- the document ---- */

/* Reads the header as a C int, as the reference does. */
static NOINLINE struct error *read_odd_json_bytes(struct str value, size_t body_bytes,
                                                  size_t *ret) {
        struct str digits = value;
        bool       is_negative = false;
        uint64_t   n;

        if (digits.len > 0 && (*digits.ptr == '-' || *digits.ptr == '+')) {
                is_negative = *digits.ptr == '-';
                digits = str_range(digits.ptr + 1, digits.len - 1);
        }
        for (size_t i = 0; i < digits.len; i++)
                if (digits.ptr[i] < '0' || digits.ptr[i] > '9')
                        digits.len = 0;
        if (digits.len == 0)
                return error_new(ERR_INVALID_ARG,
                                 "Unable to parse Inference-Header-Content-Length, got: %.*s",
                                 STR_ARG(value));
        if (!str_to_u64(digits, &n) || n > (uint64_t)INT32_MAX + is_negative)
                return error_new(ERR_INVALID_ARG,
                                 "Unable to parse Inference-Header-Content-Length, value is out "
                                 "of range [ -2147483648, 2147483647 ], got: %.*s",
                                 STR_ARG(value));
        if ((is_negative && n > 0) || n > body_bytes)
                return error_new(ERR_INVALID_ARG,
                                 "inference header size should be in range (0, %zu), got: %.*s",
                                 body_bytes, STR_ARG(value));
        *ret = (size_t)n;
        return NULL;
}

struct error *http_infer_read_json_bytes(struct str value, size_t body_bytes, size_t *ret) {
        size_t n = 0, i = 0;

        if (value.ptr == NULL) {
                *ret = body_bytes;
                return NULL;
        }
        /* The usual case: up to 9 digits fit into an int. */
        while (i < value.len && i < 9 && value.ptr[i] >= '0' && value.ptr[i] <= '9')
                n = n * 10 + (size_t)(value.ptr[i++] - '0');
        if (i == 0 || i < value.len || n > body_bytes)
                return read_odd_json_bytes(value, body_bytes, ret);
        *ret = n;
        return NULL;
}

/* The parts of a request, in the order in which their errors are reported. */
enum part {
        PART_ID,
        PART_PARAMETERS,
        PART_INPUTS,
        PART_LEFT_OVER,
        PART_OUTPUTS,
        N_PARTS,
};

static struct error *read_part(struct http_infer_decoder *d, enum part part) {
        switch (part) {
        case PART_ID: return http_infer_read_text(d, "id", &d->request->id);
        case PART_PARAMETERS: return read_parameters(d);
        case PART_INPUTS: return http_infer_read_list(d, "inputs", read_input);
        case PART_OUTPUTS: return http_infer_read_list(d, "outputs", read_output);
        case PART_LEFT_OVER:
        case N_PARTS: break;
        }
        return NULL;
}

static enum part find_part(struct str key) {
        if (STR_IS(key, "inputs"))
                return PART_INPUTS;
        if (STR_IS(key, "outputs"))
                return PART_OUTPUTS;
        if (STR_IS(key, "id"))
                return PART_ID;
        return STR_IS(key, "parameters") ? PART_PARAMETERS : N_PARTS;
}

/* The first of several equal keys counts. */
static void read_document(struct http_infer_decoder *d, struct error **errors, bool *is_seen) {
        struct str key;

        if (!json_try_enter(&d->json, JSON_OBJECT)) {
                json_skip(&d->json);
                json_read_end(&d->json);
                return;
        }
        while (json_next_key(&d->json, d->source->arena, &key)) {
                enum part part = find_part(key);

                if (part == N_PARTS || is_seen[part]) {
                        json_skip(&d->json);
                        continue;
                }
                is_seen[part] = true;
                errors[part] = read_part(d, part);
        }
        json_read_end(&d->json);
}

static struct error *take_first(struct error **errors) {
        struct error *first = NULL;

        for (size_t i = 0; i < N_PARTS; i++)
                error_keep_first(&first, errors[i]);
        return first;
}

static struct error *decode_json(const struct http_infer_source *s, struct infer_request *q) {
        struct error             *errors[N_PARTS] = { 0 };
        bool                      is_seen[N_PARTS] = { false };
        struct http_infer_decoder d = {
                .source = s,
                .request = q,
                .binary = str_range(s->body.ptr + s->json_bytes, s->body.len - s->json_bytes),
        };

        json_reader_init(&d.json, str_range(s->body.ptr, s->json_bytes));
        read_document(&d, errors, is_seen);
        if (json_failed(&d.json)) {
                error_free(take_first(errors));
                return json_syntax_error(&d.json);
        }

        if (!is_seen[PART_INPUTS])
                errors[PART_INPUTS] = http_infer_missing("inputs");
        else if (d.binary.len > 0)
                errors[PART_LEFT_OVER] =
                        error_new(ERR_INVALID_ARG,
                                  "unexpected additional input data for model '%s'", s->model_name);
        return take_first(errors);
}

struct error *http_infer_json_too_large(uint64_t bytes, size_t max) {
        return error_new(ERR_INVALID_ARG,
                         "request JSON size of %llu bytes exceeds the maximum allowed input size "
                         "of %zu bytes. Use --http-max-input-size to increase the limit.",
                         (unsigned long long)bytes, max);
}

struct error *http_infer_raw_too_large(uint64_t bytes, size_t max) {
        return error_new(ERR_INVALID_ARG,
                         "Raw input has a byte_size (%llu bytes) that exceeds the maximum allowed "
                         "value of %zu bytes. Use --http-max-input-size to increase the limit.",
                         (unsigned long long)bytes, max);
}

static struct error *decode_raw(const struct http_infer_source *s, struct infer_request *q) {
        if (s->body.len > s->max_input_bytes)
                return http_infer_raw_too_large(s->body.len, s->max_input_bytes);
        q->is_raw = true;
        q->raw = s->body;
        q->is_binary_by_default = true;
        return NULL;
}

struct error *http_infer_decode(const struct http_infer_source *source, struct infer_request *ret) {
        struct error *err;
        size_t        max;

        infer_request_init(ret);
        if (source->json_bytes == 0)
                return decode_raw(source, ret);
        if (source->json_bytes > source->max_input_bytes)
                return http_infer_json_too_large(source->json_bytes, source->max_input_bytes);
        infer_arena_limit(source->arena, source->body.len, &max);
        err = decode_json(source, ret);
        infer_arena_release(source->arena, max);
        if (err != NULL)
                infer_request_done(ret);
        return err;
}
