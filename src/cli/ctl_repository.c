/* SPDX-License-Identifier: BSD-3-Clause */
/* `neso ctl index`, `load`, `unload`, `ready`: which models there are, and may they be asked.
 */
#include "cli/ctl_inside.h"
#include "cli/text_table.h"
#include "codec/base64.h"
#include "codec/json_writer.h"

static struct error *post(struct ctl *c, const char *path, struct str body, struct str *ret) {
        return ctl_ask(c, &(struct http_question){ .path = path, .is_post = true, .body = body },
                       ret, NULL);
}

/* ---- index ----------------------------------------------------------------------------------- */

static void put_index_row(struct ctl *c, struct json_reader *r, struct text_table *t) {
        static const char *const names[] = { "name", "version", "state", "reason" };
        struct str               cells[ARRAY_LEN(names)] = { { NULL, 0 } };
        struct str               key;

        for (json_enter_object(r); json_next_key(r, &c->arena, &key);) {
                size_t i = 0;

                while (i < ARRAY_LEN(names) && !str_is(key, names[i]))
                        i++;
                if (i < ARRAY_LEN(names) && json_peek(r) == JSON_STRING)
                        cells[i] = json_read_string(r, &c->arena);
                else
                        json_skip(r);
        }
        for (size_t i = 0; i < ARRAY_LEN(names); i++)
                text_table_put(t, cells[i]);
}

static struct error *print_index(struct ctl *c, struct str body) {
        struct json_reader r;
        struct text_table  t;

        text_table_init(&t, 4);
        text_table_put(&t, STR_LIT("MODEL"));
        text_table_put(&t, STR_LIT("VERSION"));
        text_table_put(&t, STR_LIT("STATE"));
        text_table_put(&t, STR_LIT("REASON"));
        json_reader_init(&r, body);
        for (json_enter_array(&r); json_next_element(&r);)
                put_index_row(c, &r, &t);
        json_read_end(&r);
        text_table_print(&t, &c->out);
        text_table_done(&t);
        return json_failed(&r) ? ctl_bad_answer(c, &r) : NULL;
}

struct error *ctl_index(struct ctl *c) {
        struct str body;

        TRY(post(c, "/v2/repository/index",
                 c->only_ready ? STR_LIT("{\"ready\":true}") : STR_LIT("{}"), &body));
        if (!c->is_json)
                return print_index(c, body);
        ctl_put_answer(c, body);
        return NULL;
}

/* ---- load and unload ------------------------------------------------------------------------- */

static struct error *put_config(struct ctl *c, struct json_writer *w) {
        struct str text;

        TRY(ctl_read_file(c, c->config_file, &text));
        json_key(w, "config");
        json_put_str(w, text);
        return NULL;
}

/* "1/model.onnx=/tmp/new.onnx" */
static struct error *put_file(struct ctl *c, const char *option, struct json_writer *w) {
        AUTO_STRBUF base64 = { 0 };
        struct str  name, bytes, path = str_split(str_of(option), '=', &name);

        if (path.len == 0 || name.len == 0)
                return error_new(ERR_INVALID_ARG,
                                 "--file expects <version>/<name>=<path>, got '%s'", option);
        TRY(ctl_read_file(c, path.ptr, &bytes));
        strbuf_init(&base64, 0);
        base64_encode(bytes, &base64);
        if (base64.overflowed)
                return error_new(ERR_INVALID_ARG, "'%s' is too large to be sent", path.ptr);
        json_key(w, arena_printf(&c->arena, "file:%.*s", STR_ARG(name)));
        json_put_str(w, strbuf_str(&base64));
        return NULL;
}

static struct error *print_parameters(struct ctl *c, struct strbuf *out) {
        struct json_writer w;

        json_writer_init(&w, out);
        json_begin_object(&w);
        json_key(&w, "parameters");
        json_begin_object(&w);
        if (c->config_file != NULL)
                TRY(put_config(c, &w));
        for (size_t i = 0; i < c->files.n_items; i++)
                TRY(put_file(c, c->files.items[i], &w));
        json_end_object(&w);
        json_end_object(&w);
        return out->overflowed ? error_new_text(ERR_INVALID_ARG, "the files are too large") : NULL;
}

/* `what` was done. */
static struct error *change(struct ctl *c, const char *verb, struct str parameters,
                            const char *what) {
        struct str  body;
        const char *path = arena_printf(&c->arena, "/v2/repository/models/%s/%s",
                                        ctl_escape(c, c->model), verb);

        TRY(post(c, path, parameters, &body));
        if (c->is_json)
                ctl_put_answer(c, body.len > 0 ? body : STR_LIT("{}"));
        else
                strbuf_printf(&c->out, "%s: %s\n", c->model, what);
        return NULL;
}

struct error *ctl_load(struct ctl *c) {
        AUTO_STRBUF parameters = { 0 };

        strbuf_init(&parameters, 0);
        TRY(print_parameters(c, &parameters));
        return change(c, "load", strbuf_str(&parameters), "loaded");
}

struct error *ctl_unload(struct ctl *c) {
        return change(c, "unload",
                      c->dependents ? STR_LIT("{\"parameters\":{\"unload_dependents\":true}}")
                                    : STR_LIT("{}"),
                      "unloaded");
}

/* ---- ready ----------------------------------------------------------------------------------- */

/* No is an answer as well. */
struct error *ctl_ready(struct ctl *c) {
        const char *path = c->model != NULL ? ctl_model_path(c, "/ready") : "/v2/health/ready";
        const char *who = c->model != NULL ? c->model : "server";
        struct str  body;
        AUTO_ERROR  err = ctl_get(c, path, &body);

        if (err != NULL && c->exit_code != CTL_REFUSED)
                return STEAL(err);
        if (c->is_json)
                strbuf_printf(&c->out, "{\"ready\":%s}\n", err == NULL ? "true" : "false");
        else if (err == NULL)
                strbuf_printf(&c->out, "%s: ready\n", who);
        else
                strbuf_printf(&c->out, "%s: not ready (%s)\n", who, err->message);
        return NULL;
}
