/* SPDX-License-Identifier: BSD-3-Clause */
#include "call/shm_order.h"

#include "base/compiler.h"

static void run_register(struct loop_work *w) {
        struct shm_order *o = CONTAINER_OF(w, struct shm_order, work);

        o->failure = shared_memory_register_cuda(o->memory, &o->place);
}

static void run_unregister(struct loop_work *w) {
        struct shm_order *o = CONTAINER_OF(w, struct shm_order, work);

        o->failure = shared_memory_unregister(o->memory, SHARED_MEMORY_CUDA, o->name);
}

static void refuse_order(struct loop_work *w, struct error *err) {
        CONTAINER_OF(w, struct shm_order, work)->failure = err;
}

void shm_order_register(struct shm_order *o, struct shared_memory *m,
                        const struct cuda_place *place, loop_work_fn done) {
        *o = (struct shm_order){
                .work = { .run = run_register, .refuse = refuse_order, .done = done },
                .memory = m,
                .place = *place
        };
}

void shm_order_unregister(struct shm_order *o, struct shared_memory *m, struct str name,
                          loop_work_fn done) {
        *o = (struct shm_order){
                .work = { .run = run_unregister, .refuse = refuse_order, .done = done },
                .memory = m,
                .name = name
        };
}

struct error *shm_order_end(struct shm_order *o) {
        return STEAL(o->failure);
}
