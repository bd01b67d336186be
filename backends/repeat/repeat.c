/* SPDX-License-Identifier: BSD-3-Clause */
/* The repeat backend: one response for each element of an input, each after a delay of its own. It
 * is an example of a decoupled model and serves for tests of streaming clients.
 *
 *     input  IN     INT32 [-1]   the values to repeat; no element, no response
 *     input  DELAY  UINT32 [-1]  ms before each response; as many elements as IN
 *     input  WAIT   UINT32 [1]   ms before the request is released and the next one is taken
 *     output OUT    INT32 [1]    IN[i]
 *     output IDX    UINT32 [1]   i
 *
 * A few threads make the responses of all requests; they continue after the release of a request.
 * A model that is not decoupled behaves the same; its clients get one response, or an error.
 *
 * A cancelled request gets no further response, only the end of its stream, and the next response
 * counts as cancelled.
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

/* Interval of the check for cancellation during a delay. */
#define LOOK_EVERY_NS UINT64_C(20000000)

struct instance {
        struct kit_job_pool pool;
};

/* The values of one request. */
struct job {
        struct kit_job    base;
        struct kit_stream stream;
        bool              wants_out;
        bool              wants_idx;
        uint32_t          wait_ms;
        uint64_t          next_ns; /* when the next response is due; 0: not known yet */
        size_t            n_sent;
        size_t            n;
        uint32_t         *delays_ms; /* owned: n */
        int32_t          *values;    /* owned: n */
};

TRITONSERVER_Error *TRITONBACKEND_Initialize(TRITONBACKEND_Backend *backend) {
        (void)backend;
        return kit_check_api_version("repeat");
}

static TRITONSERVER_Error *check_tensor(const struct kit_model *model, const char *name,
                                        const struct kit_tensor *tensor,
                                        TRITONSERVER_DataType    type) {
        if (tensor == NULL || tensor->type != type)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "model '%s': the repeat backend needs '%s' with data type %s",
                                 model->name, name, kit_type_to_config(type));
        return NULL;
}

static TRITONSERVER_Error *check_model(const struct kit_model *m) {
        if (m->max_batch_size > 0)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "model '%s': the repeat backend needs max_batch_size 0", m->name);
        KIT_TRY(check_tensor(m, "IN", kit_model_find_input(m, "IN"), TRITONSERVER_TYPE_INT32));
        KIT_TRY(check_tensor(m, "DELAY", kit_model_find_input(m, "DELAY"),
                             TRITONSERVER_TYPE_UINT32));
        KIT_TRY(check_tensor(m, "WAIT", kit_model_find_input(m, "WAIT"), TRITONSERVER_TYPE_UINT32));
        KIT_TRY(check_tensor(m, "OUT", kit_model_find_output(m, "OUT"), TRITONSERVER_TYPE_INT32));
        return check_tensor(m, "IDX", kit_model_find_output(m, "IDX"), TRITONSERVER_TYPE_UINT32);
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

static TRITONSERVER_Error *put_element(TRITONBACKEND_Response *response, const char *name,
                                       TRITONSERVER_DataType type, const void *value) {
        static const int64_t one = 1;
        struct kit_output    output = { .name = name, .type = type, .shape = &one, .n_dims = 1 };
        void                *out;

        KIT_TRY(kit_output_new(response, &output, 4, &out));
        memcpy(out, value, 4);
        return NULL;
}

static TRITONSERVER_Error *fill_response(struct job *job, uint32_t i) {
        TRITONBACKEND_Response *response = job->stream.response;

        if (job->wants_out)
                KIT_TRY(put_element(response, "OUT", TRITONSERVER_TYPE_INT32, &job->values[i]));
        return job->wants_idx ? put_element(response, "IDX", TRITONSERVER_TYPE_UINT32, &i) : NULL;
}

static void free_job(struct job *job) {
        free(job->delays_ms);
        free(job->values);
        free(job);
}

static TRITONSERVER_Error *respond_next(struct job *job) {
        size_t i = job->n_sent++;

        job->next_ns = 0;
        KIT_TRY(kit_stream_respond(&job->stream));
        kit_stream_outputs(&job->stream);
        return kit_stream_send(&job->stream, fill_response(job, i));
}

static enum kit_job_state end_job(struct job *job) {
        kit_stream_close(&job->stream);
        free_job(job);
        return KIT_JOB_ENDS;
}

static void on_room(void *userp) {
        kit_job_wake(userp);
}

/* Puts the job off until the next response is due, and for LOOK_EVERY_NS at most, to see that the request
 * was cancelled meanwhile. */
static bool is_early(struct job *job) {
        uint64_t now_ns;

        if (job->next_ns == 0 && job->delays_ms[job->n_sent] == 0)
                return false;
        now_ns = kit_clock_ns();
        if (job->next_ns == 0)
                job->next_ns = now_ns + job->delays_ms[job->n_sent] * UINT64_C(1000000);
        job->base.due_ns =
                job->next_ns < now_ns + LOOK_EVERY_NS ? job->next_ns : now_ns + LOOK_EVERY_NS;
        return now_ns < job->next_ns;
}

static enum kit_job_state run_job(struct kit_job *base) {
        struct job *job = (struct job *)((char *)base - offsetof(struct job, base));

        for (int i = 0; i < KIT_JOB_SLICE; i++) {
                TRITONSERVER_Error *err;

                if (job->n_sent >= job->n)
                        return end_job(job);
                if (kit_stream_is_cancelled(&job->stream)) {
                        kit_stream_report_cancelled(&job->stream);
                        return end_job(job);
                }
                if (is_early(job))
                        return KIT_JOB_LATER;
                if (!kit_stream_may_respond(&job->stream, on_room, base))
                        return KIT_JOB_WAITS;
                err = respond_next(job);
                kit_error_log(err, "failed to respond");
                if (err != NULL)
                        return end_job(job);
        }
        return KIT_JOB_AGAIN;
}

/* ---- requests ---- */

/* Reads the 4-byte elements of an input; the caller owns *ret. */
static TRITONSERVER_Error *read_list(TRITONBACKEND_Request *request, const char *name, void **ret,
                                     size_t *ret_n) {
        struct kit_input input;

        KIT_TRY(kit_input_open(request, name, &input));
        *ret_n = (size_t)(input.n_bytes / 4);
        *ret = kit_alloc_array(*ret_n + 1, 4);
        if (*ret == NULL)
                return kit_error_no_memory(input.n_bytes, name);
        return kit_input_copy(&input, *ret);
}

static TRITONSERVER_Error *read_request(TRITONBACKEND_Request *request, struct job *job) {
        size_t n_delays = 0, n_waits = 0;
        void  *waits = NULL;

        KIT_TRY(read_list(request, "IN", (void **)&job->values, &job->n));
        KIT_TRY(read_list(request, "DELAY", (void **)&job->delays_ms, &n_delays));
        if (n_delays != job->n)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "expected IN and DELAY shape to match, got [%zu] and [%zu]",
                                 job->n, n_delays);
        TRITONSERVER_Error *err = read_list(request, "WAIT", &waits, &n_waits);

        if (err == NULL && n_waits > 0)
                memcpy(&job->wait_ms, waits, sizeof(job->wait_ms));
        free(waits);
        job->wants_out = kit_wants_output(request, "OUT");
        job->wants_idx = kit_wants_output(request, "IDX");
        return err;
}

static TRITONSERVER_Error *make_job(TRITONBACKEND_ModelInstance *triton,
                                    TRITONBACKEND_Request *request, struct job **ret) {
        struct job         *job = kit_alloc_array(1, sizeof(*job));
        TRITONSERVER_Error *err;

        if (job == NULL)
                return kit_error_no_memory(sizeof(*job), "a request");
        memset(job, 0, sizeof(*job));
        err = read_request(request, job);
        if (err == NULL)
                err = kit_stream_open(&job->stream, triton, request);
        if (err != NULL) {
                free_job(job);
                return err;
        }
        *ret = job;
        return NULL;
}

/* The thread owns the job from here on. */
static TRITONSERVER_Error *start_job(TRITONBACKEND_ModelInstance *triton, struct instance *instance,
                                     TRITONBACKEND_Request *request, uint32_t *ret_wait_ms) {
        struct job         *job;
        TRITONSERVER_Error *err;

        KIT_TRY(make_job(triton, request, &job));
        *ret_wait_ms = job->wait_ms;
        job->base.run = run_job;
        err = kit_job_start(&instance->pool, &job->base);
        if (err != NULL) {
                kit_stream_drop(&job->stream);
                free_job(job);
        }
        return err;
}

/* Has a response factory of its own, to check for cancellation. */
static void wait_ms(TRITONBACKEND_ModelInstance *triton, TRITONBACKEND_Request *request,
                    uint32_t ms) {
        struct kit_stream   watch;
        TRITONSERVER_Error *err = kit_stream_open(&watch, triton, request);

        if (err == NULL) {
                (void)kit_stream_wait_ms(&watch, ms);
                kit_stream_drop(&watch);
        }
        kit_error_log(err, "failed to wait");
}

static void execute_one(TRITONBACKEND_ModelInstance *triton, struct instance *instance,
                        TRITONBACKEND_Request *request) {
        struct kit_stats    stats = { .exec_start = kit_clock_ns() };
        uint32_t            ms = 0;
        TRITONSERVER_Error *err = start_job(triton, instance, request, &ms);

        if (err != NULL) {
                kit_stream_refuse(triton, request, err);
                return;
        }
        if (ms > 0)
                wait_ms(triton, request, ms);
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
