/* SPDX-License-Identifier: BSD-3-Clause */
/* `neso ctl metadata` and `neso ctl config`.
 */
#include "cli/ctl_private.h"
#include "cli/json_indent.h"
#include "cli/json_table.h"
#include "codec/json_find.h"

/* Prints ["1","2"] as 1, 2. */
static void print_list(struct ctl *c, struct str json) {
        const char        *before = "";
        struct json_reader r = json_reader_of(json);

        if (json_peek(&r) == JSON_ARRAY)
                for (json_enter_array(&r); json_next_element(&r); before = ", ") {
                        struct str item = json_read_string(&r, &c->arena);

                        strbuf_printf(&c->out, "%s%.*s", before, STR_ARG(item));
                }
        strbuf_putc(&c->out, '\n');
}

static const struct json_column tensor_columns[] = {
        { "", TEXT_LEFT, cell_label, .path = "" },
        { "NAME", TEXT_LEFT, cell_text, .path = "name" },
        { "TYPE", TEXT_LEFT, cell_text, .path = "datatype" },
        { "SHAPE", TEXT_LEFT, cell_json, .path = "shape" },
};

static void print_model(struct ctl *c, struct str body) {
        struct str        name = json_find_text(body, "name", &c->arena);
        struct str        platform = json_find_text(body, "platform", &c->arena);
        struct json_table t;

        strbuf_printf(&c->out, "name      %.*s\n", STR_ARG(name));
        if (platform.len > 0)
                strbuf_printf(&c->out, "platform  %.*s\n", STR_ARG(platform));
        strbuf_puts(&c->out, "versions  ");
        print_list(c, json_find(body, "versions"));
        strbuf_putc(&c->out, '\n');
        json_table_init(&t, tensor_columns, ARRAY_LEN(tensor_columns), &c->arena);
        json_table_add(&t, body, &(struct json_rows){ .outer = "inputs", .label = "input" });
        json_table_add(&t, body, &(struct json_rows){ .outer = "outputs", .label = "output" });
        json_table_end(&t, &c->out);
}

static void print_server(struct ctl *c, struct str body) {
        struct json_reader r = json_reader_of(body);
        struct str         key;

        for (json_enter_object(&r); json_next_key(&r, &c->arena, &key);) {
                strbuf_printf(&c->out, "%-11.*s ", STR_ARG(key));
                if (json_peek(&r) == JSON_STRING) {
                        struct str text = json_read_string(&r, &c->arena);

                        strbuf_printf(&c->out, "%.*s\n", STR_ARG(text));
                } else {
                        print_list(c, json_skip(&r));
                }
        }
}

struct error *ctl_metadata(struct ctl *c) {
        return c->model != NULL ? ctl_show(c, ctl_model_path(c, ""), print_model)
                                : ctl_show(c, "/v2", print_server);
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
