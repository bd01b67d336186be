/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/python_instance.h"

#include "kit/scratch.h"
#include "python/bls_call.h"
#include "python/holds.h"
#include "python/services.h"
#include "triton/core/neso.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Other servers do not have it. */
#pragma weak NESO_ThreadAllowInlineExecution

#define SECOND_NS UINT64_C(1000000000)
#define NAP_NS UINT64_C(1000000)
#define SLOW_START_NS (30 * SECOND_NS) /* interval of log lines while a model loads */
#define HEALTHY_NS (60 * SECOND_NS)    /* after this time the next crash counts as the first */
#define FIRST_DELAY_NS (SECOND_NS / 10)
#define MAX_DELAY_NS (10 * SECOND_NS)
/* Requests wait while fewer processes in a row are killed during their start. */
#define MAX_LOST_STARTS 5
#define READY_NS (5 * SECOND_NS) /* time limit for is_ready() of the model */
#define TRIM_AFTER_NS (10 * SECOND_NS)
#define TRIM_BYTES (UINT64_C(64) << 20)

#define LOG(level, ...) kit_log(TRITONSERVER_LOG_##level, __FILE__, __LINE__, __VA_ARGS__)

/* ---- starting -------------------------------------------------------------------------------- */

static TRITONSERVER_Error *start_session(struct instance *in) {
        struct session     *s;
        TRITONSERVER_Error *err = session_start(&(struct session_options){ .model = in->model,
                                                                           .name = in->name,
                                                                           .kind = in->kind,
                                                                           .device = in->device,
                                                                           .mode = SESSION_SERVE },
                                                &s);

        if (err != NULL)
                return err;
        (void)pthread_mutex_lock(&in->lock);
        in->session = s;
        in->is_started = false;
        if (in->start_error != NULL)
                TRITONSERVER_ErrorDelete(in->start_error); /* of the previous process */
        in->start_error = NULL;
        in->started_ns = shm_clock_ns();
        in->logged_ns = in->started_ns;
        (void)pthread_mutex_unlock(&in->lock);
        return NULL;
}

static void set_state(struct instance *in, enum instance_state state) {
        (void)pthread_mutex_lock(&in->lock);
        if (in->state != INSTANCE_STOPPING)
                in->state = state;
        (void)pthread_cond_broadcast(&in->changed);
        (void)pthread_mutex_unlock(&in->lock);
}

/* Returns why a process ended before its model was loaded, unless the stub has reported the
 * reason. */
static TRITONSERVER_Error *explain_end(const struct instance *in, struct session *s) {
        char text[1024], end[64];

        if (stub_process_read_text(&s->process, text, sizeof(text)) > 0)
                return kit_error(TRITONSERVER_ERROR_INTERNAL, "%s", text);
        stub_process_print_end(&s->process, end, sizeof(end));
        if (!s->is_known)
                return kit_error(TRITONSERVER_ERROR_INTERNAL,
                                 "Stub process '%s' is not healthy.: '%s' %s before it was ready",
                                 in->name, in->model->python, end);
        return kit_error(TRITONSERVER_ERROR_INTERNAL, "Stub process '%s' is not healthy.: %s",
                         in->name, end);
}

/* ---- the receiver ---------------------------------------------------------------------------- */

/* Kills a process that does not attach in time, and logs at intervals that a model still loads.
 * Returns the time until the next check. */
static uint64_t watch_start(struct instance *in, struct session *s, uint64_t now_ns) {
        uint64_t limit_ns = in->model->backend->settings.timeout_ns;

        if (!s->is_known) {
                if (now_ns - in->started_ns < limit_ns)
                        return limit_ns - (now_ns - in->started_ns);
                LOG(ERROR, "Stub process '%s' has not started within %llu s", in->name,
                    (unsigned long long)(limit_ns / SECOND_NS));
                stub_process_kill(&s->process);
                return SHM_FOREVER;
        }
        if (now_ns - in->logged_ns >= SLOW_START_NS) {
                LOG(INFO, "model instance '%s' is still being initialized, after %llu s", in->name,
                    (unsigned long long)((now_ns - in->started_ns) / SECOND_NS));
                in->logged_ns = now_ns;
        }
        return SLOW_START_NS - (now_ns - in->logged_ns);
}

/* Kills a process whose execution takes too long. Otherwise returns the time until the next
 * check. */
static uint64_t watch_executions(struct instance *in, struct session *s, uint64_t now_ns) {
        uint64_t limit_ns = in->model->execute_timeout_ns, wait_ns = SHM_FOREVER;

        (void)pthread_mutex_lock(&in->lock);
        for (struct execution *ex = in->first; limit_ns != 0 && ex != NULL; ex = ex->next) {
                uint64_t claim_ns = s->region.header->slots[ex->slot].claim_ns; /* 0: the execution
                                                                                 * has not begun */
                uint64_t took_ns = claim_ns != 0 && claim_ns < now_ns ? now_ns - claim_ns : 0;
                uint64_t left_ns = took_ns < limit_ns ? limit_ns - took_ns : 0;

                if (left_ns < wait_ns)
                        wait_ns = left_ns;
        }
        (void)pthread_mutex_unlock(&in->lock);
        if (wait_ns != 0)
                return wait_ns;
        LOG(ERROR, "Stub process '%s' is killed: an execution took longer than %llu ms", in->name,
            (unsigned long long)(limit_ns / 1000000));
        stub_process_kill(&s->process);
        return SHM_FOREVER;
}

/* Returns memory of a burst to the system when no message has come for a while. */
static uint64_t watch_memory(struct instance *in, struct session *s, bool was_idle) {
        if (region_idle_bytes(&s->region) < TRIM_BYTES)
                return SHM_FOREVER;
        if (!was_idle)
                return TRIM_AFTER_NS;
        (void)reader_shrink(in, s);
        return SHM_FOREVER;
}

static uint64_t earlier(uint64_t a, uint64_t b) {
        return a < b ? a : b;
}

static void read_messages(struct instance *in) {
        (void)pthread_mutex_lock(&in->lock);
        reader_enter_locked(in);
        (void)pthread_mutex_unlock(&in->lock);
        reader_drain(in);
        in->naps = in->has_lazy_messages;
        in->has_lazy_messages = false;
        (void)pthread_mutex_lock(&in->lock);
        in->must_serve =
                in->is_started && in->state != INSTANCE_SERVING && in->state != INSTANCE_STOPPING;
        reader_leave_locked(in);
        (void)pthread_mutex_unlock(&in->lock);
}

/* Offers the executions that the last process had not begun, before new ones are accepted. */
static void begin_to_serve(struct instance *in) {
        execution_offer_again(in);
        in->healthy_since_ns = shm_clock_ns();
        in->n_lost_starts = 0;
        set_state(in, INSTANCE_SERVING);
}

static void sleep_for(struct instance *in, struct session *s, uint64_t timeout_ns) {
        bool is_lazy = in->naps;

        /* While short executions follow each other, the stub reports several results at once.
         * Results that precede a long execution do not wait for it. */
        (void)pthread_mutex_lock(&in->lock);
        is_lazy = is_lazy || (in->n_executions > 1 && !in->is_concurrent);
        (void)pthread_mutex_unlock(&in->lock);
        session_sleep(s, &s->region.header->receiver_sleep, is_lazy ? SHM_NAPPING : SHM_ASLEEP,
                      is_lazy ? earlier(timeout_ns, NAP_NS) : timeout_ns, NULL);
}

/* Serves the process until it has ended and all its messages are read. */
static void serve(struct instance *in, struct session *s) {
        bool was_idle = false;

        for (;;) {
                bool     is_over = session_is_over(s);
                uint64_t now_ns, wait_ns;

                read_messages(in);
                if (is_over)
                        break;
                if (in->must_serve)
                        begin_to_serve(in);
                now_ns = shm_clock_ns();
                wait_ns = in->is_started ? watch_executions(in, s, now_ns)
                                         : watch_start(in, s, now_ns);
                wait_ns = earlier(wait_ns, watch_memory(in, s, was_idle));
                sleep_for(in, s, wait_ns);
                was_idle = !session_has_message(s);
        }
        if (atomic_load(&s->region.is_broken) && !atomic_load(&s->is_over))
                LOG(ERROR, "Stub process '%s' is killed: it broke the rules of the shared memory",
                    in->name);
        session_end(s);
}

/* ---- crashes --------------------------------------------------------------------------------- */

static void drop_session(struct instance *in) {
        struct session *s;

        (void)pthread_mutex_lock(&in->lock);
        reader_enter_locked(in);
        s = in->session;
        in->session = NULL;
        reader_leave_locked(in);
        (void)pthread_mutex_unlock(&in->lock);
        if (s != NULL)
                session_unref(s);
}

/* Returns whether waiting requests may wait for another process. When a model fails during the
 * start of a new process, its requests are answered at once. A process that is killed during its
 * start proves nothing about the model, so the requests wait on. */
static bool may_recover(struct instance *in, const struct session *s) {
        if (in->is_started)
                return true;
        return in->start_error == NULL && stub_process_was_killed(&s->process) &&
               ++in->n_lost_starts < MAX_LOST_STARTS;
}

/* Handles the end of the process. The executions that it had begun fail. Returns true when another
 * process must be started. */
static bool handle_exit(struct instance *in) {
        struct session *s = in->session;
        bool is_stopping, is_first, recovers, restarts = in->model->backend->settings.restarts;
        char end[64];

        stub_process_print_end(&s->process, end, sizeof(end));
        (void)pthread_mutex_lock(&in->lock);
        is_stopping = in->state == INSTANCE_STOPPING;
        recovers = may_recover(in, s);
        in->has_attached = s->is_known;
        if (!in->is_started && in->start_error == NULL)
                in->start_error = explain_end(in, s);
        is_first = in->state == INSTANCE_STARTING;
        if (is_first)
                restarts = false;
        else if (!is_stopping)
                in->state = restarts && recovers ? INSTANCE_RESTARTING : INSTANCE_FAILED;
        if (!is_stopping)
                LOG(ERROR, "Stub process '%s' ended unexpectedly: %s%s%s", in->name, end,
                    in->start_error != NULL ? ": " : "",
                    in->start_error != NULL ? TRITONSERVER_ErrorMessage(in->start_error) : "");
        (void)pthread_cond_broadcast(&in->changed);
        (void)pthread_mutex_unlock(&in->lock);
        bls_call_cancel_all(in);
        services_free_metrics(in);
        holds_end_all(in); /* the process has nothing open any more */
        /* When no process will start again, all requests are refused at once. */
        execution_recover(in, is_stopping || !restarts || !recovers);
        drop_session(in);
        if (is_first)
                set_state(in, INSTANCE_FAILED);
        return restarts && !is_stopping;
}

/* Returns false when the instance stops. */
static bool pause_for(struct instance *in, uint64_t delay_ns) {
        uint64_t        until_ns = shm_clock_ns() + delay_ns;
        struct timespec until = { .tv_sec = (time_t)(until_ns / SECOND_NS),
                                  .tv_nsec = (long)(until_ns % SECOND_NS) };
        int             rc = 0;
        bool            goes_on;

        (void)pthread_mutex_lock(&in->lock);
        while (rc == 0 && delay_ns > 0 && in->state != INSTANCE_STOPPING)
                rc = pthread_cond_timedwait(&in->changed, &in->lock, &until);
        goes_on = in->state != INSTANCE_STOPPING;
        (void)pthread_mutex_unlock(&in->lock);
        return goes_on;
}

static uint64_t next_delay(struct instance *in) {
        uint64_t now_ns = shm_clock_ns(), delay_ns = in->delay_ns;

        if (in->healthy_since_ns != 0 && now_ns - in->healthy_since_ns > HEALTHY_NS)
                delay_ns = 0;
        in->delay_ns = delay_ns == 0 ? FIRST_DELAY_NS : earlier(delay_ns * 2, MAX_DELAY_NS);
        return delay_ns;
}

/* Starts another process, with as many attempts as necessary. Returns false when the instance
 * stops. */
static bool restart(struct instance *in) {
        for (;;) {
                uint64_t            delay_ns = next_delay(in);
                TRITONSERVER_Error *err;

                if (delay_ns > 0)
                        LOG(INFO, "restarting stub process '%s' in %" PRIu64 " ms", in->name,
                            delay_ns / 1000000);
                if (!pause_for(in, delay_ns))
                        return false;
                if (in->model->restarts != NULL)
                        kit_error_log(TRITONSERVER_MetricIncrement(in->model->restarts, 1),
                                      "failed to count a restart");
                err = start_session(in);
                if (err == NULL)
                        return true;
                kit_error_log(err, "failed to restart a stub process");
                set_state(in, INSTANCE_FAILED);
                execution_recover(in, true);
        }
}

static void *receive(void *userp) {
        struct instance *in = userp;

        (void)pthread_setname_np(pthread_self(), "python receiver");
        /* This thread serves all clients of the instance and never waits for a slow one. It may run
         * small models that the program calls itself. */
        if (NESO_ThreadAllowInlineExecution != NULL)
                NESO_ThreadAllowInlineExecution(true);
        do
                serve(in, in->session);
        while (handle_exit(in) && restart(in));
        return NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

static TRITONSERVER_Error *describe_instance(struct instance *in) {
        TRITONSERVER_InstanceGroupKind kind;

        KIT_TRY(TRITONBACKEND_ModelInstanceName(in->triton, &in->name));
        KIT_TRY(TRITONBACKEND_ModelInstanceKind(in->triton, &kind));
        KIT_TRY(TRITONBACKEND_ModelInstanceDeviceId(in->triton, &in->device));
        in->kind = TRITONSERVER_InstanceGroupKindString(kind);
        return NULL;
}

static void link_to_model(struct instance *in) {
        struct backend *backend = in->model->backend;

        (void)pthread_mutex_lock(&backend->lock);
        in->next = in->model->instances;
        in->model->instances = in;
        (void)pthread_mutex_unlock(&backend->lock);
}

static void unlink_from_model(struct instance *in) {
        struct backend   *backend = in->model->backend;
        struct instance **link = &in->model->instances;

        (void)pthread_mutex_lock(&backend->lock);
        while (*link != NULL && *link != in)
                link = &(*link)->next;
        if (*link != NULL)
                *link = in->next;
        (void)pthread_mutex_unlock(&backend->lock);
}

static void init(struct instance *in) {
        pthread_condattr_t attributes;

        (void)pthread_condattr_init(&attributes);
        (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        (void)pthread_mutex_init(&in->lock, NULL);
        (void)pthread_cond_init(&in->changed, &attributes);
        (void)pthread_condattr_destroy(&attributes);
        in->last = &in->first;
        in->free_entries_head = SHM_NO_INDEX;
        atomic_init(&in->depth, 1);
}

static void destroy(struct instance *in) {
        for (uint32_t i = 0; i < in->n_entries; i++)
                free(in->entries[i]);
        while (in->spare != NULL) {
                struct execution *ex = in->spare;

                in->spare = ex->next;
                free(ex);
        }
        free(in->entries);
        free(in->next_free);
        if (in->start_error != NULL)
                TRITONSERVER_ErrorDelete(in->start_error);
        (void)pthread_cond_destroy(&in->changed);
        (void)pthread_mutex_destroy(&in->lock);
        free(in);
}

/* Waits for the end of the model's initialize(). */
static TRITONSERVER_Error *wait_for_start(struct instance *in) {
        TRITONSERVER_Error *err = NULL;

        (void)pthread_mutex_lock(&in->lock);
        while (in->state == INSTANCE_STARTING)
                (void)pthread_cond_wait(&in->changed, &in->lock);
        if (in->state == INSTANCE_FAILED) {
                err = in->start_error;
                in->start_error = NULL;
        }
        (void)pthread_mutex_unlock(&in->lock);
        if (err != NULL)
                LOG(ERROR, "Failed to %s Python stub: %s",
                    in->has_attached ? "initialize" : "preinitialize",
                    TRITONSERVER_ErrorMessage(err));
        return err;
}

static TRITONSERVER_Error *start_instance(struct instance *in) {
        TRITONSERVER_Error *err;

        KIT_TRY(start_session(in));
        if (pthread_create(&in->receiver, NULL, receive, in) != 0) {
                session_end(in->session);
                drop_session(in);
                return kit_error(TRITONSERVER_ERROR_INTERNAL, "unable to start a thread");
        }
        err = wait_for_start(in);
        if (err != NULL) {
                (void)pthread_join(in->receiver, NULL);
                bls_call_wait_all(in);
        }
        return err;
}

TRITONSERVER_Error *instance_new(TRITONBACKEND_ModelInstance *triton, struct model *model,
                                 struct instance **ret) {
        struct instance    *in = kit_alloc_array(1, sizeof(*in));
        TRITONSERVER_Error *err;

        if (in == NULL)
                return kit_error_no_memory(sizeof(*in), "an instance");
        in->triton = triton;
        in->model = model;
        init(in);
        err = describe_instance(in);
        if (err == NULL)
                err = start_instance(in);
        if (err != NULL) {
                destroy(in);
                return err;
        }
        link_to_model(in);
        *ret = in;
        return NULL;
}

/* Runs finalize() of the model, if its process still can, and ends the process. */
static void stop_process(struct instance *in) {
        struct session *s;
        bool            is_serving;

        (void)pthread_mutex_lock(&in->lock);
        is_serving = in->state == INSTANCE_SERVING;
        in->state = INSTANCE_STOPPING;
        s = in->session;
        if (s != NULL)
                session_ref(s);
        if (s != NULL && is_serving)
                session_push(s, &(struct shm_execution){ .kind = SHM_FINALIZE });
        (void)pthread_cond_broadcast(&in->changed);
        (void)pthread_mutex_unlock(&in->lock);
        if (s == NULL)
                return;
        session_wake_stub(s);
        if (is_serving && !session_wait(s, in->model->backend->settings.timeout_ns))
                LOG(WARN, "Stub process '%s' has not ended within %llu s and is killed", in->name,
                    (unsigned long long)(in->model->backend->settings.timeout_ns / SECOND_NS));
        session_end(s);
        session_unref(s);
}

void instance_free(struct instance *in) {
        if (in == NULL)
                return;
        unlink_from_model(in);
        stop_process(in);
        (void)pthread_join(in->receiver, NULL);
        bls_call_wait_all(in);
        destroy(in);
}

/* Returns the pending question, or a new one: is_ready() is called once at a time. */
static uint32_t ask_ready_locked(struct shm_header *h) {
        uint32_t question = atomic_load(&h->ready_asked);

        if (atomic_load(&h->ready_answered) != question)
                return question;
        atomic_store(&h->ready_asked, question + 1);
        shm_futex_wake(&h->ready_asked, 1);
        return question + 1;
}

static const char *wait_for_ready(struct session *s, uint32_t question) {
        struct shm_header *h = s->region.header;
        uint64_t           deadline_ns = shm_clock_ns() + READY_NS;

        for (;;) {
                uint32_t answered = atomic_load(&h->ready_answered);
                uint64_t now_ns = shm_clock_ns();

                if ((int32_t)(answered - question) >= 0)
                        break;
                if (session_is_over(s) || now_ns >= deadline_ns)
                        return "Timed out waiting for user-defined is_ready() response";
                (void)shm_futex_wait(&h->ready_answered, answered, deadline_ns - now_ns);
        }
        switch (atomic_load(&h->ready_value)) {
        case SHM_READY_YES: return NULL;
        case SHM_READY_NOT_BOOL: return "is_ready() must return a boolean value";
        default: return "";
        }
}

static TRITONSERVER_Error *not_ready(const struct instance *in, const char *why) {
        TRITONSERVER_Error *err =
                *why != '\0' ? kit_error(TRITONSERVER_ERROR_INTERNAL, "%s", why)
                             : kit_error(TRITONSERVER_ERROR_INTERNAL,
                                         "Model '%s' is not ready (user-defined check failed).",
                                         in->name);

        LOG(VERBOSE, "%s", TRITONSERVER_ErrorMessage(err));
        return err;
}

TRITONSERVER_Error *instance_is_ready(struct instance *in) {
        struct session *s = NULL;
        const char     *why;
        uint32_t        question = 0;
        bool            is_serving;

        (void)pthread_mutex_lock(&in->lock);
        is_serving = in->state == INSTANCE_SERVING && in->session != NULL;
        if (is_serving && in->has_ready_check) {
                s = in->session;
                session_ref(s);
                question = ask_ready_locked(s->region.header);
        }
        (void)pthread_mutex_unlock(&in->lock);
        if (!is_serving)
                return instance_unhealthy(in);
        if (s == NULL)
                return NULL;
        why = wait_for_ready(s, question);
        session_unref(s);
        return why != NULL ? not_ready(in, why) : NULL;
}
