/* SPDX-License-Identifier: BSD-3-Clause */
/* A server within the test's own program, and inferences of it. Each function fails the running test when a
 * call of the API fails.
 *
 *     inference_open, _add_input       the request
 *     inference_start                  from here on the callbacks count
 *     inference_wait                   until so much has come
 *     inference_output                 what a response says
 *     inference_close
 *
 * inference_run() starts, waits for the end and has the one response.
 *
 * Ownership.  An inference has its request and its responses, which it keeps in their order until they are
 * dropped, or until the request is started again.
 * Threads.  The test's; the callbacks lock what they count.
 */
#pragma once

#include "triton/core/tritonserver.h"

#include <stdint.h>

/* Options for these models, without lines of the log that only inform. `backends` NULL: the server looks for
 * backends where it does by itself. */
struct TRITONSERVER_ServerOptions *embedded_options(const char *repository, const char *backends);

/* Ends the options. */
struct TRITONSERVER_Server *embedded_start(struct TRITONSERVER_ServerOptions *options);

struct inference {
        struct TRITONSERVER_Server             *server; /* borrowed */
        struct TRITONSERVER_InferenceRequest   *request;
        struct TRITONSERVER_InferenceResponse **responses; /* NULL where one was dropped */
        unsigned                                n_responses, n_finals, n_releases;
};

/* The outputs are in memory of the `allocator`, which gets `userp`. */
void inference_open(struct inference *in, struct TRITONSERVER_Server *server, const char *model,
                    struct TRITONSERVER_ResponseAllocator *allocator, void *userp);
void inference_close(struct inference *in);

/* An input of one dimension, n elements at `elements`, which are lent until the request has ended. */
void inference_add_input(struct inference *in, const char *name, TRITONSERVER_DataType type,
                         int64_t n, const void *elements);

void inference_start(struct inference *in);

/* Until there are so many responses, and the request has ended when `ends`: its FINAL has come and the request
 * is released, each once. */
enum inference_end { INFERENCE_GOES_ON, INFERENCE_ENDS };
void inference_wait(struct inference *in, unsigned n_responses, enum inference_end end);

/* Responses until now, of a request that has not ended. */
unsigned inference_count(struct inference *in);

/* The only response, which may be an error. */
struct TRITONSERVER_InferenceResponse *inference_run(struct inference *in);

/* Deletes the response of that number. */
void inference_drop(struct inference *in, unsigned i);

struct inference_output {
        const char             *name;
        TRITONSERVER_DataType   type;
        const int64_t          *shape;
        uint64_t                n_dims;
        const void             *base;
        size_t                  n_bytes;
        TRITONSERVER_MemoryType memory_type;
        int64_t                 memory_id;
        void                   *userp;
};

/* An output of a response that is no error. */
struct inference_output inference_output(struct TRITONSERVER_InferenceResponse *response,
                                         uint32_t                               index);

/* The only element of the response's only output. */
int32_t inference_int32(struct TRITONSERVER_InferenceResponse *response);
