/* SPDX-License-Identifier: BSD-3-Clause */
/* A language model without a computation, for tests and measurements of the OpenAI API: it answers a prompt
 * "<n>" with n tokens, and "<n> <us>" with a token each so many microseconds.
 *
 *     input  text_input      BYTES [1]   and any others, which are not read: format vllm
 *     output text_output     BYTES [1]
 * or  input  openai_request  BYTES [1]   the first message or the prompt: format openai
 *     output openai_response BYTES [1]
 *
 * Without "stream": true in a request of the format openai, the answer is one object.
 */
#include "kit/input.h"
#include "kit/job_pool.h"
#include "kit/model.h"
#include "kit/output.h"
#include "kit/stream.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN " token"
#define CHUNK                                                                                      \
        "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" TOKEN "\"},\"finish_reason\":null}" \
        "]}"
#define LAST "{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}"

struct instance {
        struct kit_job_pool pool;
};

struct job {
        struct kit_job    base;
        struct kit_stream stream;
        bool              speaks_openai;
        uint64_t          every_ns;
        uint64_t          next_ns;
        unsigned long     n_sent, n;
};

TRITONSERVER_Error *TRITONBACKEND_Initialize(TRITONBACKEND_Backend *backend) {
        (void)backend;
        return kit_check_api_version("tokens");
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

static TRITONSERVER_Error *put(TRITONBACKEND_Response *response, const char *name,
                               const char *text) {
        static const int64_t one = 1;
        struct kit_output    output = {
                   .name = name, .type = TRITONSERVER_TYPE_BYTES, .shape = &one, .n_dims = 1
        };
        uint32_t len = (uint32_t)strlen(text);
        void    *out;

        KIT_TRY(kit_output_new(response, &output, sizeof(len) + len, &out));
        memcpy(out, &len, sizeof(len));
        memcpy((char *)out + sizeof(len), text, len);
        return NULL;
}

static TRITONSERVER_Error *send_token(struct job *job) {
        TRITONSERVER_Error *err;

        job->n_sent++;
        KIT_TRY(kit_stream_respond(&job->stream));
        kit_stream_outputs(&job->stream);
        if (job->speaks_openai)
                err = put(job->stream.response, "openai_response",
                          job->n_sent == job->n ? LAST : CHUNK);
        else
                err = put(job->stream.response, "text_output", TOKEN);
        return kit_stream_send(&job->stream, err);
}

static enum kit_job_state end_job(struct job *job) {
        kit_stream_close(&job->stream);
        free(job);
        return KIT_JOB_ENDS;
}

static void on_room(void *userp) {
        kit_job_wake(userp);
}

static bool is_early(struct job *job) {
        uint64_t now_ns;

        if (job->every_ns == 0)
                return false;
        now_ns = kit_clock_ns();
        if (job->next_ns == 0)
                job->next_ns = now_ns;
        if (now_ns < job->next_ns) {
                job->base.due_ns = job->next_ns;
                return true;
        }
        job->next_ns += job->every_ns;
        return false;
}

static enum kit_job_state run_job(struct kit_job *base) {
        struct job *job = (struct job *)((char *)base - offsetof(struct job, base));

        for (int i = 0; i < KIT_JOB_SLICE; i++) {
                TRITONSERVER_Error *err;

                if (job->n_sent >= job->n || kit_stream_is_cancelled(&job->stream))
                        return end_job(job);
                if (!kit_stream_may_respond(&job->stream, on_room, base))
                        return KIT_JOB_WAITS;
                if (is_early(job))
                        return KIT_JOB_LATER;
                err = send_token(job);
                kit_error_log(err, "failed to respond");
                if (err != NULL)
                        return end_job(job);
        }
        return KIT_JOB_AGAIN;
}

/* ---- requests ---- */

#define MAX_TEXT 4096

/* The text of an input, cut to what fits. */
static bool read_text(TRITONBACKEND_Request *request, const char *name, char *to) {
        struct kit_input    input;
        TRITONSERVER_Error *err = kit_input_open(request, name, &input);
        char               *bytes;

        if (err != NULL) {
                TRITONSERVER_ErrorDelete(err);
                return false;
        }
        to[0] = '\0';
        bytes = malloc((size_t)input.n_bytes + 1);
        err = bytes != NULL ? kit_input_copy(&input, bytes) : NULL;
        if (bytes != NULL && err == NULL && input.n_bytes > sizeof(uint32_t)) {
                bytes[input.n_bytes] = '\0';
                snprintf(to, MAX_TEXT, "%s", bytes + sizeof(uint32_t));
        }
        if (err != NULL)
                TRITONSERVER_ErrorDelete(err);
        free(bytes);
        return true;
}

static void read_job(TRITONBACKEND_Request *request, struct job *job) {
        char        text[MAX_TEXT] = "";
        const char *at = text;
        char       *end;

        job->speaks_openai = read_text(request, "openai_request", text);
        if (job->speaks_openai)
                at = strstr(text, "content\":") != NULL ? strstr(text, "content\":") : text;
        else
                (void)read_text(request, "text_input", text);
        at += strcspn(at, "0123456789");
        job->n = strtoul(at, &end, 10);
        job->every_ns = strtoul(end, NULL, 10) * 1000;
        if (job->speaks_openai)
                job->n++; /* the end */
}

static TRITONSERVER_Error *start_job(TRITONBACKEND_ModelInstance *triton, struct instance *instance,
                                     TRITONBACKEND_Request *request) {
        struct job         *job = calloc(1, sizeof(*job));
        TRITONSERVER_Error *err;

        if (job == NULL)
                return kit_error_no_memory(sizeof(*job), "a request");
        read_job(request, job);
        job->base.run = run_job;
        err = kit_stream_open(&job->stream, triton, request);
        if (err == NULL) {
                err = kit_job_start(&instance->pool, &job->base);
                if (err != NULL)
                        kit_stream_drop(&job->stream);
        }
        if (err != NULL)
                free(job);
        return err;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *triton,
                                                       TRITONBACKEND_Request      **requests,
                                                       const uint32_t               n_requests) {
        void *state;

        KIT_TRY(TRITONBACKEND_ModelInstanceState(triton, &state));
        for (uint32_t i = 0; i < n_requests; i++) {
                TRITONSERVER_Error *err = start_job(triton, state, requests[i]);

                if (err != NULL)
                        kit_stream_refuse(triton, requests[i], err);
                else
                        kit_error_log(TRITONBACKEND_RequestRelease(
                                              requests[i], TRITONSERVER_REQUEST_RELEASE_ALL),
                                      "failed to release a request");
        }
        return NULL;
}
