/* SPDX-License-Identifier: BSD-3-Clause */
#include "observe/memory_reports.h"

#include "base/mem.h"

#include <string.h>

struct memory_report {
        struct list_node    node; /* in the list of its reports */
        const void         *owner;
        size_t              n;
        struct memory_usage usage[];
};

void memory_reports_init(struct memory_reports *m) {
        mutex_init(&m->lock, LOCK_METRIC);
        list_init(&m->reports);
}

static struct memory_report *first_report(struct memory_reports *m) {
        return list_is_empty(&m->reports)
                       ? NULL
                       : LIST_ENTRY(list_first(&m->reports), struct memory_report, node);
}

void memory_reports_done(struct memory_reports *m) {
        for (struct memory_report *r = first_report(m); r != NULL; r = first_report(m)) {
                list_remove(&r->node);
                free(r);
        }
        mutex_done(&m->lock);
}

static struct memory_report *find_locked(struct memory_reports *m, const void *owner) {
        LIST_FOR_EACH(&m->reports, node) {
                struct memory_report *r = LIST_ENTRY(node, struct memory_report, node);

                if (r->owner == owner)
                        return r;
        }
        return NULL;
}

static struct memory_report *new_report(const void *owner, const struct memory_usage *usage,
                                        size_t n) {
        struct memory_report *r;
        size_t                n_bytes;

        if (!size_mul(n, sizeof(*usage), &n_bytes) || !size_add(n_bytes, sizeof(*r), &n_bytes))
                return NULL;
        r = try_alloc(n_bytes);
        if (r == NULL)
                return NULL;
        *r = (struct memory_report){ .owner = owner, .n = n };
        if (n > 0)
                memcpy(r->usage, usage, n * sizeof(*usage));
        return r;
}

bool memory_reports_set(struct memory_reports *m, const void *owner,
                        const struct memory_usage *usage, size_t n) {
        struct memory_report *report = new_report(owner, usage, n), *old;

        if (report == NULL)
                return false;
        MUTEX_GUARD(&m->lock);
        old = find_locked(m, owner);
        if (old != NULL) {
                list_insert_before(&old->node, &report->node);
                list_remove(&old->node);
                free(old);
        } else {
                list_append(&m->reports, &report->node);
        }
        return true;
}

void memory_reports_remove(struct memory_reports *m, const void *owner) {
        struct memory_report *r;

        MUTEX_GUARD(&m->lock);
        r = find_locked(m, owner);
        if (r == NULL)
                return;
        list_remove(&r->node);
        free(r);
}

static void add_usage(struct memory_usage *sums, size_t *n, const struct memory_usage *one) {
        for (size_t i = 0; i < *n; i++)
                if (sums[i].id == one->id && strcmp(sums[i].type, one->type) == 0) {
                        uint64_t room = UINT64_MAX - sums[i].byte_size;

                        sums[i].byte_size += MIN(room, one->byte_size);
                        return;
                }
        sums[(*n)++] = *one;
}

struct memory_usage *memory_reports_sum(struct memory_reports *m, size_t *ret_n) {
        struct memory_usage *sums;
        size_t               n_room = 0;

        *ret_n = 0;
        MUTEX_GUARD(&m->lock);
        LIST_FOR_EACH(&m->reports, node)
                n_room += LIST_ENTRY(node, struct memory_report, node)->n;
        if (n_room == 0)
                return NULL;
        sums = mem_alloc(n_room * sizeof(*sums));
        LIST_FOR_EACH(&m->reports, node) {
                const struct memory_report *r = LIST_ENTRY(node, struct memory_report, node);

                for (size_t i = 0; i < r->n; i++)
                        add_usage(sums, ret_n, &r->usage[i]);
        }
        return sums;
}
