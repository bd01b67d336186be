/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory for the outputs of steps, and for runs. */
#include "base/buf.h"
#include "base/mem.h"
#include "pipeline/client_memory.h"
#include "pipeline/run_private.h"
#include "pipeline/step_cost.h"

#include <string.h>

/* ---- outputs --------------------------------------------------------------------------------- */

static size_t round_up(size_t n) {
        return (n + RUN_INLINE_ALIGNMENT - 1) & ~(size_t)(RUN_INLINE_ALIGNMENT - 1);
}

/* Has the type allocator_small_fn. Memory within the run, for what is freed with the run. NULL: too large, or no such
 * memory is left. A backend may allocate the outputs of one response on several threads. */
static void *take_inline(void *userp, size_t bytes) {
        const struct step_run *s = userp;
        struct run            *run = s->run;
        size_t                 at;

        if (bytes == 0 || bytes > RUN_INLINE_BYTES || !s->plan->is_in_run)
                return NULL;
        at = atomic_load_explicit(&run->inline_used, memory_order_relaxed);
        do {
                if (round_up(bytes) > RUN_INLINE_BYTES - at)
                        return NULL;
        } while (!atomic_compare_exchange_weak(&run->inline_used, &at, at + round_up(bytes)));
        return run->inline_memory + at;
}

/* The tensor, if the step writes the output directly into the client's memory; else PLAN_NONE. */
static uint32_t find_direct(const struct step_run *s, const char *output) {
        const struct plan_step *step = s->plan;

        for (uint32_t i = 0; i < step->n_outputs; i++)
                if (s->run->choice->is_output[step->outputs[i].tensor] &&
                    (step->outputs[i].io->name == output ||
                     strcmp(step->outputs[i].io->name, output) == 0))
                        return step->outputs[i].tensor;
        return PLAN_NONE;
}

/* Has the type allocator_redirect_fn. */
static bool redirect(void *userp, const char *output, struct memory_origin *ret) {
        const struct step_run *s = userp;
        const struct run      *run = s->run;
        uint32_t               direct;

        if (s->plan->is_passed_on) {
                *ret = client_memory_of(run->req, output);
                return true;
        }
        direct = find_direct(s, output);
        if (direct != PLAN_NONE)
                *ret = client_memory_of(run->req, run->plan->tensors[direct].name);
        return direct != PLAN_NONE;
}

static NOINLINE struct error *allocate_placed(const struct step_run *s, const char *output,
                                              size_t byte_size, enum memory_type type, int64_t id,
                                              void **buffer, void **buffer_userp,
                                              enum memory_type *actual_type, int64_t *actual_id) {
        struct step_buffer b;

        TRY(run_device_allocate(s, output, byte_size, type, id, &b));
        *buffer = b.bytes;
        *buffer_userp = b.buf;
        *actual_type = b.type;
        *actual_id = b.id;
        return NULL;
}

/* Has the type allocator_alloc_fn. All memory that a step writes outputs to for other steps comes from
 * here. */
static struct error *allocate_tensor(struct response_allocator *allocator, const char *output,
                                     size_t byte_size, enum memory_type type, int64_t id,
                                     void *userp, void **buffer, void **buffer_userp,
                                     enum memory_type *actual_type, int64_t *actual_id) {
        const struct step_run *s = userp;
        struct step_memory    *memory = s->run->runner->options.memory;
        struct buf            *b = NULL;

        (void)allocator;
        *buffer_userp = NULL;
        *actual_type = MEMORY_CPU;
        *actual_id = 0;
        if (type != MEMORY_CPU && memory->gpus != NULL && byte_size > 0)
                return allocate_placed(s, output, byte_size, type, id, buffer, buffer_userp,
                                       actual_type, actual_id);
        *buffer = take_inline(userp, byte_size);
        if (byte_size == 0 || *buffer != NULL)
                return NULL;
        b = step_memory_get(memory, byte_size);
        if (b == NULL)
                return step_memory_shortage(memory, output, byte_size);
        *buffer = b->bytes;
        *buffer_userp = b;
        return NULL;
}

static const struct response_allocator inside = { .alloc = allocate_tensor,
                                                  .small = take_inline,
                                                  .release = inner_output_release };
static const struct response_allocator for_client = { .alloc = allocate_tensor,
                                                      .release = inner_output_release,
                                                      .redirect = redirect };

const struct response_allocator *run_allocator_of(const struct step_run *s) {
        return s->plan->index == s->run->direct_step ? &for_client : &inside;
}

/* ---- sizes of frames --------------------------------------------------------------------------- */

/* Cannot overflow: the counts are bounded by the size of a configuration file. */
size_t frame_bytes(const struct pipeline_plan *p, uint32_t stream) {
        return sizeof(struct frame) + p->streams[stream].n_tensors * sizeof(struct value) +
               p->streams[stream].n_steps * sizeof(struct step_run);
}

size_t frame_cost(const struct pipeline_plan *p, uint32_t stream) {
        const struct plan_step *producer = &p->steps[p->streams[stream].producer];

        return frame_bytes(p, stream) + step_cost_response(producer->model->io->n_outputs) -
               sizeof(struct response);
}

/* ---- the memory budget ----------------------------------------------------------------------- */

/* Largest charge for responses that a run always has room for. Each decoupled step that reads from
 * another one doubles their number; a configuration with many of them is no reason to refuse every
 * request. */
#define MAX_ROOM_BYTES ((size_t)256 << 10)

/* What the responses take that the decoupled steps have room for even when the budget is used up. */
static size_t room_bytes(const struct pipeline_plan *p) {
        size_t n_frames = 1, n_bytes = 0;

        for (uint32_t stream = p->out_stream; stream != 0;
             stream = p->steps[p->streams[stream].producer].in_stream) {
                n_frames = MIN(n_frames * RESPONSE_STREAM_LEAST, MAX_ROOM_BYTES);
                n_bytes += n_frames * (sizeof(struct response) +
                                       MIN(frame_cost(p, stream) + p->step_bytes, MAX_ROOM_BYTES));
                n_bytes = MIN(n_bytes, MAX_ROOM_BYTES);
        }
        return n_bytes;
}

void runner_price(struct pipeline_plan *p) {
        p->run_bytes = sizeof(struct run) + frame_bytes(p, 0) +
                       STEPS_PAID_AT_FIRST * p->step_bytes + room_bytes(p);
}

bool run_memory_charge(struct runner *r, const struct pipeline_plan *p, const struct request *req) {
        struct byte_budget *b = r->options.memory->budget;

        if (req->is_inner) {
                byte_budget_force(b, p->run_bytes);
                return true;
        }
        if (byte_budget_take(b, p->run_bytes))
                return true;
        byte_budget_refused(b);
        return false;
}

void run_memory_charge_steps(struct run *run) {
        run->n_paid += STEPS_PAID_AT_ONCE;
        byte_budget_force(run->runner->options.memory->budget,
                          STEPS_PAID_AT_ONCE * run->plan->step_bytes);
}

void run_memory_give_steps(struct run *run) {
        run->n_paid -= STEPS_PAID_AT_ONCE;
        byte_budget_give(run->runner->options.memory->budget,
                         STEPS_PAID_AT_ONCE * run->plan->step_bytes);
}

void run_memory_give_all(const struct run *run) {
        byte_budget_give(run->runner->options.memory->budget,
                         run->plan->run_bytes +
                                 (run->n_paid - STEPS_PAID_AT_FIRST) * run->plan->step_bytes);
}

/* ---- runs ------------------------------------------------------------------------------------ */

#if IS_SANITIZED
#define MAX_KEPT_RUNS 1 /* so that the sanitizer sees most uses after free */
#else
#define MAX_KEPT_RUNS 64 /* each has a few KiB */
#endif

/* A block has the run, the frame of stream 0, and an array for kept requests. Cannot overflow: see
 * frame_bytes(). */
static struct run *allocate_run(const struct pipeline_plan *plan) {
        size_t      at = sizeof(struct run) + frame_bytes(plan, 0);
        uint32_t    n = plan->streams[0].n_steps;
        struct run *run =
                try_aligned_alloc(RUN_INLINE_ALIGNMENT, at + n * sizeof(struct inner_request *));

        if (run == NULL)
                return NULL;
        mutex_init(&run->lock, LOCK_QUEUE);
        run->plan_id = plan->id;
        run->first = (struct frame *)(run + 1);
        run->kept = (struct inner_request **)((char *)run + at);
        run->n_kept = n;
        memset(run->kept, 0, n * sizeof(*run->kept));
        return run;
}

/* The models of the kept requests may be gone: they are borrowed. */
static void free_run(struct run *run) {
        for (uint32_t i = 0; i < run->n_kept; i++)
                inner_request_free(run->kept[i]);
        mutex_done(&run->lock);
        free(run);
}

/* Whether the first kept block was made for another plan: such blocks are never used again. */
static bool has_other_locked(const struct runner *r, uint64_t plan_id) {
        const struct run *first = (const struct run *)(void *)r->kept.first;

        return first != NULL && first->plan_id != plan_id;
}

struct run *run_memory_take(struct runner *r, const struct pipeline_plan *plan) {
        struct run *run = NULL;

        mutex_lock(&r->lock);
        if (!mem_may_fail() && !has_other_locked(r, plan->id))
                run = block_cache_take(&r->kept);
        mutex_unlock(&r->lock);
        if (run == NULL)
                run = allocate_run(plan);
        if (run != NULL)
                memset(run, 0, offsetof(struct run, lock));
        return run;
}

void run_memory_give(struct run *run) {
        struct runner *r = run->runner;
        struct run    *other = NULL;
        bool           is_kept;

        mutex_lock(&r->lock);
        if (has_other_locked(r, run->plan_id))
                other = block_cache_take(&r->kept);
        is_kept = block_cache_give(&r->kept, run, MAX_KEPT_RUNS);
        mutex_unlock(&r->lock);
        if (other != NULL)
                free_run(other);
        if (!is_kept)
                free_run(run);
}

void run_memory_free_kept(struct runner *r) {
        while (r->kept.first != NULL)
                free_run(block_cache_take(&r->kept));
}
