/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/tensor_values.h"

#include "codec/half_float.h"
#include "codec/json_writer.h"

#include <string.h>

/* More than any request may have, and small enough to be multiplied without overflow. */
#define MAX_ELEMENTS ((uint64_t)1 << 28)

#define RANDOM_LETTERS 8 /* of a text */

struct error *tensor_shape_read(struct str text, struct tensor_shape *ret) {
        struct tensor_shape s = { .n = 0 };
        struct str          left = str_trim(text), part;

        if (left.len >= 2 && left.ptr[0] == '[' && left.ptr[left.len - 1] == ']')
                left = str_trim(str_range(left.ptr + 1, left.len - 2));
        while (left.ptr != NULL && (left.len > 0 || s.n > 0)) {
                left = str_split(left, ',', &part);
                if (s.n == TENSOR_MAX_DIMS || !str_to_i64(str_trim(part), &s.dims[s.n++]))
                        return error_new(ERR_INVALID_ARG,
                                         "'%.*s' is not a shape such as 1,2,3 of at most %d "
                                         "dimensions",
                                         STR_ARG(text), TENSOR_MAX_DIMS);
        }
        *ret = s;
        return NULL;
}

void tensor_shape_print(const struct tensor_shape *s, struct strbuf *out) {
        strbuf_putc(out, '[');
        for (size_t i = 0; i < s->n; i++)
                strbuf_printf(out, "%s%lld", i > 0 ? "," : "", (long long)s->dims[i]);
        strbuf_putc(out, ']');
}

struct error *tensor_shape_count(const struct tensor_shape *s, uint64_t *ret) {
        uint64_t n = 1;

        for (size_t i = 0; i < s->n; i++) {
                if (s->dims[i] < 0)
                        return error_new(ERR_INVALID_ARG, "a shape has the dimension %lld",
                                         (long long)s->dims[i]);
                if (__builtin_mul_overflow(n, (uint64_t)s->dims[i], &n) || n > MAX_ELEMENTS)
                        return error_new(ERR_INVALID_ARG, "a shape has more than %llu elements",
                                         (unsigned long long)MAX_ELEMENTS);
        }
        *ret = n;
        return NULL;
}

void tensor_shape_fix(struct tensor_shape *s) {
        for (size_t i = 0; i < s->n; i++)
                if (s->dims[i] < 0)
                        s->dims[i] = 1;
}

/* ---- the shape of JSON ----------------------------------------------------------------------- */

/* Counts the scalars at any depth; the caller checks json_failed(). */
static uint64_t count_scalars(struct json_reader *r) {
        uint64_t n = 0;

        if (json_peek(r) != JSON_ARRAY) {
                json_skip(r);
                return 1;
        }
        for (json_enter_array(r); json_next_element(r);)
                n += count_scalars(r); /* at most JSON_MAX_DEPTH deep */
        return n;
}

/* Follows the first element of each level. */
static void read_nesting(struct json_reader r, struct tensor_shape *ret) {
        ret->n = 0;
        while (json_peek(&r) == JSON_ARRAY && ret->n < TENSOR_MAX_DIMS) {
                struct json_reader here = r;
                int64_t            n = 0;

                for (json_enter_array(&here); json_next_element(&here); n++)
                        json_skip(&here);
                ret->dims[ret->n++] = n;
                json_enter_array(&r);
                if (!json_next_element(&r))
                        return;
        }
}

static struct error *check_json(struct str json, struct json_reader *r) {
        json_reader_init(r, json);
        json_skip(r);
        json_read_end(r);
        if (json_failed(r))
                return error_new(ERR_INVALID_ARG, "'%.*s' is not JSON: %s at %zu",
                                 (int)MIN(json.len, 60), json.ptr != NULL ? json.ptr : "",
                                 json_error_text(r), json_error_offset(r));
        json_reader_init(r, json);
        return NULL;
}

static struct error *refuse_count(uint64_t n, const struct tensor_shape *model) {
        AUTO_STRBUF shape = { 0 };

        tensor_shape_print(model, &shape);
        return error_new(ERR_INVALID_ARG, "%llu value%s do%s not fill the shape %s",
                         (unsigned long long)n, n == 1 ? "" : "s", n == 1 ? "es" : "",
                         strbuf_cstr(&shape));
}

struct error *tensor_shape_infer(struct str json, const struct tensor_shape *model,
                                 struct tensor_shape *ret) {
        struct tensor_shape nesting;
        struct json_reader  r;
        uint64_t            n, fixed = 1;
        size_t              last = model->n;

        TRY(check_json(json, &r));
        read_nesting(r, &nesting);
        if (nesting.n == model->n && model->n > 0) {
                *ret = nesting;
                return NULL;
        }
        n = count_scalars(&r);
        *ret = *model;
        for (size_t i = 0; i < model->n; i++)
                if (model->dims[i] < 0)
                        last = i;
        tensor_shape_fix(ret);
        if (last == model->n)
                return NULL;
        TRY(tensor_shape_count(ret, &fixed));
        if (fixed > 0 && n % fixed != 0)
                return refuse_count(n, model);
        ret->dims[last] = fixed > 0 ? (int64_t)(n / fixed) : 0;
        return NULL;
}

/* ---- values ---------------------------------------------------------------------------------- */

bool tensor_is_binary(TRITONSERVER_DataType type) {
        return type == TRITONSERVER_TYPE_FP16 || type == TRITONSERVER_TYPE_BF16;
}

static uint64_t next_random(uint64_t *state) {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        return *state;
}

static void put_text(uint64_t random, struct json_writer *w) {
        char letters[RANDOM_LETTERS];

        for (size_t i = 0; i < sizeof(letters); i++, random >>= 5)
                letters[i] = (char)('a' + random % 26);
        json_put_str(w, str_range(letters, sizeof(letters)));
}

static void put_value(const struct tensor_source *s, uint64_t random, struct json_writer *w) {
        bool is_zero = s->fill == TENSOR_ZEROS;

        switch (s->type) {
        case TRITONSERVER_TYPE_BOOL: json_put_bool(w, !is_zero && (random & 1) != 0); break;
        case TRITONSERVER_TYPE_BYTES:
                if (is_zero)
                        json_put_string(w, "");
                else
                        put_text(random, w);
                break;
        case TRITONSERVER_TYPE_FP16:
        case TRITONSERVER_TYPE_BF16:
        case TRITONSERVER_TYPE_FP32:
        case TRITONSERVER_TYPE_FP64:
                /* 0 to 1, in steps that BF16 can represent near 1. */
                json_put_f32(w, is_zero ? 0.0F : (float)(random % 256) / 256.0F);
                break;
        default: json_put_u64(w, is_zero ? 0 : random % 128);
        }
}

void tensor_values_fill(const struct tensor_source *s, uint64_t n, struct strbuf *json) {
        uint64_t           state = (s->seed << 1 | 1) * UINT64_C(0x9e3779b97f4a7c15); /* never 0 */
        struct json_writer w = { .out = json };

        json_begin_array(&w);
        for (uint64_t i = 0; i < n && !json->overflowed; i++)
                put_value(s, next_random(&state) >> 8, &w);
        json_end_array(&w);
}

static struct error *encode_values(TRITONSERVER_DataType type, struct json_reader *r,
                                   struct strbuf *out) {
        if (json_peek(r) == JSON_ARRAY) {
                for (json_enter_array(r); json_next_element(r);)
                        TRY(encode_values(type, r, out)); /* at most JSON_MAX_DEPTH deep */
                return NULL;
        }
        if (json_peek(r) != JSON_NUMBER)
                return error_new_text(ERR_INVALID_ARG, "FP16 and BF16 values are numbers");

        float    value = (float)json_read_number(r).real;
        uint16_t bits = type == TRITONSERVER_TYPE_FP16 ? half_float_to_fp16(value)
                                                       : half_float_to_bf16(value);

        strbuf_put(out, &bits, sizeof(bits));
        return NULL;
}

struct error *tensor_values_encode(TRITONSERVER_DataType type, struct str json,
                                   struct strbuf *out) {
        struct json_reader r;

        TRY(check_json(json, &r));
        return encode_values(type, &r, out);
}

void tensor_values_decode(TRITONSERVER_DataType type, struct str bytes, struct strbuf *json) {
        struct json_writer w = { .out = json };

        json_begin_array(&w);
        for (size_t i = 0; i + sizeof(uint16_t) <= bytes.len; i += sizeof(uint16_t)) {
                uint16_t bits;

                memcpy(&bits, bytes.ptr + i, sizeof(bits));
                json_put_f32(&w, type == TRITONSERVER_TYPE_FP16 ? half_float_from_fp16(bits)
                                                                : half_float_from_bf16(bits));
        }
        json_end_array(&w);
}
