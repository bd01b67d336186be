/* SPDX-License-Identifier: BSD-3-Clause */
/* Work that computes, on the threads that the loops of a group share for it. */
#include "net/loop.h"
#include "net/uv_types.h"

/* On a thread of the pool. The work may be gone as soon as its mail is posted. */
static void run_queued(struct work *queued) {
        struct loop_work *w = CONTAINER_OF(queued, struct loop_work, queued);

        w->run(w);
        mailbox_post(loop_mailbox(w->loop), &w->back);
}

static void on_back(struct mail *m) {
        struct loop_work *w = CONTAINER_OF(m, struct loop_work, back);

        w->done(w);
}

void loop_compute(struct loop *l, struct loop_work *w) {
        w->loop = l;
        w->queued = (struct work){ .run = run_queued };
        w->back = (struct mail){ .deliver = on_back };
        w->is_cancelled = false;
        if (!work_pool_push(l->workers, &w->queued))
                run_queued(&w->queued);
}

void loop_compute_cancel(struct loop_work *w) {
        if (!work_pool_take_back(w->loop->workers, &w->queued))
                return;
        w->is_cancelled = true;
        mailbox_post(loop_mailbox(w->loop), &w->back);
}
