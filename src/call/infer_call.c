/* SPDX-License-Identifier: BSD-3-Clause */
#include "call/infer_call.h"

#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "core_api/core_error.h"
#include "net/loop.h"
#include "shm/shm_region.h"
#include "trace/trace_record.h"

#include "triton/core/neso.h"
#include "triton/core/tritonserver.h"

/* The ends that a started call waits for. */
enum { PENDING_FINAL = 1, PENDING_RELEASE = 1, PENDING_RETURN = 1 };

void infer_call_response_free(struct infer_call_response *r) {
        if (!r)
                return;
        core_error_drop(TRITONSERVER_InferenceResponseDelete(r->response));
        free(r);
}

static void free_responses(struct infer_call_response *r) {
        while (r) {
                struct infer_call_response *next = r->next;

                infer_call_response_free(r);
                r = next;
        }
}

struct infer_call_response *infer_call_keep_response(struct infer_call *c) {
        return STEAL(c->current);
}

/* Streams: everything that came since the last time, oldest first. */
static void deliver_responses(struct infer_call *c) {
        struct infer_call_response *newest = atomic_exchange(&c->arrived, NULL);
        struct infer_call_response *oldest = NULL;

        while (newest) {
                struct infer_call_response *next = newest->next;

                newest->next = oldest;
                oldest = newest;
                newest = next;
        }
        while (oldest) {
                c->current = oldest;
                c->is_final_response = oldest->is_final;
                oldest = oldest->next;
                c->options.on_response(c, c->current->response);
                infer_call_response_free(STEAL(c->current));
        }
}

static void on_response_mail(struct mail *m) {
        struct infer_call *c = CONTAINER_OF(m, struct infer_call, response_mail);

        /* First, so that what arrives from here on posts again. */
        atomic_store(&c->is_response_mail_posted, false);
        if (c->options.on_response)
                deliver_responses(c);
        else
                c->options.on_early(c);
}

static void finish(struct infer_call *c) {
        if (c->options.on_response)
                deliver_responses(c);
        c->options.on_done(c);
}

/* Between two answers of a connection lies a whole execution, and what was in the cache is gone. */
static void fetch_next(const struct mail *next) {
        const struct infer_call *c = CONTAINER_OF(next, struct infer_call, done_mail);

        for (size_t at = 0; at < c->options.cold.len; at += CACHE_LINE_BYTES)
                __builtin_prefetch(c->options.cold.ptr + at, 1);
}

static void on_done_mail(struct mail *m) {
        if (m->next && m->next->deliver == on_done_mail)
                fetch_next(m->next);
        finish(CONTAINER_OF(m, struct infer_call, done_mail));
}

static void wake(void *mailbox) {
        mailbox_wake(mailbox);
}

/* A backend that answers a batch wakes the loop behind the last answer. */
static void post(struct infer_call *c, struct mail *m) {
        struct mailbox *box = c->options.mailbox; /* the mail is on its way: no more of `c` */
        bool            is_put_off = false;

        if (!mailbox_post_quietly(box, m))
                return;
        core_error_drop(NESO_ThreadAfterResponses(wake, box, &is_put_off));
        if (!is_put_off)
                mailbox_wake(box);
}

/* One of the ends, on any thread: the last one brings the call home. Mails are delivered in the
 * order of posting, so a mail of responses is not overtaken. */
static void end_one(struct infer_call *c) {
        if (atomic_fetch_sub(&c->n_pending, 1) == 1)
                post(c, &c->done_mail);
}

static void post_responses(struct infer_call *c) {
        if (!atomic_exchange(&c->is_response_mail_posted, true))
                post(c, &c->response_mail);
}

static void push_response(struct infer_call *c, struct TRITONSERVER_InferenceResponse *response,
                          bool is_final) {
        struct infer_call_response *r = mem_alloc(sizeof(*r));

        r->response = response;
        r->is_final = is_final;
        r->next = atomic_load(&c->arrived);
        while (!atomic_compare_exchange_weak(&c->arrived, &r->next, r))
                ;
        post_responses(c);
}

static void keep_first(struct infer_call *c, struct TRITONSERVER_InferenceResponse *response,
                       bool is_final) {
        c->unary = response;
        if (UNLIKELY(!is_final) && c->options.on_early)
                post_responses(c);
}

static void on_response(struct TRITONSERVER_InferenceResponse *response, const uint32_t flags,
                        void *userp) {
        struct infer_call *c = userp;
        bool               is_final = (flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0;
        bool               is_first;

        /* This callback may run beside that of the final response: until it has ended, the call
         * must not be done. */
        if (!is_final)
                atomic_fetch_add(&c->n_pending, 1);
        else if (UNLIKELY(c->trace != NULL))
                trace_record_point(c->trace, TRACE_POINT_INFER_RESPONSE_COMPLETE, clock_now_ns());
        if (response) {
                is_first = atomic_fetch_add(&c->n_responses, 1) == 0;
                if (c->options.on_response)
                        push_response(c, response, is_final);
                else if (is_first)
                        keep_first(c, response, is_final);
                else
                        core_error_drop(TRITONSERVER_InferenceResponseDelete(response));
        }
        end_one(c);
}

static void on_release(struct TRITONSERVER_InferenceRequest *request, const uint32_t flags,
                       void *userp) {
        (void)request; /* c->request; deleted with the call, so that cancel() may come late */
        if (flags & TRITONSERVER_REQUEST_RELEASE_ALL)
                end_one(userp);
}

void infer_call_init(struct infer_call *c, const struct infer_call_options *options) {
        c->options = *options;
        c->request = NULL;
        c->pass = (struct admission_pass){ 0 };
        c->regions = NULL;
        c->targets = NULL;
        c->n_regions = c->n_targets = 0;
        c->unary = NULL;
        c->trace = NULL;
        c->is_started = false;
        c->is_final_response = false;
        c->current = NULL;
        c->response_mail = (struct mail){ .deliver = on_response_mail };
        c->done_mail = (struct mail){ .deliver = on_done_mail };
        atomic_init(&c->n_pending, PENDING_FINAL + PENDING_RELEASE + PENDING_RETURN);
        atomic_init(&c->n_responses, 0);
        atomic_init(&c->arrived, NULL);
        atomic_init(&c->is_response_mail_posted, false);
        atomic_init(&c->inline_used, 0);
}

void infer_call_done(struct infer_call *c) {
        if (c->options.on_response)
                free_responses(atomic_exchange(&c->arrived, NULL));
        if (c->unary)
                core_error_drop(TRITONSERVER_InferenceResponseDelete(c->unary));
        if (c->request)
                core_error_drop(TRITONSERVER_InferenceRequestDelete(c->request));
        c->unary = NULL;
        c->request = NULL;
        admission_leave(&c->pass);
        for (size_t i = 0; i < c->n_regions; i++)
                shm_region_unref(c->regions[i]);
        c->n_regions = c->n_targets = 0;
}

struct error *infer_call_open(struct infer_call *c, const char *model, int64_t version) {
        TRY(core_error_take(TRITONSERVER_InferenceRequestNew(&c->request, c->options.core->server,
                                                             model, version)));
        TRY(admission_enter(c->options.core->admission, model, c->options.message_bytes,
                            &c->pass));
        TRY(core_error_take(
                TRITONSERVER_InferenceRequestSetReleaseCallback(c->request, on_release, c)));
        return core_error_take(TRITONSERVER_InferenceRequestSetResponseCallback(
                c->request, c->options.core->allocator, c, on_response, c));
}

static void wake_instances(void) {
        core_error_drop(NESO_ThreadWakeInstances());
}

/* Tells the core about this thread, once. Nothing is locked while a call starts, and its callbacks
 * only count and post: models may run right here. And what one round of a loop submits may be
 * executed together: instances are woken when the round is over. */
static void introduce_thread(void) {
        static _Thread_local bool is_known;

        if (LIKELY(is_known))
                return;
        is_known = true;
        core_error_drop(NESO_ThreadAllowInlineExecution(true));
        if (loop_set_waker(wake_instances))
                wake_instances();
}

/* So that the backend waits for a reader that is slow. */
static struct error *limit_responses(struct infer_call *c) {
        const struct infer_call_limits *limits = &c->options.limits;

        if (!c->options.on_response || limits->max_responses == 0)
                return NULL;
        return core_error_take(NESO_InferenceRequestLimitResponses(
                c->request, limits->max_responses, limits->max_bytes));
}

struct error *infer_call_submit(struct infer_call *c, struct trace_record *trace) {
        struct TRITONSERVER_InferenceTrace *core_trace = trace ? trace_record_core(trace) : NULL;
        struct error                       *err = limit_responses(c);

        if (UNLIKELY(err != NULL)) {
                trace_record_abandon(trace);
                return err;
        }
        c->trace = trace;
        c->is_started = true;
        return core_error_take(
                TRITONSERVER_ServerInferAsync(c->options.core->server, c->request, core_trace));
}

void infer_call_submitted(struct infer_call *c) {
        if (atomic_fetch_sub(&c->n_pending, 1) != 1)
                return;
        /* All is over already. A mail of responses that is under way must come first. */
        if (atomic_load(&c->is_response_mail_posted))
                post(c, &c->done_mail);
        else
                finish(c);
}

struct error *infer_call_take_back(struct infer_call *c, const struct loop_work *w,
                                   struct error *err, bool client_has_gone) {
        if (w->is_cancelled)
                return error_new_text(ERR_CANCELLED, "the client has gone");
        if (err)
                return err;
        if (client_has_gone)
                infer_call_cancel(c);
        infer_call_submitted(c);
        return NULL;
}

struct error *infer_call_start(struct infer_call *c, struct trace_record *trace) {
        introduce_thread();
        TRY(infer_call_submit(c, trace));
        infer_call_submitted(c);
        return NULL;
}

void infer_call_cancel(struct infer_call *c) {
        if (c->is_started && c->request)
                core_error_drop(TRITONSERVER_InferenceRequestCancel(c->request));
}

struct TRITONSERVER_InferenceResponse *infer_call_first_response(struct infer_call *c,
                                                                 uint32_t          *ret_n) {
        *ret_n = atomic_load(&c->n_responses);
        return c->unary;
}

struct error *infer_call_get_response(struct infer_call                      *c,
                                      struct TRITONSERVER_InferenceResponse **ret) {
        uint32_t n = atomic_load(&c->n_responses);

        if (n != 1)
                return error_new(ERR_INTERNAL, "expected a single response, got %u", n);
        *ret = c->unary;
        return NULL;
}
