/* SPDX-License-Identifier: BSD-3-Clause */
/* Metadata of server and models, configurations and the repository index, as JSON. */
#include "base/mem.h"
#include "codec/json_writer.h"
#include "config/model_config.h"
#include "infer/model.h"
#include "pipeline/step_models.h"
#include "repo/model_instances.h"
#include "repo/repo.h"
#include "server/core_metrics.h"
#include "server/server.h"
#include "server/server_chain.h"

#include <stdio.h>

/* Server metadata reports the version of the reference server whose behaviour and protocols we provide,
 * since clients and tools compare it. Our own version, NESO_VERSION, comes from the build. */
#define SERVER_VERSION "2.64.0"

static const char *const extensions[] = {
        "classification",
        "sequence",
        "model_repository",
        "model_repository(unload_dependents)",
        "schedule_policy",
        "model_configuration",
        "system_shared_memory",
        "cuda_shared_memory",
        "binary_tensor_data",
        "parameters",
        "statistics",
        "trace",
        "logging",
};

struct error *server_metadata(struct server *s, struct message **ret) {
        AUTO_STRBUF        out = { 0 };
        struct json_writer w = { .out = &out };

        json_begin_object(&w);
        json_member_string(&w, "name", s->id);
        json_member_string(&w, "version", SERVER_VERSION);
        json_member_array(&w, "extensions");
        for (size_t i = 0; i < ARRAY_LEN(extensions); i++)
                json_put_string(&w, extensions[i]);
        json_end_array(&w);
        json_end_object(&w);
        return message_new_take(&out, ret);
}

static void print_tensors(struct json_writer *w, const struct model_io *tensors, uint32_t n,
                          bool is_batched) {
        json_begin_array(w);
        for (uint32_t i = 0; i < n; i++) {
                const struct model_io *t = &tensors[i];

                json_begin_object(w);
                json_member_string(w, "name", t->name);
                json_member_string(w, "datatype", data_type_name(t->type));
                json_member_array(w, "shape");
                if (is_batched)
                        json_put_i64(w, -1);
                for (uint32_t d = 0; d < t->n_dims; d++)
                        json_put_i64(w, t->dims[d]);
                json_end_array(w);
                json_end_object(w);
        }
        json_end_array(w);
}

static void print_versions(struct server *s, const struct model *model, int64_t version,
                           struct json_writer *w) {
        const struct model_key key = { .namespace = model->namespace, .name = model->name };
        int64_t               *versions;
        size_t                 n = repo_ready_versions(s->repo, &key, &versions);

        json_begin_array(w);
        for (size_t i = 0; i < n; i++) {
                AUTO_CHARS text = mem_printf("%lld", (long long)versions[i]);

                if (version == -1 || versions[i] == version)
                        json_put_string(w, text);
        }
        json_end_array(w);
        free(versions);
}

/* Prints the outputs: for a model with a `next`, those of the last model of the chain. */
static void print_outputs(struct json_writer *w, const struct model *model) {
        struct step_models        *held;
        const struct model_io_set *io = server_chain_last(model, &held)->io;

        print_tensors(w, io->outputs, io->n_outputs, io->max_batch_size > 0);
        step_models_unref(held);
}

struct error *server_model_metadata(struct server *s, const char *name, int64_t version,
                                    struct message **ret) {
        AUTO_STRBUF                   out = { 0 };
        struct json_writer            w = { .out = &out };
        struct model                 *model;
        const Inference__ModelConfig *pb;

        TRY(server_get_model(s, name, version, &model));
        pb = model->config->pb;
        json_begin_object(&w);
        json_member_string(&w, "name", model->name);
        json_key(&w, "versions");
        print_versions(s, model, version, &w);
        json_member_string(&w, "platform",
                           config_text_is_set(pb->platform) ? pb->platform : pb->backend);
        json_key(&w, "inputs");
        print_tensors(&w, model->io->inputs, model->io->n_inputs, model->io->max_batch_size > 0);
        json_key(&w, "outputs");
        print_outputs(&w, model);
        json_end_object(&w);
        model_unref(model);
        return message_new_take(&out, ret);
}

struct error *server_model_config(struct server *s, const char *name, int64_t version,
                                  uint32_t config_version, struct message **ret) {
        AUTO_STRBUF   out = { 0 };
        struct model *model;
        struct error *err;

        TRY(server_get_model(s, name, version, &model));
        err = model_print_config(model, config_version, &out);
        model_unref(model);
        return err != NULL ? err : message_new_take(&out, ret);
}

struct error *server_model_index(struct server *s, bool only_ready, struct message **ret) {
        AUTO_STRBUF       out = { 0 };
        struct repo_index index;

        TRY(server_check_started(s));
        repo_index_read(s->repo, only_ready, &index);
        repo_index_print(&index, &out);
        repo_index_done(&index);
        return message_new_take(&out, ret);
}

struct error *server_gpus(struct server *s, struct message **ret) {
        struct strbuf out = { 0 };

        core_metrics_print_gpus(s->core, &out);
        return message_new_take(&out, ret);
}
