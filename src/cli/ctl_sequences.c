/* SPDX-License-Identifier: BSD-3-Clause */
/* `neso ctl sequences` prints the live sequences of a model. The parent of a row is a load of the model.
 */
#include "cli/ctl_private.h"
#include "cli/json_table.h"
#include "codec/json_find.h"

/* A number, or a text in quotes. */
static void put_id(const struct json_row *row, const char *path, const char *second,
                   struct text_table *t) {
        struct str         id = json_find(row->object, path);
        struct json_reader r = json_reader_of(id);

        if (json_peek(&r) == JSON_STRING)
                text_table_printf(t, "\"%.*s\"",
                                  STR_ARG(json_find_text(row->object, path, row->arena)));
        else
                cell_count(row, path, second, t);
}

static bool has_slot(const struct json_row *row) {
        return json_find(row->object, "slot").ptr != NULL;
}

static void put_slot(const struct json_row *row, const char *path, const char *second,
                     struct text_table *t) {
        if (has_slot(row))
                cell_count(row, path, second, t);
        else
                text_table_put(t, STR_LIT(""));
}

/* A sequence with requests is not idle. */
static void put_idle(const struct json_row *row, const char *path, const char *second,
                     struct text_table *t) {
        if (json_find_count(row->object, "requests") == 0)
                cell_us(row, path, second, t);
        else
                text_table_put(t, STR_LIT("-"));
}

static void put_state(const struct json_row *row, const char *path, const char *second,
                      struct text_table *t) {
        bool        is_old = json_find_flag(row->parent, "retired");
        const char *state = is_old ? "on an old load" : "";

        (void)path;
        (void)second;
        if (json_find_flag(row->object, "ending"))
                state = is_old ? "ending, on an old load" : "ending";
        else if (!has_slot(row))
                state = is_old ? "backlog of an old load" : "backlog";
        text_table_put(t, str_of(state));
}

static const struct json_column columns[] = {
        { "VERSION", TEXT_LEFT, cell_text_of_parent, .path = "version" },
        { "ID", TEXT_LEFT, put_id, .path = "id" },
        { "INSTANCE", TEXT_LEFT, cell_text, .path = "instance" },
        { "SLOT", TEXT_RIGHT, put_slot, .path = "slot" },
        { "REQUESTS", TEXT_RIGHT, cell_count, .path = "requests" },
        { "AGE", TEXT_RIGHT, cell_us, .path = "age_us" },
        { "IDLE", TEXT_RIGHT, put_idle, .path = "idle_us" },
        { "STATE", TEXT_LEFT, put_state, .path = "" },
};

static void print_loads(struct ctl *c, struct str body) {
        unsigned long long n_active = 0, n_backlog = 0, n_left_out = 0;
        struct json_table  t;

        JSON_FOR_EACH(json_find(body, "model_sequences"), load) {
                n_active += json_find_count(load, "active");
                n_backlog += json_find_count(load, "backlog");
                n_left_out += json_find_count(load, "left_out");
        }
        json_table_init(&t, columns, ARRAY_LEN(columns), &c->arena);
        json_table_add(&t, body,
                       &(struct json_rows){ .outer = "model_sequences", .inner = "sequences" });
        json_table_end(&t, n_active + n_backlog > 0 ? &c->out : NULL);
        strbuf_printf(&c->out, "%llu with a slot, %llu in the backlog", n_active, n_backlog);
        if (n_left_out > 0)
                strbuf_printf(&c->out, "; %llu are not listed", n_left_out);
        strbuf_putc(&c->out, '\n');
}

struct error *ctl_sequences(struct ctl *c) {
        return ctl_show(c, ctl_model_path(c, "/sequences"), print_loads);
}
