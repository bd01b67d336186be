/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of HTTP (KServe v2 with the binary tensor extension). */
#include "codec/data_types.h"
#include "codec/json_writer.h"
#include "load/request_private.h"
#include "load/wire.h"

#include <string.h>

static void put_shape(struct json_writer *w, const struct load_shape *s) {
        json_member_array(w, "shape");
        for (size_t i = 0; i < s->n; i++)
                json_put_i64(w, s->dims[i]);
        json_end_array(w);
}

static void put_part(struct json_writer *w, const struct shm_part *part) {
        json_member_object(w, "parameters");
        json_member_string(w, "shared_memory_region", part->region);
        json_member_u64(w, "shared_memory_offset", part->offset);
        json_member_u64(w, "shared_memory_byte_size", part->bytes);
        json_end_object(w);
}

/* clang-format off */
#define JSON(element) true, JSON_ELEMENT_##element
#define NO_JSON false, JSON_ELEMENT_BOOL
#define ROW(name, value, config_name, bytes, json) { #name, json },
static const struct {
        const char       *name;
        bool              is_json;
        enum json_element element;
} elements[] = {
        DATA_TYPES(ROW)
};
/* clang-format on */

static struct error *put_texts(struct json_writer *w, const struct request_input *in) {
        struct str left = in->bytes;

        json_begin_array(w);
        while (left.len > 0) {
                uint32_t   len;
                struct str text;

                memcpy(&len, left.ptr, sizeof(len));
                text = str_range(left.ptr + sizeof(len), len);
                if (!str_is_utf8(text))
                        return error_new(ERR_INVALID_ARG,
                                         "input '%s' is no UTF-8: --input-tensor-format binary",
                                         in->tensor->name);
                json_put_str(w, text);
                left = str_range(text.ptr + len, left.len - sizeof(len) - len);
        }
        json_end_array(w);
        return NULL;
}

/* A flat array. */
static struct error *put_values(struct json_writer *w, const struct request_input *in) {
        if (in->tensor->element_bytes == 0)
                return put_texts(w, in);
        for (size_t i = 0; i < ARRAY_LEN(elements); i++)
                if (elements[i].is_json && strcmp(in->tensor->datatype, elements[i].name) == 0) {
                        json_put_tensor(w, elements[i].element, in->bytes.ptr,
                                        in->bytes.len / in->tensor->element_bytes);
                        return NULL;
                }
        return error_new(ERR_INVALID_ARG,
                         "input '%s': %s has no form in JSON: --input-tensor-format "
                         "binary",
                         in->tensor->name, in->tensor->datatype);
}

static struct error *put_inputs(struct json_writer *w, const struct request_content *p) {
        json_member_array(w, "inputs");
        for (size_t i = 0; i < p->n_inputs; i++) {
                const struct request_input *in = &p->inputs[i];

                json_begin_object(w);
                json_member_string(w, "name", in->tensor->name);
                put_shape(w, &in->shape);
                json_member_string(w, "datatype", in->tensor->datatype);
                if (in->part != NULL) {
                        put_part(w, in->part);
                } else if (p->options->input_is_json) {
                        json_key(w, "data");
                        TRY(put_values(w, in));
                } else {
                        json_member_object(w, "parameters");
                        json_member_u64(w, "binary_data_size", in->bytes.len);
                        json_end_object(w);
                }
                json_end_object(w);
        }
        json_end_array(w);
        return NULL;
}

static void put_outputs(struct json_writer *w, const struct request_content *p) {
        if (p->options->shm == NULL)
                return;
        json_member_array(w, "outputs");
        for (size_t i = 0; i < p->model->n_outputs; i++) {
                struct shm_part part = load_regions_output(p->options->shm, i);

                json_begin_object(w);
                json_member_string(w, "name", p->model->outputs[i].name);
                put_part(w, &part);
                json_end_object(w);
        }
        json_end_array(w);
}

void request_parameter_put(struct json_writer *w, const struct request_parameter *p) {
        json_key_str(w, p->name);
        switch (p->kind) {
        case PARAMETER_TEXT: json_put_str(w, p->text); break;
        case PARAMETER_INT: json_put_i64(w, p->number); break;
        case PARAMETER_BOOL: json_put_bool(w, p->number != 0); break;
        case PARAMETER_REAL: json_put_f64(w, p->real); break;
        }
}

/* The parameters come last: the gap for those of a sequence is before the two closing brackets. */
static struct error *put_json(const struct request_content *p, struct strbuf *out) {
        struct json_writer w = { .out = out };

        json_begin_object(&w);
        TRY(put_inputs(&w, p));
        put_outputs(&w, p);
        json_member_object(&w, "parameters");
        json_member_bool(&w, "binary_data_output",
                         !p->options->output_is_json && p->options->shm == NULL);
        for (size_t i = 0; i < p->n_parameters; i++)
                request_parameter_put(&w, &p->parameters[i]);
        return NULL;
}

struct error *request_http_make(const struct request_content *p, struct strbuf *before,
                                struct strbuf *after) {
        AUTO_STRBUF       json = { 0 }, path = { 0 };
        struct wire_parts parts = { .method = "POST" };
        size_t            json_bytes;

        TRY(put_json(p, &json));
        wire_put_model_path(p->model->name, p->model->version, &path);
        strbuf_puts(&path, "/infer");
        strbuf_puts(after, "}}");
        json_bytes = json.len + (p->model->is_sequence ? REQUEST_HTTP_PATCH_BYTES : 0) + after->len;
        for (size_t i = 0; i < p->n_inputs; i++)
                if (!p->options->input_is_json && p->inputs[i].part == NULL)
                        strbuf_put(after, p->inputs[i].bytes.ptr, p->inputs[i].bytes.len);
        parts.path = strbuf_cstr(&path);
        parts.body_bytes = json_bytes + after->len - 2;
        parts.json_bytes = parts.body_bytes > json_bytes ? json_bytes : 0;
        wire_put_http_head(p->target, &parts, before);
        strbuf_put(before, json.ptr, json.len);
        TRY(strbuf_check(before, "a request"));
        return strbuf_check(after, "a request");
}

/* ---- generate_stream --------------------------------------------------------------------------- */

/* Members with the names of the inputs, and the parameters beside them (docs/generate.md). */
static struct error *put_generate(const struct request_content *p, struct strbuf *out) {
        struct json_writer w = { .out = out };

        json_begin_object(&w);
        for (size_t i = 0; i < p->n_inputs; i++) {
                json_key(&w, p->inputs[i].tensor->name);
                TRY(put_values(&w, &p->inputs[i]));
        }
        for (size_t i = 0; i < p->n_parameters; i++)
                request_parameter_put(&w, &p->parameters[i]);
        json_end_object(&w);
        return NULL;
}

struct error *request_http_make_generate(const struct request_content *p, struct strbuf *out) {
        AUTO_STRBUF json = { 0 }, path = { 0 };

        TRY(put_generate(p, &json));
        wire_put_model_path(p->model->name, p->model->version, &path);
        strbuf_puts(&path, "/generate_stream");
        wire_put_post(p->target, strbuf_str(&path), strbuf_str(&json), out);
        return strbuf_check(out, "a request");
}
