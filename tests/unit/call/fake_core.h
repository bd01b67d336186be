/* SPDX-License-Identifier: BSD-3-Clause */
/* A core of the tests' own: the functions of the C API that one inference uses, shadowing those of
 * the library. What is set on a request is written down, and what becomes of a started request is
 * the running test's to say.
 */
#pragma once

#include "base/strbuf.h"
#include "triton/core/neso.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct TRITONSERVER_Error {
        TRITONSERVER_Error_Code code;
        char                   *message;
};

struct TRITONSERVER_ResponseAllocator {
        TRITONSERVER_ResponseAllocatorAllocFn_t            alloc;
        TRITONSERVER_ResponseAllocatorReleaseFn_t          release;
        TRITONSERVER_ResponseAllocatorQueryFn_t            query;
        TRITONSERVER_ResponseAllocatorBufferAttributesFn_t describe;
};

struct TRITONSERVER_InferenceRequest {
        TRITONSERVER_InferenceRequestReleaseFn_t   on_release;
        void                                      *release_userp;
        TRITONSERVER_InferenceResponseCompleteFn_t on_response;
        void                                      *response_userp;
        struct TRITONSERVER_ResponseAllocator     *allocator;
        void                                      *allocator_userp;
        _Atomic bool                               is_cancelled;
        bool                                       is_decoupled;
};

struct TRITONSERVER_InferenceResponse {
        struct TRITONSERVER_ResponseAllocator *allocator;
        const char                            *error; /* borrowed; NULL = success */
        char                                   output[16];
        int64_t                                shape[1];
        void                                  *base;
        size_t                                 bytes;
        void                                  *userp;
        TRITONSERVER_MemoryType                type; /* of the output */
};

typedef void (*fake_run_fn)(struct TRITONSERVER_InferenceRequest *request);

/* An error, or whether the model is decoupled. */
typedef struct TRITONSERVER_Error *(*fake_find_fn)(const char *model, bool *ret_is_decoupled);

/* What the running test has arranged and seen. */
struct fake_core {
        struct strbuf calls;        /* what was set on the request, one line each */
        fake_run_fn   run;          /* ServerInferAsync */
        fake_run_fn   cancel;       /* after InferenceRequestCancel; NULL: nothing */
        const char   *refuse;       /* the call of this name fails */
        bool          is_decoupled; /* each model, unless find_model says otherwise */
        fake_find_fn  find_model;   /* InferenceRequestNew; NULL: every model is there */
        bool          puts_off;     /* more responses follow: ThreadAfterResponses notes */
        void (*after_responses)(void *userp);
        void       *after_responses_userp;
        _Atomic int n_requests, n_responses, n_errors;
        pthread_t   thread;
};

extern struct fake_core fake;
