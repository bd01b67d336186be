/* SPDX-License-Identifier: BSD-3-Clause */
/* Loading, unloading, polling, and registration of repositories while a server runs. */
#include "api/api_types.h"
#include "base/mem.h"
#include "repo/load_parameters.h"
#include "repo/load_user.h"
#include "repo/override.h"
#include "repo/repo.h"
#include "server/repository_check.h"
#include "server/server.h"
#include "triton/core/neso.h"

#include <inttypes.h>
#include <string.h>

DEFINE_API_TYPE(TRITONSERVER_Server, server)
DEFINE_API_TYPE(TRITONSERVER_ServerOptions, server_options)

struct TRITONSERVER_Error *TRITONSERVER_ServerLoadModel(struct TRITONSERVER_Server *server,
                                                        const char                 *model_name) {
        API_NEEDS(server, model_name);
        return error_to_api(server_load_model(server_from_api(server), model_name, NULL));
}

/* The string value of a parameter, or of a boolean that stands for one. */
static const char *text_of(const struct parameter *p) {
        if (p->type == PARAMETER_BOOL)
                return p->boolean ? "true" : "false";
        return p->type == PARAMETER_STRING ? p->string : NULL;
}

/* Reads one parameter of a load; `files` and `chain` have room for one more. */
static struct error *read_load_parameter(const struct parameter *p, struct repo_override *o,
                                         struct override_file  *files,
                                         struct load_parameter *chain) {
        static const char prefix[] = "file:";

        if (load_parameter_is_known(p->name) && text_of(p) != NULL) {
                chain[o->n_parameters++] = (struct load_parameter){ p->name, text_of(p) };
                return NULL;
        }

        if (strcmp(p->name, "config") == 0 && p->type == PARAMETER_STRING) {
                o->config_json = p->string;
                return NULL;
        }
        if (strncmp(p->name, prefix, strlen(prefix)) == 0 && p->type == PARAMETER_BYTES) {
                files[o->n_files++] = (struct override_file){ .path = p->name + strlen(prefix),
                                                              .bytes = p->bytes,
                                                              .n_bytes = p->n_bytes };
                return NULL;
        }
        return error_new(ERR_INVALID_ARG,
                         "unrecognized load parameter '%s' with type '%s': 'config' must be a "
                         "string, 'file:<path>' must be bytes",
                         p->name,
                         TRITONSERVER_ParameterTypeString((TRITONSERVER_ParameterType)p->type));
}

static struct error *no_memory(void) {
        return error_new_text(ERR_UNAVAILABLE, "no memory for the load parameters");
}

/* What one load was called with. */
struct load_call {
        const char                           *model;
        const struct TRITONSERVER_Parameter **parameters;
        size_t                                n_parameters;
        struct load_permit                    permit;
};

static struct error *load_with(struct server *s, const struct load_call *c,
                               struct override_file *files, struct load_parameter *chain) {
        const struct TRITONSERVER_Parameter **parameters = c->parameters;
        struct repo_override o = { .files = files, .parameters = chain, .permit = c->permit };

        for (size_t i = 0; i < c->n_parameters; i++) {
                if (parameters[i] == NULL)
                        return error_new_text(ERR_INVALID_ARG, "a load parameter is NULL");
                TRY(read_load_parameter((const struct parameter *)parameters[i], &o, files, chain));
        }
        if (o.n_files > 0 && o.n_parameters > 0)
                return error_new(ERR_INVALID_ARG,
                                 "load parameter '%s' does not go with 'file:': say it in 'config'",
                                 chain[0].name);
        return server_load_model(s, c->model, &o);
}

static struct error *load_permitted(struct server *s, const struct load_call *c) {
        struct override_file  *files;
        struct load_parameter *chain = NULL;
        struct error          *err;
        size_t                 n = c->n_parameters, n_bytes, n_chain_bytes;

        if (!size_mul(n + 1, sizeof(*files), &n_bytes) ||
            !size_mul(n + 1, sizeof(*chain), &n_chain_bytes))
                return error_new_text(ERR_INTERNAL, "too many load parameters");
        files = try_zalloc(n_bytes);
        chain = try_zalloc(n_chain_bytes);
        err = files != NULL && chain != NULL ? load_with(s, c, files, chain) : no_memory();
        free(chain);
        free(files);
        return err;
}

static struct error *load_model(struct server *s, const char *name,
                                const struct TRITONSERVER_Parameter **parameters, size_t n) {
        return load_permitted(s, &(struct load_call){ .model = name,
                                                      .parameters = parameters,
                                                      .n_parameters = n });
}

struct TRITONSERVER_Error *TRITONSERVER_ServerLoadModelWithParameters(
        struct TRITONSERVER_Server *server, const char *model_name,
        const struct TRITONSERVER_Parameter **parameters, const uint64_t parameter_count) {
        API_NEEDS(server, model_name);
        if (parameter_count > 0)
                API_NEEDS(parameters);
        return error_to_api(
                load_model(server_from_api(server), model_name, parameters, parameter_count));
}

struct TRITONSERVER_Error *NESO_ServerLoadPermittedModel(
        struct TRITONSERVER_Server *server, const char *model_name,
        const struct TRITONSERVER_Parameter **parameters, const uint64_t parameter_count,
        NESO_ModelPermitFn_t permits, void *userp) {
        API_NEEDS(server, model_name, permits);
        if (parameter_count > 0)
                API_NEEDS(parameters);
        return error_to_api(load_permitted(server_from_api(server),
                                           &(struct load_call){ .model = model_name,
                                                                .parameters = parameters,
                                                                .n_parameters = parameter_count,
                                                                .permit = { permits, userp } }));
}

/* ---- chains ---------------------------------------------------------------------------------- */

/* Checks a stage before any model is loaded. */
static struct error *check_stage(const char *const *models, const struct NESO_LoadParameters *p,
                                 size_t at, size_t n) {
        if (models[at] == NULL)
                return error_new(ERR_INVALID_ARG, "stage %zu of the chain has no name", at + 1);
        if (p[at].parameter_count > 0 && p[at].parameters == NULL)
                return error_new(ERR_INVALID_ARG, "the load parameters of model '%s' are NULL",
                                 models[at]);
        for (size_t i = 0; i < p[at].parameter_count && at + 1 < n; i++) {
                const struct parameter *one = (const struct parameter *)p[at].parameters[i];

                if (one != NULL && strcmp(one->name, "next") == 0)
                        return error_new(ERR_INVALID_ARG,
                                         "load parameter 'next' of model '%s' is its place in the "
                                         "chain, and cannot be given",
                                         models[at]);
        }
        return NULL;
}

/* Loads a model with `next` as an additional load parameter. */
static struct error *load_stage(struct server *s, const char *model, const char *next,
                                const struct NESO_LoadParameters *p) {
        const struct TRITONSERVER_Parameter **all;
        struct parameter                     *last;
        struct error                         *err;
        size_t                                n = p->parameter_count, n_bytes;

        if (!size_mul(n + 1, sizeof(struct TRITONSERVER_Parameter *), &n_bytes))
                return error_new_text(ERR_INTERNAL, "too many load parameters");
        all = try_alloc(n_bytes);
        last = parameter_new("next", PARAMETER_STRING, next);
        if (all != NULL && last != NULL) {
                for (size_t i = 0; i < n; i++)
                        all[i] = p->parameters[i];
                all[n] = (const struct TRITONSERVER_Parameter *)last;
                err = load_model(s, model, all, n + 1);
        } else {
                err = error_new(ERR_UNAVAILABLE, "out of memory to load model '%s'", model);
        }
        parameter_free(last);
        free(all);
        return err;
}

struct TRITONSERVER_Error *NESO_ServerLoadChain(struct TRITONSERVER_Server *server,
                                                const char *const *models, uint64_t model_count,
                                                const struct NESO_LoadParameters *parameters,
                                                uint64_t parameters_count, const char **loaded) {
        struct server *s = server_from_api(server);

        API_NEEDS(server, models, parameters, loaded);
        if (model_count == 0)
                return error_to_api(
                        error_new_text(ERR_INVALID_ARG, "a chain has a model at least"));
        if (model_count != parameters_count)
                return error_to_api(error_new(ERR_INVALID_ARG,
                                              "a chain of %" PRIu64 " models has load parameters "
                                              "for %" PRIu64,
                                              model_count, parameters_count));
        for (uint64_t i = 0; i < model_count; i++)
                API_TRY(check_stage(models, parameters, i, model_count));
        for (uint64_t i = model_count; i-- > 0;) {
                const struct NESO_LoadParameters *p = &parameters[i];

                API_TRY(i + 1 < model_count
                                ? load_stage(s, models[i], models[i + 1], p)
                                : load_model(s, models[i], p->parameters, p->parameter_count));
        }
        for (uint64_t i = 0; i < model_count; i++)
                loaded[i] = models[i];
        return NULL;
}

/* ---- unloading, polling, repositories ---------------------------------------------------------- */

struct TRITONSERVER_Error *NESO_ThreadLoadsFor(const char *model_name, int64_t model_version) {
        (void)load_user_set((struct load_user){ model_name, model_version });
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerUnloadModel(struct TRITONSERVER_Server *server,
                                                          const char                 *model_name) {
        API_NEEDS(server, model_name);
        return error_to_api(server_unload_model(server_from_api(server), model_name));
}

struct TRITONSERVER_Error *TRITONSERVER_ServerUnloadModelAndDependents(
        struct TRITONSERVER_Server *server, const char *model_name) {
        API_NEEDS(server, model_name);
        return error_to_api(server_unload_model_with_needs(server_from_api(server), model_name,
                                                           &(struct load_permit){ 0 }));
}

struct TRITONSERVER_Error *NESO_ServerUnloadPermittedModels(struct TRITONSERVER_Server *server,
                                                            const char                 *model_name,
                                                            NESO_ModelPermitFn_t        permits,
                                                            void                       *userp) {
        API_NEEDS(server, model_name, permits);
        return error_to_api(
                server_unload_model_with_needs(server_from_api(server), model_name,
                                               &(struct load_permit){ permits, userp }));
}

struct TRITONSERVER_Error *TRITONSERVER_ServerPollModelRepository(
        struct TRITONSERVER_Server *server) {
        API_NEEDS(server);
        return error_to_api(server_poll(server_from_api(server)));
}

struct TRITONSERVER_Error *NESO_ServerStartPoll(struct TRITONSERVER_Server *server) {
        API_NEEDS(server);
        return error_to_api(server_start_poll(server_from_api(server)));
}

static struct error *register_with(struct server *s, const char *path,
                                   const struct TRITONSERVER_Parameter **mapping, size_t n,
                                   struct repo_name *names) {
        for (size_t i = 0; i < n; i++) {
                const struct parameter *p = (const struct parameter *)mapping[i];

                if (p == NULL)
                        return error_new_text(ERR_INVALID_ARG, "a name mapping is NULL");
                if (p->type != PARAMETER_STRING)
                        return error_new(ERR_INVALID_ARG,
                                         "Mapped model name must be a string, found another type "
                                         "for %s",
                                         p->name);
                names[i] = (struct repo_name){ .directory = p->name, .model = p->string };
        }
        return server_register_repository(s, path, names, n);
}

struct TRITONSERVER_Error *TRITONSERVER_ServerRegisterModelRepository(
        struct TRITONSERVER_Server *server, const char *repository_path,
        const struct TRITONSERVER_Parameter **name_mapping, const uint32_t mapping_count) {
        struct repo_name *names;
        struct error     *err;

        API_NEEDS(server, repository_path);
        if (mapping_count > 0)
                API_NEEDS(name_mapping);
        names = try_zalloc(((size_t)mapping_count + 1) * sizeof(*names));
        if (names == NULL)
                return error_to_api(error_new_text(ERR_INTERNAL, "too many name mappings"));
        err = register_with(server_from_api(server), repository_path, name_mapping, mapping_count,
                            names);
        free(names);
        return error_to_api(err);
}

struct TRITONSERVER_Error *TRITONSERVER_ServerUnregisterModelRepository(
        struct TRITONSERVER_Server *server, const char *repository_path) {
        API_NEEDS(server, repository_path);
        return error_to_api(server_unregister_repository(server_from_api(server), repository_path));
}

struct TRITONSERVER_Error *NESO_ModelRepositoryCheck(struct TRITONSERVER_ServerOptions *options,
                                                     const char                        *path,
                                                     struct TRITONSERVER_Message      **report) {
        struct message *m;

        API_NEEDS(options, path, report);
        API_TRY(repository_check(server_options_from_api(options), path, &m));
        *report = message_to_api(m);
        return NULL;
}
