/* SPDX-License-Identifier: BSD-3-Clause */
/* JSON about running models: statistics, live sequences, and call stacks of the processes that run
 * their instances. */
#include "backend/backend_instance.h"
#include "base/clock.h"
#include "base/mem.h"
#include "codec/json_writer.h"
#include "infer/message.h"
#include "infer/model.h"
#include "observe/batch_counts.h"
#include "observe/model_stats.h"
#include "repo/loaded_model.h"
#include "repo/model_instances.h"
#include "repo/repo.h"
#include "server/server.h"
#include "server/server_chain.h"

/* ---- statistics ----------------------------------------------------------------------------- */

static void put_pair(struct json_writer *w, const char *key, const struct stats_pair *pair) {
        json_member_object(w, key);
        json_member_u64(w, "count", pair->count);
        json_member_u64(w, "ns", pair->ns);
        json_end_object(w);
}

static void print_inference_stats(struct json_writer *w, const struct model_stats_snapshot *s) {
        json_member_object(w, "inference_stats");
        put_pair(w, "success", &s->success);
        put_pair(w, "fail", &s->fail);
        put_pair(w, "queue", &s->queue);
        put_pair(w, "compute_input", &s->compute_input);
        put_pair(w, "compute_infer", &s->compute_infer);
        put_pair(w, "compute_output", &s->compute_output);
        put_pair(w, "cache_hit", &s->cache_hit);
        put_pair(w, "cache_miss", &s->cache_miss);
        json_end_object(w);
}

static void print_response_stats(struct json_writer *w, const struct model_stats_snapshot *s) {
        json_member_object(w, "response_stats");
        for (size_t i = 0; i < s->n_responses; i++) {
                const struct response_stats *r = &s->responses[i];
                AUTO_CHARS                   key = mem_printf("%u", r->index);

                json_member_object(w, key);
                put_pair(w, "compute_infer", &r->compute_infer);
                put_pair(w, "compute_output", &r->compute_output);
                put_pair(w, "success", &r->success);
                put_pair(w, "fail", &r->fail);
                put_pair(w, "empty_response", &r->empty_response);
                put_pair(w, "cancel", &r->cancel);
                json_end_object(w);
        }
        json_end_object(w);
}

static void print_batch_stats(struct json_writer *w, const struct model_stats_snapshot *s) {
        json_member_array(w, "batch_stats");
        for (size_t i = 0; i < s->n_batches; i++) {
                json_begin_object(w);
                json_member_u64(w, "batch_size", s->batches[i].batch_size);
                put_pair(w, "compute_input", &s->batches[i].compute_input);
                put_pair(w, "compute_infer", &s->batches[i].compute_infer);
                put_pair(w, "compute_output", &s->batches[i].compute_output);
                json_end_object(w);
        }
        json_end_array(w);
}

static void print_memory(struct json_writer *w, const struct model_stats_snapshot *s) {
        json_member_array(w, "memory_usage");
        for (size_t i = 0; i < s->n_memory; i++) {
                json_begin_object(w);
                json_member_string(w, "type", s->memory[i].type);
                json_member_i64(w, "id", s->memory[i].id);
                json_member_u64(w, "byte_size", s->memory[i].byte_size);
                json_end_object(w);
        }
        json_end_array(w);
}

static void print_member(void *writer, const char *name, const struct member_counts *m) {
        struct json_writer *w = writer;

        json_begin_object(w);
        json_member_string(w, "name", name);
        json_member_u64(w, "min_rows", atomic_load(&m->min_rows));
        json_member_u64(w, "max_rows", atomic_load(&m->max_rows));
        json_member_u64(w, "instances", atomic_load(&m->n_instances));
        json_member_u64(w, "busy", atomic_load(&m->n_running));
        json_member_u64(w, "execution_count", atomic_load(&m->n_executions));
        json_member_u64(w, "row_count", atomic_load(&m->n_rows));
        json_member_u64(w, "busy_ns", atomic_load(&m->busy_ns));
        json_end_object(w);
}

/* Prints the members of a model with composite scheduling. */
static void print_members(struct json_writer *w, const struct model *model) {
        struct batch_counts *counts = model_stats_batches(model->stats);

        if (counts == NULL || !batch_counts_have_members(counts))
                return;
        json_member_array(w, "members");
        batch_counts_visit(counts, print_member, w);
        json_end_array(w);
}

static void print_statistics(struct json_writer *w, const struct model *model) {
        AUTO_CHARS                  version = mem_printf("%lld", (long long)model->version);
        struct model_stats_snapshot s;

        model_stats_read(model->stats, &s);
        json_begin_object(w);
        json_member_string(w, "name", model->name);
        json_member_string(w, "version", version);
        json_member_u64(w, "last_inference", s.last_inference_ms);
        json_member_u64(w, "inference_count", s.inference_count);
        json_member_u64(w, "execution_count", s.execution_count);
        print_inference_stats(w, &s);
        print_response_stats(w, &s);
        print_batch_stats(w, &s);
        print_memory(w, &s);
        server_chain_print_statistics(w, model);
        print_members(w, model);
        json_end_object(w);
        model_stats_snapshot_done(&s);
}

struct error *server_model_statistics(struct server *s, const char *name, int64_t version,
                                      struct message **ret) {
        AUTO_STRBUF        out = { 0 };
        struct json_writer w = { .out = &out };
        struct model     **models;
        size_t             n, n_printed = 0;

        TRY(server_check_started(s));
        TRY(repo_check_name(s->repo, name));
        n = repo_ready_models(s->repo, *name != '\0' ? name : NULL, &models);
        json_begin_object(&w);
        json_member_array(&w, "model_stats");
        for (size_t i = 0; i < n; i++) {
                if (version == -1 || models[i]->version == version) {
                        print_statistics(&w, models[i]);
                        n_printed++;
                }
                model_unref(models[i]);
        }
        free(models);
        json_end_array(&w);
        json_end_object(&w);
        if (*name != '\0' && n == 0)
                return error_new(ERR_INVALID_ARG, "requested model '%s' is not available", name);
        if (*name != '\0' && n_printed == 0)
                return error_new(ERR_INVALID_ARG,
                                 "requested model version is not available for model '%s'", name);
        return message_new_take(&out, ret);
}

/* ---- sequences ------------------------------------------------------------------------------ */

/* Sequences that an answer lists, and sequences that a scheduler copies at a time under its lock. */
#define MAX_SEQUENCES 1000
#define ROWS_AT_ONCE 32

static void print_row(struct json_writer *w, const struct sequence_row *row) {
        json_begin_object(w);
        json_key(w, "id");
        if (row->is_text)
                json_put_string(w, row->text);
        else
                json_put_u64(w, row->number);
        if (row->has_slot) {
                json_member_string(w, "instance", row->instance);
                json_member_u64(w, "slot", row->slot);
        }
        json_member_u64(w, "requests", row->n_requests);
        json_member_u64(w, "age_us", row->age_ns / NS_PER_US);
        json_member_u64(w, "idle_us", row->idle_ns / NS_PER_US);
        json_member_bool(w, "ending", row->is_ending);
        json_end_object(w);
}

/* Prints up to `max` sequences of a load, as rows; returns their number. */
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

/* Prints one load of the model; returns the number of sequences printed. */
static uint64_t print_load(struct json_writer *w, const struct model *model, uint64_t max) {
        AUTO_CHARS            version = mem_printf("%lld", (long long)model->version);
        struct scheduler     *s = model->scheduler;
        struct sequence_count count = s->sequences->count(s);
        uint64_t              n_live = count.n_active + count.n_backlog, n;

        json_begin_object(w);
        json_member_string(w, "name", model->name);
        json_member_string(w, "version", version);
        json_member_bool(w, "retired", atomic_load(&model->has_retired));
        json_member_u64(w, "active", count.n_active);
        json_member_u64(w, "backlog", count.n_backlog);
        json_member_array(w, "sequences");
        n = print_rows(w, s, max);
        json_end_array(w);
        json_member_u64(w, "left_out", n_live > n ? n_live - n : 0);
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
        struct json_writer w = { .out = &out };
        struct model     **loads;
        size_t             n_loads, n_printed = 0;
        uint64_t           n_rows = 0;
        bool               has_version = false;

        TRY(server_check_started(s));
        TRY(repo_check_name(s->repo, name));
        n_loads = repo_loads(s->repo, name, &loads);
        json_begin_object(&w);
        json_member_array(&w, "model_sequences");
        for (size_t i = 0; i < n_loads; i++) {
                bool is_requested = version == -1 || loads[i]->version == version;

                has_version |= is_requested;
                if (is_requested && model_has_sequences(loads[i])) {
                        n_rows += print_load(&w, loads[i], MAX_SEQUENCES - n_rows);
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

/* ---- call stacks ---------------------------------------------------------------------------- */

/* Limit for all instances together; the instances beyond it are left out. */
#define MAX_STACKS_BYTES ((size_t)1 << 20)

struct stacks_printer {
        struct json_writer w;
        struct strbuf     *out; /* borrowed */
        uint64_t           n_left_out;
};

static void print_instance(struct backend_instance *in, void *userp) {
        struct stacks_printer *p = userp;
        struct message        *stacks = NULL;
        AUTO_ERROR             err = NULL;

        if (p->out->len > MAX_STACKS_BYTES) {
                p->n_left_out++;
                return;
        }
        err = backend_instance_stacks(in, &stacks);
        json_begin_object(&p->w);
        json_member_string(&p->w, "name", in->name);
        json_key(&p->w, err != NULL ? "error" : "process");
        if (err != NULL)
                json_put_string(&p->w, err->message);
        else
                json_put_raw(&p->w, message_text(stacks));
        json_end_object(&p->w);
        message_free(stacks);
}

static void print_stacks(struct stacks_printer *p, struct model *model) {
        AUTO_CHARS version = mem_printf("%lld", (long long)model->version);

        json_begin_object(&p->w);
        json_member_string(&p->w, "name", model->name);
        json_member_string(&p->w, "version", version);
        json_member_array(&p->w, "instances");
        model_instances_visit(loaded_model_of(model), print_instance, p);
        json_end_array(&p->w);
        json_member_u64(&p->w, "left_out", p->n_left_out);
        json_end_object(&p->w);
}

struct error *server_model_stacks(struct server *s, const char *name, int64_t version,
                                  struct message **ret) {
        AUTO_STRBUF           out = { 0 };
        struct stacks_printer p = { .out = &out };
        const struct backend *backend;
        struct model         *model;
        struct error         *err = NULL;

        TRY(server_get_model(s, name, version, &model));
        backend = loaded_model_of(model)->backend.backend;
        if (backend == NULL || backend->entry.instance_stacks == NULL)
                err = error_new(ERR_UNSUPPORTED,
                                "the instances of model '%s' are not processes of their own, whose "
                                "stacks could be read",
                                name);
        if (err == NULL) {
                json_writer_init(&p.w, &out);
                print_stacks(&p, model);
                err = message_new_take(&out, ret);
        }
        model_unref(model);
        return err;
}
