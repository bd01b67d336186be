/* SPDX-License-Identifier: BSD-3-Clause */
/* Several responses to one request, made after its release: for decoupled models.
 *
 *     kit_stream_open() -> [request released] -> kit_stream_respond(), kit_stream_send() any number
 *     of times -> kit_stream_close()
 *
 * kit_stream_close() ends the stream and notifies the client. Each response is reported to the
 * response statistics as it is sent.
 *
 * A slow reader makes kit_stream_respond() wait. A backend whose threads serve several requests
 * (job_pool.h) calls kit_stream_may_respond() first; one with a thread for each request (kit_workers)
 * may wait.
 *
 * Ownership.  An open stream holds its model: the server does not unload it before the end.
 * Threads.  A stream has one user at a time. kit_workers may be used by any thread.
 */
#pragma once

#include "kit/errors.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kit_stream {
        TRITONBACKEND_ModelInstance   *instance;
        TRITONBACKEND_ResponseFactory *factory;         /* owned */
        TRITONBACKEND_Response        *response;        /* owned; between respond and send */
        uint64_t                       start_ns;        /* of that response */
        uint64_t                       output_start_ns; /* 0 until kit_stream_outputs() */
        bool                           has_ended;       /* the last response was sent */
};

TRITONSERVER_Error *kit_stream_open(struct kit_stream *s, TRITONBACKEND_ModelInstance *instance,
                                    TRITONBACKEND_Request *request);
/* False: a response would have to wait for the reader now. Then call(userp) follows once, on any thread,
 * possibly earlier than this function returns: when there is room, or the request is cancelled; the stream
 * must stay open until then. A server without this question always answers true, and kit_stream_respond()
 * waits. */
bool kit_stream_may_respond(struct kit_stream *s, void (*call)(void *userp), void *userp);
/* Begins the next response, in s->response. */
TRITONSERVER_Error *kit_stream_respond(struct kit_stream *s);
/* Marks the time when outputs begin to be written; without it, the response counts as empty. */
void kit_stream_outputs(struct kit_stream *s);
/* Sends the response, with `err` if that is not NULL; `err` is taken. */
TRITONSERVER_Error *kit_stream_send(struct kit_stream *s, TRITONSERVER_Error *err);
/* Sends the last response, so that the end needs no message of its own. */
TRITONSERVER_Error *kit_stream_send_last(struct kit_stream *s, TRITONSERVER_Error *err);
/* Ends the responses. A response that was not sent is deleted. */
void kit_stream_close(struct kit_stream *s);
/* Replaces kit_stream_close() for a request that is answered without the stream. */
void kit_stream_drop(struct kit_stream *s);

bool kit_stream_is_cancelled(const struct kit_stream *s);
/* Sleeps; returns false, early, when the request is cancelled. */
bool kit_stream_wait_ms(const struct kit_stream *s, uint64_t ms);
/* Reports to the statistics that the next response is not made because the request was
 * cancelled. */
void kit_stream_report_cancelled(const struct kit_stream *s);

/* Answers a request without a stream with `err`, which is taken; reports and releases the
 * request. */
void kit_stream_refuse(TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request *request,
                       TRITONSERVER_Error *err);

struct kit_worker;

/* The threads of an instance. Its library stays in use until the last one has ended. */
struct kit_workers {
        pthread_mutex_t    lock; /* guards `all` */
        struct kit_worker *all;  /* owned */
};

void kit_workers_init(struct kit_workers *w);
void kit_workers_done(struct kit_workers *w); /* waits for all threads */

/* Calls `run` with `work` on a new thread. May also be called by one of these threads. */
TRITONSERVER_Error *kit_workers_start(struct kit_workers *w, void (*run)(void *work), void *work);

#ifdef __cplusplus
}
#endif
