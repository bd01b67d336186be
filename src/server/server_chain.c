/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/server_chain.h"

#include "base/mem.h"
#include "codec/json_writer.h"
#include "infer/message.h"
#include "infer/model.h"
#include "pipeline/chain_metrics.h"
#include "pipeline/chain_plan.h"
#include "repo/composed_model.h"
#include "repo/loaded_model.h"
#include "repo/model_kind.h"
#include "repo/repo.h"
#include "server/server.h"

/* The chain that begins with the model; NULL when none does. */
static struct composed_model *chain_of(const struct model *model) {
        struct composed_model *c = ((const struct loaded_model *)model->owner)->composed;

        return c != NULL && c->needs.kind != NEEDS_STEPS ? c : NULL;
}

const struct model *server_chain_last(const struct model *model, struct step_models **ret_held) {
        struct composed_model *c = chain_of(model);

        *ret_held = c != NULL ? composed_model_get(c) : NULL;
        return *ret_held != NULL ? (*ret_held)->models[(*ret_held)->n - 1] : model;
}

bool server_chain_is_decoupled(const struct model *model) {
        struct step_models *held;
        bool                is_decoupled;

        if (((const struct loaded_model *)model->owner)->composed == NULL)
                return model->is_decoupled;
        is_decoupled = server_chain_last(model, &held)->is_decoupled;
        step_models_unref(held);
        return is_decoupled;
}

/* `model` NULL: it is not loaded. */
static void print_stage(struct json_writer *w, const char *name, struct model *model,
                        bool is_ready) {
        AUTO_CHARS version = mem_printf("%lld", model != NULL ? (long long)model->version : 0);

        json_begin_object(w);
        json_member_string(w, "name", name);
        if (model != NULL) {
                json_member_string(w, "version", version);
        }
        json_member_bool(w, "ready", is_ready);
        json_end_object(w);
}

/* A stage is ready when its own instances are ready; the stages after it do not count. */
static bool is_ready_itself(struct model *model) {
        struct loaded_model *l = loaded_model_of(model);

        return l->composed != NULL && l->composed->needs.kind == NEEDS_NEXT ? l->kind->is_ready(l)
                                                                            : model_is_ready(model);
}

static void print_plan(struct json_writer *w, const struct chain_plan *plan) {
        for (uint32_t i = 0; i < chain_plan_count(plan); i++) {
                struct model *model = chain_plan_stage(plan, i);

                print_stage(w, model->name, model, is_ready_itself(model));
        }
}

#define MAX_STAGES 64 /* of an incomplete chain */

/* Prints a stage that may not be loaded. Returns a new reference to its model, NULL when it is not. */
static struct model *print_needed(struct server *s, struct json_writer *w,
                                  const struct model_need *need) {
        struct model *model = NULL;
        AUTO_ERROR    err = repo_get(s->repo, need->name, need->version, &model);

        print_stage(w, need->name, model, err == NULL && is_ready_itself(model));
        return model;
}

/* Prints the stages of an incomplete chain that begins with a model with `next`: follows the names. */
static void print_next_stages(struct server *s, struct json_writer *w, struct model *first) {
        struct composed_model *c = chain_of(first);
        struct model          *at = first;

        model_ref(first);
        print_stage(w, first->name, first, is_ready_itself(first));
        for (size_t i = 0; c != NULL && c->needs.kind == NEEDS_NEXT && i < MAX_STAGES; i++) {
                struct model *next = print_needed(s, w, &c->needs.items[0]);

                model_unref(at);
                at = next;
                c = next != NULL ? chain_of(next) : NULL;
        }
        model_unref(at);
}

/* Prints the stages of an incomplete chain: those of the list `stages`, or those that follow `next`. */
static void print_names(struct server *s, struct json_writer *w, struct model *first) {
        const struct composed_model *c = chain_of(first);

        if (c->needs.kind == NEEDS_NEXT) {
                print_next_stages(s, w, first);
                return;
        }
        for (size_t i = 0; i < MIN(c->needs.n, (size_t)MAX_STAGES); i++)
                model_unref(print_needed(s, w, &c->needs.items[i]));
}

struct error *server_model_chain(struct server *s, const char *name, int64_t version,
                                 struct message **ret) {
        AUTO_STRBUF         out = { 0 };
        struct json_writer  w = { .out = &out };
        struct model       *model;
        struct step_models *bound;
        uint32_t            max_batch;

        TRY(server_get_model(s, name, version, &model));
        if (chain_of(model) == NULL) {
                model_unref(model);
                return error_new(ERR_NOT_FOUND, "no chain begins with model '%s'", name);
        }
        bound = composed_model_get(chain_of(model));
        max_batch = bound != NULL ? chain_plan_max_batch(bound->plan) : model->io->max_batch_size;
        json_begin_object(&w);
        json_member_string(&w, "name", model->name);
        json_member_array(&w, "stages");
        if (bound != NULL)
                print_plan(&w, bound->plan);
        else
                print_names(s, &w, model);
        json_end_array(&w);
        json_member_u64(&w, "max_batch_size", max_batch);
        json_end_object(&w);
        step_models_unref(bound);
        model_unref(model);
        return message_new_take(&out, ret);
}

static void print_pair(struct json_writer *w, const char *key, uint64_t count, uint64_t ns) {
        json_member_object(w, key);
        json_member_u64(w, "count", count);
        json_member_u64(w, "ns", ns);
        json_end_object(w);
}

void server_chain_print_statistics(struct json_writer *w, const struct model *model) {
        const struct composed_model *c = chain_of(model);

        if (c == NULL)
                return;
        json_member_object(w, "chain");
        print_pair(w, "success", atomic_load(&c->metrics->n_success),
                   atomic_load(&c->metrics->success_ns));
        print_pair(w, "fail", atomic_load(&c->metrics->n_failure),
                   atomic_load(&c->metrics->failure_ns));
        json_end_object(w);
}
