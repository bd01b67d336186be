/* SPDX-License-Identifier: BSD-3-Clause */
/* Converts "data" of an input, a JSON array nested in any way, to the bytes of a tensor.
 *
 * The number of elements follows from the shape, which the peer may invent. So memory is allocated for no
 * more elements than the remaining text can contain, and for at most max_input_bytes.
 */
#include "base/mem.h"
#include "base/strbuf.h"
#include "core_api/datatype.h"
#include "http/http_infer_values.h"

#include <string.h>

/* Tensors up to this size go into the arena, because a buffer of the pool is at least a page. */
#define MAX_BYTES_IN_ARENA 2048

/* Memory on the stack for an unescaped string before it is copied into the tensor. */
#define SCRATCH_BYTES 512

static void print_shape(struct strbuf *out, const struct infer_input *in) {
        strbuf_putc(out, '[');
        for (uint32_t i = 0; i < in->n_dims; i++)
                strbuf_printf(out, "%s%lld", i > 0 ? "," : "", (long long)in->shape[i]);
        strbuf_putc(out, ']');
}

static COLD struct error *refuse_shape(const struct infer_input *in, const char *reason) {
        AUTO_STRBUF shape = { 0 };

        print_shape(&shape, in);
        TRY(strbuf_check(&shape, "the text of an error"));
        return error_new(ERR_INVALID_ARG, "invalid shape for input '%s': shape %s %s", in->name,
                         strbuf_cstr(&shape), reason);
}

static struct error *count_elements(const struct infer_input *in, size_t *ret) {
        size_t n = 1;

        for (uint32_t i = 0; i < in->n_dims; i++)
                if (in->shape[i] < 0)
                        return refuse_shape(in, "contains one or more invalid dimensions");
        for (uint32_t i = 0; i < in->n_dims; i++)
                if (!size_mul(n, (size_t)in->shape[i], &n) || n > INT64_MAX)
                        return refuse_shape(in, "causes total element count to exceed maximum size "
                                                "of 9223372036854775807");
        *ret = n;
        return NULL;
}

static struct error *refuse_size(const struct infer_input *in, size_t bytes, size_t max) {
        return error_new(ERR_INVALID_ARG,
                         "JSON input '%s' has a byte_size (%zu bytes) that exceeds the maximum "
                         "allowed value of %zu bytes. Use --http-max-input-size to increase the "
                         "limit.",
                         in->name, bytes, max);
}

/* Allocates memory that lives as long as the request. */
static struct error *get_room(struct http_infer_decoder *d, struct infer_input *in, size_t bytes,
                              char **ret) {
        if (bytes <= MAX_BYTES_IN_ARENA) {
                *ret = arena_try_alloc(d->source->arena, bytes);
        } else {
                in->converted = buf_new(d->source->pool, bytes);
                *ret = in->converted != NULL ? in->converted->bytes : NULL;
        }
        if (*ret == NULL)
                return error_new(ERR_UNAVAILABLE, "%s for input '%s'",
                                 buf_pool_shortage(d->source->pool, bytes), in->name);
        return NULL;
}

static struct error *too_many(void) {
        return error_new(ERR_INVALID_ARG, "Unable to parse 'data': Shape does not match true shape "
                                          "of 'data' field");
}

static struct error *too_few(void) {
        return error_new(ERR_INVALID_ARG,
                         "Failed to parse 'data' field: shape does not match true shape");
}

static struct error *too_deep(void) {
        return error_new(ERR_INVALID_ARG, "JSON nesting depth exceeds maximum allowed limit (%d)",
                         JSON_MAX_DEPTH);
}

static struct error *tensor_error(enum json_tensor_status status, enum json_element element) {
        switch (status) {
        case JSON_TENSOR_TOO_MANY: return too_many();
        case JSON_TENSOR_TOO_FEW: return too_few();
        case JSON_TENSOR_WRONG_TYPE:
                return error_new(ERR_INVALID_ARG, "Unable to parse 'data': %s",
                                 json_tensor_type_error(element));
        case JSON_TENSOR_TOO_DEEP: return too_deep();
        case JSON_TENSOR_OK:
        case JSON_TENSOR_SYNTAX: /* reported at the end of the document */ break;
        }
        return NULL;
}

static struct error *read_numbers(struct http_infer_decoder *d, struct json_reader *json,
                                  struct infer_input *in, size_t n) {
        size_t                  element_bytes = datatype_bytes(in->datatype);
        size_t                  bytes, n_possible, room_bytes;
        enum json_element       element;
        enum json_tensor_status status;
        char                   *room;

        if (!datatype_json_element(in->datatype, &element))
                return in->datatype == TRITONSERVER_TYPE_INVALID
                               ? error_new(ERR_INVALID_ARG, "invalid datatype for input %s",
                                           in->name)
                               : error_new(ERR_INVALID_ARG,
                                           "receiving %s data via JSON is not supported. Please "
                                           "use the binary data format for input %s",
                                           datatype_name(in->datatype), in->name);
        if (!size_mul(n, element_bytes, &bytes) || bytes > INT64_MAX)
                return error_new(ERR_INVALID_ARG,
                                 "byte size overflow for input '%s': element count (%zu) * data "
                                 "type size (%zu) exceeds maximum allowed size "
                                 "(9223372036854775807)",
                                 in->name, n, element_bytes);
        if (bytes > d->source->max_input_bytes)
                return refuse_size(in, bytes, d->source->max_input_bytes);

        /* An element takes at least one byte of text, and its separator another. If the text cannot
         * contain all elements, those that it can are read, because the error of a wrong element comes
         * first. */
        n_possible = MIN(n, (size_t)(json->end - json->at) / 2 + 1);
        room_bytes = n_possible * element_bytes;
        TRY(get_room(d, in, room_bytes, &room));
        status = json_read_tensor(json, element, room, n_possible);
        if (status == JSON_TENSOR_OK && n_possible < n)
                status = JSON_TENSOR_TOO_FEW;
        in->bytes = str_range(room, room_bytes);
        return tensor_error(status, element);
}

struct string_writer {
        char  *at;
        char  *end;
        size_t n_left; /* elements */
};

/* Writes a string as a uint32 length and its bytes ("KServe v2, binary tensor data extension"). */
static struct error *put_string(struct string_writer *w, struct json_reader *json,
                                struct arena *scratch) {
        struct str text;
        uint32_t   len;

        if (json_peek(json) != JSON_STRING)
                return json_failed(json) ? NULL
                                         : error_new(ERR_INVALID_ARG,
                                                     "Unable to parse JSON bytes array: attempt to "
                                                     "access JSON non-string as string");
        if (w->n_left == 0)
                return too_many();
        text = json_read_string(json, scratch);
        if (json_failed(json))
                return NULL;
        if (text.len > UINT32_MAX || text.len + sizeof(len) > (size_t)(w->end - w->at))
                return error_new(ERR_INTERNAL, "BYTES tensor does not fit its text");
        len = (uint32_t)text.len;
        memcpy(w->at, &len, sizeof(len));
        if (len > 0)
                memcpy(w->at + sizeof(len), text.ptr, len);
        w->at += sizeof(len) + len;
        w->n_left--;
        arena_reset(scratch);
        return NULL;
}

/* Walks nested arrays without recursion; the reader limits the depth. */
static struct error *put_strings(struct string_writer *w, struct json_reader *json,
                                 struct arena *scratch) {
        size_t depth = 1;

        json_enter_array(json);
        while (depth > 0 && !json_failed(json)) {
                if (!json_next_element(json)) {
                        depth--;
                } else if (json_peek(json) == JSON_ARRAY) {
                        json_enter_array(json);
                        depth++;
                } else {
                        TRY(put_string(w, json, scratch));
                }
        }
        return w->n_left > 0 && !json_failed(json) ? too_few() : NULL;
}

static struct error *read_strings(struct http_infer_decoder *d, struct json_reader *json,
                                  struct infer_input *in, size_t n) {
        struct json_reader   measure = *json;
        struct string_writer w = { 0 };
        struct arena         scratch;
        struct error        *err;
        struct str           text = json_skip(&measure);
        char                 first[SCRATCH_BYTES];
        char                *room;

        if (json_failed(&measure)) {
                *json = measure;
                return NULL;
        }
        /* A string of n bytes takes at least n + 3 bytes of text with quotes and comma, and n + 4 bytes
         * of the tensor. */
        w.n_left = MIN(n, text.len);
        TRY(get_room(d, in, text.len + text.len / 3 + 4, &room));
        w.at = room;
        w.end = room + text.len + text.len / 3 + 4;
        arena_init(&scratch, first, sizeof(first), text.len + sizeof(first));
        err = put_strings(&w, json, &scratch);
        arena_done(&scratch);

        in->bytes = str_range(room, (size_t)(w.at - room));
        if (err == NULL && n > text.len)
                err = too_few();
        if (err == NULL && in->bytes.len > d->source->max_input_bytes)
                err = refuse_size(in, in->bytes.len, d->source->max_input_bytes);
        return err;
}

static struct error *read_elements(struct http_infer_decoder *d, struct json_reader *json,
                                   struct infer_input *in) {
        size_t n;

        TRY(count_elements(in, &n));
        if (n == 0) {
                json_skip(json);
                return NULL;
        }
        if (json_peek(json) != JSON_ARRAY)
                return error_new(ERR_INVALID_ARG,
                                 "Unable to parse 'data': attempt to access JSON non-array as "
                                 "array");
        if (in->datatype == TRITONSERVER_TYPE_BYTES)
                return read_strings(d, json, in, n);
        return read_numbers(d, json, in, n);
}

struct error *http_infer_read_tensor(struct http_infer_decoder *d, struct json_reader *json,
                                     struct infer_input *in) {
        struct json_reader before = *json;
        struct error      *err = read_elements(d, json, in);

        if (err != NULL) {
                *json = before;
                json_skip(json);
        }
        return err;
}
