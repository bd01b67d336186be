/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/mem.h"
#include "net/loop.h"
#include "net/uv_types.h"

/* The thread pool is libuv's: UV_THREADPOOL_SIZE threads, 4 by default. */
struct offload {
        uv_work_t         native;
        struct loop_work *work; /* borrowed: its owner's */
};

static void on_run(uv_work_t *native) {
        struct offload *o = CONTAINER_OF(native, struct offload, native);

        o->work->run(o->work);
}

/* Nothing is ever cancelled, so the status is always success. */
static void on_done(uv_work_t *native, int status UNUSED) {
        struct offload   *o = CONTAINER_OF(native, struct offload, native);
        struct loop_work *w = o->work;

        w->native = NULL;
        free(o);
        w->done(w);
}

void loop_offload(struct loop *l, struct loop_work *w) {
        struct offload *o = mem_zalloc(sizeof(*o));

        o->work = w;
        w->native = o;
        uv_queue_work(&l->uv, &o->native, on_run, on_done);
}
