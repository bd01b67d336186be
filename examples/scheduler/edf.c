/* SPDX-License-Identifier: BSD-3-Clause */
/* Earliest deadline first: of what waits, the request whose time is over first runs first, with as many
 * others of its shape class as the free instance takes, again the most urgent ones. Requests without a
 * deadline come last, in order of arrival.
 *
 * docs/schedulers.md goes through it. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <triton/core/neso_scheduler.h>

struct edf {
        sched_host           *host;
        const sched_host_ops *ops;

        const sched_item **waiting; /* the most urgent one first; each lives until it ends */
        uint32_t           n_waiting, cap_waiting;

        sched_member *members; /* copies */
        bool         *is_busy; /* of each */
        uint32_t      n_members;

        uint64_t *ids; /* of the batch that is formed; as long as `waiting` */
};

/* Does a go before b? */
static bool is_before(const sched_item *a, const sched_item *b) {
        uint64_t due_a = a->deadline_ns != 0 ? a->deadline_ns : UINT64_MAX;
        uint64_t due_b = b->deadline_ns != 0 ? b->deadline_ns : UINT64_MAX;

        return due_a != due_b ? due_a < due_b : a->arrival_ns < b->arrival_ns;
}

static bool reserve(struct edf *e) {
        uint32_t           cap = e->cap_waiting * 2 + 64;
        const sched_item **waiting;
        uint64_t          *ids;

        if (e->n_waiting < e->cap_waiting)
                return true;
        waiting = realloc(e->waiting, cap * sizeof(*waiting));
        if (waiting == NULL)
                return false;
        e->waiting = waiting;
        ids = realloc(e->ids, cap * sizeof(*ids));
        if (ids == NULL)
                return false;
        e->ids = ids;
        e->cap_waiting = cap;
        return true;
}

/* Takes those out whose ids are in the batch, which has them in their order. */
static void forget_batch(struct edf *e, uint32_t n) {
        uint32_t kept = 0, in_batch = 0;

        for (uint32_t i = 0; i < e->n_waiting; i++)
                if (in_batch < n && e->waiting[i]->id == e->ids[in_batch])
                        in_batch++;
                else
                        e->waiting[kept++] = e->waiting[i];
        e->n_waiting = kept;
}

/* Puts the ids of a batch for that member into e->ids; 0: there is none. */
static uint32_t form(struct edf *e, const sched_member *m) {
        uint64_t rows = 0;
        uint32_t n = 0;

        for (uint32_t i = 0; i < e->n_waiting; i++) {
                const sched_item *item = e->waiting[i];

                if (item->shape_class != e->waiting[0]->shape_class || rows + item->rows > m->hi)
                        continue;
                rows += item->rows;
                e->ids[n++] = item->id;
        }
        return rows >= m->lo ? n : 0;
}

static void run(struct edf *e) {
        for (uint32_t m = 0; m < e->n_members; m++) {
                uint32_t n = e->is_busy[m] ? 0 : form(e, &e->members[m]);

                if (n == 0)
                        continue;
                forget_batch(e, n); /* once dispatched, an item may not be looked at any more */
                if (e->ops->dispatch(e->host, m, e->ids, n) == 0)
                        e->is_busy[m] = true;
                else
                        e->ops->log(e->host, 2, "a batch was refused");
        }
}

static void fini(void *st) {
        struct edf *e = st;

        free(e->waiting);
        free(e->ids);
        free(e->members);
        free(e->is_busy);
        free(e);
}

static int init(void **st, sched_host *host, const sched_host_ops *ops, const char *config_json,
                const sched_member *members, uint32_t n_members, uint32_t max_batch) {
        struct edf *e = calloc(1, sizeof(*e));

        (void)config_json;
        (void)max_batch;
        if (e == NULL)
                return ENOMEM;
        e->host = host;
        e->ops = ops;
        e->n_members = n_members;
        e->members = calloc(n_members + 1, sizeof(*members));
        e->is_busy = calloc(n_members + 1, sizeof(*e->is_busy));
        if (e->members == NULL || e->is_busy == NULL) {
                fini(e);
                return ENOMEM;
        }
        for (uint32_t i = 0; i < n_members; i++) {
                e->members[i] = members[i];
                e->is_busy[i] = members[i].is_busy != 0;
        }
        *st = e;
        return 0;
}

static void add(struct edf *e, const sched_item *item) {
        uint32_t at = e->n_waiting;

        if (!reserve(e)) {
                e->ops->reject(e->host, item->id, 4 /* unavailable */, "out of memory");
                return;
        }
        for (; at > 0 && is_before(item, e->waiting[at - 1]); at--)
                e->waiting[at] = e->waiting[at - 1];
        e->waiting[at] = item;
        e->n_waiting++;
}

static void on_enqueue(void *st, const sched_item *items, uint32_t n) {
        for (uint32_t i = 0; i < n; i++)
                add(st, &items[i]);
        run(st);
}

static void on_member_free(void *st, uint32_t member) {
        struct edf *e = st;

        e->is_busy[member] = false;
        run(e);
}

static void on_cancel(void *st, uint64_t id) {
        struct edf *e = st;
        uint32_t    kept = 0;

        for (uint32_t i = 0; i < e->n_waiting; i++)
                if (e->waiting[i]->id != id)
                        e->waiting[kept++] = e->waiting[i];
        if (kept < e->n_waiting)
                e->ops->count(e->host, "edf_missed", 1); /* neso_scheduler_edf_missed */
        e->n_waiting = kept;
}

/* It never waits while a member is free. */
static void on_timer(void *st) {
        (void)st;
}

static void on_drain(void *st) {
        (void)st; /* what waits runs as the members become free */
}

const sched_vtbl *sched_get(uint32_t host_major, uint32_t host_minor) {
        static const sched_vtbl functions = {
                .init = init,
                .on_enqueue = on_enqueue,
                .on_member_free = on_member_free,
                .on_timer = on_timer,
                .on_cancel = on_cancel,
                .on_drain = on_drain,
                .fini = fini,
        };

        return SCHED_IS_COMPATIBLE(host_major, host_minor) ? &functions : NULL;
}
