/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_infer_encode.h"

#include "codec/json_writer.h"
#include "core_api/datatype.h"

#include <string.h>

/* ---- the JSON part ---- */

#define PUT(out, literal) STRBUF_PUT_LIT(out, literal)

static NOINLINE void put_long_i64(struct strbuf *out, int64_t value) {
        struct json_writer w = { .out = out };

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
        if (name.len == 4) /* the most frequent: FP32, INT8, BOOL, ... */
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
        struct json_writer w = { .out = out };

        if (r->n_parameters == 0)
                return;
        PUT(out, ",\"parameters\":");
        json_begin_object(&w);
        for (uint32_t i = 0; i < r->n_parameters; i++)
                http_infer_put_parameter(&w, &r->parameters[i]);
        json_end_object(&w);
}

/* Prints a BYTES tensor, whose elements are a uint32 length and as many bytes. */
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

struct error *http_infer_put_elements(struct strbuf *out, const struct infer_output *output,
                                      bool *ret_has_replaced) {
        enum json_element  element;
        struct json_writer w = { .out = out };

        *ret_has_replaced = false;
        if (output->datatype == TRITONSERVER_TYPE_BYTES) {
                TRY(put_strings(&w, output));
                *ret_has_replaced = w.has_replaced;
                return NULL;
        }
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

/* The parameter is there only where bytes were lost, so that a client can tell a replaced byte from a
 * U+FFFD of the model. */
static struct error *put_json(struct strbuf *out, const struct infer_output *output) {
        bool has_replaced;

        PUT(out, "],\"data\":");
        TRY(http_infer_put_elements(out, output, &has_replaced));
        if (has_replaced)
                PUT(out, ",\"parameters\":{\"neso_replaced_bytes\":true}");
        PUT(out, "}");
        return NULL;
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
        case INFER_OUTPUT_JSON: return put_json(out, output);
        case INFER_OUTPUT_SHARED_MEMORY: PUT(out, "]}"); break;
        }
        return NULL;
}

/* Prints the JSON alone. The caller checks `out` for overflow. */
static struct error *print_json(const struct infer_response *r, struct strbuf *out) {
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

/* ---- JSON and parts ---- */

/* Binary outputs up to this size are copied, which costs less than a part of their own. */
#define MAX_COPIED_BYTES 1024

/* A text up to this size goes into scratch memory, because the answer with its head is a small write. */
#define MAX_BRIEF_TEXT 768

/* A text up to this size goes into the arena, because a buffer of the pool is at least a page. */
#define MAX_TEXT_IN_ARENA 4096

/* Limit of an answer's text; a strbuf has the same one. */
#define MAX_TEXT_BYTES ((size_t)1 << 30)

/* Text in memory of a fixed size, from which the answer is written without a copy. A text that does not
 * fit sets `overflowed`. */
struct text {
        struct strbuf print;
        struct buf   *holder; /* ref; NULL = the memory is in an arena */
};

static bool is_copied(const struct infer_output *out) {
        return out->holder == NULL || out->bytes.len <= MAX_COPIED_BYTES;
}

/* Usual width of an element and its comma. Longer elements are rare and cost a second attempt. */
static size_t element_width(TRITONSERVER_DataType type) {
        switch (type) {
        case TRITONSERVER_TYPE_FP32: return 16;
        case TRITONSERVER_TYPE_FP64: return 25;
        case TRITONSERVER_TYPE_INT64:
        case TRITONSERVER_TYPE_UINT64: return 21;
        case TRITONSERVER_TYPE_INT32:
        case TRITONSERVER_TYPE_UINT32: return 12;
        default: return 7;
        }
}

/* Estimates the size of the text: nearly always enough, and not much more. */
static size_t guess_bytes(const struct infer_response *r) {
        size_t guess = 256 + (r->id[0] != '\0' ? 2 * strlen(r->id) : 0);

        for (uint32_t i = 0; i < r->n_parameters; i++) {
                const struct infer_parameter *p = &r->parameters[i];

                guess += strlen(p->name) + 32;
                if (p->type == TRITONSERVER_PARAMETER_STRING)
                        guess += strlen(p->value.text);
        }
        for (uint32_t i = 0; i < r->n_outputs; i++) {
                const struct infer_output *out = &r->outputs[i];
                size_t                     element_bytes = datatype_bytes(out->datatype);

                guess += 192 + 8 * (size_t)out->n_dims; /* names are short */
                if (out->form == INFER_OUTPUT_JSON)
                        guess += element_bytes == 0 ? out->bytes.len + out->bytes.len / 8
                                                    : out->bytes.len / element_bytes *
                                                              element_width(out->datatype);
                else if (out->form == INFER_OUTPUT_BINARY && is_copied(out))
                        guess += out->bytes.len;
        }
        return guess;
}

static struct error *open_text(struct text *t, size_t bytes, const struct http_infer_room *room) {
        char *memory;

        t->holder = NULL;
        if (bytes <= MAX_TEXT_IN_ARENA) {
                memory = arena_try_alloc(bytes <= MAX_BRIEF_TEXT ? room->scratch : room->arena,
                                         bytes);
        } else {
                t->holder = bytes <= MAX_TEXT_BYTES ? buf_new(room->pool, bytes) : NULL;
                memory = t->holder != NULL ? t->holder->bytes : NULL;
                bytes = t->holder != NULL ? t->holder->cap : bytes;
        }
        if (memory == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory for the response of %zu bytes",
                                 bytes);
        memory[0] = '\0';
        t->print = (struct strbuf){ .ptr = memory, .cap = bytes, .max = bytes - 1 };
        return NULL;
}

/* Prints the JSON, followed by the outputs that are copied. */
static struct error *print_text(const struct infer_response *r, struct text *t,
                                struct http_infer_body *body) {
        TRY(print_json(r, &t->print));
        body->json_bytes = t->print.len;
        for (uint32_t i = 0; i < r->n_outputs; i++) {
                const struct infer_output *out = &r->outputs[i];

                if (out->form != INFER_OUTPUT_BINARY || out->bytes.len == 0)
                        continue;
                body->has_binary = true;
                if (is_copied(out))
                        strbuf_put(&t->print, out->bytes.ptr, out->bytes.len);
        }
        return NULL;
}

static struct error *make_text(const struct infer_response *r, const struct http_infer_room *room,
                               struct text *t, struct http_infer_body *body) {
        for (size_t bytes = guess_bytes(r);; bytes *= 2) {
                struct error *err;

                TRY(open_text(t, bytes, room));
                body->is_brief = bytes <= MAX_BRIEF_TEXT;
                err = print_text(r, t, body);
                if (err == NULL && !t->print.overflowed)
                        return NULL;
                buf_unref(t->holder);
                t->holder = NULL;
                TRY(err);
        }
}

static void add_part(struct http_infer_body *body, struct str bytes, struct buf *holder) {
        if (bytes.len == 0)
                return;
        if (holder != NULL)
                buf_ref(holder);
        body->parts[body->n_parts++] = (struct http_part){ bytes.ptr, bytes.len, holder };
}

/* Splits the text where an output is written from its own memory. */
static void make_parts(const struct infer_response *r, const struct text *t,
                       struct http_infer_body *body) {
        const char *next = t->print.ptr;
        size_t      n = body->json_bytes;

        for (uint32_t i = 0; i < r->n_outputs; i++) {
                const struct infer_output *out = &r->outputs[i];

                if (out->form != INFER_OUTPUT_BINARY)
                        continue;
                if (is_copied(out)) {
                        n += out->bytes.len;
                        continue;
                }
                add_part(body, str_range(next, n), t->holder);
                add_part(body, out->bytes, out->holder);
                next += n;
                n = 0;
        }
        add_part(body, str_range(next, n), t->holder);
}

struct error *http_infer_encode(const struct infer_response *r, const struct http_infer_room *room,
                                struct http_infer_body *ret) {
        struct http_infer_body body = { 0 };
        struct text            t;

        /* At most one part for each output, one of text before it, and the last text. */
        body.parts = arena_try_alloc(room->scratch,
                                     (2 * (size_t)r->n_outputs + 1) * sizeof(*body.parts));
        if (body.parts == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory for the response");
        TRY(make_text(r, room, &t, &body));
        make_parts(r, &t, &body);
        buf_unref(t.holder);
        *ret = body;
        return NULL;
}
