/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace/trace_json.h"

#include "codec/half_float.h"
#include "codec/json_writer.h"
#include "core_api/datatype.h"
#include "trace/trace_record.h"
#include "triton/core/tritonserver.h"

#include <inttypes.h>
#include <string.h>

static void begin_element(struct json_writer *w, uint64_t id) {
        json_begin_object(w);
        json_member_u64(w, "id", id);
}

static void print_inference(struct json_writer *w, const struct trace_inference *i) {
        begin_element(w, i->id);
        json_member_string(w, "model_name", i->model_name);
        json_member_i64(w, "model_version", i->model_version);
        if (*i->request_id != '\0') {
                json_member_string(w, "request_id", i->request_id);
        }
        if (i->parent_id != 0) {
                json_member_u64(w, "parent_id", i->parent_id);
        }
        json_end_object(w);
}

static void print_event(struct json_writer *w, const struct trace_record *r,
                        const struct trace_event *e) {
        const struct trace_inference *i = e->inference != NULL ? e->inference : r->first_inference;
        bool                          is_custom = e->activity == TRITONSERVER_TRACE_CUSTOM_ACTIVITY;

        begin_element(w, i != NULL ? i->id : 0);
        json_member_array(w, "timestamps");
        json_begin_object(w);
        json_member_string(w, "name", is_custom ? "CUSTOM_ACTIVITY" : e->name);
        json_member_u64(w, "ns", e->at_ns);
        if (is_custom) {
                json_member_string(w, "activity", e->name);
        }
        json_end_object(w);
        json_end_array(w);
        json_end_object(w);
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Prints "a","b" as the files of the reference server have it: quotes inside of a string are not
 * escaped. */
static void print_strings(struct strbuf *out, const struct trace_tensor *t) {
        const char *at = t->bytes;
        size_t      left = t->n_bytes;
        bool        is_first = true;
        uint32_t    len;

        while (left >= sizeof(len)) {
                memcpy(&len, at, sizeof(len));
                at += sizeof(len);
                left -= sizeof(len);
                if (len > left)
                        return;
                strbuf_puts(out, is_first ? "\"" : ",\"");
                strbuf_put(out, at, len);
                strbuf_putc(out, '"');
                is_first = false;
                at += len;
                left -= len;
        }
}

static void print_half_floats(struct strbuf *out, const struct trace_tensor *t) {
        char text[64]; /* FLOAT_PRINT_ROOM */

        for (size_t i = 0; i + 2 <= t->n_bytes; i += 2) {
                uint16_t bits;

                memcpy(&bits, (const char *)t->bytes + i, sizeof(bits));
                if (i > 0)
                        strbuf_putc(out, ',');
                char *end = json_format_f32(text, t->type == TRITONSERVER_TYPE_BF16
                                                          ? half_float_from_bf16(bits)
                                                          : half_float_from_fp16(bits));

                strbuf_put(out, text, (size_t)(end - text));
        }
}

/* Prints "1,2", a JSON array without its brackets. Booleans are 1 and 0. */
static void print_numbers(struct strbuf *out, const struct trace_tensor *t,
                          enum json_element element) {
        size_t             n = t->n_bytes / datatype_bytes((TRITONSERVER_DataType)t->type);
        AUTO_STRBUF        array = { 0 };
        struct json_writer w = { .out = &array };
        struct str         s;

        json_put_tensor(&w, element == JSON_ELEMENT_BOOL ? JSON_ELEMENT_U8 : element, t->bytes, n);
        s = strbuf_str(&array);
        strbuf_spoil(out, &array);
        if (s.len > 2)
                strbuf_put(out, s.ptr + 1, s.len - 2);
}

static void print_contents(struct strbuf *out, const struct trace_tensor *t) {
        TRITONSERVER_DataType type = (TRITONSERVER_DataType)t->type;
        enum json_element     element;

        if (type == TRITONSERVER_TYPE_BYTES)
                print_strings(out, t);
        else if (type == TRITONSERVER_TYPE_FP16 || type == TRITONSERVER_TYPE_BF16)
                print_half_floats(out, t);
        else if (datatype_json_element(type, &element))
                print_numbers(out, t, element);
}

static void print_tensor(struct json_writer *w, const struct trace_tensor *t) {
        AUTO_STRBUF contents = { 0 }, shape = { 0 };

        if (t->bytes != NULL)
                print_contents(&contents, t);
        for (uint64_t i = 0; i < t->n_dims; i++)
                strbuf_printf(&shape, "%s%" PRId64, i > 0 ? "," : "", t->shape[i]);
        strbuf_spoil(w->out, &contents);
        strbuf_spoil(w->out, &shape);
        begin_element(w, t->inference->id);
        json_member_string(w, "activity", t->activity);
        json_member_object(w, "tensor");
        json_member_string(w, "name", t->name);
        json_member_str(w, "data", strbuf_str(&contents));
        json_member_str(w, "shape", strbuf_str(&shape));
        json_member_string(w, "dtype", datatype_name((TRITONSERVER_DataType)t->type));
        if (t->bytes == NULL && t->n_bytes > 0) {
                json_member_u64(w, "omitted_bytes", t->n_bytes);
        }
        json_end_object(w);
        json_end_object(w);
}

void trace_json_print(const struct trace_record *r, struct strbuf *out) {
        struct json_writer w = { .out = out };

        for (const struct trace_inference *i = r->first_inference; i != NULL; i = i->next)
                print_inference(&w, i);
        for (const struct trace_event *e = r->first_event; e != NULL; e = e->next)
                print_event(&w, r, e);
        for (const struct trace_tensor *t = r->first_tensor; t != NULL; t = t->next)
                print_tensor(&w, t);
}
