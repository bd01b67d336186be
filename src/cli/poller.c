/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/poller.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "core_api/core_error.h"
#include "triton/core/neso.h"

struct poller {
        struct TRITONSERVER_Server *core; /* borrowed */
        uint64_t                    interval_ns;
        struct thread               thread;
        struct mutex                lock; /* rank LOCK_SERVER; guards everything below */
        struct cond                 changed;
        bool                        is_stopping;
};

/* Returns false when the poller stops. */
static bool wait_for_next(struct poller *p) {
        uint64_t due_ns = clock_now_ns() + p->interval_ns;

        MUTEX_GUARD(&p->lock);
        while (!p->is_stopping && cond_wait_until(&p->changed, &p->lock, due_ns))
                ;
        return !p->is_stopping;
}

static void poller_main(void *arg) {
        struct poller *p = arg;

        thread_enter_background();
        while (wait_for_next(p)) {
                AUTO_ERROR err = core_error_take(NESO_ServerStartPoll(p->core));

                if (err != NULL && err->code != ERR_UNAVAILABLE) /* UNAVAILABLE: the server is
                                                                  * stopping */
                        log_error("%s", err->message);
        }
}

struct error *poller_start(struct TRITONSERVER_Server *core, uint64_t interval_ns,
                           struct poller **ret) {
        struct poller *p = mem_zalloc(sizeof(*p));

        p->core = core;
        p->interval_ns = interval_ns;
        mutex_init(&p->lock, LOCK_SERVER);
        cond_init(&p->changed);
        TRY_OR(thread_start(&p->thread, "neso-poll", poller_main, p), poller_stop(p));
        *ret = p;
        return NULL;
}

void poller_stop(struct poller *p) {
        if (p == NULL)
                return;
        mutex_lock(&p->lock);
        p->is_stopping = true;
        cond_signal(&p->changed);
        mutex_unlock(&p->lock);
        thread_join(&p->thread);
        cond_done(&p->changed);
        mutex_done(&p->lock);
        free(p);
}
