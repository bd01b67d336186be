/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/step_memory.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"

/* From this size on, malloc() by default maps a block from the kernel (mallopt(3),
 * M_MMAP_THRESHOLD). */
#define LARGE_BYTES ((size_t)128 << 10)
#define TRIM_NS NS_PER_S
/* Halvings from 32 MiB to 64 KiB, less than the smallest large buffer. */
#define N_TRIMS 9

static void arm(struct step_memory *m) {
        if (!atomic_exchange(&m->is_armed, true))
                timer_arm(m->timers, &m->trim, clock_now_ns() + TRIM_NS);
}

static void on_trim(struct timer *t) {
        struct step_memory *m = CONTAINER_OF(t, struct step_memory, trim);

        if (atomic_exchange(&m->was_used, false))
                m->n_trims_left = N_TRIMS;
        buf_pool_trim(m->pool);
        atomic_store(&m->is_armed, false);
        /* From now on step_memory_get() arms the timer. A use before this line found it armed, so
         * the timer is armed here. */
        if (m->n_trims_left > 0 || atomic_load(&m->was_used)) {
                m->n_trims_left -= m->n_trims_left > 0;
                arm(m);
        }
}

void step_memory_init(struct step_memory *m, struct byte_budget *budget,
                      struct timer_thread *timers) {
        *m = (struct step_memory){ .budget = budget,
                                   .pool = buf_pool_new(STEP_MEMORY_MAX_KEPT),
                                   .timers = timers };
        buf_pool_set_budget(m->pool, budget);
        timer_init(&m->trim, on_trim);
}

void step_memory_done(struct step_memory *m) {
        timer_cancel(m->timers, &m->trim);
        buf_pool_unref(m->pool);
}

struct buf *step_memory_get(struct step_memory *m, size_t bytes) {
        if (bytes < LARGE_BYTES)
                return buf_new_charged(m->budget, bytes);
        if (!atomic_load_explicit(&m->was_used, memory_order_relaxed)) {
                atomic_store(&m->was_used, true);
                arm(m);
        }
        return buf_new(m->pool, bytes);
}

struct error *step_memory_shortage(const struct step_memory *m, const char *output, size_t bytes) {
        return error_new(ERR_UNAVAILABLE, "%s for output '%s' of %zu bytes",
                         buf_pool_shortage(m->pool, bytes), output, bytes);
}
