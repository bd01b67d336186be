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
 * A thread of the request's own makes the responses; it continues after the release of the request.
 * A model that is not decoupled behaves the same; its clients get one response, or an error.
 *
 * A cancelled request gets no further response, only the end of its stream, and the next response
 * counts as cancelled.
 */
#include "kit/input.h"
#include "kit/model.h"
#include "kit/output.h"
#include "kit/stream.h"

#include <stdlib.h>
#include <string.h>

struct instance {
        struct kit_workers workers;
};

/* The values of one request. */
struct job {
        struct kit_stream stream;
        bool              wants_out;
        bool              wants_idx;
        uint32_t          wait_ms;
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
        KIT_TRY(check_tensor(m, "WAIT", kit_model_find_input(m, "WAIT"),
                             TRITONSERVER_TYPE_UINT32));
        KIT_TRY(check_tensor(m, "OUT", kit_model_find_output(m, "OUT"), TRITONSERVER_TYPE_INT32));
        return check_tensor(m, "IDX", kit_model_find_output(m, "IDX"), TRITONSERVER_TYPE_UINT32);
}

TRITONSERVER_Error *TRITONBACKEND_GetBackendAttribute(TRITONBACKEND_Backend          *backend,
                                                      TRITONBACKEND_BackendAttribute *attributes) {
        (void)backend;
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
        kit_workers_init(&instance->workers);
        return TRITONBACKEND_ModelInstanceSetState(triton, instance);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance *triton) {
        void *state;

        KIT_TRY(TRITONBACKEND_ModelInstanceState(triton, &state));
        if (state != NULL)
                kit_workers_done(&((struct instance *)state)->workers);
        free(state);
        return NULL;
}

/* ---- responses ---- */

static TRITONSERVER_Error *put(TRITONBACKEND_Response *response, const char *name,
                               TRITONSERVER_DataType type, const void *value) {
        static const int64_t one = 1;
        struct kit_output    output = { .name = name, .type = type, .shape = &one, .n_dims = 1 };
        void                *out;

        KIT_TRY(kit_output_new(response, &output, 4, &out));
        memcpy(out, value, 4);
        return NULL;
}

static TRITONSERVER_Error *fill(struct job *job, uint32_t i) {
        TRITONBACKEND_Response *response = job->stream.response;

        if (job->wants_out)
                KIT_TRY(put(response, "OUT", TRITONSERVER_TYPE_INT32, &job->values[i]));
        return job->wants_idx ? put(response, "IDX", TRITONSERVER_TYPE_UINT32, &i) : NULL;
}

static void free_job(struct job *job) {
        free(job->delays_ms);
        free(job->values);
        free(job);
}

static TRITONSERVER_Error *respond_all(struct job *job) {
        for (uint32_t i = 0; i < job->n; i++) {
                if (!kit_stream_wait_ms(&job->stream, job->delays_ms[i])) {
                        kit_stream_report_cancelled(&job->stream);
                        return NULL;
                }
                KIT_TRY(kit_stream_respond(&job->stream));
                kit_stream_outputs(&job->stream);
                KIT_TRY(kit_stream_send(&job->stream, fill(job, i)));
        }
        return NULL;
}

static void run_job(void *work) {
        struct job *job = work;

        kit_error_log(respond_all(job), "failed to respond");
        kit_stream_close(&job->stream);
        free_job(job);
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
        err = kit_workers_start(&instance->workers, run_job, job);
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
