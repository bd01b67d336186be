/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/batch_sizes.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

#define UNSERVED UINT32_MAX

/* ---- the set of sizes ------------------------------------------------------------------------ */

static int compare_ranges(const void *a, const void *b) {
        const struct row_range *left = a, *right = b;

        if (left->min_rows != right->min_rows)
                return left->min_rows < right->min_rows ? -1 : 1;
        return (left->max_rows > right->max_rows) - (left->max_rows < right->max_rows);
}

/* Sorts the ranges and merges those that overlap or are adjacent. */
static struct error *merge_ranges(struct batch_sizes *p, const struct row_range *ranges,
                                  size_t n_ranges) {
        size_t n = 0;

        assert(n_ranges > 0);
        p->sizes = try_alloc(n_ranges * sizeof(*p->sizes));
        if (p->sizes == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory for a plan of batch sizes");
        memcpy(p->sizes, ranges, n_ranges * sizeof(*p->sizes));
        qsort(p->sizes, n_ranges, sizeof(*p->sizes), compare_ranges);
        for (size_t i = 1; i < n_ranges; i++) {
                if (p->sizes[i].min_rows <= p->sizes[n].max_rows + 1)
                        p->sizes[n].max_rows = MAX(p->sizes[n].max_rows, p->sizes[i].max_rows);
                else
                        p->sizes[++n] = p->sizes[i];
        }
        p->n_sizes = n + 1;
        p->max_rows = p->sizes[n].max_rows;
        assert(p->sizes[0].min_rows > 0 && p->max_rows <= ROW_PLAN_MAX_ROWS);
        return NULL;
}

/* ---- the fewest executions ------------------------------------------------------------------- */

/* Minimum of f over a window that slides along f; of equal values, the first position. The ring has
 * positions whose values ascend. Each position enters once and leaves once. */
struct window {
        uint32_t *ring; /* borrowed */
        uint32_t  cap;
        uint32_t  head;
        uint32_t  n;
};

static uint32_t window_at(const struct window *w, uint32_t i) {
        return w->ring[(w->head + i) % w->cap];
}

static void window_push(struct window *w, const uint32_t *f, uint32_t position) {
        while (w->n > 0 && f[window_at(w, w->n - 1)] > f[position])
                w->n--;
        w->ring[(w->head + w->n) % w->cap] = position;
        w->n++;
}

static void window_forget_before(struct window *w, uint32_t position) {
        while (w->n > 0 && window_at(w, 0) < position) {
                w->head = (w->head + 1) % w->cap;
                w->n--;
        }
}

/* Memory for computing a plan. */
struct planner {
        uint32_t      *f;       /* owned: number of executions for n rows */
        struct window *windows; /* owned: one per range of sizes */
        uint32_t      *rings;   /* owned: memory of all windows */
};

static void planner_done(struct planner *b) {
        free(b->f);
        free(b->windows);
        free(b->rings);
}

static bool planner_init(struct planner *b, const struct batch_sizes *p) {
        uint32_t n_rings = 0;

        for (size_t i = 0; i < p->n_sizes; i++)
                n_rings += p->sizes[i].max_rows - p->sizes[i].min_rows + 1;
        b->f = try_alloc(((size_t)p->n_planned + 1) * sizeof(*b->f));
        b->windows = try_zalloc(p->n_sizes * sizeof(*b->windows));
        b->rings = try_alloc((size_t)n_rings * sizeof(*b->rings));
        if (b->f == NULL || b->windows == NULL || b->rings == NULL)
                return false;
        n_rings = 0;
        for (size_t i = 0; i < p->n_sizes; i++) {
                b->windows[i].ring = b->rings + n_rings;
                b->windows[i].cap = p->sizes[i].max_rows - p->sizes[i].min_rows + 1;
                n_rings += b->windows[i].cap;
        }
        return true;
}

/* f(n) = 1 + min f(n - s) over the sizes s. The largest s wins among equal values: the
 * smallest n - s. */
static void plan_rows(const struct batch_sizes *p, struct planner *b, uint32_t n) {
        uint32_t from = 0;

        b->f[n] = UNSERVED;
        for (size_t i = 0; i < p->n_sizes; i++) {
                const struct row_range *range = &p->sizes[i];
                struct window          *w = &b->windows[i];

                if (range->min_rows > n)
                        break;
                window_forget_before(w, n > range->max_rows ? n - range->max_rows : 0);
                window_push(w, b->f, n - range->min_rows);

                uint32_t at = window_at(w, 0);

                /* Later ranges have larger sizes, so they win ties. */
                if (b->f[at] != UNSERVED && b->f[at] + 1 <= b->f[n]) {
                        b->f[n] = b->f[at] + 1;
                        from = at;
                }
        }
        /* Rows that cannot be served completely begin like the most rows that can. */
        p->first[n] = b->f[n] != UNSERVED ? n - from : p->first[n - 1];
}

static void plan_all(const struct batch_sizes *p, struct planner *b) {
        b->f[0] = 0;
        p->first[0] = 0;
        for (uint32_t n = 1; n <= p->n_planned; n++)
                plan_rows(p, b, n);
}

/* Among M sizes smaller than M, some add up to a multiple of M. So a shortest list has fewer than M
 * of them, and more than (M - 1)^2 rows always include an execution of M. */
static uint32_t rows_to_plan(uint32_t max_rows, bool may_wait) {
        uint64_t n = max_rows;

        if (may_wait)
                n = (uint64_t)(max_rows - 1) * (max_rows - 1) + max_rows;
        return (uint32_t)MIN(n, (uint64_t)ROW_PLAN_WINDOW);
}

struct error *batch_sizes_init(struct batch_sizes *p, const struct row_range *ranges,
                               size_t n_ranges, bool may_wait) {
        struct planner b = { 0 };
        bool           has_memory;

        *p = (struct batch_sizes){ 0 };
        TRY(merge_ranges(p, ranges, n_ranges));
        if (!may_wait && p->sizes[0].min_rows != 1) {
                uint32_t smallest = p->sizes[0].min_rows;

                batch_sizes_done(p);
                return error_new(ERR_INVALID_ARG,
                                 "cannot serve batch size 1 (smallest member minimum is %u)",
                                 smallest);
        }
        p->n_planned = rows_to_plan(p->max_rows, may_wait);
        p->first = try_alloc(((size_t)p->n_planned + 1) * sizeof(*p->first));
        has_memory = p->first != NULL && planner_init(&b, p);
        if (has_memory)
                plan_all(p, &b);
        planner_done(&b);
        if (has_memory)
                return NULL;
        batch_sizes_done(p);
        return error_new(ERR_UNAVAILABLE, "out of memory for a plan of batch sizes");
}

void batch_sizes_done(struct batch_sizes *p) {
        free(p->sizes);
        free(p->first);
        *p = (struct batch_sizes){ 0 };
}

void batch_sizes_make_greedy(struct batch_sizes *p) {
        size_t at = 0;

        for (uint32_t n = 1; n <= p->n_planned; n++) {
                while (at + 1 < p->n_sizes && p->sizes[at + 1].min_rows <= n)
                        at++;
                p->first[n] = p->sizes[at].min_rows <= n ? MIN(n, p->sizes[at].max_rows) : 0;
        }
}

uint32_t batch_sizes_next(const struct batch_sizes *p, uint64_t n_rows) {
        return n_rows > p->n_planned ? p->max_rows : p->first[n_rows];
}

bool batch_sizes_has_size(const struct batch_sizes *p, uint64_t n_rows) {
        for (size_t i = 0; i < p->n_sizes; i++)
                if (n_rows <= p->sizes[i].max_rows)
                        return n_rows >= p->sizes[i].min_rows;
        return false;
}

void batch_sizes_print(const struct batch_sizes *p, uint64_t n_rows, struct strbuf *to) {
        const char *before = "";
        uint32_t    size;

        while ((size = batch_sizes_next(p, n_rows)) != 0) {
                strbuf_printf(to, "%s%u", before, size);
                before = ",";
                n_rows -= size;
        }
        if (n_rows > 0)
                strbuf_printf(to, "%s%llu %s", *before != '\0' ? ", " : "",
                              (unsigned long long)n_rows, n_rows == 1 ? "waits" : "wait");
}

void batch_sizes_print_sizes(const struct batch_sizes *p, struct strbuf *to) {
        for (size_t i = 0; i < p->n_sizes; i++) {
                const struct row_range *range = &p->sizes[i];

                strbuf_printf(to, "%s%u", i > 0 ? "," : "", range->min_rows);
                if (range->max_rows > range->min_rows)
                        strbuf_printf(to, "-%u", range->max_rows);
        }
}
