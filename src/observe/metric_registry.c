/* SPDX-License-Identifier: BSD-3-Clause */
/* Metric families by name (metric.h). */
#include "observe/metric.h"

#include "base/mem.h"
#include "observe/metric_private.h"
#include "observe/prometheus.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

struct metric_registry *metric_registry_new(void) {
        struct metric_registry *r = mem_zalloc(sizeof(*r));

        mutex_init(&r->lock, LOCK_REGISTRY);
        map_init(&r->families);
        list_init(&r->collectors);
        return r;
}

void metric_registry_free(struct metric_registry *r) {
        if (r == NULL)
                return;
        assert(map_size(&r->families) == 0);
        assert(list_is_empty(&r->collectors));
        map_done(&r->families);
        mutex_done(&r->lock);
        free(r);
}

static struct metric_registry *process_registry;
static pthread_once_t          process_once = PTHREAD_ONCE_INIT;

static void make_process_registry(void) {
        process_registry = metric_registry_new();
}

struct metric_registry *metric_registry_process(void) {
        pthread_once(&process_once, make_process_registry);
        return process_registry;
}

static struct metric_family *family_new(struct metric_registry *r, enum metric_kind kind,
                                        const char *name, const char *help) {
        struct metric_family *f = mem_zalloc(sizeof(*f));

        f->registry = r;
        f->kind = kind;
        f->name = mem_strdup(name);
        f->help = mem_strdup(help);
        map_init(&f->metrics);
        return f;
}

struct error *metric_family_open(struct metric_registry *r, enum metric_kind kind, const char *name,
                                 const char *help, struct metric_family **ret) {
        struct metric_family *f;

        if (!prometheus_is_family_name(name))
                return error_new(ERR_INVALID_ARG, "invalid name of a metric family: '%s'", name);

        MUTEX_GUARD(&r->lock);
        f = map_find(&r->families, str_of(name));
        if (f == NULL) {
                f = family_new(r, kind, name, help);
                map_set(&r->families, str_of(name), f);
        } else if (f->kind != kind || strcmp(f->help, help) != 0) {
                return error_new(ERR_INVALID_ARG,
                                 "metric family '%s' already exists with a different %s", name,
                                 f->kind != kind ? "kind" : "description");
        }
        f->n_users++;
        *ret = f;
        return NULL;
}

void metric_family_ref(struct metric_family *f) {
        MUTEX_GUARD(&f->registry->lock);
        f->n_users++;
}

struct error *metric_family_close(struct metric_family *f) {
        struct metric_registry *r;

        if (f == NULL)
                return NULL;
        r = f->registry;
        mutex_lock(&r->lock);
        if (f->n_users == 1 && map_size(&f->metrics) > 0) {
                mutex_unlock(&r->lock);
                return error_new(ERR_INTERNAL, "Must call MetricDelete on all dependent metrics "
                                               "before calling MetricFamilyDelete.");
        }
        if (--f->n_users > 0) {
                mutex_unlock(&r->lock);
                return NULL;
        }
        map_remove(&r->families, str_of(f->name));
        mutex_unlock(&r->lock);
        map_done(&f->metrics);
        free(f->name);
        free(f->help);
        free(f);
        return NULL;
}

enum metric_kind metric_family_kind(const struct metric_family *f) {
        return f->kind;
}

struct metric_collector *metric_collector_add(struct metric_registry *r, bool before_families,
                                              metric_collect_fn collect, void *owner) {
        struct metric_collector *c = mem_zalloc(sizeof(*c));

        c->collect = collect;
        c->owner = owner;
        c->before_families = before_families;
        MUTEX_GUARD(&r->lock);
        list_append(&r->collectors, &c->node);
        return c;
}

void metric_collector_remove(struct metric_registry *r, struct metric_collector *c) {
        if (c == NULL)
                return;
        mutex_lock(&r->lock);
        list_remove(&c->node);
        mutex_unlock(&r->lock);
        free(c);
}

static void print_family_locked(const struct metric_family *f, struct strbuf *out) {
        const struct map_entry *e;
        size_t                  at = 0;

        if (map_size(&f->metrics) == 0)
                return;
        prometheus_head(out, f->name, f->help, f->kind);
        while ((e = map_next(&f->metrics, &at)) != NULL)
                metric_print(e->value, out);
}

static void collect_locked(struct metric_registry *r, bool before_families, struct strbuf *out) {
        LIST_FOR_EACH(&r->collectors, node) {
                struct metric_collector *c = LIST_ENTRY(node, struct metric_collector, node);

                if (c->before_families == before_families)
                        c->collect(c->owner, out);
        }
}

void metric_registry_print(struct metric_registry *r, struct strbuf *out) {
        const struct map_entry *e;
        size_t                  at = 0;

        MUTEX_GUARD(&r->lock);
        collect_locked(r, true, out);
        while ((e = map_next(&r->families, &at)) != NULL)
                print_family_locked(e->value, out);
        collect_locked(r, false, out);
}
