/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/byte_budget.h"

#include "base/control_group.h"

#include <sys/resource.h>
#include <unistd.h>

#define DEFAULT_SHARE 4 /* the default budget is a quarter of the memory the process may use */

void byte_budget_share(struct byte_budget *b, size_t max, _Atomic size_t *used) {
        *b = (struct byte_budget){ .used = used, .max = max };
}

void byte_budget_init(struct byte_budget *b, size_t max) {
        byte_budget_share(b, max, &b->own);
}

/* Fill level of the budget, in bytes, that a piece of this size must not exceed. */
static size_t limit_of(const struct byte_budget *b, size_t piece) {
        return piece <= BYTE_BUDGET_SMALL ? b->max : b->max - b->max / 8;
}

static bool take_within(struct byte_budget *b, size_t bytes, size_t limit) {
        size_t used = atomic_load_explicit(b->used, memory_order_relaxed);

        do {
                if (used > limit || bytes > limit - used)
                        return false;
        } while (!atomic_compare_exchange_weak_explicit(b->used, &used, used + bytes,
                                                        memory_order_relaxed,
                                                        memory_order_relaxed));
        return true;
}

bool byte_budget_take(struct byte_budget *b, size_t bytes) {
        return take_within(b, bytes, limit_of(b, bytes));
}

void byte_budget_force(struct byte_budget *b, size_t bytes) {
        atomic_fetch_add_explicit(b->used, bytes, memory_order_relaxed);
}

void byte_budget_give(struct byte_budget *b, size_t bytes) {
        atomic_fetch_sub_explicit(b->used, bytes, memory_order_relaxed);
}

void byte_budget_refused(const struct byte_budget *b) {
        if (b->on_refused != NULL)
                b->on_refused(b->owner);
}

size_t byte_budget_used(const struct byte_budget *b) {
        return atomic_load_explicit(b->used, memory_order_relaxed);
}

bool byte_budget_fits(const struct byte_budget *b, size_t bytes) {
        size_t used = b != NULL ? byte_budget_used(b) : 0;
        size_t limit = b != NULL ? limit_of(b, bytes) : SIZE_MAX;

        return used <= limit && bytes <= limit - used;
}

size_t byte_budget_largest(const struct byte_budget *b) {
        return b != NULL ? limit_of(b, SIZE_MAX) : SIZE_MAX;
}

bool byte_budget_is_tight(const struct byte_budget *b) {
        return b != NULL && byte_budget_used(b) > b->max - b->max / 16;
}

bool byte_budget_is_nearly_used(const struct byte_budget *b) {
        return b != NULL && byte_budget_used(b) > b->max - b->max / 32;
}

bool byte_budget_is_half_used(const struct byte_budget *b) {
        return b != NULL && byte_budget_used(b) > b->max / 2;
}

/* ---- the default ---- */

size_t byte_budget_default(void) {
        uint64_t      least = UINT64_MAX;
        long          pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
        struct rlimit space;

        if (pages > 0 && page > 0)
                least = (uint64_t)pages * (uint64_t)page;
        least = MIN(least, control_group_memory(""));
        if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
                least = MIN(least, (uint64_t)space.rlim_cur);
        least /= DEFAULT_SHARE;
        return least < SIZE_MAX / 2 ? (size_t)least : SIZE_MAX / 2;
}

/* ---- accounts ---- */

static size_t slab_of(const struct byte_account *a) {
        return MIN(BYTE_ACCOUNT_SLAB, a->budget->max / BYTE_ACCOUNT_SLABS);
}

/* Takes whole slabs from the budget while it has room, and near its end only as much as is needed. */
static bool draw(struct byte_account *a, size_t bytes) {
        size_t missing = bytes - a->spare, limit = limit_of(a->budget, bytes);
        size_t slab = MAX(missing, slab_of(a));

        if (!take_within(a->budget, slab, limit)) {
                slab = missing;
                if (!take_within(a->budget, slab, limit))
                        return false;
        }
        a->spare += slab;
        return true;
}

bool byte_account_take(struct byte_account *a, size_t bytes) {
        if (a->budget == NULL)
                return true;
        if (a->spare < bytes && !draw(a, bytes))
                return false;
        a->spare -= bytes;
        return true;
}

void byte_account_give(struct byte_account *a, size_t bytes) {
        size_t slab;

        if (a->budget == NULL)
                return;
        a->spare += bytes;
        slab = slab_of(a);
        if (a->spare <= 2 * slab)
                return;
        byte_budget_give(a->budget, a->spare - slab);
        a->spare = slab;
}

void byte_account_close(struct byte_account *a) {
        if (a->budget != NULL && a->spare > 0)
                byte_budget_give(a->budget, a->spare);
        a->spare = 0;
}
