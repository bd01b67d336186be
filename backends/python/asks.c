/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/asks.h"

#include "kit/json.h"
#include "kit/scratch.h"
#include "python/loads.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_METRICS 65536 /* of an instance, and families */
#define MAX_LABELS 64
#define MAX_BUCKETS 1024

struct metrics {
        TRITONSERVER_MetricFamily **families; /* owned; NULL: deleted */
        uint32_t                    n_families;
        TRITONSERVER_Metric       **metrics; /* owned; NULL: deleted */
        uint32_t                    n_metrics;
};

/* What an ask results in: a text, or an error. */
struct outcome {
        char                text[64];
        TRITONSERVER_Error *err;
};

/* ---- metrics --------------------------------------------------------------------------------- */

static TRITONSERVER_Error *too_many(void) {
        return kit_error(TRITONSERVER_ERROR_UNAVAILABLE, "a model may have up to %d metrics",
                         MAX_METRICS);
}

/* A place for a pointer in the table; ids are indices. */
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

void asks_count(struct instance *in, uint32_t id, enum shm_metric_op op, double value) {
        TRITONSERVER_Metric **metric = find_metric(in, id);

        if (metric == NULL)
                return;
        if (op == SHM_METRIC_INCREMENT)
                kit_error_log(TRITONSERVER_MetricIncrement(*metric, value),
                              "Failed to increment metric value");
        else if (op == SHM_METRIC_SET)
                kit_error_log(TRITONSERVER_MetricSet(*metric, value), "Failed to set metric value");
        else
                kit_error_log(TRITONSERVER_MetricObserve(*metric, value),
                              "Failed to observe metric value");
}

void asks_forget(struct instance *in) {
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

static TRITONSERVER_Error *answer(struct instance *in, const char *what,
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

void asks_answer(struct instance *in, const char *json, size_t len, struct reply_to *to) {
        struct outcome   out = { 0 };
        struct kit_json *doc = NULL;
        const char      *what = "";

        out.err = kit_json_read(json, len, "the question of a Python process", &doc);
        if (out.err == NULL)
                what = kit_json_string(kit_json_find(kit_json_root(doc), "ask"), "");
        if (strcmp(what, "load") == 0 || strcmp(what, "unload") == 0) {
                loads_start(in, doc, to); /* takes the document */
                return;
        }
        if (out.err == NULL)
                out.err = answer(in, what, kit_json_root(doc), &out);
        if (out.err != NULL)
                reply_error(in->session, to, out.err);
        else
                reply_text(in->session, to, 0, out.text, strlen(out.text));
        kit_json_free(doc);
}
