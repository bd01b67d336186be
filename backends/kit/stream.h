/* SPDX-License-Identifier: BSD-3-Clause */
/* Many responses to one request, from a thread of the request's own: for decoupled models.
 *
 *     kit_stream_open() -> [request released] -> kit_stream_respond(), kit_stream_send() any number
 *     of times -> kit_stream_close()
 *
 * A stream ends in kit_stream_close(), which tells the client so. Each response is reported to the
 * statistics of responses as it is sent.
 *
 * A reader that is slow makes kit_stream_respond() wait; that is why each request has a thread:
 * nobody else waits with it.
 *
 * Ownership.  An open stream holds its model: the server unloads nothing under it.
 * Threads.  A stream has one user at a time. kit_workers are for any thread.
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
        TRITONBACKEND_ResponseFactory *factory;  /* owned */
        TRITONBACKEND_Response        *response; /* owned; between respond and send */
        uint64_t                       start_ns;        /* of that response */
        uint64_t                       output_start_ns; /* 0 until kit_stream_outputs() */
        bool                           has_ended;       /* the last response was sent */
};

TRITONSERVER_Error *kit_stream_open(struct kit_stream *s, TRITONBACKEND_ModelInstance *instance,
                                    TRITONBACKEND_Request *request);
/* Begins the next response, in s->response. */
TRITONSERVER_Error *kit_stream_respond(struct kit_stream *s);
/* Its outputs are computed and begin to be written; without it, the response counts as empty. */
void kit_stream_outputs(struct kit_stream *s);
/* Sends it, with `err` if that is not NULL, which is taken. */
TRITONSERVER_Error *kit_stream_send(struct kit_stream *s, TRITONSERVER_Error *err);
/* The same with the last one, so that the end needs no message of its own. */
TRITONSERVER_Error *kit_stream_send_last(struct kit_stream *s, TRITONSERVER_Error *err);
/* Ends the responses. A response that was not sent is dropped. */
void kit_stream_close(struct kit_stream *s);
/* In the place of kit_stream_close(), of a request that is answered without the stream. */
void kit_stream_drop(struct kit_stream *s);

bool kit_stream_is_cancelled(const struct kit_stream *s);
/* Waits; false, soon, when the client has given up. */
bool kit_stream_wait_ms(const struct kit_stream *s, uint64_t ms);
/* Reports that the client has given up: that the next response is not made. */
void kit_stream_report_cancelled(const struct kit_stream *s);

/* Answers a request that has no stream with `err`, which is taken; reports, and releases it. */
void kit_stream_refuse(TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request *request,
                       TRITONSERVER_Error *err);

struct kit_worker;

/* The threads of an instance. Its library is in use until the last one has ended. */
struct kit_workers {
        pthread_mutex_t    lock; /* guards all */
        struct kit_worker *all;  /* owned */
};

void kit_workers_init(struct kit_workers *w);
void kit_workers_done(struct kit_workers *w); /* waits for all */

/* Runs `run` with `work` on a new thread. May be called on one of these threads, too. */
TRITONSERVER_Error *kit_workers_start(struct kit_workers *w, void (*run)(void *work), void *work);

#ifdef __cplusplus
}
#endif
