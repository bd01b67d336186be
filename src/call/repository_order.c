/* SPDX-License-Identifier: BSD-3-Clause */
#include "call/repository_order.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "core_api/core_error.h"
#include "triton/core/neso.h"
#include "triton/core/tritonserver.h"

/* A model has a handful of files. */
#define MAX_PARAMETERS 1024

enum load_parameter_kind load_parameter_kind(struct str name) {
        static const char *const of_chains[] = { "next", "next_map", "chain_batching",
                                                 "chain_allow_end", "chain_autoload" };

        if (str_is(name, "config"))
                return LOAD_PARAMETER_TEXT;
        for (size_t i = 0; i < ARRAY_LEN(of_chains); i++)
                if (str_is(name, of_chains[i]))
                        return LOAD_PARAMETER_TEXT_OR_BOOL;
        return str_starts(name, STR_LIT("file:")) ? LOAD_PARAMETER_FILE : LOAD_PARAMETER_UNKNOWN;
}

/* Called by the core, on the thread of the work. */
static bool permits(const char *model, void *userp) {
        struct repository_order *o = userp;

        if (access_grants_model(o->access, str_of(model)))
                return true;
        if (o->refused == NULL)
                o->refused = mem_strdup(model);
        return false;
}

static void run_load(struct loop_work *w) {
        struct repository_order              *o = CONTAINER_OF(w, struct repository_order, work);
        const struct TRITONSERVER_Parameter **parameters =
                (const struct TRITONSERVER_Parameter **)o->parameters;

        o->failure =
                o->access != NULL
                        ? NESO_ServerLoadPermittedModel(o->core, o->model, parameters,
                                                        o->n_parameters, permits, o)
                        : TRITONSERVER_ServerLoadModelWithParameters(o->core, o->model, parameters,
                                                                     o->n_parameters);
}

static struct TRITONSERVER_Error *unload_with_dependents(struct repository_order *o) {
        return o->access != NULL ? NESO_ServerUnloadPermittedModels(o->core, o->model, permits, o)
                                 : TRITONSERVER_ServerUnloadModelAndDependents(o->core, o->model);
}

static void run_unload(struct loop_work *w) {
        struct repository_order *o = CONTAINER_OF(w, struct repository_order, work);

        o->failure = o->with_dependents ? unload_with_dependents(o)
                                        : TRITONSERVER_ServerUnloadModel(o->core, o->model);
}

static void refuse_order(struct loop_work *w, struct error *err) {
        CONTAINER_OF(w, struct repository_order, work)->failure = core_error_give(err);
}

void repository_order_init(struct repository_order *o, enum repository_order_kind kind,
                           struct TRITONSERVER_Server *core, const char *model, loop_work_fn done) {
        *o = (struct repository_order){
                .work = { .run = kind == REPOSITORY_LOAD ? run_load : run_unload,
                          .refuse = refuse_order,
                          .done = done,
                          .is_background = true },
                .core = core,
                .model = model,
        };
}

static struct error *make_room(struct repository_order *o, struct arena *arena) {
        if (o->n_parameters == MAX_PARAMETERS)
                return error_new(ERR_INVALID_ARG, "more than %d load parameters", MAX_PARAMETERS);
        if (o->parameters == NULL)
                o->parameters = arena_alloc(arena, MAX_PARAMETERS * sizeof(o->parameters[0]));
        return NULL;
}

/* Takes the parameter; NULL: there was no memory for it. */
static struct error *add_order_parameter(struct repository_order *o, const char *name,
                                         struct TRITONSERVER_Parameter *parameter) {
        if (parameter == NULL)
                return error_new(ERR_UNAVAILABLE, "no memory for load parameter '%s'", name);
        o->parameters[o->n_parameters++] = parameter;
        return NULL;
}

struct error *repository_order_add_text(struct repository_order *o, struct arena *arena,
                                        const char *name, const char *value) {
        TRY(make_room(o, arena));
        return add_order_parameter(o, name,
                                   TRITONSERVER_ParameterNew(name, TRITONSERVER_PARAMETER_STRING,
                                                             value));
}

struct error *repository_order_add_file(struct repository_order *o, struct arena *arena,
                                        const char *name, struct str bytes) {
        TRY(make_room(o, arena));
        return add_order_parameter(o, name,
                                   TRITONSERVER_ParameterBytesNew(name, bytes.ptr, bytes.len));
}

void repository_order_limit(struct repository_order *o, const struct access *access) {
        if (access_is_limited(access))
                o->access = access;
}

struct error *repository_order_answer(struct repository_order *o, struct access *access,
                                      struct arena *arena, enum access_verdict *ret_verdict) {
        AUTO_CHARS    refused = STEAL(o->refused);
        struct error *err = repository_order_end(o);
        const char   *text;

        *ret_verdict = ACCESS_GRANTED;
        if (refused == NULL)
                return err;
        *ret_verdict = access_check_model(access, str_of(refused), arena, &text);
        if (*ret_verdict == ACCESS_GRANTED) /* the key file has granted it since */
                return err;
        error_free(err);
        return error_new_text(ERR_UNAVAILABLE, text);
}

struct error *repository_order_end(struct repository_order *o) {
        free(STEAL(o->refused));
        for (size_t i = 0; i < o->n_parameters; i++)
                TRITONSERVER_ParameterDelete(o->parameters[i]);
        o->n_parameters = 0;
        return core_error_take(STEAL(o->failure));
}

struct error *repository_order_refuse_name(void) {
        return error_new_text(ERR_UNSUPPORTED, "'repository_name' specification is not supported");
}
