/* SPDX-License-Identifier: BSD-3-Clause */
#include "kit/stream.h"

#include "kit/stats.h"
#include "triton/core/neso.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Interval of the check for cancellation, which the C API reports only on request. */
#define LOOK_EVERY_MS 20
#define STACK_BYTES (256 * 1024)

/* Another server of this API may lack it. */
#pragma weak NESO_ResponseFactoryWhenRoom

TRITONSERVER_Error *kit_stream_open(struct kit_stream *s, TRITONBACKEND_ModelInstance *instance,
                                    TRITONBACKEND_Request *request) {
        *s = (struct kit_stream){ .instance = instance };
        return TRITONBACKEND_ResponseFactoryNew(&s->factory, request);
}

TRITONSERVER_Error *kit_stream_respond(struct kit_stream *s) {
        s->start_ns = kit_clock_ns();
        s->output_start_ns = 0;
        return TRITONBACKEND_ResponseNewFromFactory(&s->response, s->factory);
}

bool kit_stream_may_respond(struct kit_stream *s, void (*call)(void *userp), void *userp) {
        bool is_waiting = false;

        if (NESO_ResponseFactoryWhenRoom != NULL)
                kit_error_log(NESO_ResponseFactoryWhenRoom(s->factory, call, userp, &is_waiting),
                              "failed to ask for room for a response");
        return !is_waiting;
}

void kit_stream_outputs(struct kit_stream *s) {
        s->output_start_ns = kit_clock_ns();
}

static TRITONSERVER_Error *fill_record(TRITONBACKEND_ModelInstanceResponseStatistics *record,
                                       const struct kit_stream *s, TRITONSERVER_Error *err) {
        KIT_TRY(TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance(record, s->instance));
        KIT_TRY(TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory(record,
                                                                                s->factory));
        KIT_TRY(TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart(record, s->start_ns));
        if (s->output_start_ns != 0)
                KIT_TRY(TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart(
                        record, s->output_start_ns));
        KIT_TRY(TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd(record,
                                                                            kit_clock_ns()));
        return TRITONBACKEND_ModelInstanceResponseStatisticsSetError(record, err);
}

/* Reports a response before it is sent, so that a client that reads statistics after it finds it
 * counted. */
static void report_response(const struct kit_stream *s, TRITONSERVER_Error *err) {
        TRITONBACKEND_ModelInstanceResponseStatistics *record;
        TRITONSERVER_Error                            *failed;

        failed = TRITONBACKEND_ModelInstanceResponseStatisticsNew(&record);
        if (failed == NULL) {
                failed = fill_record(record, s, err);
                if (failed == NULL)
                        failed = TRITONBACKEND_ModelInstanceReportResponseStatistics(record);
                kit_error_log(TRITONBACKEND_ModelInstanceResponseStatisticsDelete(record),
                              "failed to delete the statistics of a response");
        }
        kit_error_log(failed, "failed to report the statistics of a response");
}

static TRITONSERVER_Error *send_with(struct kit_stream *s, uint32_t flags,
                                     TRITONSERVER_Error *err) {
        TRITONBACKEND_Response *response = s->response;
        TRITONSERVER_Error     *failed;

        s->response = NULL;
        report_response(s, err);
        failed = TRITONBACKEND_ResponseSend(response, flags, err);
        if (err != NULL)
                TRITONSERVER_ErrorDelete(err);
        return failed;
}

TRITONSERVER_Error *kit_stream_send(struct kit_stream *s, TRITONSERVER_Error *err) {
        return send_with(s, 0, err);
}

TRITONSERVER_Error *kit_stream_send_last(struct kit_stream *s, TRITONSERVER_Error *err) {
        s->has_ended = true; /* also when sending fails: the server owns the response then, too */
        return send_with(s, TRITONSERVER_RESPONSE_COMPLETE_FINAL, err);
}

void kit_stream_drop(struct kit_stream *s) {
        kit_error_log(TRITONBACKEND_ResponseFactoryDelete(s->factory),
                      "failed to delete a response factory");
}

void kit_stream_close(struct kit_stream *s) {
        if (s->response != NULL)
                kit_error_log(TRITONBACKEND_ResponseDelete(s->response),
                              "failed to delete a response");
        if (!s->has_ended)
                kit_error_log(TRITONBACKEND_ResponseFactorySendFlags(
                                      s->factory, TRITONSERVER_RESPONSE_COMPLETE_FINAL),
                              "failed to end the responses of a request");
        kit_stream_drop(s);
}

bool kit_stream_is_cancelled(const struct kit_stream *s) {
        bool is_cancelled = false;

        kit_error_log(TRITONBACKEND_ResponseFactoryIsCancelled(s->factory, &is_cancelled),
                      "failed to ask whether a request is cancelled");
        return is_cancelled;
}

void kit_stream_report_cancelled(const struct kit_stream *s) {
        struct kit_stream   missing = { .instance = s->instance,
                                        .factory = s->factory,
                                        .start_ns = kit_clock_ns() };
        TRITONSERVER_Error *err = kit_error(TRITONSERVER_ERROR_CANCELLED, "the client gave up");

        report_response(&missing, err);
        TRITONSERVER_ErrorDelete(err);
}

bool kit_stream_wait_ms(const struct kit_stream *s, uint64_t ms) {
        while (!kit_stream_is_cancelled(s)) {
                uint64_t        now = ms < LOOK_EVERY_MS ? ms : LOOK_EVERY_MS;
                struct timespec left = { .tv_nsec = (long)now * 1000000 };

                if (ms == 0)
                        return true;
                while (nanosleep(&left, &left) != 0 && errno == EINTR)
                        continue;
                ms -= now;
        }
        return false;
}

void kit_stream_refuse(TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request *request,
                       TRITONSERVER_Error *err) {
        struct kit_stats        stats = { .exec_start = kit_clock_ns() };
        TRITONBACKEND_Response *response;
        TRITONSERVER_Error     *failed;

        kit_stats_report(&stats, instance, request, false);
        failed = TRITONBACKEND_ResponseNew(&response, request);
        if (failed == NULL)
                failed = TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL,
                                                    err);
        kit_error_log(failed, "failed to refuse a request");
        TRITONSERVER_ErrorDelete(err);
        kit_error_log(TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL),
                      "failed to release a request");
}

/* ---- threads ---- */

struct kit_worker {
        struct kit_worker *next;
        pthread_t          thread;
        atomic_bool        has_ended; /* all but the return from the thread's function */
        void (*run)(void *work);
        void *work;
};

void kit_workers_init(struct kit_workers *w) {
        (void)pthread_mutex_init(&w->lock, NULL);
        w->all = NULL;
}

static void *run_worker(void *argument) {
        struct kit_worker *worker = argument;

        worker->run(worker->work);
        atomic_store(&worker->has_ended, true);
        return NULL;
}

static void join_worker(struct kit_worker *worker) {
        (void)pthread_join(worker->thread, NULL);
        free(worker);
}

/* Joins the threads that have ended. */
static void join_some_locked(struct kit_workers *w) {
        struct kit_worker **at = &w->all;

        while (*at != NULL) {
                struct kit_worker *worker = *at;

                if (atomic_load(&worker->has_ended)) {
                        *at = worker->next;
                        join_worker(worker);
                } else {
                        at = &worker->next;
                }
        }
}

static int spawn_worker(struct kit_worker *worker) {
        pthread_attr_t attributes;
        int            failure = pthread_attr_init(&attributes);

        if (failure != 0)
                return failure;
        failure = pthread_attr_setstacksize(&attributes, STACK_BYTES);
        if (failure == 0)
                failure = pthread_create(&worker->thread, &attributes, run_worker, worker);
        (void)pthread_attr_destroy(&attributes);
        return failure;
}

TRITONSERVER_Error *kit_workers_start(struct kit_workers *w, void (*run)(void *work), void *work) {
        struct kit_worker *worker = malloc(sizeof(*worker));
        int                failure;

        if (worker == NULL)
                return kit_error_no_memory(sizeof(*worker), "a thread");
        worker->run = run;
        worker->work = work;
        atomic_init(&worker->has_ended, false);
        (void)pthread_mutex_lock(&w->lock);
        join_some_locked(w);
        failure = spawn_worker(worker);
        if (failure == 0) {
                worker->next = w->all;
                w->all = worker;
        }
        (void)pthread_mutex_unlock(&w->lock);
        if (failure == 0)
                return NULL;
        free(worker);
        return kit_error(TRITONSERVER_ERROR_UNAVAILABLE, "no thread to answer a request: %s",
                         strerror(failure));
}

/* Returns NULL when there is none. */
static struct kit_worker *take_any(struct kit_workers *w) {
        struct kit_worker *worker;

        (void)pthread_mutex_lock(&w->lock);
        worker = w->all;
        if (worker != NULL)
                w->all = worker->next;
        (void)pthread_mutex_unlock(&w->lock);
        return worker;
}

/* A thread that is joined may have started another one, which is then in the list. */
void kit_workers_done(struct kit_workers *w) {
        struct kit_worker *worker;

        while ((worker = take_any(w)) != NULL)
                join_worker(worker);
        (void)pthread_mutex_destroy(&w->lock);
}
