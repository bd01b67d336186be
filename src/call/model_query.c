/* SPDX-License-Identifier: BSD-3-Clause */
#include "call/model_query.h"

#include "core_api/core_error.h"
#include "triton/core/neso.h"
#include "triton/core/tritonserver.h"

static struct TRITONSERVER_Error *ask_core(const struct model_query     *q,
                                           struct TRITONSERVER_Server   *core,
                                           struct TRITONSERVER_Message **ret) {
        switch (q->kind) {
        case MODEL_QUERY_METADATA:
                return TRITONSERVER_ServerModelMetadata(core, q->model, q->version, ret);
        case MODEL_QUERY_CONFIG:
                return TRITONSERVER_ServerModelConfig(core, q->model, q->version, 1, ret);
        case MODEL_QUERY_CONFIG_SOURCE:
                return NESO_ServerModelConfigSource(core, q->model, q->version, ret);
        case MODEL_QUERY_STATISTICS:
                return TRITONSERVER_ServerModelStatistics(core, q->model, q->version, ret);
        case MODEL_QUERY_SEQUENCES:
                return NESO_ServerModelSequences(core, q->model, q->version, ret);
        case MODEL_QUERY_CHAIN: return NESO_ServerModelChain(core, q->model, q->version, ret);
        case MODEL_QUERY_GPUS: return NESO_ServerGpus(core, ret);
        case MODEL_QUERY_STACKS: return NESO_ServerModelStacks(core, q->model, q->version, ret);
        case MODEL_QUERY_INDEX: break;
        }
        return TRITONSERVER_ServerModelIndex(core,
                                             q->only_ready ? TRITONSERVER_INDEX_FLAG_READY : 0,
                                             ret);
}

struct error *model_query_ask(const struct model_query *q, struct TRITONSERVER_Server *core,
                              struct TRITONSERVER_Message **ret) {
        return core_error_take(ask_core(q, core, ret));
}

static struct error *answer_query(struct bulk_query *b) {
        struct TRITONSERVER_Message *message;
        struct error                *err;

        TRY(model_query_ask(&b->query, b->core, &message));
        err = b->encode(b, message);
        core_error_drop(TRITONSERVER_MessageDelete(message));
        return err;
}

static void run_bulk(struct loop_work *w) {
        struct bulk_query *b = CONTAINER_OF(w, struct bulk_query, work);

        b->failure = answer_query(b);
}

static void refuse_bulk(struct loop_work *w, struct error *err) {
        CONTAINER_OF(w, struct bulk_query, work)->failure = err;
}

void bulk_query_init(struct bulk_query *b, struct TRITONSERVER_Server *core,
                     const struct model_query *query, bulk_query_encode_fn encode,
                     loop_work_fn done) {
        *b = (struct bulk_query){
                .work = { .run = run_bulk,
                          .refuse = refuse_bulk,
                          .done = done,
                          .is_background = true,
                          .is_low_priority = true },
                .core = core,
                .query = *query,
                .encode = encode,
        };
}

static void run_ready(struct loop_work *w) {
        struct ready_query *q = CONTAINER_OF(w, struct ready_query, work);

        q->failure = core_error_take(
                q->model != NULL ? TRITONSERVER_ServerModelIsReady(q->core, q->model, q->version,
                                                                   &q->is_ready)
                                 : TRITONSERVER_ServerIsReady(q->core, &q->is_ready));
}

bool ready_query_answer(struct ready_query *q) {
        bool asks_backends = false;

        q->failure = core_error_take(
                NESO_ServerReadiness(q->core, q->model, q->version, &q->is_ready, &asks_backends));
        return !asks_backends;
}

static void refuse_ready(struct loop_work *w, struct error *err) {
        CONTAINER_OF(w, struct ready_query, work)->failure = err;
}

void ready_query_init(struct ready_query *q, struct TRITONSERVER_Server *core, const char *model,
                      int64_t version, loop_work_fn done) {
        *q = (struct ready_query){
                .work = { .run = run_ready, .refuse = refuse_ready, .done = done },
                .core = core,
                .model = model,
                .version = version,
        };
}
