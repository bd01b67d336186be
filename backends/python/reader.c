/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader's role of an instance: reads the stub's messages and passes each to the code that handles it
 * (python_instance.h). */
#include "python/answer.h"
#include "python/bls_call.h"
#include "python/holds.h"
#include "python/python_instance.h"
#include "python/reply.h"
#include "python/services.h"
#include "triton/core/neso.h"

#include <stdlib.h>
#include <string.h>

/* Other servers do not have these functions. */
#pragma weak NESO_ThreadBeginResponses
#pragma weak NESO_ThreadEndResponses

#define ROW_MESSAGES 16u /* limit of messages whose clients are notified together, ... */
#define ROW_NS 20000u    /* ... and of the time that their handling may take */

/* Why the load failed. Without memory for the reason the load fails as well: nothing else would end it. */
static TRITONSERVER_Error *copy_reason(const struct answer_source *source, struct shm_text reason) {
        char               *text = answer_copy_text(source, reason);
        TRITONSERVER_Error *err = text != NULL
                                          ? TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, text)
                                          : kit_error_no_memory(reason.len, "a reason");

        free(text);
        return err;
}

/* The model was loaded, or its load failed with a reason. */
static void on_started(struct instance *in, const struct answer_source *source) {
        struct shm_answer   answer;
        TRITONSERVER_Error *err = NULL;

        if (!answer_copy(source, 0, &answer, sizeof(answer)))
                return;
        if (answer.kind != SHM_ANSWER_OK)
                err = copy_reason(source, answer.text);
        (void)pthread_mutex_lock(&in->lock);
        if (in->start_error != NULL)
                TRITONSERVER_ErrorDelete(in->start_error);
        in->start_error = err;
        in->has_ready_check = (answer.code & SHM_MODEL_HAS_READY_CHECK) != 0;
        in->is_concurrent = (answer.code & SHM_MODEL_IS_CONCURRENT) != 0;
        in->has_own_queue = (answer.code & SHM_MODEL_HAS_OWN_QUEUE) != 0;
        if (err == NULL)
                in->is_started = true;
        (void)pthread_mutex_unlock(&in->lock);
}

/* Handles a message with a block, which is read here and returned to the stub. */
static void on_block(struct instance *in, const struct shm_message *message) {
        struct session      *s = in->session;
        struct answer_source source = { &s->region, message->block, message->n_bytes, in };

        if (region_find_stub_block(&s->region, message->block, message->n_bytes) == NULL) {
                region_break(&s->region);
                return;
        }
        if (message->kind == SHM_STARTED)
                on_started(in, &source);
        else
                answer_write_log(&source);
        session_return(s, message->block);
}

/* ---- calls ---------------------------------------------------------------------------------- */

static bool is_cancelled(struct instance *in, uint32_t handle) {
        struct entry       *e = entry_find(in, handle);
        TRITONSERVER_Error *err = NULL;
        bool                is = false;

        if (e == NULL)
                return false;
        if (e->request != NULL)
                err = TRITONBACKEND_RequestIsCancelled(e->request, &is);
        else if (e->factory != NULL)
                err = TRITONBACKEND_ResponseFactoryIsCancelled(e->factory, &is);
        kit_error_log(err, "failed to ask whether a request is cancelled");
        return is;
}

static void on_ask(struct instance *in, const struct shm_message *message,
                   const struct shm_call *call, struct reply_to *to) {
        struct answer_source source = { &in->session->region, message->block, message->n_bytes,
                                        in };
        char *json = answer_copy_text(&source, (struct shm_text){ call->payload, call->n_bytes });

        if (json == NULL) {
                region_break(&in->session->region);
                return;
        }
        services_answer(in, json, call->n_bytes, to);
        free(json);
}

static void on_metric(struct instance *in, const struct shm_message *message,
                      const struct shm_call *call, struct reply_to *to) {
        struct answer_source source = { &in->session->region, message->block, message->n_bytes,
                                        in };
        struct shm_metric    metric;
        TRITONSERVER_Error  *err;

        if (!answer_copy(&source, call->payload, &metric, sizeof(metric)))
                return;
        err = services_update_metric(in, call->handle, (enum shm_metric_op)metric.op, metric.value);
        if (err != NULL)
                reply_error(in->session, to, err);
        else
                reply_text(in->session, to, 0, "", 0);
}

static void on_call(struct instance *in, const struct shm_message *message) {
        struct session *s = in->session;
        struct shm_call call;
        struct reply_to to;

        if (!reply_open(s, message, &call, &to))
                return;
        switch (call.kind) {
        case SHM_CALL_IS_CANCELLED: reply_text(s, &to, is_cancelled(in, call.handle), "", 0); break;
        case SHM_CALL_INFER:
                atomic_store(&in->model->makes_calls, true);
                bls_call_start(in, &call, &to);
                break;
        case SHM_CALL_TEXT: on_ask(in, message, &call, &to); break;
        case SHM_CALL_METRIC: on_metric(in, message, &call, &to); break;
        default: region_break(&s->region);
        }
}

/* ---- messages ------------------------------------------------------------------------------- */

static void handle(struct instance *in, const struct shm_message *message) {
        switch (message->kind) {
        case SHM_HELLO: in->session->is_known = true; break;
        case SHM_STARTED: on_block(in, message); break;
        case SHM_LOG:
                in->has_lazy_messages = true;
                on_block(in, message);
                break;
        case SHM_SEND: execution_on_send(in, message); break;
        case SHM_CLOSED: execution_on_closed(in, message); break;
        case SHM_CALL: on_call(in, message); break;
        case SHM_CANCEL: bls_call_cancel(in, message->block); break;
        case SHM_WAIT: bls_call_wait(in, message->block, message->value); break;
        case SHM_SHRINK: region_follow(&in->session->region); break;
        case SHM_DROPPED: holds_on_dropped(in, message->value); break;
        default: region_break(&in->session->region);
        }
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Results that are in the ring together form one row: their clients' threads are woken once, when
 * all are answered, and so is the thread in Execute that waits for room. */
struct row {
        bool     is_open;
        unsigned n_messages;
        uint64_t begin_ns;
};

static void row_end(struct instance *in, struct row *row) {
        if (row->is_open && NESO_ThreadEndResponses != NULL)
                NESO_ThreadEndResponses();
        if (row->n_messages > 0)
                (void)pthread_cond_broadcast(&in->changed);
        *row = (struct row){ 0 };
}

static void row_take(struct instance *in, struct row *row, const struct shm_message *message) {
        bool has_more = session_has_message(in->session);

        if (row->n_messages++ == 0 && has_more && NESO_ThreadBeginResponses != NULL) {
                NESO_ThreadBeginResponses();
                row->is_open = true;
                row->begin_ns = shm_clock_ns();
        }
        execution_on_result(in, message);
        if (row->n_messages == ROW_MESSAGES || !has_more ||
            in->answered_ns - row->begin_ns > ROW_NS)
                row_end(in, row);
}

void reader_drain(struct instance *in) {
        struct shm_message message;
        struct row         row = { 0 };

        while (!atomic_load(&in->session->region.is_broken) &&
               session_next(in->session, &message)) {
                if (message.kind == SHM_RESULT) {
                        row_take(in, &row, &message);
                } else {
                        row_end(in, &row);
                        handle(in, &message);
                }
                region_count_handled(&in->session->region);
        }
        row_end(in, &row);
        if (in->session->region.must_shrink)
                region_follow(&in->session->region);
}

/* ---- the role --------------------------------------------------------------------------------- */

void reader_wait(struct instance *in, struct execution *ex) {
        (void)pthread_mutex_lock(&in->lock);
        while (!ex->is_done) {
                struct session *s = in->session;

                if (in->is_reading || s == NULL || session_is_over(s) ||
                    in->state != INSTANCE_SERVING) {
                        (void)pthread_cond_wait(&in->changed, &in->lock);
                        continue;
                }
                reader_enter_locked(in);
                (void)pthread_mutex_unlock(&in->lock);
                reader_drain(in);
                (void)pthread_mutex_lock(&in->lock);
                reader_leave_locked(in);
                if (ex->is_done || session_is_over(s))
                        continue;
                session_ref(s);
                (void)pthread_mutex_unlock(&in->lock);
                session_sleep(s, &s->region.header->executor_sleep, SHM_ASLEEP, SHM_FOREVER,
                              &ex->is_done);
                session_unref(s);
                (void)pthread_mutex_lock(&in->lock);
        }
        execution_free_locked(in, ex);
        (void)pthread_mutex_unlock(&in->lock);
}
