/* SPDX-License-Identifier: BSD-3-Clause */
/* `neso ctl sequences` prints the live sequences of a model.
 */
#include "cli/ctl_private.h"
#include "cli/text_table.h"

struct sequence_line {
        struct str id; /* in quotes when it is a text */
        struct str instance;
        uint64_t   slot, n_requests, age_us, idle_us;
        bool       has_slot, is_ending;
};

struct load_head {
        struct str version;
        uint64_t   n_active, n_backlog, n_left_out;
        bool       has_retired;
};

static const struct text_column columns[] = {
        { "VERSION", TEXT_LEFT }, { "ID", TEXT_LEFT },        { "INSTANCE", TEXT_LEFT },
        { "SLOT", TEXT_RIGHT },   { "REQUESTS", TEXT_RIGHT }, { "AGE", TEXT_RIGHT },
        { "IDLE", TEXT_RIGHT },   { "STATE", TEXT_LEFT },
};

static bool read_flag(struct json_reader *r) {
        if (json_peek(r) == JSON_BOOL)
                return json_read_bool(r);
        json_skip(r);
        return false;
}

static struct str read_id(struct ctl *c, struct json_reader *r) {
        if (json_peek(r) == JSON_STRING) {
                struct str text = json_read_string(r, &c->arena);

                return str_of(arena_printf(&c->arena, "\"%.*s\"", STR_ARG(text)));
        }
        return str_of(arena_printf(&c->arena, "%llu", (unsigned long long)ctl_read_count(r)));
}

static void read_line(struct ctl *c, struct json_reader *r, struct sequence_line *l) {
        struct str key;

        for (json_enter_object(r); json_next_key(r, &c->arena, &key);) {
                if (str_is(key, "id")) {
                        l->id = read_id(c, r);
                } else if (str_is(key, "instance")) {
                        l->instance = json_read_string(r, &c->arena);
                } else if (str_is(key, "slot")) {
                        l->slot = ctl_read_count(r);
                        l->has_slot = true;
                } else if (str_is(key, "requests")) {
                        l->n_requests = ctl_read_count(r);
                } else if (str_is(key, "age_us")) {
                        l->age_us = ctl_read_count(r);
                } else if (str_is(key, "idle_us")) {
                        l->idle_us = ctl_read_count(r);
                } else if (str_is(key, "ending")) {
                        l->is_ending = read_flag(r);
                } else {
                        json_skip(r);
                }
        }
}

static const char *state_of(const struct load_head *h, const struct sequence_line *l) {
        if (l->is_ending)
                return h->has_retired ? "ending, on an old load" : "ending";
        if (!l->has_slot)
                return h->has_retired ? "backlog of an old load" : "backlog";
        return h->has_retired ? "on an old load" : "";
}

static void put_line(struct text_table *t, const struct load_head *h,
                     const struct sequence_line *l) {
        text_table_put(t, h->version);
        text_table_put(t, l->id);
        text_table_put(t, l->instance);
        if (l->has_slot)
                text_table_put_count(t, l->slot);
        else
                text_table_put(t, STR_LIT(""));
        text_table_put_count(t, l->n_requests);
        text_table_put_duration(t, (double)l->age_us * 1e3);
        if (l->n_requests == 0)
                text_table_put_duration(t, (double)l->idle_us * 1e3);
        else
                text_table_put(t, STR_LIT("-"));
        text_table_put(t, str_of(state_of(h, l)));
}

/* Reads ahead the members of a load other than its sequences, since they may follow these. */
static struct load_head read_head(struct ctl *c, struct json_reader r) {
        struct load_head h = { .version = STR_LIT("") };
        struct str       key;

        for (json_enter_object(&r); json_next_key(&r, &c->arena, &key);) {
                if (str_is(key, "version"))
                        h.version = json_read_string(&r, &c->arena);
                else if (str_is(key, "retired"))
                        h.has_retired = read_flag(&r);
                else if (str_is(key, "active"))
                        h.n_active = ctl_read_count(&r);
                else if (str_is(key, "backlog"))
                        h.n_backlog = ctl_read_count(&r);
                else if (str_is(key, "left_out"))
                        h.n_left_out = ctl_read_count(&r);
                else
                        json_skip(&r);
        }
        return h;
}

static void read_load(struct ctl *c, struct json_reader *r, struct text_table *t,
                      struct load_head *sum) {
        struct load_head h = read_head(c, *r);
        struct str       key;

        sum->n_active += h.n_active;
        sum->n_backlog += h.n_backlog;
        sum->n_left_out += h.n_left_out;
        for (json_enter_object(r); json_next_key(r, &c->arena, &key);) {
                if (!str_is(key, "sequences")) {
                        json_skip(r);
                        continue;
                }
                for (json_enter_array(r); json_next_element(r);) {
                        struct sequence_line l = { .n_requests = 0 };

                        read_line(c, r, &l);
                        put_line(t, &h, &l);
                }
        }
}

static void print_loads(struct ctl *c, struct json_reader *r) {
        struct load_head  sum = { .n_active = 0 };
        struct text_table t;

        text_table_init(&t, columns, ARRAY_LEN(columns));
        for (json_enter_array(r); json_next_element(r);)
                read_load(c, r, &t, &sum);
        if (sum.n_active + sum.n_backlog > 0)
                text_table_print(&t, &c->out);
        text_table_done(&t);
        strbuf_printf(&c->out, "%llu with a slot, %llu in the backlog",
                      (unsigned long long)sum.n_active, (unsigned long long)sum.n_backlog);
        if (sum.n_left_out > 0)
                strbuf_printf(&c->out, "; %llu are not listed", (unsigned long long)sum.n_left_out);
        strbuf_putc(&c->out, '\n');
}

struct error *ctl_sequences(struct ctl *c) {
        return ctl_print_member(c, ctl_model_path(c, "/sequences"), "model_sequences", print_loads);
}
