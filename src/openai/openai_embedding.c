/* SPDX-License-Identifier: BSD-3-Clause */
#include "openai/openai_embedding.h"

#include "codec/base64.h"
#include "codec/json_find.h"
#include "codec/json_writer.h"
#include "openai/openai_answer.h"
#include "openai/openai_error.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- reading ---- */

static struct error *no_vectors(const struct openai_model *m) {
        return error_new(ERR_INTERNAL, "model '%s' gave no embedding", m->name);
}

/* The first output of FP32. */
static struct error *read_tensor(const struct openai_model *m, const struct infer_response *r,
                                 struct openai_vectors *v) {
        for (uint32_t i = 0; i < r->n_outputs; i++) {
                const struct infer_output *o = &r->outputs[i];
                size_t                     n = o->bytes.len / sizeof(float);

                if (o->datatype != TRITONSERVER_TYPE_FP32)
                        continue;
                if (n == 0 || n % v->n_rows != 0)
                        return error_new(ERR_INTERNAL, "model '%s' gave %zu numbers for %u texts",
                                         m->name, n, v->n_rows);
                v->values = (const float *)(const void *)o->bytes.ptr;
                v->n_dims = n / v->n_rows;
                return NULL;
        }
        return no_vectors(m);
}

/* The array of numbers in the JSON that vLLM answers: itself, or its member "embedding". */
static struct str find_array(struct str json) {
        struct error *err = json_check(json, JSON_ARRAY);

        if (err == NULL)
                return json;
        error_free(err);
        err = json_check(json, JSON_OBJECT);
        if (err == NULL)
                return json_find(json, "embedding");
        error_free(err);
        return str_range(NULL, 0);
}

static struct error *read_json(const struct openai_model *m, const struct infer_response *r,
                               struct arena *arena, struct openai_vectors *v) {
        const struct infer_output *o = infer_response_find_output(r, "text_output");
        struct json_reader         reader;
        struct str                 array;
        float                     *values;
        size_t                     n;

        if (o == NULL || o->datatype != TRITONSERVER_TYPE_BYTES || o->bytes.len < sizeof(uint32_t))
                return no_vectors(m);
        array = find_array(str_skip(o->bytes, sizeof(uint32_t)));
        n = json_list_count(array);
        if (n == 0)
                return no_vectors(m);
        values = arena_try_alloc(arena, n * sizeof(*values));
        if (values == NULL)
                return infer_no_memory();
        json_reader_init(&reader, array);
        if (json_read_tensor(&reader, JSON_ELEMENT_F32, values, n) != JSON_TENSOR_OK)
                return no_vectors(m);
        v->values = values;
        v->n_dims = n;
        return NULL;
}

struct error *openai_vectors_read(const struct openai_model *m, const struct openai_part *part,
                                  const struct infer_response *r, struct arena *arena,
                                  struct openai_vectors *ret) {
        *ret = (struct openai_vectors){ .n_rows = part->n_texts };
        openai_answer_read_count(r, "num_input_tokens", &ret->n_tokens);
        return m->format == OPENAI_FORMAT_VLLM ? read_json(m, r, arena, ret)
                                               : read_tensor(m, r, ret);
}

/* ---- printing ---- */

/* A vector of the answer: `n` of the values, times `scale`. */
struct row {
        const float *values;
        size_t       n;
        double       scale; /* that of a very short vector is no float */
};

static float scaled(const struct row *row, size_t i) {
        return (float)((double)row->values[i] * row->scale);
}

/* Cuts the vector to what the client wants; its length becomes 1 again. */
static void cut_row(struct row *row, size_t n) {
        double sum = 0;

        row->n = n;
        for (size_t i = 0; i < n; i++)
                sum += (double)row->values[i] * (double)row->values[i];
        row->scale = sum > 0 ? 1 / sqrt(sum) : 1;
}

/* Without an end of the loop at the first one: so it needs a small part of the time of the printing. */
static bool is_finite(const struct row *row) {
        bool all = true;

        for (size_t i = 0; i < row->n; i++)
                all &= fabsf(row->values[i]) <= FLT_MAX;
        return all;
}

static void put_base64(struct strbuf *out, const struct row *row) {
        AUTO_STRBUF copy = { 0 };
        struct str  bytes = { (const char *)row->values, row->n * sizeof(float) };

        if (row->scale != 1) {
                for (size_t i = 0; i < row->n; i++) {
                        float value = scaled(row, i);

                        strbuf_put(&copy, &value, sizeof(value));
                }
                strbuf_spoil(out, &copy);
                bytes = strbuf_str(&copy);
        }
        strbuf_putc(out, '"');
        base64_encode(bytes, out);
        strbuf_putc(out, '"');
}

static void put_numbers(struct json_writer *w, const struct row *row) {
        if (row->scale == 1) {
                json_put_tensor(w, JSON_ELEMENT_F32, row->values, row->n);
                return;
        }
        json_begin_array(w);
        for (size_t i = 0; i < row->n; i++)
                json_put_f32(w, scaled(row, i));
        json_end_array(w);
}

static void put_row(struct json_writer *w, const struct row *row, uint64_t index, bool is_base64) {
        json_begin_object(w);
        json_member_string(w, "object", "embedding");
        json_member_u64(w, "index", index);
        json_key(w, "embedding");
        if (is_base64) {
                put_base64(w->out, row);
                w->needs_comma = true; /* put_base64() has bypassed the writer */
        } else {
                put_numbers(w, row);
        }
        json_end_object(w);
}

static struct error *put_rows(const struct openai_request *q, const struct openai_model *m,
                              const struct openai_vectors *v, uint64_t first,
                              struct json_writer *w) {
        for (uint32_t i = 0; i < v->n_rows; i++) {
                struct row row = { v->values + i * v->n_dims, v->n_dims, 1 };

                if (m->truncates && q->dimensions.json.ptr != NULL) {
                        if ((size_t)q->dimensions.integer > v->n_dims)
                                return openai_fault("dimensions",
                                                    "model '%s' has vectors of %zu dimensions, "
                                                    "not of %lld",
                                                    m->name, v->n_dims,
                                                    (long long)q->dimensions.integer);
                        cut_row(&row, (size_t)q->dimensions.integer);
                }
                if (!is_finite(&row))
                        return openai_vector_fault(m->name, first + i);
                put_row(w, &row, first + i, q->is_base64);
        }
        return NULL;
}

struct error *openai_embedding_print(const struct openai_request *q, const struct openai_model *m,
                                     const struct openai_vectors *parts, uint32_t n_parts,
                                     struct strbuf *out) {
        struct json_writer w = { .out = out };
        uint64_t           n_rows = 0, n_tokens = 0;

        json_begin_object(&w);
        json_member_string(&w, "object", "list");
        json_member_array(&w, "data");
        for (uint32_t i = 0; i < n_parts; i++) {
                TRY(put_rows(q, m, &parts[i], n_rows, &w));
                n_rows += parts[i].n_rows;
                n_tokens += parts[i].n_tokens;
        }
        json_end_array(&w);
        json_member_string(&w, "model", q->model);
        json_member_object(&w, "usage");
        json_member_u64(&w, "prompt_tokens", n_tokens);
        json_member_u64(&w, "total_tokens", n_tokens);
        json_end_object(&w);
        json_end_object(&w);
        return strbuf_check(out, "the answer");
}
