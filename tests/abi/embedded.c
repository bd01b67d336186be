/* SPDX-License-Identifier: BSD-3-Clause */
#include "embedded.h"

#include "api_assert.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#define TIMEOUT_S 60

/* Guards what the callbacks count, in all inferences. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t  changed = PTHREAD_COND_INITIALIZER;

/* ---- the server ------------------------------------------------------------------------------- */

struct TRITONSERVER_ServerOptions *embedded_options(const char *repository, const char *backends) {
        struct TRITONSERVER_ServerOptions *options;

        assert_ok(TRITONSERVER_ServerOptionsNew(&options));
        assert_ok(TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, repository));
        if (backends != NULL)
                assert_ok(TRITONSERVER_ServerOptionsSetBackendDirectory(options, backends));
        assert_ok(TRITONSERVER_ServerOptionsSetLogInfo(options, false));
        return options;
}

struct TRITONSERVER_Server *embedded_start(struct TRITONSERVER_ServerOptions *options) {
        struct TRITONSERVER_Server *server;

        assert_ok(TRITONSERVER_ServerNew(&server, options));
        assert_ok(TRITONSERVER_ServerOptionsDelete(options));
        return server;
}

/* ---- callbacks -------------------------------------------------------------------------------- */

static void keep_locked(struct inference *in, struct TRITONSERVER_InferenceResponse *response) {
        in->responses = realloc(in->responses, (in->n_responses + 1) * sizeof(*in->responses));
        if (in->responses == NULL)
                abort();
        in->responses[in->n_responses++] = response;
}

static void on_response(struct TRITONSERVER_InferenceResponse *response, const uint32_t flags,
                        void *userp) {
        struct inference *in = userp;

        pthread_mutex_lock(&lock);
        if (response != NULL)
                keep_locked(in, response);
        in->n_finals += (flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
}

static void on_release(struct TRITONSERVER_InferenceRequest *request, const uint32_t flags,
                       void *userp) {
        struct inference *in = userp;

        (void)request, (void)flags;
        pthread_mutex_lock(&lock);
        in->n_releases++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
}

/* ---- inferences ------------------------------------------------------------------------------- */

void inference_open(struct inference *in, struct TRITONSERVER_Server *server, const char *model,
                    struct TRITONSERVER_ResponseAllocator *allocator, void *userp) {
        *in = (struct inference){ .server = server };
        assert_ok(TRITONSERVER_InferenceRequestNew(&in->request, server, model, -1));
        assert_ok(TRITONSERVER_InferenceRequestSetReleaseCallback(in->request, on_release, in));
        assert_ok(TRITONSERVER_InferenceRequestSetResponseCallback(in->request, allocator, userp,
                                                                   on_response, in));
}

static void drop_all(struct inference *in) {
        for (unsigned i = 0; i < in->n_responses; i++)
                if (in->responses[i] != NULL)
                        inference_drop(in, i);
        free(in->responses);
        in->responses = NULL;
        in->n_responses = in->n_finals = in->n_releases = 0;
}

void inference_close(struct inference *in) {
        drop_all(in);
        assert_ok(TRITONSERVER_InferenceRequestDelete(in->request));
}

void inference_add_input(struct inference *in, const char *name, TRITONSERVER_DataType type,
                         int64_t n, const void *elements) {
        size_t n_bytes = (size_t)n * TRITONSERVER_DataTypeByteSize(type);

        assert_ok(TRITONSERVER_InferenceRequestAddInput(in->request, name, type, &n, 1));
        assert_ok(TRITONSERVER_InferenceRequestAppendInputData(in->request, name, elements, n_bytes,
                                                               TRITONSERVER_MEMORY_CPU, 0));
}

void inference_start(struct inference *in) {
        drop_all(in);
        assert_ok(TRITONSERVER_ServerInferAsync(in->server, in->request, NULL));
}

void inference_wait(struct inference *in, unsigned n_responses, enum inference_end end) {
        struct timespec deadline;
        unsigned        n_ends = end == INFERENCE_ENDS, n_finals, n_releases;
        int             rc = 0;

        clock_gettime(CLOCK_REALTIME, &deadline);
        deadline.tv_sec += TIMEOUT_S;
        pthread_mutex_lock(&lock);
        while (rc == 0 &&
               (in->n_responses < n_responses || in->n_finals < n_ends || in->n_releases < n_ends))
                rc = pthread_cond_timedwait(&changed, &lock, &deadline);
        n_finals = in->n_finals;
        n_releases = in->n_releases;
        pthread_mutex_unlock(&lock);
        assert_int_equal(rc, 0);
        if (end == INFERENCE_ENDS) {
                assert_int_equal(n_finals, 1);
                assert_int_equal(n_releases, 1);
        }
}

unsigned inference_count(struct inference *in) {
        unsigned n;

        pthread_mutex_lock(&lock);
        n = in->n_responses;
        pthread_mutex_unlock(&lock);
        return n;
}

struct TRITONSERVER_InferenceResponse *inference_run(struct inference *in) {
        inference_start(in);
        inference_wait(in, 1, INFERENCE_ENDS);
        assert_int_equal(in->n_responses, 1);
        return in->responses[0];
}

void inference_drop(struct inference *in, unsigned i) {
        struct TRITONSERVER_InferenceResponse *response;

        /* A decoupled model may be adding others to the list. */
        pthread_mutex_lock(&lock);
        response = in->responses[i];
        in->responses[i] = NULL;
        pthread_mutex_unlock(&lock);
        assert_ok(TRITONSERVER_InferenceResponseDelete(response));
}

struct inference_output inference_output(struct TRITONSERVER_InferenceResponse *response,
                                         uint32_t                               index) {
        struct inference_output out;

        assert_ok(TRITONSERVER_InferenceResponseError(response));
        assert_ok(TRITONSERVER_InferenceResponseOutput(response, index, &out.name, &out.type,
                                                       &out.shape, &out.n_dims, &out.base,
                                                       &out.n_bytes, &out.memory_type,
                                                       &out.memory_id, &out.userp));
        return out;
}

int32_t inference_int32(struct TRITONSERVER_InferenceResponse *response) {
        struct inference_output out = inference_output(response, 0);
        int32_t                 value;
        uint32_t                n_outputs;

        assert_ok(TRITONSERVER_InferenceResponseOutputCount(response, &n_outputs));
        assert_int_equal(n_outputs, 1);
        assert_int_equal(out.type, TRITONSERVER_TYPE_INT32);
        assert_int_equal(out.n_bytes, sizeof(value));
        memcpy(&value, out.base, sizeof(value));
        return value;
}
