/* SPDX-License-Identifier: BSD-3-Clause */
/* The JSON of an infer answer. The keys and their order are fixed, so they are written as pieces
 * of text; the JSON writer does the values.
 */
#include <string.h>

#include "http/http_infer_encode.h"

#include "codec/json_writer.h"
#include "core_api/datatype.h"

#define PUT(out, literal) STRBUF_PUT_LIT(out, literal)

static NOINLINE void put_long_i64(struct strbuf *out, int64_t value) {
        struct json_writer w;

        json_writer_init(&w, out);
        json_put_i64(&w, value);
}

static ALWAYS_INLINE void put_i64(struct strbuf *out, int64_t value) {
        if (value >= 0 && value <= 9) {
                const char digit = (char)('0' + value);

                strbuf_put_few(out, &digit, 1);
        } else {
                put_long_i64(out, value);
        }
}

static void put_type(struct strbuf *out, struct str name) {
        if (name.len == 4) /* most: FP32, INT8, BOOL, ... */
                strbuf_put_few(out, name.ptr, 4);
        else
                strbuf_put(out, name.ptr, name.len);
}

static void put_text(struct strbuf *out, const char *text) {
        json_quote(out, str_of(text));
}

void http_infer_put_parameter(struct json_writer *w, const struct infer_parameter *p) {
        json_key(w, p->name);
        switch (p->type) {
        case TRITONSERVER_PARAMETER_INT: json_put_i64(w, p->value.integer); break;
        case TRITONSERVER_PARAMETER_BOOL: json_put_bool(w, p->value.boolean); break;
        case TRITONSERVER_PARAMETER_DOUBLE: json_put_f64(w, p->value.real); break;
        default: json_put_string(w, p->value.text); break;
        }
}

static void put_parameters(struct strbuf *out, const struct infer_response *r) {
        struct json_writer w;

        if (r->n_parameters == 0)
                return;
        PUT(out, ",\"parameters\":");
        json_writer_init(&w, out);
        json_begin_object(&w);
        for (uint32_t i = 0; i < r->n_parameters; i++)
                http_infer_put_parameter(&w, &r->parameters[i]);
        json_end_object(&w);
}

/* BYTES: each element is a uint32 length and its bytes. */
static struct error *put_strings(struct json_writer *w, const struct infer_output *output) {
        struct str left = output->bytes;

        json_begin_array(w);
        while (left.len > 0) {
                uint32_t len = 0;

                if (left.len >= sizeof(len))
                        memcpy(&len, left.ptr, sizeof(len));
                if (left.len < sizeof(len) || len > left.len - sizeof(len))
                        return error_new(ERR_INTERNAL, "output '%s' is no well-formed BYTES tensor",
                                         output->name);
                json_put_str(w, str_range(left.ptr + sizeof(len), len));
                left = str_range(left.ptr + sizeof(len) + len, left.len - sizeof(len) - len);
        }
        json_end_array(w);
        return NULL;
}

struct error *http_infer_put_elements(struct strbuf *out, const struct infer_output *output) {
        enum json_element  element;
        struct json_writer w;

        json_writer_init(&w, out);
        if (output->datatype == TRITONSERVER_TYPE_BYTES)
                return put_strings(&w, output);
        if (!datatype_json_element(output->datatype, &element))
                return error_new(ERR_INVALID_ARG,
                                 "sending %s data via JSON is not supported. Please use the binary "
                                 "data format for output",
                                 datatype_name(output->datatype));
        json_put_tensor(&w, element, output->bytes.ptr,
                        output->bytes.len / datatype_bytes(output->datatype));
        return NULL;
}

static void put_shape(struct strbuf *out, const struct infer_output *output) {
        PUT(out, "\",\"shape\":[");
        for (uint32_t i = 0; i < output->n_dims; i++) {
                if (i > 0)
                        PUT(out, ",");
                put_i64(out, output->shape[i]);
        }
}

static struct error *put_output(struct strbuf *out, const struct infer_output *output) {
        PUT(out, "{\"name\":");
        put_text(out, output->name);
        PUT(out, ",\"datatype\":\"");
        put_type(out, datatype_str(output->datatype));
        put_shape(out, output);
        switch (output->form) {
        case INFER_OUTPUT_BINARY:
                PUT(out, "],\"parameters\":{\"binary_data_size\":");
                put_i64(out, (int64_t)output->bytes.len);
                PUT(out, "}}");
                break;
        case INFER_OUTPUT_JSON:
                PUT(out, "],\"data\":");
                TRY(http_infer_put_elements(out, output));
                PUT(out, "}");
                break;
        case INFER_OUTPUT_SHARED_MEMORY: PUT(out, "]}"); break;
        }
        return NULL;
}

struct error *http_infer_print(const struct infer_response *r, struct strbuf *out) {
        if (r->id[0] != '\0') {
                PUT(out, "{\"id\":");
                put_text(out, r->id);
                PUT(out, ",\"model_name\":");
        } else {
                PUT(out, "{\"model_name\":");
        }
        put_text(out, r->model_name);
        PUT(out, ",\"model_version\":\"");
        put_i64(out, r->model_version);
        PUT(out, "\"");
        put_parameters(out, r);

        PUT(out, ",\"outputs\":[");
        for (uint32_t i = 0; i < r->n_outputs; i++) {
                if (i > 0)
                        PUT(out, ",");
                TRY(put_output(out, &r->outputs[i]));
        }
        PUT(out, "]}");
        return NULL;
}
