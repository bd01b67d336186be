/* SPDX-License-Identifier: BSD-3-Clause */
/* `neso ctl index`, `load`, `unload` and `ready`: the models of a server and their states.
 */
#include "cli/ctl_private.h"
#include "cli/json_table.h"
#include "codec/base64.h"
#include "codec/json_find.h"
#include "codec/json_writer.h"

#include <string.h>

static struct error *ctl_post(struct ctl *c, const char *path, struct str body, struct str *ret) {
        return ctl_ask(c, &(struct http_question){ .path = path, .is_post = true, .body = body },
                       ret, NULL);
}

/* ---- index ----------------------------------------------------------------------------------- */

static const struct json_column index_columns[] = {
        { "MODEL", TEXT_LEFT, cell_text, .path = "name" },
        { "VERSION", TEXT_LEFT, cell_text, .path = "version" },
        { "STATE", TEXT_LEFT, cell_text, .path = "state" },
        { "REASON", TEXT_LEFT, cell_text, .path = "reason" },
};

struct error *ctl_index(struct ctl *c) {
        struct json_table t;
        struct str        body;

        TRY(ctl_post(c, "/v2/repository/index",
                     c->only_ready ? STR_LIT("{\"ready\":true}") : STR_LIT("{}"), &body));
        if (c->is_json) {
                ctl_put_answer(c, body);
                return NULL;
        }
        TRY(ctl_check_answer(c, body, JSON_ARRAY));
        json_table_init(&t, index_columns, ARRAY_LEN(index_columns), &c->arena);
        json_table_add(&t, body, &(struct json_rows){ .outer = "" });
        json_table_end(&t, &c->out);
        return NULL;
}

/* ---- load and unload ------------------------------------------------------------------------- */

static struct error *put_config(struct ctl *c, struct json_writer *w) {
        struct str text;

        TRY(ctl_read_file(c, c->config_file, &text));
        json_member_str(w, "config", text);
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
        base64_encode(bytes, &base64);
        if (base64.overflowed)
                return error_new(ERR_INVALID_ARG, "'%s' is too large to be sent", path.ptr);
        json_member_str(w, arena_printf(&c->arena, "file:%.*s", STR_ARG(name)),
                        strbuf_str(&base64));
        return NULL;
}

static struct error *print_parameters(struct ctl *c, struct strbuf *out) {
        struct json_writer w = { .out = out };

        json_begin_object(&w);
        json_member_object(&w, "parameters");
        if (c->config_file != NULL)
                TRY(put_config(c, &w));
        for (size_t i = 0; i < c->files.n_items; i++)
                TRY(put_file(c, c->files.items[i], &w));
        json_end_object(&w);
        json_end_object(&w);
        return out->overflowed ? error_new_text(ERR_INVALID_ARG, "the files are too large") : NULL;
}

/* Adds what the server must be started with to a refusal of the control mode: its text, which is that of
 * the reference server, speaks of polling in the mode none, too. Takes `err`. */
static struct error *explain_mode(struct error *err) {
        if (err == NULL || strstr(err->message, "load / unload is not allowed") == NULL)
                return err;
        return error_append(err, ": the server needs --model-control-mode=explicit");
}

/* Loads or unloads; `what` is the past participle that is printed. */
static struct error *change_model(struct ctl *c, const char *verb, struct str parameters,
                                  const char *what) {
        struct str  body;
        const char *path = arena_printf(&c->arena, "/v2/repository/models/%s/%s",
                                        ctl_escape(c, c->model), verb);

        TRY(explain_mode(ctl_post(c, path, parameters, &body)));
        if (c->is_json)
                ctl_put_answer(c, body.len > 0 ? body : STR_LIT("{}"));
        else
                strbuf_printf(&c->out, "%s: %s\n", c->model, what);
        return NULL;
}

struct error *ctl_load(struct ctl *c) {
        AUTO_STRBUF parameters = { 0 };

        TRY(print_parameters(c, &parameters));
        return change_model(c, "load", strbuf_str(&parameters), "loaded");
}

enum presence { PRESENCE_HIDDEN, PRESENCE_UNKNOWN, PRESENCE_IDLE, PRESENCE_LOADED };

/* Finds the state of the model in the index before an unload, if the client may read the index.
 * Servers answer every unload with success, even for a misspelt name. */
static struct error *find_model(struct ctl *c, enum presence *ret) {
        AUTO_ERROR invalid = NULL;
        struct str body, state;
        AUTO_ERROR err = ctl_post(c, "/v2/repository/index", STR_LIT("{}"), &body);

        *ret = PRESENCE_HIDDEN;
        if (err != NULL)
                return c->exit_code == CTL_REFUSED ? NULL : STEAL(err);
        invalid = json_check(body, JSON_ARRAY);
        if (invalid != NULL)
                return NULL;
        *ret = PRESENCE_UNKNOWN;
        JSON_FOR_EACH(body, entry) {
                if (!str_is(json_find_text(entry, "name", &c->arena), c->model))
                        continue;
                state = json_find_text(entry, "state", &c->arena);
                if (state.len > 0 && !str_is(state, "UNAVAILABLE"))
                        *ret = PRESENCE_LOADED;
                else
                        *ret = MAX(*ret, PRESENCE_IDLE);
        }
        return NULL;
}

struct error *ctl_unload(struct ctl *c) {
        enum presence was;

        TRY(find_model(c, &was));
        c->exit_code = CTL_DONE;
        TRY(change_model(c, "unload",
                         c->dependents ? STR_LIT("{\"parameters\":{\"unload_dependents\":true}}")
                                       : STR_LIT("{}"),
                         was == PRESENCE_IDLE ? "was not loaded" : "unloaded"));
        if (was != PRESENCE_UNKNOWN)
                return NULL;
        strbuf_clear(&c->out);
        c->exit_code = CTL_REFUSED;
        return error_new(ERR_NOT_FOUND, "the server has no model '%s'", c->model);
}
