/* SPDX-License-Identifier: BSD-3-Clause */
/* The statistics of models, as JSON. */
#include "server/server.h"

#include "base/mem.h"
#include "codec/json_writer.h"
#include "infer/model.h"
#include "observe/batch_counts.h"
#include "observe/model_stats.h"
#include "repo/repo.h"
#include "server/server_chain.h"

static void put_pair(struct json_writer *w, const char *key, const struct stats_pair *pair) {
        json_key(w, key);
        json_begin_object(w);
        json_key(w, "count");
        json_put_u64(w, pair->count);
        json_key(w, "ns");
        json_put_u64(w, pair->ns);
        json_end_object(w);
}

static void put_u64(struct json_writer *w, const char *key, uint64_t value) {
        json_key(w, key);
        json_put_u64(w, value);
}

static void print_inference_stats(struct json_writer *w, const struct model_stats_snapshot *s) {
        json_key(w, "inference_stats");
        json_begin_object(w);
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
        json_key(w, "response_stats");
        json_begin_object(w);
        for (size_t i = 0; i < s->n_responses; i++) {
                const struct response_stats *r = &s->responses[i];
                AUTO_CHARS                   key = mem_printf("%u", r->index);

                json_key(w, key);
                json_begin_object(w);
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
        json_key(w, "batch_stats");
        json_begin_array(w);
        for (size_t i = 0; i < s->n_batches; i++) {
                json_begin_object(w);
                put_u64(w, "batch_size", s->batches[i].batch_size);
                put_pair(w, "compute_input", &s->batches[i].compute_input);
                put_pair(w, "compute_infer", &s->batches[i].compute_infer);
                put_pair(w, "compute_output", &s->batches[i].compute_output);
                json_end_object(w);
        }
        json_end_array(w);
}

static void print_memory(struct json_writer *w, const struct model_stats_snapshot *s) {
        json_key(w, "memory_usage");
        json_begin_array(w);
        for (size_t i = 0; i < s->n_memory; i++) {
                json_begin_object(w);
                json_key(w, "type");
                json_put_string(w, s->memory[i].type);
                json_key(w, "id");
                json_put_i64(w, s->memory[i].id);
                put_u64(w, "byte_size", s->memory[i].byte_size);
                json_end_object(w);
        }
        json_end_array(w);
}

static void print_member(void *writer, const char *name, const struct member_counts *m) {
        struct json_writer *w = writer;

        json_begin_object(w);
        json_key(w, "name");
        json_put_string(w, name);
        put_u64(w, "min_rows", atomic_load(&m->min_rows));
        put_u64(w, "max_rows", atomic_load(&m->max_rows));
        put_u64(w, "instances", atomic_load(&m->n_instances));
        put_u64(w, "busy", atomic_load(&m->n_running));
        put_u64(w, "execution_count", atomic_load(&m->n_executions));
        put_u64(w, "row_count", atomic_load(&m->n_rows));
        put_u64(w, "busy_ns", atomic_load(&m->busy_ns));
        json_end_object(w);
}

/* For models whose instances take batches of certain sizes. */
static void print_members(struct json_writer *w, const struct model *model) {
        struct batch_counts *counts = model_stats_batches(model->stats);

        if (counts == NULL || !batch_counts_have_members(counts))
                return;
        json_key(w, "members");
        json_begin_array(w);
        batch_counts_visit(counts, print_member, w);
        json_end_array(w);
}

static void print_model(struct json_writer *w, const struct model *model) {
        AUTO_CHARS                  version = mem_printf("%lld", (long long)model->version);
        struct model_stats_snapshot s;

        model_stats_read(model->stats, &s);
        json_begin_object(w);
        json_key(w, "name");
        json_put_string(w, model->name);
        json_key(w, "version");
        json_put_string(w, version);
        put_u64(w, "last_inference", s.last_inference_ms);
        put_u64(w, "inference_count", s.inference_count);
        put_u64(w, "execution_count", s.execution_count);
        print_inference_stats(w, &s);
        print_response_stats(w, &s);
        print_batch_stats(w, &s);
        print_memory(w, &s);
        server_chain_print_statistics(w, model);
        print_members(w, model);
        json_end_object(w);
        model_stats_snapshot_done(&s);
}

/* For the READY versions of one model (version -1: all of them) or of all models (name ""). */
struct error *server_model_statistics(struct server *s, const char *name, int64_t version,
                                      struct message **ret) {
        AUTO_STRBUF        out = { 0 };
        struct json_writer w;
        struct model     **models;
        size_t             n, n_printed = 0;

        TRY(server_check_started(s));
        TRY(repo_check_name(s->repo, name));
        n = repo_ready_models(s->repo, *name != '\0' ? name : NULL, &models);
        strbuf_init(&out, 0);
        json_writer_init(&w, &out);
        json_begin_object(&w);
        json_key(&w, "model_stats");
        json_begin_array(&w);
        for (size_t i = 0; i < n; i++) {
                if (version == -1 || models[i]->version == version) {
                        print_model(&w, models[i]);
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
