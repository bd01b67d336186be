/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/instance_start.h"

#include "backend/host_policy.h"
#include "base/job_thread.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/placement.h"
#include "base/thread.h"
#include "base/work_pool.h"
#include "gpu/gpu.h"
#include "repo/loaded_model.h"
#include "repo/warmup.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define ENVIRONMENT "TRITON_PARALLEL_INSTANCE_LOADING"

#define MIN_THREADS 4
#define MAX_THREADS 16

/* The job that makes one instance. */
struct job {
        struct work                  job;
        struct loaded_model         *model;
        const struct instance_start *start;      /* borrowed: the caller */
        atomic_bool                 *has_failed; /* borrowed: shared by all jobs */
        const char                  *policy;
        const struct placement      *place;
        struct error                *error; /* owned */
};

static struct error *make_instance(const struct job *j, const struct batch_member *member) {
        struct loaded_model        *l = j->model;
        const struct host_policies *policies = l->env->policies;
        struct loaded_instance     *in = j->start->instance;
        AUTO_STRBUF                 json = { 0 };

        host_policies_print(policies, j->policy, &json);
        TRY(strbuf_check(&json, "the host policy"));
        return backend_instance_new(
                &(struct backend_instance_options){
                        .model = &l->backend,
                        .name = j->start->name,
                        .group = loaded_instance_group(l, in),
                        .member = member,
                        .group_number = (uint32_t)in->group,
                        .index = in->index,
                        .device_id = MAX(in->device, 0),
                        .host_policy_json = strbuf_str(&json),
                        .place = j->place,
                        .thread = in->thread,
                        .is_bound =
                                in->device != GPU_HOST || host_policies_has(policies, j->policy) },
                &in->backend);
}

static struct error *make_and_warm_up(const struct job *j) {
        struct loaded_model    *l = j->model;
        struct loaded_instance *in = j->start->instance;
        struct batch_members    members;
        struct error           *err;

        TRY(batch_members_read(loaded_instance_config(l, in), &members));
        err = make_instance(j, &members.items[in->group]);
        batch_members_done(&members);
        TRY(err);
        return warmup_run(&l->model, l->directory, in->backend->name, &in->backend->executor,
                          &(struct warmup_options){ .is_stopping = l->env->ends_warmups,
                                                    .n_superseding = l->n_superseding,
                                                    .budget = l->env->warmup_memory });
}

static void job_main(void *arg) {
        struct job *j = arg;

        j->error = make_and_warm_up(j);
}

/* Runs at background priority, like a loader, until the instance serves. */
static void job_main_on_own_thread(void *arg) {
        thread_enter_background();
        job_main(arg);
        thread_leave_background();
}

/* An instance on a GPU is never executed on other threads: they would keep the device as current. */
static bool needs_own_thread(const struct loaded_model *l, const struct loaded_instance *in) {
        return in->device != GPU_HOST || !l->backend.backend->is_inline_safe ||
               model_config_is_decoupled(l->model.config);
}

static struct error *run_in_place(struct job *j) {
        struct loaded_instance *in = j->start->instance;

        if (!needs_own_thread(j->model, in))
                return placement_run(j->place, j->start->name, job_main, j);
        TRY(job_thread_new(j->place, j->start->name, &in->thread));
        job_thread_run(in->thread, job_main_on_own_thread, j);
        job_thread_wait(in->thread);
        return NULL;
}

/* Makes one instance at the place where it will run. */
static void run_job(struct work *job) {
        struct job          *j = CONTAINER_OF(job, struct job, job);
        struct loaded_model *l = j->model;
        AUTO_CHARS           policy = NULL;
        struct error        *err;

        if (atomic_load(j->has_failed))
                return;
        policy = host_policy_name(loaded_instance_group(l, j->start->instance),
                                  j->start->instance->device);
        j->policy = policy;
        j->place = host_policies_place(l->env->policies, policy);
        err = run_in_place(j);
        if (j->place != NULL)
                err = error_wrap(err, "host policy '%s'", policy);
        if (err != NULL)
                j->error = err;
        if (j->error != NULL)
                atomic_store(j->has_failed, true);
        j->policy = NULL;
}

/* True when the environment, or else the backend, allows parallel starts. */
static bool may_be_parallel(const struct loaded_model *l) {
        const char *asked = getenv(ENVIRONMENT);

        if (asked != NULL && (strcmp(asked, "0") == 0 || strcmp(asked, "1") == 0))
                return *asked == '1';
        if (asked != NULL)
                log_warn("model '%s': " ENVIRONMENT " is '%s', expected 0 or 1: it has no effect",
                         l->label, asked);
        return l->backend.backend->attributes.parallel_instances;
}

static void run_jobs(const struct loaded_model *l, struct job *jobs, size_t n) {
        unsigned      n_threads = MAX(MIN_THREADS, MIN(thread_cpu_count(), MAX_THREADS));
        struct work **list;

        if (n <= 1 || !may_be_parallel(l)) {
                for (size_t i = 0; i < n; i++)
                        run_job(&jobs[i].job);
                return;
        }
        list = mem_zalloc(n * sizeof(struct work *));
        for (size_t i = 0; i < n; i++)
                list[i] = &jobs[i].job;
        work_run_all("neso-loader", list, n, n_threads);
        free(list);
}

/* Returns the first error and frees the others. */
static struct error *take_error(struct job *jobs, size_t n) {
        struct error *first = NULL;

        for (size_t i = 0; i < n; i++)
                if (first == NULL)
                        first = STEAL(jobs[i].error);
                else
                        error_free(jobs[i].error);
        return first;
}

struct error *instances_start(struct loaded_model *l, const struct instance_start *starts,
                              size_t n) {
        struct job   *jobs = mem_zalloc((n + 1) * sizeof(*jobs));
        atomic_bool   has_failed = false;
        struct error *err;

        for (size_t i = 0; i < n; i++)
                jobs[i] = (struct job){ .job.run = run_job,
                                        .model = l,
                                        .start = &starts[i],
                                        .has_failed = &has_failed };
        run_jobs(l, jobs, n);
        err = take_error(jobs, n);
        free(jobs);
        for (size_t i = 0; err != NULL && i < n; i++)
                instance_end(starts[i].instance);
        return err;
}

static void finalise(void *arg) {
        struct loaded_instance *in = arg;

        backend_instance_free(STEAL(in->backend));
}

void instance_end(struct loaded_instance *in) {
        if (in->thread == NULL) {
                finalise(in);
                return;
        }
        job_thread_run(in->thread, finalise, in);
        job_thread_wait(in->thread);
        job_thread_free(STEAL(in->thread));
}
