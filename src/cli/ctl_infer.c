/* SPDX-License-Identifier: BSD-3-Clause */
/* `neso ctl infer` sends one inference request. It first asks the server for the model's inputs.
 * Values of FP16 and BF16 are sent as bytes after the JSON, all others in the JSON.
 */
#include "cli/ctl_private.h"
#include "cli/tensor_values.h"
#include "cli/text_table.h"
#include "codec/json_writer.h"
#include "core_api/datatype.h"

#include <string.h>

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

static struct error *check_pairs(const struct option_texts *pairs, const char *option,
                                 const struct model_metadata *m) {
        for (size_t i = 0; i < pairs->n_items; i++) {
                const struct model_tensor *t = m->inputs;
                struct str key, value = str_split(str_of(pairs->items[i]), '=', &key);

                if (value.ptr == NULL)
                        return error_new(ERR_INVALID_ARG, "--%s expects NAME=..., got '%s'", option,
                                         pairs->items[i]);
                while (t != NULL && !str_equal(t->name, key))
                        t = t->next;
                if (t == NULL)
                        return error_new(ERR_INVALID_ARG, "--%s: the model has no input '%.*s'",
                                         option, STR_ARG(key));
        }
        return NULL;
}

struct infer_request {
        struct strbuf      json;
        struct strbuf      binary; /* sent after the JSON */
        struct json_writer writer;
};

static struct error *given_values(struct ctl *c, struct str given, struct str *ret) {
        if (given.len > 0 && *given.ptr == '@')
                return ctl_read_file(c,
                                     arena_str(&c->arena, str_range(given.ptr + 1, given.len - 1)),
                                     ret);
        *ret = given;
        return NULL;
}

/* Prints the values of an input as JSON and returns its shape. */
static struct error *make_values(struct ctl *c, const struct model_tensor *t, struct str given,
                                 struct tensor_shape *shape, struct strbuf *json) {
        struct str           shape_text = find_pair(&c->shapes, t->name);
        struct tensor_source source = { .type = datatype_from_name(t->datatype),
                                        .fill = c->random ? TENSOR_RANDOM : TENSOR_ZEROS,
                                        .seed = c->seed++ };
        uint64_t             n;

        *shape = t->shape;
        if (shape_text.ptr != NULL)
                TRY(tensor_shape_read(shape_text, shape));
        if (given.ptr != NULL) {
                TRY(given_values(c, given, &given));
                if (shape_text.ptr == NULL)
                        TRY(tensor_shape_infer(given, &t->shape, shape));
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
        struct json_reader r;

        json_reader_init(&r, values);
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
        json_key(&q->writer, "parameters");
        json_begin_object(&q->writer);
        json_key(&q->writer, "binary_data_size");
        json_put_u64(&q->writer, q->binary.len - before);
        json_end_object(&q->writer);
        return NULL;
}

static struct error *put_input(struct ctl *c, struct infer_request *q, const struct model_tensor *t,
                               struct str given) {
        TRITONSERVER_DataType type = datatype_from_name(t->datatype);
        AUTO_STRBUF           values = { 0 }, shape_text = { 0 };
        struct tensor_shape   shape;

        strbuf_init(&values, 0);
        strbuf_init(&shape_text, 0);
        TRY(error_wrap(make_values(c, t, given, &shape, &values), "input '%.*s'",
                       STR_ARG(t->name)));
        tensor_shape_print(&shape, &shape_text);
        json_begin_object(&q->writer);
        json_key(&q->writer, "name");
        json_put_str(&q->writer, t->name);
        json_key(&q->writer, "datatype");
        json_put_str(&q->writer, t->datatype);
        json_key(&q->writer, "shape");
        json_put_raw(&q->writer, strbuf_str(&shape_text));
        if (tensor_is_binary(type))
                TRY(error_wrap(put_binary_values(q, type, strbuf_str(&values)), "input '%.*s'",
                               STR_ARG(t->name)));
        else
                put_json_values(&q->writer, strbuf_str(&values));
        json_end_object(&q->writer);
        return NULL;
}

/* Inputs without values are left out. The server knows whether they are optional. */
static struct error *put_inputs(struct ctl *c, struct infer_request *q,
                                const struct model_metadata *m) {
        json_key(&q->writer, "inputs");
        json_begin_array(&q->writer);
        for (const struct model_tensor *t = m->inputs; t != NULL; t = t->next) {
                struct str given = find_pair(&c->inputs, t->name);

                if (given.ptr != NULL || c->zeros || c->random)
                        TRY(put_input(c, q, t, given));
        }
        json_end_array(&q->writer);
        return NULL;
}

static void put_outputs(struct infer_request *q, const struct model_metadata *m) {
        json_key(&q->writer, "outputs");
        json_begin_array(&q->writer);
        for (const struct model_tensor *t = m->outputs; t != NULL; t = t->next) {
                json_begin_object(&q->writer);
                json_key(&q->writer, "name");
                json_put_str(&q->writer, t->name);
                if (tensor_is_binary(datatype_from_name(t->datatype))) {
                        json_key(&q->writer, "parameters");
                        json_put_raw(&q->writer, STR_LIT("{\"binary_data\":true}"));
                }
                json_end_object(&q->writer);
        }
        json_end_array(&q->writer);
}

static struct error *make_request(struct ctl *c, struct infer_request *q,
                                  const struct model_metadata *m) {
        TRY(check_pairs(&c->inputs, "input", m));
        TRY(check_pairs(&c->shapes, "shape", m));
        if (c->inputs.n_items == 0 && !c->zeros && !c->random && m->inputs != NULL)
                return error_new(ERR_INVALID_ARG,
                                 "which values? --zeros, --random, or --input '%.*s=[...]'",
                                 STR_ARG(m->inputs->name));
        json_writer_init(&q->writer, &q->json);
        json_begin_object(&q->writer);
        TRY(put_inputs(c, q, m));
        if (m->outputs != NULL)
                put_outputs(q, m);
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

static uint64_t read_binary_size(struct ctl *c, struct json_reader *r) {
        uint64_t   n = 0;
        struct str key;

        for (json_enter_object(r); json_next_key(r, &c->arena, &key);)
                if (!str_is(key, "binary_data_size") || !json_try_u64(r, &n))
                        json_skip(r);
        return n;
}

static void read_output(struct ctl *c, struct json_reader *r, struct output *o) {
        struct str key;

        for (json_enter_object(r); json_next_key(r, &c->arena, &key);) {
                if (str_is(key, "name"))
                        o->name = json_read_string(r, &c->arena);
                else if (str_is(key, "datatype"))
                        o->datatype = json_read_string(r, &c->arena);
                else if (str_is(key, "shape"))
                        o->shape = json_skip(r);
                else if (str_is(key, "data"))
                        o->values = json_skip(r);
                else if (str_is(key, "parameters"))
                        o->binary_bytes = read_binary_size(c, r);
                else
                        json_skip(r);
        }
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
        strbuf_init(&json, 0);
        tensor_values_decode(datatype_from_name(o->datatype),
                             str_range(left->ptr, (size_t)o->binary_bytes), &json);
        left->ptr += o->binary_bytes;
        left->len -= (size_t)o->binary_bytes;
        o->values = str_range(arena_str(&c->arena, strbuf_str(&json)), json.len);
        return NULL;
}

/* Prints the first values of a flat array, and their number when not all are printed. */
static void print_values(const struct ctl *c, struct str json, struct strbuf *out) {
        struct json_reader r;
        uint64_t           n = 0;

        json_reader_init(&r, json);
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

static void put_output_row(const struct ctl *c, struct text_table *t, const struct output *o) {
        AUTO_STRBUF values = { 0 };

        strbuf_init(&values, 0);
        print_values(c, o->values, &values);
        text_table_put(t, o->name);
        text_table_put(t, o->datatype);
        text_table_put(t, o->shape);
        text_table_put(t, strbuf_str(&values));
}

static void put_output_json(struct json_writer *w, const struct output *o) {
        json_begin_object(w);
        json_key(w, "name");
        json_put_str(w, o->name);
        json_key(w, "datatype");
        json_put_str(w, o->datatype);
        json_key(w, "shape");
        json_put_raw(w, o->shape);
        json_key(w, "data");
        json_put_raw(w, o->values);
        json_end_object(w);
}

/* Destination of the outputs: a table, or JSON in which bytes have become values. */
struct output_sink {
        struct text_table  *table; /* NULL: JSON is written */
        struct json_writer *writer;
};

static struct error *read_outputs(struct ctl *c, struct json_reader *r, struct str *binary,
                                  const struct output_sink *sink) {
        if (sink->writer != NULL)
                json_begin_array(sink->writer);
        for (json_enter_array(r); json_next_element(r);) {
                struct output o = { .binary_bytes = 0 };

                read_output(c, r, &o);
                TRY(take_binary(c, &o, binary));
                if (json_failed(r))
                        break;
                if (sink->table != NULL)
                        put_output_row(c, sink->table, &o);
                else
                        put_output_json(sink->writer, &o);
        }
        if (sink->writer != NULL)
                json_end_array(sink->writer);
        return NULL;
}

/* Passes on a member that is not the outputs. JSON gets a copy of it; the table does not show
 * it. */
static void pass(struct json_reader *r, const struct output_sink *sink) {
        struct str value = json_skip(r);

        if (sink->writer != NULL)
                json_put_raw(sink->writer, value);
}

static struct error *read_answer(struct ctl *c, struct str json, struct str binary,
                                 const struct output_sink *sink) {
        struct json_reader r;
        struct str         key;

        json_reader_init(&r, json);
        for (json_enter_object(&r); json_next_key(&r, &c->arena, &key);) {
                if (sink->writer != NULL)
                        json_key_str(sink->writer, key);
                if (str_is(key, "outputs"))
                        TRY(read_outputs(c, &r, &binary, sink));
                else
                        pass(&r, sink);
        }
        json_read_end(&r);
        return json_failed(&r) ? ctl_bad_answer(c, &r) : NULL;
}

static const struct text_column output_columns[] = {
        { "OUTPUT", TEXT_LEFT },
        { "TYPE", TEXT_LEFT },
        { "SHAPE", TEXT_LEFT },
        { "VALUES", TEXT_LEFT },
};

static struct error *print_table(struct ctl *c, struct str json, struct str binary) {
        struct text_table t;
        struct error     *err;

        text_table_init(&t, output_columns, ARRAY_LEN(output_columns));
        err = read_answer(c, json, binary, &(struct output_sink){ .table = &t });
        if (err == NULL)
                text_table_print(&t, &c->out);
        text_table_done(&t);
        return err;
}

static struct error *print_json(struct ctl *c, struct str json, struct str binary) {
        struct json_writer w;

        json_writer_init(&w, &c->out);
        json_begin_object(&w);
        TRY(read_answer(c, json, binary, &(struct output_sink){ .writer = &w }));
        json_end_object(&w);
        strbuf_putc(&c->out, '\n');
        return NULL;
}

/* Prints the answer. `binary` has the bytes after the JSON. With --json, outputs that came as bytes
 * are printed as values like all others. */
static struct error *print_answer(struct ctl *c, struct str json, struct str binary) {
        return c->is_json ? print_json(c, json, binary) : print_table(c, json, binary);
}

/* ---- the command ---------------------------------------------------------------------------- */

static struct error *ask(struct ctl *c, struct infer_request *q) {
        bool                 has_binary = q->binary.len > 0;
        struct http_question question = { .path = ctl_model_path(c, "/infer"),
                                          .is_post = true,
                                          .header_length = has_binary ? q->json.len : 0 };
        struct str           body;
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
        return print_answer(c, str_range(body.ptr, length),
                            str_range(body.ptr + length, body.len - length));
}

struct error *ctl_infer(struct ctl *c) {
        struct infer_request  q = { .json = { 0 } };
        struct model_metadata m;
        struct error         *err;

        TRY(ctl_metadata_get(c, &m, NULL));
        strbuf_init(&q.json, 0);
        strbuf_init(&q.binary, 0);
        err = make_request(c, &q, &m);
        if (err == NULL)
                err = ask(c, &q);
        strbuf_done(&q.json);
        strbuf_done(&q.binary);
        return err;
}
