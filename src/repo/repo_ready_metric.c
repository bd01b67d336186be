/* SPDX-License-Identifier: BSD-3-Clause */
/* The metric neso_model_ready: which versions serve, and which ones should but do not. */
#include "base/mem.h"
#include "base/strbuf.h"
#include "infer/model.h"
#include "observe/model_stats.h"
#include "observe/prometheus.h"
#include "repo/repo.h"
#include "repo/repo_private.h"

#include <stdio.h>

#define NAME "neso_model_ready"

static void print_value(struct strbuf *out, const char *labels, bool is_ready) {
        if (out->len == 0)
                prometheus_head(out, NAME,
                                "1 when the version serves, 0 when it loads or could not be loaded",
                                METRIC_GAUGE);
        prometheus_sample(out, NAME, labels, is_ready);
}

/* The metric tags of a version that does not serve are not known. */
static void print_unready(struct strbuf *out, const struct repo_entry *e, const char *version) {
        struct metric_label labels[3] = { { "model", e->name } };
        size_t              n = 1;
        AUTO_CHARS          text = NULL;

        if (*e->namespace != '\0')
                labels[n++] = (struct metric_label){ "namespace", e->namespace };
        if (version != NULL)
                labels[n++] = (struct metric_label){ "version", version };
        text = prometheus_labels_new(labels, n);
        print_value(out, text, false);
}

static void print_version(struct strbuf *out, const struct repo_entry *e,
                          const struct repo_version *v) {
        char number[24]; /* a 64-bit number has at most 20 characters */

        if (v->state == VERSION_UNLOADING || v->was_unloaded ||
            (v->blocked != NULL && !v->is_fault))
                return;
        if (v->model != NULL) {
                print_value(out, model_stats_labels(v->model->stats), v->blocked == NULL);
                return;
        }
        snprintf(number, sizeof(number), "%lld", (long long)v->number);
        print_unready(out, e, number);
}

void repo_print_ready(struct repo *r, struct strbuf *out) {
        MUTEX_GUARD(&r->table.lock);
        for (size_t i = 0; i < r->table.n_entries; i++) {
                const struct repo_entry *e = r->table.sorted[i];

                if (e->n_versions == 0 && (e->is_wanted || e->is_versionless))
                        print_unready(out, e, NULL);
                for (size_t k = 0; k < e->n_versions; k++)
                        print_version(out, e, &e->versions[k]);
        }
}
