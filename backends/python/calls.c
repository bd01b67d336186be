/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/calls.h"

#include "python/answer.h"
#include "python/asks.h"
#include "python/infer_call.h"
#include "python/reply.h"

#include <stdlib.h>
#include <string.h>

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
        struct answer_source source = { &in->session->region, message->block, message->n_bytes };
        char *json = answer_copy_text(&source, (struct shm_text){ call->payload, call->n_bytes });

        if (json == NULL) {
                atomic_store(&in->session->region.is_broken, true);
                return;
        }
        asks_answer(in, json, call->n_bytes, to);
        free(json);
}

void calls_on_call(struct instance *in, const struct shm_message *message) {
        struct session *s = in->session;
        struct shm_call call;
        struct reply_to to;

        if (!reply_open(s, message, &call, &to))
                return;
        switch (call.kind) {
        case SHM_CALL_IS_CANCELLED: reply_text(s, &to, is_cancelled(in, call.handle), "", 0); break;
        case SHM_CALL_INFER:
                atomic_store(&in->model->makes_calls, true);
                infer_call_start(in, &call, &to);
                break;
        case SHM_CALL_TEXT: on_ask(in, message, &call, &to); break;
        default: atomic_store(&s->region.is_broken, true);
        }
}

void calls_on_metric(struct instance *in, const struct shm_message *message) {
        double value;

        memcpy(&value, &message->value, sizeof(value));
        asks_count(in, message->handle, (enum shm_metric_op)message->n_bytes, value);
}

void calls_on_cancel(struct instance *in, const struct shm_message *message) {
        infer_call_cancel(in, message->block);
}

void calls_cancel_all(struct instance *in) {
        infer_call_cancel_all(in);
        asks_forget(in);
}
