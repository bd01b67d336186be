/* SPDX-License-Identifier: BSD-3-Clause */
#include "observe/batch_table.h"

#include "base/compiler.h"
#include "base/mem.h"

#include <string.h>

/* Clients choose batch sizes up to the model's max_batch_size. This bounds the table of a model with a
 * very large one. */
#define MAX_BATCH_SIZES 4096
#define FIRST_CAP 4

void batch_table_done(struct batch_table *t) {
        free(t->items);
        *t = (struct batch_table){ 0 };
}

/* Index of the first item whose size is not below `batch_size`. */
static size_t place_of(const struct batch_table *t, uint64_t batch_size) {
        size_t low = 0, high = t->n;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (t->items[middle].batch_size < batch_size)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

static bool grow_table(struct batch_table *t) {
        size_t              cap = MAX(FIRST_CAP, t->cap * 2);
        struct batch_stats *items;

        if (t->n < t->cap)
                return true;
        if (t->n >= MAX_BATCH_SIZES)
                return false;
        items = try_realloc(t->items, cap * sizeof(*items));
        if (items == NULL)
                return false;
        t->items = items;
        t->cap = cap;
        return true;
}

/* Searches all items. */
static NOINLINE struct batch_stats *find_or_add(struct batch_table *t, uint64_t batch_size) {
        size_t at = place_of(t, batch_size);

        if (at == t->n || t->items[at].batch_size != batch_size) {
                if (!grow_table(t))
                        return NULL;
                memmove(&t->items[at + 1], &t->items[at], (t->n - at) * sizeof(*t->items));
                t->items[at] = (struct batch_stats){ .batch_size = batch_size };
                t->n++;
        }
        t->last = at;
        return &t->items[at];
}

struct batch_stats *batch_table_at(struct batch_table *t, uint64_t batch_size) {
        if (t->last < t->n && t->items[t->last].batch_size == batch_size)
                return &t->items[t->last];
        return find_or_add(t, batch_size);
}

static void add_pair(struct stats_pair *to, const struct stats_pair *more) {
        to->count += more->count;
        to->ns += more->ns;
}

void batch_table_add(struct batch_table *t, const struct batch_stats *more) {
        struct batch_stats *item = batch_table_at(t, more->batch_size);

        if (item == NULL)
                return;
        add_pair(&item->compute_input, &more->compute_input);
        add_pair(&item->compute_infer, &more->compute_infer);
        add_pair(&item->compute_output, &more->compute_output);
}
