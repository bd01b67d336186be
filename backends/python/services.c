/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/services.h"

#include "kit/json.h"
#include "kit/scratch.h"
#include "kit/stream.h"
#include "triton/core/neso.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Other servers do not have it. */
#pragma weak NESO_ThreadLoadsFor

#define MAX_METRICS 65536 /* limit for an instance's metrics, and for its families */
#define MAX_LABELS 64
#define MAX_BUCKETS 1024

struct metrics {
        TRITONSERVER_MetricFamily **families; /* owned; NULL: deleted */
        uint32_t                    n_families;
        TRITONSERVER_Metric       **metrics; /* owned; NULL: deleted */
        uint32_t                    n_metrics;
};

/* Result of a request: a text, or an error. */
struct outcome {
        char                text[64];
        TRITONSERVER_Error *err;
};

/* ---- metrics --------------------------------------------------------------------------------- */

static TRITONSERVER_Error *too_many(void) {
        return kit_error(TRITONSERVER_ERROR_UNAVAILABLE, "a model may have up to %d metrics",
                         MAX_METRICS);
}

/* Finds room for a pointer in the table; ids are indices. */
static bool reserve_place(void ***table, uint32_t *n, uint32_t *ret) {
        void **longer;

        for (uint32_t i = 0; i < *n; i++)
                if ((*table)[i] == NULL) {
                        *ret = i;
                        return true;
                }
        if (*n >= MAX_METRICS)
                return false;
        longer = realloc(*table, (*n + 1) * sizeof(*longer));
        if (longer == NULL)
                return false;
        longer[*n] = NULL;
        *table = longer;
        *ret = (*n)++;
        return true;
}

static TRITONSERVER_Error *open_table(struct instance *in) {
        if (in->metrics == NULL)
                in->metrics = kit_alloc_array(1, sizeof(*in->metrics));
        return in->metrics != NULL ? NULL : kit_error_no_memory(sizeof(*in->metrics), "metrics");
}

static TRITONSERVER_Error *family_new(struct instance *in, const struct kit_json_value *ask,
                                      struct outcome *out) {
        int64_t  kind = kit_json_int(kit_json_find(ask, "kind"), 0);
        uint32_t id;

        KIT_TRY(open_table(in));
        if (!reserve_place((void ***)&in->metrics->families, &in->metrics->n_families, &id))
                return too_many();
        KIT_TRY(TRITONSERVER_MetricFamilyNew(&in->metrics->families[id],
                                             (TRITONSERVER_MetricKind)kind,
                                             kit_json_string(kit_json_find(ask, "name"), ""),
                                             kit_json_string(kit_json_find(ask, "description"),
                                                             "")));
        (void)snprintf(out->text, sizeof(out->text), "%" PRIu32, id);
        return NULL;
}

static TRITONSERVER_MetricFamily **find_family(struct instance *in, int64_t id) {
        if (in->metrics == NULL || id < 0 || id >= in->metrics->n_families ||
            in->metrics->families[id] == NULL)
                return NULL;
        return &in->metrics->families[id];
}

static TRITONSERVER_Metric **find_metric(struct instance *in, int64_t id) {
        if (in->metrics == NULL || id < 0 || id >= in->metrics->n_metrics ||
            in->metrics->metrics[id] == NULL)
                return NULL;
        return &in->metrics->metrics[id];
}

static TRITONSERVER_Error *gone(const char *what) {
        return kit_error(TRITONSERVER_ERROR_NOT_FOUND, "there is no such %s", what);
}

static TRITONSERVER_Error *family_delete(struct instance *in, const struct kit_json_value *ask) {
        TRITONSERVER_MetricFamily **family =
                find_family(in, kit_json_int(kit_json_find(ask, "id"), -1));
        TRITONSERVER_Error *err;

        if (family == NULL)
                return gone("family");
        err = TRITONSERVER_MetricFamilyDelete(*family);
        if (err == NULL)
                *family = NULL;
        return err;
}

static TRITONSERVER_Error *metric_delete(struct instance *in, const struct kit_json_value *ask) {
        TRITONSERVER_Metric **metric = find_metric(in, kit_json_int(kit_json_find(ask, "id"), -1));
        TRITONSERVER_Error   *err;

        if (metric == NULL)
                return gone("metric");
        err = TRITONSERVER_MetricDelete(*metric);
        *metric = NULL;
        return err;
}

static TRITONSERVER_Error *metric_value(struct instance *in, const struct kit_json_value *ask,
                                        struct outcome *out) {
        TRITONSERVER_Metric **metric = find_metric(in, kit_json_int(kit_json_find(ask, "id"), -1));
        double                value;

        if (metric == NULL)
                return gone("metric");
        KIT_TRY(TRITONSERVER_MetricValue(*metric, &value));
        (void)snprintf(out->text, sizeof(out->text), "%.17g", value);
        return NULL;
}

static TRITONSERVER_Error *make_args(const struct kit_json_value *buckets,
                                     TRITONSERVER_MetricArgs    **ret) {
        double   bounds[MAX_BUCKETS];
        uint64_t n = 0;

        if (buckets == NULL || buckets->type != KIT_JSON_ARRAY)
                return NULL;
        if (buckets->n_children > MAX_BUCKETS)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG, "a histogram has up to %d buckets",
                                 MAX_BUCKETS);
        for (const struct kit_json_value *v = buckets->first; v != NULL; v = v->next)
                bounds[n++] = kit_json_double(v, 0);
        KIT_TRY(TRITONSERVER_MetricArgsNew(ret));
        return TRITONSERVER_MetricArgsSetHistogram(*ret, bounds, n);
}

static TRITONSERVER_Error *new_metric(TRITONSERVER_MetricFamily   *family,
                                      const struct kit_json_value *ask, TRITONSERVER_Metric **ret) {
        const struct kit_json_value *labels = kit_json_find(ask, "labels");
        TRITONSERVER_Parameter      *parameters[MAX_LABELS];
        TRITONSERVER_MetricArgs     *args = NULL;
        TRITONSERVER_Error          *err;
        uint64_t                     n = 0;

        if (kit_json_count(labels) > MAX_LABELS)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG, "a metric has up to %d labels",
                                 MAX_LABELS);
        err = make_args(kit_json_find(ask, "buckets"), &args);
        for (const struct kit_json_value *v = labels != NULL ? labels->first : NULL;
             v != NULL && err == NULL; v = v->next)
                parameters[n++] = TRITONSERVER_ParameterNew(v->key, TRITONSERVER_PARAMETER_STRING,
                                                            kit_json_string(v, ""));
        if (err == NULL)
                err = TRITONSERVER_MetricNewWithArgs(ret, family,
                                                     (const TRITONSERVER_Parameter **)parameters, n,
                                                     args);
        while (n > 0)
                TRITONSERVER_ParameterDelete(parameters[--n]);
        if (args != NULL)
                kit_error_log(TRITONSERVER_MetricArgsDelete(args), "failed to delete arguments");
        return err;
}

static TRITONSERVER_Error *metric_new(struct instance *in, const struct kit_json_value *ask,
                                      struct outcome *out) {
        TRITONSERVER_MetricFamily **family =
                find_family(in, kit_json_int(kit_json_find(ask, "family"), -1));
        uint32_t id;

        if (family == NULL)
                return gone("family");
        if (!reserve_place((void ***)&in->metrics->metrics, &in->metrics->n_metrics, &id))
                return too_many();
        KIT_TRY(new_metric(*family, ask, &in->metrics->metrics[id]));
        (void)snprintf(out->text, sizeof(out->text), "%" PRIu32, id);
        return NULL;
}

TRITONSERVER_Error *services_update_metric(struct instance *in, uint32_t id, enum shm_metric_op op,
                                           double value) {
        TRITONSERVER_Metric **metric = find_metric(in, id);

        if (metric == NULL)
                return gone("metric");
        switch (op) {
        case SHM_METRIC_INCREMENT: return TRITONSERVER_MetricIncrement(*metric, value);
        case SHM_METRIC_SET: return TRITONSERVER_MetricSet(*metric, value);
        default: return TRITONSERVER_MetricObserve(*metric, value);
        }
}

void services_free_metrics(struct instance *in) {
        struct metrics *m = in->metrics;

        if (m == NULL)
                return;
        for (uint32_t i = 0; i < m->n_metrics; i++)
                if (m->metrics[i] != NULL)
                        kit_error_log(TRITONSERVER_MetricDelete(m->metrics[i]), "metric");
        for (uint32_t i = 0; i < m->n_families; i++)
                if (m->families[i] != NULL)
                        kit_error_log(TRITONSERVER_MetricFamilyDelete(m->families[i]),
                                      "metric family");
        free(m->metrics);
        free(m->families);
        free(m);
        in->metrics = NULL;
}

/* ---- loads ---------------------------------------------------------------------------------- */

#define MAX_FILES 1024

struct load {
        TRITONSERVER_Server *server;
        char            *user; /* owned; the model whose initialize() waits for it; NULL: none */
        uint64_t         user_version;
        struct session  *session; /* ref */
        struct kit_json *doc;     /* owned */
        struct reply_to  to;
};

struct parameters {
        TRITONSERVER_Parameter *all[MAX_FILES + 1]; /* owned */
        unsigned char          *bytes[MAX_FILES];   /* owned: the memory that they point to */
        size_t                  n, n_bytes;
};

static int digit_of(char c) {
        static const char digits[] =
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        const char *at = c != '\0' ? strchr(digits, c) : NULL;

        return at != NULL ? (int)(at - digits) : -1;
}

/* Decodes Base64 (RFC 4648) as Python writes it. NULL when memory is short. */
static unsigned char *decode_base64(const char *text, size_t *ret_bytes) {
        size_t         len = strlen(text), n = 0;
        unsigned char *bytes = malloc(len / 4 * 3 + 3);
        uint32_t       group = 0, n_bits = 0;

        for (size_t i = 0; bytes != NULL && i < len && digit_of(text[i]) >= 0; i++) {
                group = (group << 6 | (uint32_t)digit_of(text[i])) & 0xffffff;
                n_bits += 6;
                if (n_bits >= 8) {
                        n_bits -= 8;
                        bytes[n++] = (unsigned char)(group >> n_bits);
                }
        }
        *ret_bytes = n;
        return bytes;
}

static TRITONSERVER_Error *add_file(struct parameters *p, const struct kit_json_value *file) {
        size_t         n_bytes;
        unsigned char *bytes;

        if (p->n_bytes == MAX_FILES)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG, "a model has up to %d files",
                                 MAX_FILES);
        bytes = decode_base64(kit_json_string(file, ""), &n_bytes);
        if (bytes == NULL)
                return kit_error_no_memory(0, "a file");
        p->bytes[p->n_bytes++] = bytes;
        p->all[p->n++] = TRITONSERVER_ParameterBytesNew(file->key, bytes, n_bytes);
        return NULL;
}

static void parameters_done(struct parameters *p) {
        for (size_t i = 0; i < p->n; i++)
                TRITONSERVER_ParameterDelete(p->all[i]);
        for (size_t i = 0; i < p->n_bytes; i++)
                free(p->bytes[i]);
}

static TRITONSERVER_Error *load_model(const struct load *load, const struct kit_json_value *ask,
                                      const char *model) {
        const char                  *config = kit_json_string(kit_json_find(ask, "config"), "");
        const struct kit_json_value *files = kit_json_find(ask, "files");
        struct parameters           *p = kit_alloc_array(1, sizeof(*p));
        TRITONSERVER_Error          *err = NULL;

        if (p == NULL)
                return kit_error_no_memory(sizeof(*p), "a load");
        if (*config != '\0')
                p->all[p->n++] =
                        TRITONSERVER_ParameterNew("config", TRITONSERVER_PARAMETER_STRING, config);
        for (const struct kit_json_value *f = files != NULL ? files->first : NULL;
             f != NULL && err == NULL; f = f->next)
                err = add_file(p, f);
        if (err == NULL)
                err = TRITONSERVER_ServerLoadModelWithParameters(
                        load->server, model, (const TRITONSERVER_Parameter **)p->all, p->n);
        parameters_done(p);
        free(p);
        return err;
}

static TRITONSERVER_Error *load_or_unload(const struct load *load) {
        const struct kit_json_value *ask = kit_json_root(load->doc);
        const char                  *model = kit_json_string(kit_json_find(ask, "model"), "");

        if (strcmp(kit_json_string(kit_json_find(ask, "ask"), ""), "load") == 0)
                return load_model(load, ask, model);
        if (kit_json_bool(kit_json_find(ask, "dependents"), false))
                return TRITONSERVER_ServerUnloadModelAndDependents(load->server, model);
        return TRITONSERVER_ServerUnloadModel(load->server, model);
}

static void run_load(void *userp) {
        struct load        *load = userp;
        TRITONSERVER_Error *err;

        if (load->user != NULL && NESO_ThreadLoadsFor != NULL)
                kit_error_log(NESO_ThreadLoadsFor(load->user, (int64_t)load->user_version),
                              "failed to name the model that loads");
        err = load_or_unload(load);
        if (load->user != NULL && NESO_ThreadLoadsFor != NULL)
                kit_error_log(NESO_ThreadLoadsFor(NULL, -1), "failed to end the model's loads");
        if (err != NULL)
                reply_error(load->session, &load->to, err);
        else
                reply_text(load->session, &load->to, 0, "", 0);
        kit_json_free(load->doc);
        region_end_borrow(&load->session->region);
        session_unref(load->session);
        free(load->user);
        free(load);
}

/* True during the first start of the process, when the load of the model waits for initialize(). */
static bool is_starting(struct instance *in) {
        bool is;

        (void)pthread_mutex_lock(&in->lock);
        is = in->state == INSTANCE_STARTING;
        (void)pthread_mutex_unlock(&in->lock);
        return is;
}

/* Loads or unloads a model on a thread of its own, since a load has no limit of time; takes `doc`. The
 * backend waits for these threads before it ends. */
static void start_load(struct instance *in, struct kit_json *doc, const struct reply_to *to) {
        struct load        *load = kit_alloc_array(1, sizeof(*load));
        struct reply_to     again = *to;
        TRITONSERVER_Error *err;

        if (load == NULL) {
                reply_error(in->session, &again, kit_error_no_memory(sizeof(*load), "a load"));
                kit_json_free(doc);
                return;
        }
        *load = (struct load){
                .server = in->model->server, .session = in->session, .doc = doc, .to = *to
        };
        if (is_starting(in)) {
                load->user = strdup(in->model->kit.name);
                load->user_version = in->model->kit.version;
        }
        session_ref(load->session);
        region_borrow(&load->session->region);
        err = kit_workers_start(&in->model->backend->workers, run_load, load);
        if (err == NULL)
                return;
        reply_error(in->session, &again, err);
        kit_json_free(doc);
        region_end_borrow(&load->session->region);
        session_unref(load->session);
        free(load->user);
        free(load);
}

/* ---- everything ------------------------------------------------------------------------------ */

static TRITONSERVER_Error *ready(struct instance *in, const struct kit_json_value *ask,
                                 struct outcome *out) {
        bool is_ready = false;

        KIT_TRY(TRITONSERVER_ServerModelIsReady(in->model->server,
                                                kit_json_string(kit_json_find(ask, "model"), ""),
                                                kit_json_int(kit_json_find(ask, "version"), -1),
                                                &is_ready));
        (void)snprintf(out->text, sizeof(out->text), "%s", is_ready ? "true" : "false");
        return NULL;
}

static TRITONSERVER_Error *answer_service(struct instance *in, const char *what,
                                          const struct kit_json_value *ask, struct outcome *out) {
        if (strcmp(what, "family_new") == 0)
                return family_new(in, ask, out);
        if (strcmp(what, "family_delete") == 0)
                return family_delete(in, ask);
        if (strcmp(what, "metric_new") == 0)
                return metric_new(in, ask, out);
        if (strcmp(what, "metric_delete") == 0)
                return metric_delete(in, ask);
        if (strcmp(what, "metric_value") == 0)
                return metric_value(in, ask, out);
        if (strcmp(what, "ready") == 0)
                return ready(in, ask, out);
        return kit_error(TRITONSERVER_ERROR_UNSUPPORTED, "nothing is known of '%s'", what);
}

void services_answer(struct instance *in, const char *json, size_t len, struct reply_to *to) {
        struct outcome   out = { 0 };
        struct kit_json *doc = NULL;
        const char      *what = "";

        out.err = kit_json_read(json, len, "the question of a Python process", &doc);
        if (out.err == NULL)
                what = kit_json_string(kit_json_find(kit_json_root(doc), "ask"), "");
        if (strcmp(what, "load") == 0 || strcmp(what, "unload") == 0) {
                start_load(in, doc, to); /* takes the document */
                return;
        }
        if (out.err == NULL)
                out.err = answer_service(in, what, kit_json_root(doc), &out);
        if (out.err != NULL)
                reply_error(in->session, to, out.err);
        else
                reply_text(in->session, to, 0, out.text, strlen(out.text));
        kit_json_free(doc);
}
