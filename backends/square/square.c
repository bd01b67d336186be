/* SPDX-License-Identifier: BSD-3-Clause */
/* The square backend: the input is a number n; n responses are sent, each with the value n.
 *
 *     input  IN   INT32 [1]   number of responses; none for 0 or less
 *     output OUT  INT32 [1]   IN
 *
 * A few threads make the responses of all requests, as fast as the clients take them; they continue
 * after the release of a request. A cancelled request gets no further response, only the end of
 * its stream, and the next response counts as cancelled.
 */
#include "kit/input.h"
#include "kit/job_pool.h"
#include "kit/model.h"
#include "kit/output.h"
#include "kit/stream.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

KIT_BACKEND_HOST_MEMORY;

struct instance {
        struct kit_job_pool pool;
};

/* The values of one request. */
struct job {
        struct kit_job    base;
        struct kit_stream stream;
        int32_t           number;
        int32_t           n_sent;
        bool              wants_out;
};

TRITONSERVER_Error *TRITONBACKEND_Initialize(TRITONBACKEND_Backend *backend) {
        (void)backend;
        return kit_check_api_version("square");
}

static TRITONSERVER_Error *check_model(const struct kit_model *m) {
        const struct kit_json_value *root = kit_json_root(m->config);
        const struct kit_tensor     *in = kit_model_find_input(m, "IN");
        const struct kit_tensor     *out = kit_model_find_output(m, "OUT");

        if (!kit_json_bool(kit_json_find(root, "model_transaction_policy/decoupled"), false))
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "model '%s': the square backend needs model_transaction_policy { "
                                 "decoupled: true }",
                                 m->name);
        if (m->max_batch_size > 0)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "model '%s': the square backend needs max_batch_size 0", m->name);
        if (in == NULL || in->type != TRITONSERVER_TYPE_INT32 || out == NULL ||
            out->type != TRITONSERVER_TYPE_INT32)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "model '%s': the square backend needs an input 'IN' and an output "
                                 "'OUT' with data type TYPE_INT32",
                                 m->name);
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_GetBackendAttribute(TRITONBACKEND_Backend          *backend,
                                                      TRITONBACKEND_BackendAttribute *attributes) {
        (void)backend;
        KIT_TRY(TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(
                attributes, TRITONSERVER_INSTANCEGROUPKIND_CPU, 0, NULL, 0));
        return TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(attributes, true);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *triton) {
        struct kit_model    model;
        TRITONSERVER_Error *err;

        KIT_TRY(kit_model_open(triton, &model));
        err = check_model(&model);
        kit_model_close(&model);
        return err;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance *triton) {
        struct instance *instance = kit_alloc_array(1, sizeof(*instance));

        if (instance == NULL)
                return kit_error_no_memory(sizeof(*instance), "an instance");
        kit_job_pool_init(&instance->pool);
        return TRITONBACKEND_ModelInstanceSetState(triton, instance);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance *triton) {
        void *state;

        KIT_TRY(TRITONBACKEND_ModelInstanceState(triton, &state));
        if (state != NULL)
                kit_job_pool_done(&((struct instance *)state)->pool);
        free(state);
        return NULL;
}

/* ---- responses ---- */

static TRITONSERVER_Error *fill_output(struct job *job) {
        static const int64_t one = 1;
        struct kit_output    output = {
                   .name = "OUT", .type = TRITONSERVER_TYPE_INT32, .shape = &one, .n_dims = 1
        };
        void *out;

        if (!job->wants_out)
                return NULL;
        KIT_TRY(kit_output_new(job->stream.response, &output, sizeof(job->number), &out));
        memcpy(out, &job->number, sizeof(job->number));
        return NULL;
}

static TRITONSERVER_Error *respond_once(struct job *job) {
        KIT_TRY(kit_stream_respond(&job->stream));
        kit_stream_outputs(&job->stream);
        return kit_stream_send(&job->stream, fill_output(job));
}

static enum kit_job_state end_job(struct job *job) {
        kit_stream_close(&job->stream);
        free(job);
        return KIT_JOB_ENDS;
}

static void on_room(void *userp) {
        kit_job_wake(userp);
}

static enum kit_job_state run_job(struct kit_job *base) {
        struct job *job = (struct job *)((char *)base - offsetof(struct job, base));

        for (int i = 0; i < KIT_JOB_SLICE; i++) {
                TRITONSERVER_Error *err;

                if (job->n_sent >= job->number)
                        return end_job(job);
                if (kit_stream_is_cancelled(&job->stream)) {
                        kit_stream_report_cancelled(&job->stream);
                        return end_job(job);
                }
                if (!kit_stream_may_respond(&job->stream, on_room, base))
                        return KIT_JOB_WAITS;
                job->n_sent++;
                err = respond_once(job);
                kit_error_log(err, "failed to respond");
                if (err != NULL)
                        return end_job(job);
        }
        return KIT_JOB_AGAIN;
}

/* ---- requests ---- */

static TRITONSERVER_Error *read_request(TRITONBACKEND_Request *request, struct job *job) {
        struct kit_input input;

        KIT_TRY(kit_input_open(request, "IN", &input));
        if (input.n_bytes != sizeof(job->number))
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "expected IN to have 1 element, got %zu",
                                 (size_t)(input.n_bytes / sizeof(job->number)));
        job->wants_out = kit_wants_output(request, "OUT");
        return kit_input_copy(&input, &job->number);
}

static TRITONSERVER_Error *start_job(TRITONBACKEND_ModelInstance *triton, struct instance *instance,
                                     TRITONBACKEND_Request *request) {
        struct job         *job = kit_alloc_array(1, sizeof(*job));
        TRITONSERVER_Error *err;

        if (job == NULL)
                return kit_error_no_memory(sizeof(*job), "a request");
        err = read_request(request, job);
        if (err == NULL)
                err = kit_stream_open(&job->stream, triton, request);
        if (err != NULL) {
                free(job);
                return err;
        }
        job->base.run = run_job;
        job->n_sent = 0;
        err = kit_job_start(&instance->pool, &job->base);
        if (err == NULL)
                return NULL;
        kit_stream_drop(&job->stream);
        free(job);
        return err;
}

static void execute_one(TRITONBACKEND_ModelInstance *triton, struct instance *instance,
                        TRITONBACKEND_Request *request) {
        struct kit_stats    stats = { .exec_start = kit_clock_ns() };
        TRITONSERVER_Error *err = start_job(triton, instance, request);

        if (err != NULL) {
                kit_stream_refuse(triton, request, err);
                return;
        }
        stats.exec_end = kit_clock_ns();
        kit_stats_report(&stats, triton, request, true);
        kit_stats_report_batch(&stats, triton, 1);
        kit_error_log(TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL),
                      "failed to release a request");
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *triton,
                                                       TRITONBACKEND_Request      **requests,
                                                       const uint32_t               n_requests) {
        void *state;

        KIT_TRY(TRITONBACKEND_ModelInstanceState(triton, &state));
        for (uint32_t i = 0; i < n_requests; i++)
                execute_one(triton, state, requests[i]);
        return NULL;
}
