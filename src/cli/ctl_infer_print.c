/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/ctl_infer_print.h"

#include "cli/tensor_values.h"
#include "cli/text_table.h"
#include "codec/json_writer.h"
#include "core_api/datatype.h"

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

/* Bytes behind the JSON that belong to the output; they become values. */
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

/* The first values of a flat array, and how many there are when it is cut. */
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

/* Where outputs go: into a table, or into JSON whose bytes became values. */
struct output_sink {
        struct text_table  *table; /* NULL: JSON */
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

/* The members that are no outputs; they are in the JSON again, and in no table. */
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

static struct error *print_table(struct ctl *c, struct str json, struct str binary) {
        struct text_table t;
        struct error     *err;

        text_table_init(&t, 4);
        text_table_put(&t, STR_LIT("OUTPUT"));
        text_table_put(&t, STR_LIT("TYPE"));
        text_table_put(&t, STR_LIT("SHAPE"));
        text_table_put(&t, STR_LIT("VALUES"));
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

struct error *ctl_infer_print(struct ctl *c, struct str json, struct str binary) {
        return c->is_json ? print_json(c, json, binary) : print_table(c, json, binary);
}
