/* SPDX-License-Identifier: BSD-3-Clause */
/* "inputs" of an infer request. Members of an input may come in any order; its faults are told in
 * the reference's: where the bytes are, name, datatype, shape, and then the bytes themselves.
 */
#include <string.h>

#include "http/http_infer_reading.h"

#include "core_api/datatype.h"

/* Members that mean something; bits of a set. */
enum input_member {
        MEMBER_OTHER = 0,
        MEMBER_NAME = 1,
        MEMBER_SHAPE = 2,
        MEMBER_DATATYPE = 4,
        MEMBER_PARAMETERS = 8,
        MEMBER_DATA = 16,
};

/* What was seen of one input. */
struct input_scan {
        struct infer_input *in;
        unsigned            seen; /* of enum input_member */
        struct http_infer_place place;
        bool                has_data, has_binary, has_region;
        bool                has_name, has_datatype, has_shape; /* each without a fault */
        bool                is_data_read;
        struct str          data; /* text of a "data" that came too early */
        uint64_t            binary_bytes;

        /* First faults, each NULL or to be freed. */
        struct error *name_error, *datatype_error, *shape_error, *parameters_error, *data_error;
};

static struct error *read_name(struct http_infer_reading *d, struct input_scan *s) {
        TRY(http_infer_read_text(d, "name", &s->in->name));
        s->has_name = true;
        return NULL;
}

static struct error *read_datatype(struct http_infer_reading *d, struct input_scan *s) {
        struct str name;

        TRY(http_infer_read_str(d, "datatype", &name));
        s->in->datatype_name = name.ptr;
        s->in->datatype = datatype_from_name(name);
        s->has_datatype = true;
        return NULL;
}

/* `dims` has room for INFER_MAX_DIMS. */
static struct error *read_dims(struct http_infer_reading *d, int64_t *dims, uint32_t *ret_n) {
        struct error *first = NULL;
        uint32_t      n = 0;

        while (json_next_element(&d->json)) {
                uint64_t dim = 0;

                if (UNLIKELY(first != NULL)) {
                        json_skip(&d->json);
                        continue;
                }
                first = http_infer_read_u64(d, "shape", &dim);
                if (!first && n == INFER_MAX_DIMS)
                        first = error_new(ERR_INVALID_ARG,
                                          "Unable to parse 'shape': more than %d dimensions",
                                          INFER_MAX_DIMS);
                if (!first)
                        dims[n++] = (int64_t)dim;
        }
        *ret_n = n;
        return first;
}

/* The dimensions are kept once their number is known. */
static struct error *read_shape(struct http_infer_reading *d, struct input_scan *s) {
        int64_t  dims[INFER_MAX_DIMS], *kept;
        uint32_t n;

        TRY(http_infer_enter(d, "shape", JSON_ARRAY));
        TRY(read_dims(d, dims, &n));
        kept = arena_try_alloc(d->source->arena, (size_t)n * sizeof(*kept));
        if (!kept)
                return infer_no_memory();
        for (uint32_t i = 0; i < n; i++)
                kept[i] = dims[i];
        s->in->shape = kept;
        s->in->n_dims = n;
        s->has_shape = true;
        return NULL;
}

static struct error *read_input_parameter(struct http_infer_reading *d, struct input_scan *s,
                                          struct str key) {
        if (STR_IS(key, "binary_data_size") && !s->has_binary) {
                s->has_binary = true;
                return http_infer_read_u64(d, "binary_data_size", &s->binary_bytes);
        }
        if (STR_IS(key, "shared_memory_region"))
                s->has_region = true;
        return http_infer_read_place(d, key, &s->place, &s->in->shared_memory);
}

static struct error *read_input_parameters(struct http_infer_reading *d, struct input_scan *s) {
        struct error *first = NULL;
        struct str    key;

        TRY(http_infer_enter(d, "parameters", JSON_OBJECT));
        while (json_next_key(&d->json, d->source->arena, &key))
                http_infer_keep_first(&first, read_input_parameter(d, s, key));
        return first;
}

static struct error *read_data(struct http_infer_reading *d, struct input_scan *s) {
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

/* Of equal keys the first counts, as in the reference; what follows costs no memory. */
static void read_member(struct http_infer_reading *d, struct input_scan *s, struct str key) {
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

static struct error *take_binary(struct http_infer_reading *d, struct input_scan *s) {
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

/* The first fault of an input; errors move out of the scan. */
static struct error *finish_input(struct http_infer_reading *d, struct input_scan *s) {
        TRY(check_one_source(s));
        if (s->name_error)
                return STEAL(s->name_error);
        if (!s->has_name)
                return http_infer_missing("name");
        if (s->datatype_error)
                return STEAL(s->datatype_error);
        if (!s->has_datatype)
                return http_infer_missing("datatype");
        if (s->shape_error)
                return STEAL(s->shape_error);
        if (!s->has_shape)
                return http_infer_missing("shape");
        if (s->parameters_error)
                return STEAL(s->parameters_error);
        if (s->data_error)
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

/* Those that were not told. Without a fault there are none. */
static COLD void free_errors(struct input_scan *s) {
        error_free(s->name_error);
        error_free(s->datatype_error);
        error_free(s->shape_error);
        error_free(s->parameters_error);
        error_free(s->data_error);
}

static struct error *read_input(struct http_infer_reading *d) {
        struct input_scan s = { 0 };
        struct error     *err = infer_request_add_input(d->request, d->source->arena, &s.in);
        struct str        key;

        if (err || !json_try_enter(&d->json, JSON_OBJECT)) {
                json_skip(&d->json);
                return err ? err : check_one_source(&s);
        }
        while (json_next_key(&d->json, d->source->arena, &key))
                read_member(d, &s, key);
        if (!json_failed(&d->json))
                err = finish_input(d, &s);

        if (UNLIKELY(err != NULL || json_failed(&d->json)))
                free_errors(&s);
        return err;
}

struct error *http_infer_read_inputs(struct http_infer_reading *d) {
        return http_infer_read_list(d, "inputs", read_input);
}
