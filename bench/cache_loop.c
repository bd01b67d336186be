/* SPDX-License-Identifier: BSD-3-Clause */
/* What an inference costs a program with the server in it: CPU time of the process per request.
 *
 *   cache_loop <repository> <backends> <caches> <model> <floats> <requests>
 *
 * Every request asks the same of the model: with a response cache all but the first are answered
 * from it, without one all are executed, on this very thread.
 */
#include "triton/core/neso.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static struct TRITONSERVER_Server            *server;
static struct TRITONSERVER_ResponseAllocator *allocator;
static void                                  *memory; /* of the output */

static void must(struct TRITONSERVER_Error *err) {
        if (err == NULL)
                return;
        fprintf(stderr, "cache_loop: %s\n", TRITONSERVER_ErrorMessage(err));
        exit(1);
}

static struct TRITONSERVER_Error *allocate(struct TRITONSERVER_ResponseAllocator *a,
                                           const char *tensor_name, size_t byte_size,
                                           TRITONSERVER_MemoryType type, int64_t id, void *userp,
                                           void **buffer, void **buffer_userp,
                                           TRITONSERVER_MemoryType *actual_type,
                                           int64_t *actual_id) {
        (void)a, (void)tensor_name, (void)byte_size, (void)type, (void)id, (void)userp;
        *buffer = memory;
        *buffer_userp = NULL;
        *actual_type = TRITONSERVER_MEMORY_CPU;
        *actual_id = 0;
        return NULL;
}

static struct TRITONSERVER_Error *give_back(struct TRITONSERVER_ResponseAllocator *a, void *buffer,
                                            void *buffer_userp, size_t byte_size,
                                            TRITONSERVER_MemoryType type, int64_t id) {
        (void)a, (void)buffer, (void)buffer_userp, (void)byte_size, (void)type, (void)id;
        return NULL;
}

static void on_response(struct TRITONSERVER_InferenceResponse *response, const uint32_t flags,
                        void *userp) {
        (void)flags, (void)userp;
        must(TRITONSERVER_InferenceResponseError(response));
        must(TRITONSERVER_InferenceResponseDelete(response));
}

static void on_release(struct TRITONSERVER_InferenceRequest *request, const uint32_t flags,
                       void *userp) {
        (void)request, (void)flags;
        *(volatile int *)userp = 1;
}

static void start_server(char **argv) {
        struct TRITONSERVER_ServerOptions *options;

        must(TRITONSERVER_ServerOptionsNew(&options));
        must(TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, argv[1]));
        must(TRITONSERVER_ServerOptionsSetBackendDirectory(options, argv[2]));
        must(TRITONSERVER_ServerOptionsSetCacheDirectory(options, argv[3]));
        must(TRITONSERVER_ServerOptionsSetCacheConfig(options, "local", "{\"size\":\"67108864\"}"));
        must(TRITONSERVER_ServerOptionsSetLogInfo(options, false));
        must(TRITONSERVER_ServerNew(&server, options));
        must(TRITONSERVER_ServerOptionsDelete(options));
        must(TRITONSERVER_ResponseAllocatorNew(&allocator, allocate, give_back, NULL));
}

/* The program runs models itself, but for the first execution of each. */
static void infer(const char *model, const float *input, int64_t n) {
        struct TRITONSERVER_InferenceRequest *request;
        volatile int                          is_over = 0;

        must(TRITONSERVER_InferenceRequestNew(&request, server, model, -1));
        must(TRITONSERVER_InferenceRequestAddInput(request, "INPUT0", TRITONSERVER_TYPE_FP32, &n,
                                                   1));
        must(TRITONSERVER_InferenceRequestAppendInputData(
                request, "INPUT0", input, (size_t)n * sizeof(*input), TRITONSERVER_MEMORY_CPU, 0));
        must(TRITONSERVER_InferenceRequestSetResponseCallback(request, allocator, NULL, on_response,
                                                              NULL));
        must(TRITONSERVER_InferenceRequestSetReleaseCallback(request, on_release,
                                                             (void *)&is_over));
        must(TRITONSERVER_ServerInferAsync(server, request, NULL));
        while (!is_over)
                ; /* only the first */
        must(TRITONSERVER_InferenceRequestDelete(request));
}

static double cpu_us(void) {
        struct timespec now;

        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
        return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

int main(int argc, char **argv) {
        float  *input;
        double  start_us;
        int64_t n;
        long    n_requests;

        if (argc != 7) {
                fprintf(stderr, "usage: %s <repository> <backends> <caches> <model> <floats> "
                                "<requests>\n", argv[0]);
                return 2;
        }
        n = strtol(argv[5], NULL, 10);
        n_requests = strtol(argv[6], NULL, 10);
        input = calloc((size_t)n + 1, sizeof(*input));
        memory = malloc((size_t)n * sizeof(*input) + 1);
        if (input == NULL || memory == NULL)
                return 1;
        start_server(argv);
        must(NESO_ThreadAllowInlineExecution(true));
        for (int i = 0; i < 10; i++)
                infer(argv[4], input, n);
        start_us = cpu_us();
        for (long i = 0; i < n_requests; i++)
                infer(argv[4], input, n);
        printf("%.3f\n", (cpu_us() - start_us) / (double)n_requests);
        must(TRITONSERVER_ServerDelete(server));
        must(TRITONSERVER_ResponseAllocatorDelete(allocator));
        free(memory);
        free(input);
        return 0;
}
