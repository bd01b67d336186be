/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/step_memory.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/work_pool.h"
#include "gpu/gpu.h"

/* From this size on, malloc() by default maps a block from the kernel (mallopt(3),
 * M_MMAP_THRESHOLD). */
#define LARGE_BYTES ((size_t)128 << 10)
#define TRIM_NS NS_PER_S
/* Halvings from 32 MiB to 64 KiB, less than the smallest large buffer. */
#define N_TRIMS 9
#define MAX_SENDERS 2

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
                                   .timers = timers,
                                   .senders = work_pool_new("neso-ensembles", MAX_SENDERS,
                                                            WORK_BACKGROUND) };
        buf_pool_set_budget(m->pool, budget);
        timer_init(&m->trim, on_trim);
}

void step_memory_done(struct step_memory *m) {
        work_pool_free(m->senders);
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

/* ---- with GPUs --------------------------------------------------------------------------------- */

/* What the buf of a step_buffer holds. */
struct held_memory {
        struct gpus *gpus; /* borrowed: outlives all buffers */
        void        *bytes;
        int          device; /* GPU_HOST: pinned memory, or what has replaced it */
};

static void free_held(void *object) {
        struct held_memory *h = object;

        if (h->device != GPU_HOST)
                gpu_free(h->gpus, h->device, h->bytes);
        else
                gpu_pinned_free(h->gpus, h->bytes);
        free(h);
}

/* `device`: GPU_HOST for pinned memory. */
static struct error *allocate(struct gpus *g, int device, size_t bytes, struct held_memory *h,
                              struct step_buffer *ret) {
        bool is_pinned = false;

        if (device != GPU_HOST)
                TRY(gpu_alloc(g, device, bytes, &h->bytes));
        else
                TRY(gpu_pinned_alloc(g, bytes, &h->bytes, &is_pinned));
        *ret = (struct step_buffer){ .bytes = h->bytes, .type = MEMORY_CPU };
        if (device != GPU_HOST) {
                ret->type = MEMORY_GPU;
                ret->id = device;
        } else if (is_pinned) {
                ret->type = MEMORY_CPU_PINNED;
        }
        return NULL;
}

/* The buf is made first: what it holds is empty until the memory is there. */
static struct error *get_held(struct step_memory *m, int device, size_t bytes,
                              struct step_buffer *ret) {
        struct byte_budget *budget = device == GPU_HOST ? m->budget : NULL;
        struct held_memory *h = try_alloc(sizeof(*h));
        struct buf         *b;
        struct error       *err;

        if (h == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory");
        *h = (struct held_memory){ .gpus = m->gpus, .device = device };
        b = buf_new_holding(budget, bytes, free_held, h);
        if (b == NULL) {
                free(h);
                return error_new(ERR_UNAVAILABLE, "%s", buf_pool_shortage(m->pool, bytes));
        }
        err = allocate(m->gpus, device, bytes, h, ret);
        if (err != NULL)
                buf_unref(b);
        else
                ret->buf = b;
        return err;
}

struct error *step_memory_get_pinned(struct step_memory *m, size_t bytes, struct step_buffer *ret) {
        return get_held(m, GPU_HOST, bytes, ret);
}

/* When both have no room, the error is the device's, which names it. */
struct error *step_memory_get_device(struct step_memory *m, int device, size_t bytes,
                                     struct step_buffer *ret) {
        struct error *err = get_held(m, device, bytes, ret);
        AUTO_ERROR    second = err != NULL ? step_memory_get_pinned(m, bytes, ret) : NULL;

        if (err == NULL || second != NULL)
                return err;
        error_free(err);
        return NULL;
}

/* ---- errors ------------------------------------------------------------------------------------ */

struct error *step_memory_shortage(const struct step_memory *m, const char *output, size_t bytes) {
        return error_new(ERR_UNAVAILABLE, "%s for output '%s' of %zu bytes",
                         buf_pool_shortage(m->pool, bytes), output, bytes);
}
