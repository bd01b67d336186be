/* SPDX-License-Identifier: BSD-3-Clause */
/* `neso ctl infer` sends one inference request. It first asks the server for the model's inputs.
 * Values of FP16 and BF16 are sent as bytes after the JSON, all others in the JSON.
 */
#include "cli/ctl_private.h"
#include "cli/tensor_values.h"
#include "cli/text_table.h"
#include "codec/json_find.h"
#include "codec/json_writer.h"
#include "core_api/datatype.h"

/* ---- the request ----------------------------------------------------------------------------- */

/* Returns the value of "NAME=VALUE" for the name; ptr NULL when there is none. */
static struct str find_pair(const struct option_texts *pairs, struct str name) {
        for (size_t i = 0; i < pairs->n_items; i++) {
                struct str key, value = str_split(str_of(pairs->items[i]), '=', &key);

                if (value.ptr != NULL && str_equal(key, name))
                        return value;
        }
        return str_range(NULL, 0);
}

static bool is_given_before(const struct option_texts *pairs, size_t n, struct str name) {
        for (size_t i = 0; i < n; i++) {
                struct str key;

                str_split(str_of(pairs->items[i]), '=', &key);
                if (str_equal(key, name))
                        return true;
        }
        return false;
}

/* Each NAME must be an input of the model. */
static struct error *check_pairs(struct ctl *c, const struct option_texts *pairs,
                                 const char *option, struct str model) {
        for (size_t i = 0; i < pairs->n_items; i++) {
                struct str key, value = str_split(str_of(pairs->items[i]), '=', &key);
                bool       is_known = false;

                if (value.ptr == NULL)
                        return error_new(ERR_INVALID_ARG, "--%s expects NAME=..., got '%s'", option,
                                         pairs->items[i]);
                JSON_FOR_EACH(json_find(model, "inputs"), input)
                        is_known = is_known ||
                                   str_equal(json_find_text(input, "name", &c->arena), key);
                if (!is_known)
                        return error_new(ERR_INVALID_ARG, "--%s: the model has no input '%.*s'",
                                         option, STR_ARG(key));
                if (is_given_before(pairs, i, key))
                        return error_new(ERR_INVALID_ARG, "--%s: '%.*s' is given twice", option,
                                         STR_ARG(key));
        }
        return NULL;
}

/* An input or an output of the model's metadata. */
struct model_tensor {
        struct str            name;
        struct str            datatype; /* "FP32" */
        TRITONSERVER_DataType type;
        struct str            shape; /* JSON, with the batch dimension; -1: any size */
};

static struct model_tensor read_tensor(struct ctl *c, struct str json) {
        struct str datatype = json_find_text(json, "datatype", &c->arena);

        return (struct model_tensor){ .name = json_find_text(json, "name", &c->arena),
                                      .datatype = datatype,
                                      .type = datatype_from_name(datatype),
                                      .shape = json_find(json, "shape") };
}

struct infer_request {
        struct strbuf      json;
        struct strbuf      binary; /* sent after the JSON */
        struct json_writer writer;
};

static struct error *given_values(struct ctl *c, struct str given, struct str *ret) {
        if (given.len > 0 && *given.ptr == '@')
                return ctl_read_file(c, arena_str(&c->arena, str_skip(given, 1)), ret);
        *ret = given;
        return NULL;
}

/* Prints the values of an input as JSON and returns its shape. */
static struct error *make_values(struct ctl *c, const struct model_tensor *t, struct str given,
                                 struct tensor_shape *shape, struct strbuf *json) {
        struct str           shape_text = find_pair(&c->shapes, t->name);
        struct tensor_source source = { .type = t->type,
                                        .fill = c->random ? TENSOR_RANDOM : TENSOR_ZEROS,
                                        .seed = c->seed++ };
        struct tensor_shape  model_shape, inferred;
        uint64_t             n;

        TRY(tensor_shape_read(t->shape, &model_shape));
        *shape = model_shape;
        if (shape_text.ptr != NULL)
                TRY(tensor_shape_read(shape_text, shape));
        if (given.ptr != NULL) {
                TRY(given_values(c, given, &given));
                /* Also where --shape is given: values that are not JSON are refused here. */
                TRY(tensor_shape_infer(given, &model_shape, &inferred));
                if (shape_text.ptr == NULL)
                        *shape = inferred;
                strbuf_put(json, given.ptr, given.len);
                return NULL;
        }
        if (shape_text.ptr == NULL)
                tensor_shape_fix(shape);
        TRY(tensor_shape_count(shape, &n));
        tensor_values_fill(&source, n, json);
        return NULL;
}

/* A value that is not an array is sent as an array of one. */
static void put_json_values(struct json_writer *w, struct str values) {
        struct json_reader r = json_reader_of(values);

        json_key(w, "data");
        if (json_peek(&r) == JSON_ARRAY) {
                json_put_raw(w, values);
                return;
        }
        json_begin_array(w);
        json_put_raw(w, values);
        json_end_array(w);
}

static struct error *put_binary_values(struct infer_request *q, TRITONSERVER_DataType type,
                                       struct str values) {
        size_t before = q->binary.len;

        TRY(tensor_values_encode(type, values, &q->binary));
        json_member_object(&q->writer, "parameters");
        json_member_u64(&q->writer, "binary_data_size", q->binary.len - before);
        json_end_object(&q->writer);
        return NULL;
}

static struct error *put_input(struct ctl *c, struct infer_request *q, const struct model_tensor *t,
                               struct str given) {
        AUTO_STRBUF         values = { 0 }, shape_text = { 0 };
        struct tensor_shape shape;

        TRY(error_wrap(make_values(c, t, given, &shape, &values), "input '%.*s'",
                       STR_ARG(t->name)));
        tensor_shape_print(&shape, &shape_text);
        json_begin_object(&q->writer);
        json_member_str(&q->writer, "name", t->name);
        json_member_str(&q->writer, "datatype", t->datatype);
        json_member_raw(&q->writer, "shape", strbuf_str(&shape_text));
        if (tensor_is_binary(t->type))
                TRY(error_wrap(put_binary_values(q, t->type, strbuf_str(&values)), "input '%.*s'",
                               STR_ARG(t->name)));
        else
                put_json_values(&q->writer, strbuf_str(&values));
        json_end_object(&q->writer);
        return NULL;
}

/* Inputs without values are left out. The server knows whether they are optional. */
static struct error *put_inputs(struct ctl *c, struct infer_request *q, struct str model) {
        json_member_array(&q->writer, "inputs");
        JSON_FOR_EACH(json_find(model, "inputs"), input) {
                struct model_tensor t = read_tensor(c, input);
                struct str          given = find_pair(&c->inputs, t.name);

                if (given.ptr != NULL || c->zeros || c->random)
                        TRY(put_input(c, q, &t, given));
        }
        json_end_array(&q->writer);
        return NULL;
}

/* Asks for all outputs, since the binary ones have to be marked. */
static void put_outputs(struct ctl *c, struct infer_request *q, struct str model) {
        json_member_array(&q->writer, "outputs");
        JSON_FOR_EACH(json_find(model, "outputs"), output) {
                struct model_tensor t = read_tensor(c, output);

                json_begin_object(&q->writer);
                json_member_str(&q->writer, "name", t.name);
                if (tensor_is_binary(t.type)) {
                        json_member_raw(&q->writer, "parameters",
                                        STR_LIT("{\"binary_data\":true}"));
                }
                json_end_object(&q->writer);
        }
        json_end_array(&q->writer);
}

static struct error *make_request(struct ctl *c, struct infer_request *q, struct str model) {
        struct str first = json_list_first(json_find(model, "inputs"));

        TRY(check_pairs(c, &c->inputs, "input", model));
        TRY(check_pairs(c, &c->shapes, "shape", model));
        if (c->inputs.n_items == 0 && !c->zeros && !c->random && first.ptr != NULL)
                return error_new(ERR_INVALID_ARG,
                                 "which values? --zeros, --random, or --input '%.*s=[...]'",
                                 STR_ARG(json_find_text(first, "name", &c->arena)));
        json_writer_init(&q->writer, &q->json);
        json_begin_object(&q->writer);
        TRY(put_inputs(c, q, model));
        if (json_list_count(json_find(model, "outputs")) > 0)
                put_outputs(c, q, model);
        json_end_object(&q->writer);
        if (q->json.overflowed || q->binary.overflowed)
                return error_new_text(ERR_INVALID_ARG, "the request is too large");
        return NULL;
}

/* ---- the answer ----------------------------------------------------------------------------- */

struct output {
        struct str name, datatype, shape, values; /* shape and values: JSON */
        uint64_t   binary_bytes;
};

static struct output read_output(struct ctl *c, struct str json) {
        return (struct output){ .name = json_find_text(json, "name", &c->arena),
                                .datatype = json_find_text(json, "datatype", &c->arena),
                                .shape = json_find(json, "shape"),
                                .values = json_find(json, "data"),
                                .binary_bytes =
                                        json_find_count(json, "parameters.binary_data_size") };
}

/* Turns the bytes of an output, which follow the JSON, into values. */
static struct error *take_binary(struct ctl *c, struct output *o, struct str *left) {
        AUTO_STRBUF json = { 0 };

        if (o->values.ptr != NULL)
                return NULL;
        if (o->binary_bytes > left->len) {
                c->exit_code = CTL_REFUSED;
                return error_new(ERR_INTERNAL,
                                 "the server's answer lacks bytes of the output '%.*s'",
                                 STR_ARG(o->name));
        }
        if (!tensor_is_binary(datatype_from_name(o->datatype))) {
                c->exit_code = CTL_REFUSED;
                return error_new(ERR_INTERNAL,
                                 "the server's answer has no values of the output '%.*s'",
                                 STR_ARG(o->name));
        }
        tensor_values_decode(datatype_from_name(o->datatype),
                             str_range(left->ptr, (size_t)o->binary_bytes), &json);
        left->ptr += o->binary_bytes;
        left->len -= (size_t)o->binary_bytes;
        o->values = str_range(arena_str(&c->arena, strbuf_str(&json)), json.len);
        return NULL;
}

/* Prints the first values of a flat array, and their number when not all are printed. */
static void print_values(const struct ctl *c, struct str json, struct strbuf *out) {
        struct json_reader r = json_reader_of(json);
        uint64_t           n = 0;

        strbuf_putc(out, '[');
        for (json_enter_array(&r); json_next_element(&r); n++) {
                struct str value = json_skip(&r);

                if (c->n_values > 0 && n >= c->n_values)
                        continue;
                strbuf_puts(out, n > 0 ? ", " : "");
                strbuf_put(out, value.ptr, value.len);
        }
        if (c->n_values > 0 && n > c->n_values)
                strbuf_printf(out, ", ...] of %llu", (unsigned long long)n);
        else
                strbuf_putc(out, ']');
}

static void put_output_row(struct ctl *c, const struct output *o, void *to) {
        struct text_table *t = to;
        AUTO_STRBUF        values = { 0 };

        print_values(c, o->values, &values);
        text_table_put(t, o->name);
        text_table_put(t, o->datatype);
        text_table_put(t, o->shape);
        text_table_put(t, strbuf_str(&values));
}

static void put_output_json(struct ctl *c, const struct output *o, void *to) {
        struct json_writer *w = to;

        (void)c;
        json_begin_object(w);
        json_member_str(w, "name", o->name);
        json_member_str(w, "datatype", o->datatype);
        json_member_raw(w, "shape", o->shape.ptr != NULL ? o->shape : STR_LIT("null"));
        json_member_raw(w, "data", o->values);
        json_end_object(w);
}

/* Reads the outputs one after the other; `binary` has their bytes. */
static struct error *each_output(struct ctl *c, struct str outputs, struct str binary,
                                 void (*put)(struct ctl *c, const struct output *o, void *to),
                                 void *to) {
        JSON_FOR_EACH(outputs, json) {
                struct output o = read_output(c, json);

                TRY(take_binary(c, &o, &binary));
                put(c, &o, to);
        }
        return NULL;
}

static const struct text_column output_columns[] = {
        { "OUTPUT", TEXT_LEFT },
        { "TYPE", TEXT_LEFT },
        { "SHAPE", TEXT_LEFT },
        { "VALUES", TEXT_LEFT },
};

static struct error *print_answer_table(struct ctl *c, struct str json, struct str binary) {
        AUTO_TEXT_TABLE t;

        text_table_init(&t, output_columns, ARRAY_LEN(output_columns));
        TRY(each_output(c, json_find(json, "outputs"), binary, put_output_row, &t));
        text_table_print(&t, &c->out);
        return NULL;
}

/* Prints the answer, in which bytes have become values. */
static struct error *print_answer_json(struct ctl *c, struct str json, struct str binary) {
        struct json_writer w = { .out = &c->out };
        struct json_reader r;
        struct str         key, value;

        json_begin_object(&w);
        json_reader_init(&r, json);
        for (json_enter_object(&r); json_next_key(&r, &c->arena, &key);) {
                json_key_str(&w, key);
                value = json_skip(&r);
                if (!str_is(key, "outputs")) {
                        json_put_raw(&w, value);
                        continue;
                }
                json_begin_array(&w);
                TRY(each_output(c, value, binary, put_output_json, &w));
                json_end_array(&w);
        }
        json_end_object(&w);
        strbuf_putc(&c->out, '\n');
        return NULL;
}

/* ---- the command ---------------------------------------------------------------------------- */

static struct error *send_request(struct ctl *c, struct infer_request *q) {
        bool                 has_binary = q->binary.len > 0;
        struct http_question question = { .path = ctl_model_path(c, "/infer"),
                                          .is_post = true,
                                          .header_length = has_binary ? q->json.len : 0 };
        struct str           body, json, binary;
        size_t               length = 0;

        strbuf_put(&q->json, q->binary.ptr, q->binary.len);
        question.body = strbuf_str(&q->json);
        if (q->json.overflowed)
                return error_new_text(ERR_INVALID_ARG, "the request is too large");
        TRY(ctl_ask(c, &question, &body, &length));
        if (length == 0 && c->is_json) {
                ctl_put_answer(c, body);
                return NULL;
        }
        length = length > 0 && length <= body.len ? length : body.len;
        json = str_range(body.ptr, length);
        binary = str_skip(body, length);
        TRY(ctl_check_answer(c, json, JSON_OBJECT));
        return c->is_json ? print_answer_json(c, json, binary)
                          : print_answer_table(c, json, binary);
}

struct error *ctl_infer(struct ctl *c) {
        struct infer_request q = { .json = { 0 } };
        struct str           model;
        struct error        *err;

        TRY(ctl_get(c, ctl_model_path(c, ""), &model));
        TRY(ctl_check_answer(c, model, JSON_OBJECT));
        err = make_request(c, &q, model);
        if (err == NULL)
                err = send_request(c, &q);
        strbuf_done(&q.json);
        strbuf_done(&q.binary);
        return err;
}
