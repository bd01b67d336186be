/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of a request in flight, in bytes, in a program with the server in it:
 *
 * ensemble_loop <repository> <backends> <requests> <model> ...
 *
 * Each model ends, or begins, with a model that lets requests wait (bench/run.py writes them). The
 * given number of requests is sent to each model. Memory is measured while all of them are in
 * flight, then they are cancelled. A first round lets the server allocate what it keeps for all
 * requests.
 *
 * Prints for each model: <model> <bytes of a request before its submission> <bytes added in
 * flight>.
 */
#include "in_process.h"

#include <malloc.h>
#include <semaphore.h>

static struct TRITONSERVER_Server            *server;
static struct TRITONSERVER_ResponseAllocator *allocator;
/* Without memory: the requests are cancelled before they have outputs. */
static struct output_place place;
static sem_t               is_answered, is_released;

static void on_response(struct TRITONSERVER_InferenceResponse *response, const uint32_t flags,
                        void *userp) {
        struct TRITONSERVER_Error *err = TRITONSERVER_InferenceResponseError(response);

        (void)flags, (void)userp;
        if (err == NULL || TRITONSERVER_ErrorCode(err) != TRITONSERVER_ERROR_CANCELLED) {
                fprintf(stderr, "ensemble_loop: a request did not wait: %s\n",
                        err != NULL ? TRITONSERVER_ErrorMessage(err) : "it was answered");
                exit(1);
        }
        TRITONSERVER_ErrorDelete(err);
        must(TRITONSERVER_InferenceResponseDelete(response));
        sem_post(&is_answered);
}

static void on_release(struct TRITONSERVER_InferenceRequest *request, const uint32_t flags,
                       void *userp) {
        (void)request, (void)flags, (void)userp;
        sem_post(&is_released);
}

static struct TRITONSERVER_InferenceRequest *make(const char *model) {
        static const float                    value = 1.5F;
        struct TRITONSERVER_InferenceRequest *request;

        must(TRITONSERVER_InferenceRequestNew(&request, server, model, -1));
        must(TRITONSERVER_InferenceRequestAddInput(request, "INPUT0", TRITONSERVER_TYPE_FP32,
                                                   (int64_t[]){ 1, 1 }, 2));
        must(TRITONSERVER_InferenceRequestAppendInputData(request, "INPUT0", &value, sizeof(value),
                                                          TRITONSERVER_MEMORY_CPU, 0));
        must(TRITONSERVER_InferenceRequestSetResponseCallback(request, allocator, &place,
                                                              on_response, NULL));
        must(TRITONSERVER_InferenceRequestSetReleaseCallback(request, on_release, NULL));
        return request;
}

static size_t used_bytes(void) {
        struct mallinfo2 info = mallinfo2();

        return info.uordblks + info.hblkhd;
}

/* The steps before the waiting one run on this thread, so all requests are waiting afterwards. */
static void round_of(const char *model, struct TRITONSERVER_InferenceRequest **requests, long n,
                     double *ret_made, double *ret_in_flight) {
        size_t before = used_bytes(), made, in_flight;

        for (long i = 0; i < n; i++)
                requests[i] = make(model);
        made = used_bytes();
        for (long i = 0; i < n; i++)
                must(TRITONSERVER_ServerInferAsync(server, requests[i], NULL));
        in_flight = used_bytes();
        for (long i = 0; i < n; i++)
                must(TRITONSERVER_InferenceRequestCancel(requests[i]));
        for (long i = 0; i < n; i++) {
                sem_wait(&is_answered);
                sem_wait(&is_released);
        }
        for (long i = 0; i < n; i++)
                must(TRITONSERVER_InferenceRequestDelete(requests[i]));
        *ret_made = (double)(made - before) / (double)n;
        *ret_in_flight = (double)(in_flight - made) / (double)n;
}

int main(int argc, char **argv) {
        struct TRITONSERVER_InferenceRequest **requests;
        double                                 made, in_flight;
        long                                   n;

        n = argc > 4 ? strtol(argv[3], NULL, 10) : 0;
        if (n < 1 || n > 1000000) {
                fprintf(stderr, "usage: %s <repository> <backends> <requests> <model> ...\n",
                        argv[0]);
                return 2;
        }
        requests = calloc((size_t)n, sizeof(struct TRITONSERVER_InferenceRequest *));
        if (requests == NULL || sem_init(&is_answered, 0, 0) != 0 ||
            sem_init(&is_released, 0, 0) != 0)
                return 1;
        server = start_server(argv[1], argv[2], NULL);
        allocator = new_allocator();
        must(NESO_ThreadAllowInlineExecution(true));
        for (int i = 4; i < argc; i++) {
                for (int round = 0; round < 2; round++)
                        round_of(argv[i], requests, n, &made, &in_flight);
                printf("%s %.0f %.0f\n", argv[i], made, in_flight);
        }
        must(TRITONSERVER_ServerDelete(server));
        must(TRITONSERVER_ResponseAllocatorDelete(allocator));
        free(requests);
        return 0;
}
