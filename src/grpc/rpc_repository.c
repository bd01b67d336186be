/* SPDX-License-Identifier: BSD-3-Clause */
/* The model repository extension: index, load, unload. */
#include "call/model_query.h"
#include "call/repository_order.h"
#include "codec/pb_build.h"
#include "grpc/rpc_map.h"
#include "grpc/rpc_methods.h"
#include "grpc_service.pb-c.h"

#include <string.h>

/* In the call's arena. */
struct order {
        struct repository_order order;
        struct grpc_call       *call;   /* borrowed: holds this */
        ProtobufCMessage       *answer; /* in arena */
};

static void on_ordered(struct loop_work *w) {
        struct order       *o = CONTAINER_OF(w, struct order, order.work);
        enum access_verdict verdict;
        struct error       *err =
                repository_order_answer(&o->order, &o->call->access, &o->call->arena, &verdict);

        if (verdict != ACCESS_GRANTED) {
                AUTO_ERROR refusal = err;

                grpc_call_finish(o->call, grpc_code_of_access(verdict), refusal->message);
        } else if (err != NULL)
                grpc_call_fail(o->call, err);
        else
                rpc_map_reply(o->call, o->answer);
}

static struct order *new_order(struct grpc_call *call, enum repository_order_kind kind,
                               const char *model) {
        struct order *o = ARENA_NEW(&call->arena, struct order);

        repository_order_init(&o->order, kind, call->core, model, on_ordered);
        repository_order_limit(&o->order, &call->access);
        o->call = call;
        return o;
}

/* Starts the order, or returns the error of reading it; takes the error. */
static struct error *start_order(struct order *o, struct error *err) {
        if (err != NULL)
                error_free(repository_order_end(&o->order)); /* nothing was ordered */
        else
                grpc_call_start_work_thread(o->call, &o->order.work);
        return err;
}

static struct error *refuse_repository(const char *name) {
        return name[0] == '\0' ? NULL : repository_order_refuse_name();
}

/* ---- index ---- */

struct error *rpc_repository_index(struct grpc_call *call, const ProtobufCMessage *request,
                                   ProtobufCMessage **ret_answer) {
        const Inference__RepositoryIndexRequest *q =
                RPC_REQUEST(Inference__RepositoryIndexRequest, request);
        const struct model_query query = { .kind = MODEL_QUERY_INDEX,
                                           .model = "",
                                           .only_ready = q->ready };

        TRY(refuse_repository(q->repository_name));
        rpc_metadata_reply_bulk(call, &query, &inference__repository_index_response__descriptor);
        *ret_answer = NULL;
        return NULL;
}

/* ---- load ---- */

static struct error *refuse_load_type(const char *name, const char *expected) {
        return error_new(ERR_INVALID_ARG,
                         "invalid value type for load parameter '%s', expected %s.", name,
                         expected);
}

static struct error *add_text(struct order *o, const char *name,
                              const Inference__ModelRepositoryParameter *p) {
        bool is_bool = p->parameter_choice_case ==
                       INFERENCE__MODEL_REPOSITORY_PARAMETER__PARAMETER_CHOICE_BOOL_PARAM;

        if (is_bool && load_parameter_kind(str_of(name)) == LOAD_PARAMETER_TEXT_OR_BOOL)
                return repository_order_add_text(&o->order, &o->call->arena, name,
                                                 p->bool_param ? "true" : "false");
        if (p->parameter_choice_case !=
            INFERENCE__MODEL_REPOSITORY_PARAMETER__PARAMETER_CHOICE_STRING_PARAM)
                return refuse_load_type(name, "string_param");
        return repository_order_add_text(&o->order, &o->call->arena, name, p->string_param);
}

static struct error *add_parameter(struct order *o, const char *name,
                                   const Inference__ModelRepositoryParameter *p) {
        enum load_parameter_kind kind = load_parameter_kind(str_of(name));

        if (kind == LOAD_PARAMETER_UNKNOWN)
                return error_new(ERR_INVALID_ARG, "unrecognized load parameter '%s'.", name);
        if (kind != LOAD_PARAMETER_FILE)
                return add_text(o, name, p);
        if (p->parameter_choice_case !=
            INFERENCE__MODEL_REPOSITORY_PARAMETER__PARAMETER_CHOICE_BYTES_PARAM)
                return refuse_load_type(name, "bytes_param");
        return repository_order_add_file(&o->order, &o->call->arena, name,
                                         str_range((const char *)p->bytes_param.data,
                                                   p->bytes_param.len));
}

static const Inference__ModelRepositoryParameter *value_of(
        const Inference__ModelRepositoryParameter *value) {
        static const Inference__ModelRepositoryParameter unset =
                INFERENCE__MODEL_REPOSITORY_PARAMETER__INIT;

        return value != NULL ? value : &unset;
}

static struct error *read_load(const Inference__RepositoryModelLoadRequest *q, struct order *o) {
        TRY(pb_message_new(&inference__repository_model_load_response__descriptor, &o->call->arena,
                           &o->answer));
        for (size_t i = 0; i < q->n_parameters; i++)
                TRY(add_parameter(o, q->parameters[i]->key, value_of(q->parameters[i]->value)));
        return NULL;
}

struct error *rpc_repository_load(struct grpc_call *call, const ProtobufCMessage *request,
                                  ProtobufCMessage **ret_answer) {
        const Inference__RepositoryModelLoadRequest *q =
                RPC_REQUEST(Inference__RepositoryModelLoadRequest, request);
        struct order *o;

        *ret_answer = NULL;
        TRY(refuse_repository(q->repository_name));
        o = new_order(call, REPOSITORY_LOAD, q->model_name);
        return start_order(o, read_load(q, o));
}

/* ---- unload ---- */

static struct error *read_unload(const Inference__RepositoryModelUnloadRequest *q,
                                 struct order                                  *o) {
        TRY(pb_message_new(&inference__repository_model_unload_response__descriptor,
                           &o->call->arena, &o->answer));
        for (size_t i = 0; i < q->n_parameters; i++) {
                const Inference__ModelRepositoryParameter *p = value_of(q->parameters[i]->value);

                if (strcmp(q->parameters[i]->key, "unload_dependents") != 0)
                        continue;
                if (p->parameter_choice_case !=
                    INFERENCE__MODEL_REPOSITORY_PARAMETER__PARAMETER_CHOICE_BOOL_PARAM)
                        return error_new_text(ERR_INVALID_ARG,
                                              "invalid value type for 'unload_dependents' "
                                              "parameter, expected bool_param.");
                o->order.with_dependents = p->bool_param;
        }
        return NULL;
}

struct error *rpc_repository_unload(struct grpc_call *call, const ProtobufCMessage *request,
                                    ProtobufCMessage **ret_answer) {
        const Inference__RepositoryModelUnloadRequest *q =
                RPC_REQUEST(Inference__RepositoryModelUnloadRequest, request);
        struct order *o;

        *ret_answer = NULL;
        TRY(refuse_repository(q->repository_name));
        o = new_order(call, REPOSITORY_UNLOAD, q->model_name);
        return start_order(o, read_unload(q, o));
}
