/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/loader_pool.h"

#include "base/mem.h"
#include "base/thread.h"

#include <stdatomic.h>

/* Threads of the pool live for one call: loads are rare and long, and idle threads would cost
 * memory for the whole life of the server. */
struct loader_pool {
        struct loader_job **jobs;
        size_t              n_jobs;
        _Atomic size_t      next;
};

static void run_jobs(struct loader_pool *pool) {
        size_t at;

        while ((at = atomic_fetch_add(&pool->next, 1)) < pool->n_jobs)
                pool->jobs[at]->run(pool->jobs[at]);
}

static void loader_main(void *arg) {
        thread_give_way();
        run_jobs(arg);
}

void loader_pool_run_all(struct loader_job **jobs, size_t n_jobs, unsigned n_threads) {
        struct loader_pool pool = { .jobs = jobs, .n_jobs = n_jobs };
        size_t             n = n_jobs < n_threads ? n_jobs : n_threads;
        struct thread     *threads = mem_zalloc((n + 1) * sizeof(*threads));
        struct error      *err = NULL;

        for (size_t i = 0; i < n && err == NULL; i++)
                err = thread_start(&threads[i], "neso-loader", loader_main, &pool);
        if (err != NULL || n == 0)
                run_jobs(&pool); /* with fewer threads, or with none, the caller helps */
        error_free(err);
        for (size_t i = 0; i < n; i++)
                thread_join(&threads[i]);
        free(threads);
}
