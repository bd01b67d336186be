/* SPDX-License-Identifier: BSD-3-Clause */
#include "observe/batch_counts.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "observe/prometheus.h"

#include <string.h>

static const char *const reasons[N_BATCH_REASONS] = { "due", "full", "idle", "flow", "drain" };

enum family {
        FAMILY_REASON,
        FAMILY_EXECUTIONS,
        FAMILY_ROWS,
        FAMILY_BUSY,
        FAMILY_SPLIT,
        FAMILY_VIRTUAL,
};

const struct batch_family batch_families[N_BATCH_FAMILIES] = {
        [FAMILY_REASON] = { "neso_batch_dispatch_reason",
                            "Batches by what made them run: full, due, adaptive batching, or the "
                            "model's end",
                            METRIC_COUNTER },
        [FAMILY_EXECUTIONS] = { "neso_member_exec_count", "Executions of a member",
                                METRIC_COUNTER },
        [FAMILY_ROWS] = { "neso_member_rows", "Rows that a member executed", METRIC_COUNTER },
        [FAMILY_BUSY] = { "neso_member_busy_us",
                          "Time that a member's instances executed, summed up", METRIC_COUNTER },
        [FAMILY_SPLIT] = { "neso_request_split", "Requests that were run in parts",
                           METRIC_COUNTER },
        [FAMILY_VIRTUAL] = { "neso_virtual_instance_busy",
                             "Members of a virtual instance that execute", METRIC_GAUGE },
};

struct member_node {
        struct member_counts counts;
        char                *name;   /* owned */
        char                *labels; /* owned */
        struct member_node  *next;
};

struct virtual_node {
        struct virtual_counts counts;
        uint32_t              index;
        char                 *labels; /* owned */
        struct virtual_node  *next;
};

struct batch_counts {
        struct metric_label *labels; /* owned, with their texts; one more for labels_with() */
        size_t               n_labels;
        char                *plain;                          /* owned */
        char                *reason_labels[N_BATCH_REASONS]; /* owned */
        _Atomic uint64_t     n_ran[N_BATCH_REASONS];
        _Atomic uint64_t     n_split;

        struct mutex         lock;     /* rank LOCK_METRIC; guards the lists */
        struct member_node  *members;  /* owned, in order of creation */
        struct virtual_node *virtuals; /* owned, in order of creation */
};

static char *labels_with(const struct batch_counts *c, const char *name, const char *value) {
        size_t n = c->n_labels;

        if (name != NULL)
                c->labels[n++] = (struct metric_label){ name, value };
        return prometheus_labels_new(c->labels, n);
}

struct batch_counts *batch_counts_new(const struct metric_label *labels, size_t n_labels) {
        struct batch_counts *c = mem_zalloc(sizeof(*c));

        c->labels = mem_zalloc((n_labels + 1) * sizeof(*c->labels));
        c->n_labels = n_labels;
        for (size_t i = 0; i < n_labels; i++)
                c->labels[i] = (struct metric_label){ mem_strdup(labels[i].name),
                                                      mem_strdup(labels[i].value) };
        c->plain = labels_with(c, NULL, NULL);
        for (size_t i = 0; i < N_BATCH_REASONS; i++)
                c->reason_labels[i] = labels_with(c, "reason", reasons[i]);
        mutex_init(&c->lock, LOCK_METRIC);
        return c;
}

void batch_counts_free(struct batch_counts *c) {
        if (c == NULL)
                return;
        for (struct member_node *m = c->members, *next; m != NULL; m = next) {
                next = m->next;
                free(m->name);
                free(m->labels);
                free(m);
        }
        for (struct virtual_node *v = c->virtuals, *next; v != NULL; v = next) {
                next = v->next;
                free(v->labels);
                free(v);
        }
        for (size_t i = 0; i < N_BATCH_REASONS; i++)
                free(c->reason_labels[i]);
        for (size_t i = 0; i < c->n_labels; i++) {
                free((char *)(uintptr_t)c->labels[i].name);
                free((char *)(uintptr_t)c->labels[i].value);
        }
        free(c->labels);
        free(c->plain);
        mutex_done(&c->lock);
        free(c);
}

struct member_counts *batch_counts_member(struct batch_counts *c, const char *name) {
        struct member_node **at = &c->members;

        MUTEX_GUARD(&c->lock);
        while (*at != NULL && strcmp((*at)->name, name) != 0)
                at = &(*at)->next;
        if (*at == NULL) {
                *at = mem_zalloc(sizeof(**at));
                (*at)->name = mem_strdup(name);
                (*at)->labels = labels_with(c, "member", name);
        }
        return &(*at)->counts;
}

struct virtual_counts *batch_counts_virtual_instance(struct batch_counts *c, uint32_t index) {
        struct virtual_node **at = &c->virtuals;

        MUTEX_GUARD(&c->lock);
        while (*at != NULL && (*at)->index != index)
                at = &(*at)->next;
        if (*at == NULL) {
                AUTO_CHARS number = mem_printf("%u", index);

                *at = mem_zalloc(sizeof(**at));
                (*at)->index = index;
                (*at)->labels = labels_with(c, "index", number);
        }
        return &(*at)->counts;
}

bool batch_counts_have_members(struct batch_counts *c) {
        MUTEX_GUARD(&c->lock);
        return c->members != NULL;
}

void batch_counts_visit(struct batch_counts *c, member_visit_fn visit, void *userp) {
        MUTEX_GUARD(&c->lock);
        for (const struct member_node *m = c->members; m != NULL; m = m->next)
                visit(userp, m->name, &m->counts);
}

void batch_counts_add_batch(struct batch_counts *c, unsigned reason) {
        atomic_fetch_add_explicit(&c->n_ran[reason], 1, memory_order_relaxed);
}

void batch_counts_add_split(struct batch_counts *c) {
        atomic_fetch_add_explicit(&c->n_split, 1, memory_order_relaxed);
}

/* ---- printing -------------------------------------------------------------------------------- */

bool batch_counts_has(struct batch_counts *c, size_t family) {
        if (family == FAMILY_REASON)
                return true;
        return batch_counts_have_members(c); /* only composite models have the other families */
}

static double read_count(const _Atomic uint64_t *count) {
        return (double)atomic_load_explicit(count, memory_order_relaxed);
}

static double value_of(const struct member_counts *m, size_t family) {
        if (family == FAMILY_EXECUTIONS)
                return read_count(&m->n_executions);
        if (family == FAMILY_ROWS)
                return read_count(&m->n_rows);
        return (double)(atomic_load_explicit(&m->busy_ns, memory_order_relaxed) / NS_PER_US);
}

void batch_counts_print(struct batch_counts *c, size_t family, struct strbuf *out) {
        const char *name = batch_families[family].name;

        if (family == FAMILY_REASON) {
                for (size_t i = 0; i < N_BATCH_REASONS; i++)
                        prometheus_sample(out, name, c->reason_labels[i], read_count(&c->n_ran[i]));
                return;
        }
        if (family == FAMILY_SPLIT) {
                prometheus_sample(out, name, c->plain, read_count(&c->n_split));
                return;
        }
        MUTEX_GUARD(&c->lock);
        if (family == FAMILY_VIRTUAL)
                for (const struct virtual_node *v = c->virtuals; v != NULL; v = v->next)
                        prometheus_sample(out, name, v->labels, read_count(&v->counts.n_running));
        else
                for (const struct member_node *m = c->members; m != NULL; m = m->next)
                        prometheus_sample(out, name, m->labels, value_of(&m->counts, family));
}
