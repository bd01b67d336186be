/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers of the engine to requests that it does not run: they timed out, were cancelled, or the policy
 * refused them. They have left the queue, and no lock is held.
 */
#include "infer/model.h"
#include "infer/request.h"
#include "infer/request_split.h"
#include "sched/pull_private.h"

#include <stdlib.h>

void pull_refuse_all(struct pull_engine *e, struct request *first, const struct error *why,
                     enum failure_reason reason) {
        for (struct request *req = first, *next; req != NULL; req = next) {
                next = req->queued.next;
                model_stats_pending(e->model->stats, -1);
                request_refuse(req, why, reason);
        }
}

/* Those of its rows that waited; the others are on their way. */
static void give_up_parts(struct pull_engine *e, struct request *req, const struct error *why,
                          enum failure_reason reason) {
        model_stats_pending(e->model->stats, -1);
        request_split_give_up(req, why, reason);
}

void pull_answer_refused(struct pull_engine *e, struct refusal *first) {
        for (struct refusal *r = first, *next; r != NULL; r = next) {
                next = r->next;
                r->req->queued.next = NULL;
                if (UNLIKELY(r->req->is_split))
                        give_up_parts(e, r->req, r->why, FAILURE_REJECTED);
                else
                        pull_refuse_all(e, r->req, r->why, FAILURE_REJECTED);
                error_free(r->why);
                free(r);
        }
}

void pull_refuse_cancelled(struct pull_engine *e, struct request *req) {
        static const struct error cancelled = ERROR_STATIC(ERR_CANCELLED, "");

        req->queued.next = NULL;
        if (UNLIKELY(req->is_split))
                give_up_parts(e, req, &cancelled, FAILURE_CANCELED);
        else
                pull_refuse_all(e, req, &cancelled, FAILURE_CANCELED);
}
