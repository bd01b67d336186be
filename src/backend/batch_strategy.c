/* SPDX-License-Identifier: BSD-3-Clause */
#include "backend/batch_strategy.h"

#include "base/dl.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define PATH_PARAMETER "TRITON_BATCH_STRATEGY_PATH"
#define LIBRARY_NAME "batchstrategy.so"

typedef TRITONSERVER_Error *(*batcher_start_fn)(TRITONBACKEND_Batcher **batcher,
                                                TRITONBACKEND_Model    *model);
typedef TRITONSERVER_Error *(*batcher_stop_fn)(TRITONBACKEND_Batcher *batcher);
typedef TRITONSERVER_Error *(*batch_begin_fn)(const TRITONBACKEND_Batcher *batcher, void **userp);
typedef TRITONSERVER_Error *(*batch_include_fn)(TRITONBACKEND_Request *request, void *userp,
                                                bool *should_include);
typedef TRITONSERVER_Error *(*batch_end_fn)(void *userp);

enum { BATCHER_START, BATCHER_STOP, BATCH_BEGIN, BATCH_INCLUDE, BATCH_END, N_FUNCTIONS };

static const char *const names[N_FUNCTIONS] = {
        [BATCHER_START] = "TRITONBACKEND_ModelBatcherInitialize",
        [BATCHER_STOP] = "TRITONBACKEND_ModelBatcherFinalize",
        [BATCH_BEGIN] = "TRITONBACKEND_ModelBatchInitialize",
        [BATCH_INCLUDE] = "TRITONBACKEND_ModelBatchIncludeRequest",
        [BATCH_END] = "TRITONBACKEND_ModelBatchFinalize",
};

struct batch_strategy {
        struct batch_filter    filter;
        struct backend_model  *model;   /* borrowed */
        struct dl             *library; /* owned; NULL: the backend has the functions */
        struct plugin_place    place;
        dl_symbol_fn           functions[N_FUNCTIONS];
        TRITONBACKEND_Batcher *batcher; /* belongs to the library */
        bool                   is_started;
        bool                   is_in_batch; /* `userp` is valid */
        void                  *userp; /* belongs to the library: state of the batch being formed */
};

/* ---- batches --------------------------------------------------------------------------------- */

static struct batch_strategy *self(struct batch_filter *f) {
        return CONTAINER_OF(f, struct batch_strategy, filter);
}

/* Logs a failure. A batch whose begin function failed is formed without the filter. */
static bool succeeded(const struct batch_strategy *s, int function, TRITONSERVER_Error *returned) {
        AUTO_ERROR err = (struct error *)returned;

        if (err != NULL)
                log_error("model '%s' version %lld: %s of '%s' failed: %s", s->model->name,
                          (long long)s->model->version, names[function], s->place.library,
                          err->message);
        return err == NULL;
}

static void on_begin(struct batch_filter *f) {
        struct batch_strategy *s = self(f);
        PLUGIN_CALL(&s->place, names[BATCH_BEGIN]);

        s->userp = NULL;
        s->is_in_batch =
                succeeded(s, BATCH_BEGIN,
                          ((batch_begin_fn)s->functions[BATCH_BEGIN])(s->batcher, &s->userp));
}

static bool on_admits(struct batch_filter *f, struct request *req) {
        struct batch_strategy *s = self(f);
        bool                   is_admitted = false;
        PLUGIN_CALL(&s->place, names[BATCH_INCLUDE]);

        if (!s->is_in_batch)
                return true;
        return succeeded(s, BATCH_INCLUDE,
                         ((batch_include_fn)s->functions[BATCH_INCLUDE])(
                                 (TRITONBACKEND_Request *)req, s->userp, &is_admitted)) &&
               is_admitted;
}

static void on_batch_end(struct batch_filter *f) {
        struct batch_strategy *s = self(f);
        PLUGIN_CALL(&s->place, names[BATCH_END]);

        if (s->is_in_batch)
                (void)succeeded(s, BATCH_END, ((batch_end_fn)s->functions[BATCH_END])(s->userp));
        s->is_in_batch = false;
}

static const struct batch_filter_ops strategy_ops = {
        .begin = on_begin,
        .admits = on_admits,
        .end = on_batch_end,
};

/* ---- the library ----------------------------------------------------------------------------- */

/* True when "/m/../x" leads out of "/m". Links are the operator's own and may lead out. */
static bool escapes(const char *path, const char *directory) {
        size_t      len = strlen(directory);
        const char *rest = path + len;
        int         depth = 0;

        if (strncmp(path, directory, len) != 0 || (*rest != '/' && *rest != '\0'))
                return true;
        while (*rest != '\0' && depth >= 0) {
                size_t n;

                rest += strspn(rest, "/");
                n = strcspn(rest, "/");
                if (n == 2 && strncmp(rest, "..", 2) == 0)
                        depth--;
                else if (n > 0 && !(n == 1 && *rest == '.'))
                        depth++;
                rest += n;
        }
        return depth <= 0;
}

/* `directory` is that of the model. */
static struct error *path_of_parameter(const char *directory, const char *given, char **ret) {
        AUTO_CHARS path = *given == '/' ? mem_strdup(given) : path_join(directory, given);
        AUTO_CHARS real = realpath(directory, NULL); /* the repository may be a relative path */

        if (escapes(path, directory) && (real == NULL || escapes(path, real)))
                return error_new(ERR_INVALID_ARG,
                                 "Batching library path escapes model repository.");
        if (!file_exists(path))
                return error_new(ERR_INVALID_ARG, "Batching library path not found: %s", path);
        *ret = STEAL(path);
        return NULL;
}

/* NULL when there is none. */
static char *find_path(const struct backend_model *m) {
        AUTO_CHARS version =
                mem_printf("%s/%lld/" LIBRARY_NAME, m->directory, (long long)m->version);
        AUTO_CHARS model = path_join(m->directory, LIBRARY_NAME);
        AUTO_CHARS backend = path_join(m->backend->directory, LIBRARY_NAME);

        if (file_exists(version))
                return STEAL(version);
        if (file_exists(model))
                return STEAL(model);
        return file_exists(backend) ? STEAL(backend) : NULL;
}

/* False when the backend exports none of the functions, and so has no strategy. */
static bool has_any(struct dl *library) {
        for (int i = 0; i < N_FUNCTIONS; i++)
                if (dl_find(library, names[i]) != NULL)
                        return true;
        return false;
}

static struct error *start_strategy(struct batch_strategy *s) {
        batcher_start_fn initialise = (batcher_start_fn)s->functions[BATCHER_START];
        PLUGIN_CALL(&s->place, names[BATCHER_START]);

        TRY((struct error *)initialise(&s->batcher, (TRITONBACKEND_Model *)s->model));
        s->is_started = true;
        return NULL;
}

static struct error *open_library(struct batch_strategy *s, const char *path) {
        if (path != NULL)
                TRY(dl_open(path, &s->library));

        struct dl *library = path != NULL ? s->library : s->model->backend->library;

        s->place = (struct plugin_place){ dl_path(library), s->model->name, s->model->version };
        TRY(dl_get_all(library, names, N_FUNCTIONS, s->functions));
        return start_strategy(s);
}

static bool is_batched(const struct backend_model *m, const char *given) {
        switch (m->config->pb->scheduling_choice_case) {
        case INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING: return true;
        case INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING:
                if (given != NULL)
                        log_warn(PATH_PARAMETER " cannot be specified with sequence batcher, using "
                                                "default batching strategy");
                return false;
        default:
                if (given != NULL)
                        log_warn("model '%s': " PATH_PARAMETER " has no effect without "
                                 "dynamic_batching",
                                 m->name);
                return false;
        }
}

/* `path` may be NULL. */
static bool is_in_directory(const char *path, const char *directory) {
        return path != NULL && str_starts(str_of(path), str_of(directory));
}

static struct error *refuse_sent(const struct backend_model *m, const char *path) {
        return error_new(ERR_UNSUPPORTED,
                         "Uploaded code is disabled: the batching library '%s' of model '%s' came "
                         "with its load. Start the server with '--allow-uploaded-backends=true' to "
                         "enable.",
                         strrchr(path, '/') + 1, m->name);
}

struct error *batch_strategy_check(const struct model_config *config, const char *directory) {
        const char *given = model_config_find_parameter(config, PATH_PARAMETER);
        AUTO_CHARS  path = NULL;

        if (given == NULL || config->pb->scheduling_choice_case !=
                                     INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING)
                return NULL;
        return model_config_at_parameter(config, PATH_PARAMETER,
                                         path_of_parameter(directory, given, &path));
}

struct error *batch_strategy_open(struct backend_model *model, struct batch_strategy **ret) {
        const char            *given = model_config_find_parameter(model->config, PATH_PARAMETER);
        AUTO_CHARS             path = NULL;
        struct batch_strategy *s;

        *ret = NULL;
        if (!is_batched(model, given))
                return NULL;
        if (given != NULL)
                TRY(path_of_parameter(model->directory, given, &path));
        else
                path = find_path(model);
        if (model->is_sent && (given != NULL || is_in_directory(path, model->directory)))
                return refuse_sent(model, path);
        if (path == NULL && !has_any(model->backend->library))
                return NULL;

        s = mem_zalloc(sizeof(*s));
        s->filter.ops = &strategy_ops;
        s->model = model;
        TRY_OR(open_library(s, path), batch_strategy_close(s));
        *ret = s;
        return NULL;
}

void batch_strategy_close(struct batch_strategy *s) {
        if (s == NULL)
                return;
        if (s->is_started) {
                PLUGIN_CALL(&s->place, names[BATCHER_STOP]);

                (void)succeeded(s, BATCHER_STOP,
                                ((batcher_stop_fn)s->functions[BATCHER_STOP])(s->batcher));
        }
        dl_close(s->library);
        free(s);
}

struct batch_filter *batch_strategy_filter(struct batch_strategy *s) {
        return s != NULL ? &s->filter : NULL;
}
