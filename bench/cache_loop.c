/* SPDX-License-Identifier: BSD-3-Clause */
/* Cost of an inference per request in a program with the server in it:
 *
 * cache_loop <repository> <backends> <caches> <model> <floats> <requests> inline|thread
 *
 * All requests are equal. With a response cache, all but the first are answered from it; without
 * one, all are executed, on this thread ("inline") or on the instance's thread ("thread"), which is
 * the default for programs.
 *
 * Prints three numbers, in microseconds: the time of a whole request (made, answered, deleted), the
 * CPU time of the process for it, and the time between submission and release, the part that an
 * answer from the cache can reduce.
 */
#include "in_process.h"

#include <semaphore.h>
#include <string.h>
#include <time.h>

/* Requests made before, and deleted after, one measurement of the third number. */
#define N_AT_ONCE 16

/* Functions that stay visible to tools that count instructions. */
#define APART __attribute__((noinline))

static struct TRITONSERVER_Server            *server;
static struct TRITONSERVER_ResponseAllocator *allocator;
static struct output_place                    place;
static struct TRITONSERVER_InferenceResponse *answer;
static sem_t                                  is_over;

static const char *model;
static float      *input;
static int64_t     n_floats;

static void on_response(struct TRITONSERVER_InferenceResponse *response, const uint32_t flags,
                        void *userp) {
        (void)flags, (void)userp;
        answer = response;
}

/* Called last: the identity backend and the cache respond before they release. */
static void on_release(struct TRITONSERVER_InferenceRequest *request, const uint32_t flags,
                       void *userp) {
        (void)request, (void)flags, (void)userp;
        sem_post(&is_over);
}

static struct TRITONSERVER_InferenceRequest *make(void) {
        struct TRITONSERVER_InferenceRequest *request;

        must(TRITONSERVER_InferenceRequestNew(&request, server, model, -1));
        must(TRITONSERVER_InferenceRequestAddInput(request, "INPUT0", TRITONSERVER_TYPE_FP32,
                                                   &n_floats, 1));
        must(TRITONSERVER_InferenceRequestAppendInputData(request, "INPUT0", input,
                                                          (size_t)n_floats * sizeof(*input),
                                                          TRITONSERVER_MEMORY_CPU, 0));
        must(TRITONSERVER_InferenceRequestSetResponseCallback(request, allocator, &place,
                                                              on_response, NULL));
        must(TRITONSERVER_InferenceRequestSetReleaseCallback(request, on_release, NULL));
        return request;
}

static void submit(struct TRITONSERVER_InferenceRequest *request) {
        must(TRITONSERVER_ServerInferAsync(server, request, NULL));
        sem_wait(&is_over);
}

static void end(struct TRITONSERVER_InferenceRequest  *request,
                struct TRITONSERVER_InferenceResponse *response) {
        must(TRITONSERVER_InferenceResponseError(response));
        must(TRITONSERVER_InferenceResponseDelete(response));
        must(TRITONSERVER_InferenceRequestDelete(request));
}

static APART void whole(void) {
        struct TRITONSERVER_InferenceRequest *request = make();

        submit(request);
        end(request, answer);
}

static double now_us(clockid_t clock) {
        struct timespec now;

        clock_gettime(clock, &now);
        return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* Returns the time of N_AT_ONCE requests between submission and release. */
static double with_server_us(void) {
        struct TRITONSERVER_InferenceRequest  *requests[N_AT_ONCE];
        struct TRITONSERVER_InferenceResponse *responses[N_AT_ONCE];
        double                                 start_us, spent_us;

        for (int i = 0; i < N_AT_ONCE; i++)
                requests[i] = make();
        start_us = now_us(CLOCK_MONOTONIC);
        for (int i = 0; i < N_AT_ONCE; i++) {
                submit(requests[i]);
                responses[i] = answer;
        }
        spent_us = now_us(CLOCK_MONOTONIC) - start_us;
        for (int i = 0; i < N_AT_ONCE; i++)
                end(requests[i], responses[i]);
        return spent_us;
}

static void measure(long n_requests) {
        double start_us, start_cpu_us, spent_us, spent_cpu_us, part_us = 0;
        long   n_rounds = n_requests / N_AT_ONCE + 1;

        start_us = now_us(CLOCK_MONOTONIC);
        start_cpu_us = now_us(CLOCK_PROCESS_CPUTIME_ID);
        for (long i = 0; i < n_requests; i++)
                whole();
        spent_us = now_us(CLOCK_MONOTONIC) - start_us;
        spent_cpu_us = now_us(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_us;
        for (long i = 0; i < n_rounds; i++)
                part_us += with_server_us();
        printf("%.3f %.3f %.3f\n", spent_us / (double)n_requests, spent_cpu_us / (double)n_requests,
               part_us / (double)(n_rounds * N_AT_ONCE));
}

int main(int argc, char **argv) {
        if (argc != 8) {
                fprintf(stderr,
                        "usage: %s <repository> <backends> <caches> <model> <floats> "
                        "<requests> inline|thread\n",
                        argv[0]);
                return 2;
        }
        model = argv[4];
        n_floats = strtol(argv[5], NULL, 10);
        input = calloc((size_t)n_floats + 1, sizeof(*input));
        place.n_bytes = (size_t)n_floats * sizeof(*input) + 1;
        place.bytes = malloc(place.n_bytes);
        if (input == NULL || place.bytes == NULL || sem_init(&is_over, 0, 0) != 0)
                return 1;
        server = start_server(argv[1], argv[2], argv[3]);
        allocator = new_allocator();
        must(NESO_ThreadAllowInlineExecution(strcmp(argv[7], "inline") == 0));
        for (int i = 0; i < 10; i++)
                whole(); /* the instance's thread always runs the first request */
        measure(strtol(argv[6], NULL, 10));
        must(TRITONSERVER_ServerDelete(server));
        must(TRITONSERVER_ResponseAllocatorDelete(allocator));
        sem_destroy(&is_over);
        free(place.bytes);
        free(input);
        return 0;
}
