/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/ready_query.h"

#include "core_api/core_error.h"

#include "triton/core/tritonserver.h"

static void run(struct loop_work *w) {
        struct ready_query *q = CONTAINER_OF(w, struct ready_query, work);

        q->failure = core_error_take(
                q->model ? TRITONSERVER_ServerModelIsReady(q->core, q->model, q->version,
                                                           &q->is_ready)
                         : TRITONSERVER_ServerIsReady(q->core, &q->is_ready));
}

void ready_query_init(struct ready_query *q, struct TRITONSERVER_Server *core, const char *model,
                      int64_t version, loop_work_fn done) {
        *q = (struct ready_query){
                .work = { .run = run, .done = done },
                .core = core,
                .model = model,
                .version = version,
        };
}
