/* SPDX-License-Identifier: BSD-3-Clause */
/* `neso ctl metadata` and `neso ctl config`.
 */
#include "cli/ctl_private.h"
#include "cli/json_indent.h"
#include "cli/text_table.h"

static void read_shape(struct json_reader *r, struct tensor_shape *ret) {
        for (json_enter_array(r); json_next_element(r);) {
                struct json_number n = json_read_number(r);

                if (ret->n < TENSOR_MAX_DIMS)
                        ret->dims[ret->n++] =
                                n.is_negative ? -(int64_t)n.magnitude : (int64_t)n.magnitude;
        }
}

static struct model_tensor *read_tensor(struct ctl *c, struct json_reader *r) {
        struct model_tensor *t = ARENA_NEW(&c->arena, struct model_tensor);
        struct str           key;

        for (json_enter_object(r); json_next_key(r, &c->arena, &key);) {
                if (str_is(key, "name"))
                        t->name = json_read_string(r, &c->arena);
                else if (str_is(key, "datatype"))
                        t->datatype = json_read_string(r, &c->arena);
                else if (str_is(key, "shape"))
                        read_shape(r, &t->shape);
                else
                        json_skip(r);
        }
        return t;
}

static void read_tensors(struct ctl *c, struct json_reader *r, struct model_tensor **end) {
        for (json_enter_array(r); json_next_element(r); end = &(*end)->next)
                *end = read_tensor(c, r);
}

struct error *ctl_metadata_get(struct ctl *c, struct model_metadata *ret, struct str *ret_body) {
        struct model_metadata m = { .inputs = NULL };
        struct json_reader    r;
        struct str            body, key;

        TRY(ctl_get(c, ctl_model_path(c, ""), &body));
        json_reader_init(&r, body);
        for (json_enter_object(&r); json_next_key(&r, &c->arena, &key);) {
                if (str_is(key, "name"))
                        m.name = json_read_string(&r, &c->arena);
                else if (str_is(key, "platform"))
                        m.platform = json_read_string(&r, &c->arena);
                else if (str_is(key, "versions"))
                        m.versions = json_skip(&r);
                else if (str_is(key, "inputs"))
                        read_tensors(c, &r, &m.inputs);
                else if (str_is(key, "outputs"))
                        read_tensors(c, &r, &m.outputs);
                else
                        json_skip(&r);
        }
        json_read_end(&r);
        if (json_failed(&r))
                return ctl_bad_answer(c, &r);
        if (ret_body != NULL)
                *ret_body = body;
        *ret = m;
        return NULL;
}

static void put_tensors(struct text_table *t, const char *role, const struct model_tensor *list) {
        for (; list != NULL; list = list->next) {
                AUTO_STRBUF shape = { 0 };

                strbuf_init(&shape, 0);
                tensor_shape_print(&list->shape, &shape);
                text_table_put(t, str_of(role));
                text_table_put(t, list->name);
                text_table_put(t, list->datatype);
                text_table_put(t, strbuf_str(&shape));
        }
}

/* Prints ["1","2"] as 1, 2. */
static void print_list(struct ctl *c, struct str json) {
        const char        *before = "";
        struct json_reader r;

        json_reader_init(&r, json);
        for (json_enter_array(&r); json_next_element(&r); before = ", ") {
                struct str item = json_read_string(&r, &c->arena);

                strbuf_printf(&c->out, "%s%.*s", before, STR_ARG(item));
        }
        strbuf_putc(&c->out, '\n');
}

static const struct text_column tensor_columns[] = {
        { "", TEXT_LEFT },
        { "NAME", TEXT_LEFT },
        { "TYPE", TEXT_LEFT },
        { "SHAPE", TEXT_LEFT },
};

static struct error *model_metadata(struct ctl *c) {
        struct model_metadata m;
        struct text_table     t;
        struct str            body;

        TRY(ctl_metadata_get(c, &m, &body));
        if (c->is_json) {
                ctl_put_answer(c, body);
                return NULL;
        }
        strbuf_printf(&c->out, "name      %.*s\n", STR_ARG(m.name));
        if (m.platform.len > 0)
                strbuf_printf(&c->out, "platform  %.*s\n", STR_ARG(m.platform));
        strbuf_puts(&c->out, "versions  ");
        print_list(c, m.versions);
        strbuf_putc(&c->out, '\n');
        text_table_init(&t, tensor_columns, ARRAY_LEN(tensor_columns));
        put_tensors(&t, "input", m.inputs);
        put_tensors(&t, "output", m.outputs);
        text_table_print(&t, &c->out);
        text_table_done(&t);
        return NULL;
}

static struct error *server_metadata(struct ctl *c) {
        struct json_reader r;
        struct str         body, key;

        TRY(ctl_get(c, "/v2", &body));
        if (c->is_json) {
                ctl_put_answer(c, body);
                return NULL;
        }
        json_reader_init(&r, body);
        for (json_enter_object(&r); json_next_key(&r, &c->arena, &key);) {
                if (json_peek(&r) == JSON_STRING) {
                        struct str text = json_read_string(&r, &c->arena);

                        strbuf_printf(&c->out, "%-11.*s %.*s\n", STR_ARG(key), STR_ARG(text));
                } else {
                        strbuf_printf(&c->out, "%-11.*s ", STR_ARG(key));
                        print_list(c, json_skip(&r));
                }
        }
        json_read_end(&r);
        return json_failed(&r) ? ctl_bad_answer(c, &r) : NULL;
}

struct error *ctl_metadata(struct ctl *c) {
        return c->model != NULL ? model_metadata(c) : server_metadata(c);
}

struct error *ctl_config(struct ctl *c) {
        struct str body;

        TRY(ctl_get(c, ctl_model_path(c, "/config"), &body));
        if (c->is_json) {
                ctl_put_answer(c, body);
                return NULL;
        }
        json_indent(body, &c->out);
        strbuf_putc(&c->out, '\n');
        return NULL;
}
