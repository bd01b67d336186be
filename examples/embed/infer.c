/* SPDX-License-Identifier: BSD-3-Clause */
/* A program with a server in it: loads a repository and infers once. No sockets.
 *
 *   infer REPOSITORY BACKENDS MODEL INPUT OUTPUT SHAPE < values > values
 *
 * Values are raw FP32, SHAPE is as in 1x64. See docs/embedding.md.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <triton/core/tritonserver.h>

#define MAX_DIMS 8
#define MAX_VALUES 65536

static void check(struct TRITONSERVER_Error *err, const char *what) {
        if (err == NULL)
                return;
        fprintf(stderr, "%s: %s - %s\n", what, TRITONSERVER_ErrorCodeString(err),
                TRITONSERVER_ErrorMessage(err));
        exit(1);
}

/* Memory of outputs. The server asks for it on its own threads. */
static struct TRITONSERVER_Error *give(struct TRITONSERVER_ResponseAllocator *allocator,
                                       const char *output, size_t byte_size,
                                       TRITONSERVER_MemoryType wanted_type, int64_t wanted_id,
                                       void *userp, void **buffer, void **buffer_userp,
                                       TRITONSERVER_MemoryType *type, int64_t *id) {
        (void)allocator, (void)output, (void)wanted_type, (void)wanted_id, (void)userp;
        *buffer = malloc(byte_size > 0 ? byte_size : 1);
        *buffer_userp = NULL;
        *type = TRITONSERVER_MEMORY_CPU;
        *id = 0;
        return *buffer != NULL ? NULL
                               : TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "no memory");
}

static struct TRITONSERVER_Error *take_back(struct TRITONSERVER_ResponseAllocator *allocator,
                                            void *buffer, void *buffer_userp, size_t byte_size,
                                            TRITONSERVER_MemoryType type, int64_t id) {
        (void)allocator, (void)buffer_userp, (void)byte_size, (void)type, (void)id;
        free(buffer);
        return NULL;
}

/* What the callbacks, which must not block, hand to main(). */
struct result {
        pthread_mutex_t                        lock;
        pthread_cond_t                         changed;
        struct TRITONSERVER_InferenceResponse *response;
        int                                    is_released;
};

static void on_response(struct TRITONSERVER_InferenceResponse *response, const uint32_t flags,
                        void *userp) {
        struct result *r = userp;

        (void)flags; /* this model answers exactly once */
        pthread_mutex_lock(&r->lock);
        r->response = response;
        pthread_cond_signal(&r->changed);
        pthread_mutex_unlock(&r->lock);
}

static void on_release(struct TRITONSERVER_InferenceRequest *request, const uint32_t flags,
                       void *userp) {
        struct result *r = userp;

        (void)request, (void)flags;
        pthread_mutex_lock(&r->lock);
        r->is_released = 1;
        pthread_cond_signal(&r->changed);
        pthread_mutex_unlock(&r->lock);
}

static struct TRITONSERVER_Server *start(const char *repository, const char *backends) {
        struct TRITONSERVER_ServerOptions *options;
        struct TRITONSERVER_Server        *server;

        check(TRITONSERVER_ServerOptionsNew(&options), "options");
        check(TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, repository), "repository");
        check(TRITONSERVER_ServerOptionsSetBackendDirectory(options, backends), "backends");
        check(TRITONSERVER_ServerOptionsSetStrictModelConfig(options, false), "configurations");
        check(TRITONSERVER_ServerOptionsSetLogInfo(options, false), "log");
        check(TRITONSERVER_ServerNew(&server, options), "server"); /* until models are loaded */
        check(TRITONSERVER_ServerOptionsDelete(options), "options");
        return server;
}

static void print(struct TRITONSERVER_InferenceResponse *response) {
        const char             *name;
        const int64_t          *shape;
        const void             *base;
        void                   *userp;
        uint64_t                n_dims;
        size_t                  byte_size;
        int64_t                 id;
        TRITONSERVER_DataType   type;
        TRITONSERVER_MemoryType memory;

        check(TRITONSERVER_InferenceResponseError(response), "inference");
        check(TRITONSERVER_InferenceResponseOutput(response, 0, &name, &type, &shape, &n_dims,
                                                   &base, &byte_size, &memory, &id, &userp),
              "output");
        fwrite(base, 1, byte_size, stdout);
}

int main(int argc, char **argv) {
        static float  values[MAX_VALUES];
        struct result r = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, 0 };
        int64_t       shape[MAX_DIMS];
        uint64_t      n_dims = 0;
        struct TRITONSERVER_ResponseAllocator *allocator;
        struct TRITONSERVER_InferenceRequest  *request;

        if (argc != 7)
                return fprintf(stderr, "infer REPOSITORY BACKENDS MODEL INPUT OUTPUT SHAPE\n"), 2;
        for (char *at = argv[6]; n_dims < MAX_DIMS && *at != '\0'; at += *at == 'x')
                shape[n_dims++] = strtoll(at, &at, 10);
        size_t n = fread(values, sizeof(*values), MAX_VALUES, stdin);

        struct TRITONSERVER_Server *server = start(argv[1], argv[2]);

        check(TRITONSERVER_ResponseAllocatorNew(&allocator, give, take_back, NULL), "allocator");
        check(TRITONSERVER_InferenceRequestNew(&request, server, argv[3], -1), "request");
        check(TRITONSERVER_InferenceRequestSetReleaseCallback(request, on_release, &r), "request");
        check(TRITONSERVER_InferenceRequestSetResponseCallback(request, allocator, NULL,
                                                               on_response, &r),
              "request");
        check(TRITONSERVER_InferenceRequestAddInput(request, argv[4], TRITONSERVER_TYPE_FP32, shape,
                                                    n_dims),
              "input");
        /* Not copied: the values stay where they are until the request is released. */
        check(TRITONSERVER_InferenceRequestAppendInputData(request, argv[4], values,
                                                           n * sizeof(*values),
                                                           TRITONSERVER_MEMORY_CPU, 0),
              "input");
        check(TRITONSERVER_InferenceRequestAddRequestedOutput(request, argv[5]), "output");
        check(TRITONSERVER_ServerInferAsync(server, request, NULL), "inference");

        pthread_mutex_lock(&r.lock);
        while (r.response == NULL || !r.is_released) /* in either order */
                pthread_cond_wait(&r.changed, &r.lock);
        pthread_mutex_unlock(&r.lock);
        print(r.response);

        check(TRITONSERVER_InferenceResponseDelete(r.response), "response");
        check(TRITONSERVER_InferenceRequestDelete(request), "request");
        check(TRITONSERVER_ResponseAllocatorDelete(allocator), "allocator");
        check(TRITONSERVER_ServerDelete(server), "server");
        return 0;
}
