/* SPDX-License-Identifier: BSD-3-Clause */
/* The live sequences of a model, as JSON. */
#include "server/server.h"

#include "base/clock.h"
#include "base/mem.h"
#include "codec/json_writer.h"
#include "infer/model.h"
#include "repo/repo.h"

/* Rows that an answer lists, and rows that are copied while a scheduler waits. */
#define MAX_ROWS 1000
#define ROWS_AT_ONCE 32

static void put_u64(struct json_writer *w, const char *key, uint64_t value) {
        json_key(w, key);
        json_put_u64(w, value);
}

static void print_row(struct json_writer *w, const struct sequence_row *row) {
        json_begin_object(w);
        json_key(w, "id");
        if (row->is_text)
                json_put_string(w, row->text);
        else
                json_put_u64(w, row->number);
        if (row->has_slot) {
                json_key(w, "instance");
                json_put_string(w, row->instance);
                put_u64(w, "slot", row->slot);
        }
        put_u64(w, "requests", row->n_requests);
        put_u64(w, "age_us", row->age_ns / NS_PER_US);
        put_u64(w, "idle_us", row->idle_ns / NS_PER_US);
        json_key(w, "ending");
        json_put_bool(w, row->is_ending);
        json_end_object(w);
}

/* Returns the number of rows. */
static uint64_t print_rows(struct json_writer *w, struct scheduler *s, uint64_t max) {
        struct sequence_row    rows[ROWS_AT_ONCE];
        struct sequence_cursor at = { 0 };
        uint64_t               n_printed = 0;

        while (!at.has_ended && n_printed < max) {
                size_t n = s->sequences->list(s, &at, rows,
                                              MIN((uint64_t)ROWS_AT_ONCE, max - n_printed));

                for (size_t i = 0; i < n; i++)
                        print_row(w, &rows[i]);
                n_printed += n;
        }
        return n_printed;
}

/* Returns the number of sequences listed. */
static uint64_t print_load(struct json_writer *w, const struct model *model, uint64_t max) {
        AUTO_CHARS            version = mem_printf("%lld", (long long)model->version);
        struct scheduler     *s = model->scheduler;
        struct sequence_count count = s->sequences->count(s);
        uint64_t              n_live = count.n_active + count.n_backlog, n;

        json_begin_object(w);
        json_key(w, "name");
        json_put_string(w, model->name);
        json_key(w, "version");
        json_put_string(w, version);
        json_key(w, "retired");
        json_put_bool(w, atomic_load(&model->has_retired));
        put_u64(w, "active", count.n_active);
        put_u64(w, "backlog", count.n_backlog);
        json_key(w, "sequences");
        json_begin_array(w);
        n = print_rows(w, s, max);
        json_end_array(w);
        put_u64(w, "left_out", n_live > n ? n_live - n : 0);
        json_end_object(w);
        return n;
}

static struct error *nothing_found(const char *name, size_t n_loads, bool has_version) {
        if (n_loads == 0)
                return error_new(ERR_INVALID_ARG, "requested model '%s' is not available", name);
        if (!has_version)
                return error_new(ERR_INVALID_ARG,
                                 "requested model version is not available for model '%s'", name);
        return error_new(ERR_INVALID_ARG, "model '%s' has no sequence_batching", name);
}

struct error *server_model_sequences(struct server *s, const char *name, int64_t version,
                                     struct message **ret) {
        AUTO_STRBUF        out = { 0 };
        struct json_writer w;
        struct model     **loads;
        size_t             n_loads, n_printed = 0;
        uint64_t           n_rows = 0;
        bool               has_version = false;

        TRY(server_check_started(s));
        TRY(repo_check_name(s->repo, name));
        n_loads = repo_loads(s->repo, name, &loads);
        strbuf_init(&out, 0);
        json_writer_init(&w, &out);
        json_begin_object(&w);
        json_key(&w, "model_sequences");
        json_begin_array(&w);
        for (size_t i = 0; i < n_loads; i++) {
                bool is_asked = version == -1 || loads[i]->version == version;

                has_version |= is_asked;
                if (is_asked && model_has_sequences(loads[i])) {
                        n_rows += print_load(&w, loads[i], MAX_ROWS - n_rows);
                        n_printed++;
                }
                model_unref(loads[i]);
        }
        free(loads);
        json_end_array(&w);
        json_end_object(&w);
        if (n_printed == 0)
                return nothing_found(name, n_loads, has_version);
        return message_new_take(&out, ret);
}
