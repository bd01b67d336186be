/* SPDX-License-Identifier: BSD-3-Clause */
/* The model repository extension. Loads take as long as the model and an index reads directories:
 * they run beside the loop. */
#include "grpc/rpc_control.h"

#include "codec/pb_build.h"
#include "control/load_parameter.h"
#include "core_api/core_error.h"
#include "grpc/rpc_map.h"
#include "grpc/rpc_survey.h"
#include "grpc_service.pb-c.h"
#include "net/loop.h"

#include "triton/core/tritonserver.h"

#include <string.h>

/* Override files of one load; a model has a handful. */
#define MAX_PARAMETERS 1024

/* One order to the repository while it runs beside the loop; in the call's arena. */
struct order {
        struct loop_work                work;
        struct grpc_call               *call;    /* borrowed: holds this */
        const char                     *model;   /* in arena */
        struct TRITONSERVER_Error      *failure; /* owned */
        bool                            with_dependents;
        size_t                          n_parameters;
        struct TRITONSERVER_Parameter **parameters; /* in arena; each owned */
        ProtobufCMessage               *answer;     /* in arena; of a load or an unload */
};

static struct order *new_order(struct grpc_call *call, loop_work_fn run, loop_work_fn done) {
        struct order *o = ARENA_NEW(&call->arena, struct order);

        o->work.run = run;
        o->work.done = done;
        o->work.gives_way = true;
        o->call = call;
        return o;
}

static void end_order(struct order *o) {
        for (size_t i = 0; i < o->n_parameters; i++)
                TRITONSERVER_ParameterDelete(o->parameters[i]);
        o->n_parameters = 0;
}

static void on_ordered(struct loop_work *w) {
        struct order *o = CONTAINER_OF(w, struct order, work);
        struct error *err = core_error_take(STEAL(o->failure));

        end_order(o);
        if (err)
                grpc_call_fail(o->call, err);
        else
                rpc_map_reply(o->call, o->answer);
}

static struct error *refuse_repository(const char *name) {
        return name[0] == '\0' ? NULL
                               : error_new_text(ERR_UNSUPPORTED,
                                                "'repository_name' specification is not supported");
}

/* ---- index ---- */

static struct TRITONSERVER_Error *ask_index(struct TRITONSERVER_Server  *core,
                                            const struct rpc_question   *question,
                                            struct TRITONSERVER_Message **ret) {
        return TRITONSERVER_ServerModelIndex(core, question->flags, ret);
}

struct error *rpc_repository_index(struct grpc_call *call, const ProtobufCMessage *request,
                                   ProtobufCMessage **ret_answer) {
        const Inference__RepositoryIndexRequest *q =
                RPC_REQUEST(Inference__RepositoryIndexRequest, request);

        TRY(refuse_repository(q->repository_name));
        rpc_survey_start(call, &(struct rpc_question){
                                       .type = &inference__repository_index_response__descriptor,
                                       .ask = ask_index,
                                       .flags = q->ready ? TRITONSERVER_INDEX_FLAG_READY : 0 });
        *ret_answer = NULL;
        return NULL;
}

/* ---- load ---- */

static void run_load(struct loop_work *w) {
        struct order *o = CONTAINER_OF(w, struct order, work);

        o->failure = TRITONSERVER_ServerLoadModelWithParameters(
                o->call->core, o->model, (const struct TRITONSERVER_Parameter **)o->parameters,
                o->n_parameters);
}

static struct error *refuse_load_type(const char *name, const char *expected) {
        return error_new(ERR_INVALID_ARG,
                         "invalid value type for load parameter '%s', expected %s.", name,
                         expected);
}

/* Bytes must outlive the parameter: they are in the arena, as all of the request. */
static struct error *new_parameter(const char *name, const Inference__ModelRepositoryParameter *p,
                                   struct TRITONSERVER_Parameter **ret) {
        if (load_parameter_is_of_chain(str_of(name)) &&
            p->parameter_choice_case ==
                    INFERENCE__MODEL_REPOSITORY_PARAMETER__PARAMETER_CHOICE_BOOL_PARAM) {
                *ret = TRITONSERVER_ParameterNew(name, TRITONSERVER_PARAMETER_STRING,
                                                 p->bool_param ? "true" : "false");
                return NULL;
        }
        if (strcmp(name, "config") == 0 || load_parameter_is_of_chain(str_of(name))) {
                if (p->parameter_choice_case !=
                    INFERENCE__MODEL_REPOSITORY_PARAMETER__PARAMETER_CHOICE_STRING_PARAM)
                        return refuse_load_type(name, "string_param");
                *ret = TRITONSERVER_ParameterNew(name, TRITONSERVER_PARAMETER_STRING,
                                                 p->string_param);
                return NULL;
        }
        if (!str_starts(str_of(name), STR_LIT("file:")))
                return error_new(ERR_INVALID_ARG, "unrecognized load parameter '%s'.", name);
        if (p->parameter_choice_case !=
            INFERENCE__MODEL_REPOSITORY_PARAMETER__PARAMETER_CHOICE_BYTES_PARAM)
                return refuse_load_type(name, "bytes_param");
        *ret = TRITONSERVER_ParameterBytesNew(name, p->bytes_param.data, p->bytes_param.len);
        return NULL;
}

static const Inference__ModelRepositoryParameter *value_of(
        const Inference__ModelRepositoryParameter *value) {
        static const Inference__ModelRepositoryParameter unset =
                INFERENCE__MODEL_REPOSITORY_PARAMETER__INIT;

        return value ? value : &unset;
}

static struct error *read_load(const Inference__RepositoryModelLoadRequest *q, struct order *o) {
        if (q->n_parameters > MAX_PARAMETERS)
                return error_new(ERR_INVALID_ARG, "more than %d load parameters", MAX_PARAMETERS);
        o->parameters =
                arena_alloc(&o->call->arena, MAX(q->n_parameters, 1) * sizeof(o->parameters[0]));
        for (size_t i = 0; i < q->n_parameters; i++) {
                TRY(new_parameter(q->parameters[i]->key, value_of(q->parameters[i]->value),
                                  &o->parameters[i]));
                o->n_parameters++;
        }
        return NULL;
}

struct error *rpc_repository_load(struct grpc_call *call, const ProtobufCMessage *request,
                                  ProtobufCMessage **ret_answer) {
        const Inference__RepositoryModelLoadRequest *q =
                RPC_REQUEST(Inference__RepositoryModelLoadRequest, request);
        struct order *o;
        struct error *err;

        TRY(refuse_repository(q->repository_name));
        o = new_order(call, run_load, on_ordered);
        o->model = q->model_name;
        TRY(pb_message_new(&inference__repository_model_load_response__descriptor, &call->arena,
                           &o->answer));
        err = read_load(q, o);
        if (err) {
                end_order(o);
                return err;
        }
        grpc_call_offload(call, &o->work);
        *ret_answer = NULL;
        return NULL;
}

/* ---- unload ---- */

static void run_unload(struct loop_work *w) {
        struct order *o = CONTAINER_OF(w, struct order, work);

        o->failure = o->with_dependents
                             ? TRITONSERVER_ServerUnloadModelAndDependents(o->call->core, o->model)
                             : TRITONSERVER_ServerUnloadModel(o->call->core, o->model);
}

static struct error *read_unload(const Inference__RepositoryModelUnloadRequest *q,
                                 struct order                                  *o) {
        for (size_t i = 0; i < q->n_parameters; i++) {
                const Inference__ModelRepositoryParameter *p = value_of(q->parameters[i]->value);

                if (strcmp(q->parameters[i]->key, "unload_dependents") != 0)
                        continue;
                if (p->parameter_choice_case !=
                    INFERENCE__MODEL_REPOSITORY_PARAMETER__PARAMETER_CHOICE_BOOL_PARAM)
                        return error_new_text(ERR_INVALID_ARG,
                                              "invalid value type for 'unload_dependents' "
                                              "parameter, expected bool_param.");
                o->with_dependents = p->bool_param;
        }
        return NULL;
}

struct error *rpc_repository_unload(struct grpc_call *call, const ProtobufCMessage *request,
                                    ProtobufCMessage **ret_answer) {
        const Inference__RepositoryModelUnloadRequest *q =
                RPC_REQUEST(Inference__RepositoryModelUnloadRequest, request);
        struct order *o;

        TRY(refuse_repository(q->repository_name));
        o = new_order(call, run_unload, on_ordered);
        o->model = q->model_name;
        TRY(pb_message_new(&inference__repository_model_unload_response__descriptor, &call->arena,
                           &o->answer));
        TRY(read_unload(q, o));
        grpc_call_offload(call, &o->work);
        *ret_answer = NULL;
        return NULL;
}
