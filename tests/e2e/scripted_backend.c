/* SPDX-License-Identifier: BSD-3-Clause */
/* A backend whose decoupled models answer as the request's parameter "script" says, for
 * test_decoupled_matrix.py. A script is steps, each with a number of times in front of it if that
 * is not one, as in "Rt3r":
 *
 *     r   a response; its output OUT, INT32 [1], counts them from 0
 *     f   the same with the final flag; else that one comes by itself in the end
 *     e   a response that is the error "as the script says"
 *     E   the same with the final flag
 *     R   releases the request, which is else done in the end
 *     t   goes on in another thread
 *     c   waits until the client gives up
 *     g   responses until the client gives up, a million at most
 *     sX  sets the event X, a capital letter; it stays set. Each instance has its own events
 *     wX  waits for the event X
 */
#include "kit/errors.h"
#include "kit/output.h"
#include "kit/stats.h"
#include "kit/stream.h"

#include <stdlib.h>
#include <string.h>

#define HOUR_MS 3600000
#define MANY 1000000

struct instance {
        struct kit_workers workers;
        pthread_mutex_t    lock; /* guards the events */
        pthread_cond_t     changed;
        bool               is_set[256];
};

struct job {
        struct kit_stream      stream;
        struct instance       *instance; /* borrowed */
        TRITONBACKEND_Request *request;  /* NULL: released */
        char                  *script;   /* owned */
        const char            *at;       /* in the script */
        int32_t                n_sent;
};

static void set_event(struct instance *instance, char name) {
        pthread_mutex_lock(&instance->lock);
        instance->is_set[(unsigned char)name] = true;
        pthread_cond_broadcast(&instance->changed);
        pthread_mutex_unlock(&instance->lock);
}

static void wait_for_event(struct instance *instance, char name) {
        pthread_mutex_lock(&instance->lock);
        while (!instance->is_set[(unsigned char)name])
                pthread_cond_wait(&instance->changed, &instance->lock);
        pthread_mutex_unlock(&instance->lock);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static TRITONSERVER_Error *put_number(struct job *job) {
        static const int64_t one = 1;
        struct kit_output    output = {
                   .name = "OUT", .type = TRITONSERVER_TYPE_INT32, .shape = &one, .n_dims = 1
        };
        void *out;

        KIT_TRY(kit_output_new(job->stream.response, &output, sizeof(job->n_sent), &out));
        memcpy(out, &job->n_sent, sizeof(job->n_sent));
        return NULL;
}

static TRITONSERVER_Error *respond(struct job *job, bool is_error, bool is_final) {
        TRITONSERVER_Error *err;

        KIT_TRY(kit_stream_respond(&job->stream));
        kit_stream_outputs(&job->stream);
        err = is_error ? kit_error(TRITONSERVER_ERROR_UNAVAILABLE, "as the script says")
                       : put_number(job);
        job->n_sent++;
        if (!is_final)
                return kit_stream_send(&job->stream, err);
        return kit_stream_send_last(&job->stream, err);
}

static void release(struct job *job) {
        struct kit_stats stats = { .exec_start = kit_clock_ns() };

        if (job->request == NULL)
                return;
        stats.compute_start = stats.compute_end = stats.exec_end = stats.exec_start;
        kit_stats_report(&stats, job->stream.instance, job->request, true);
        kit_error_log(TRITONBACKEND_RequestRelease(job->request, TRITONSERVER_REQUEST_RELEASE_ALL),
                      "failed to release a request");
        job->request = NULL;
}

static void wait_for_cancel(struct job *job) {
        if (!kit_stream_wait_ms(&job->stream, HOUR_MS))
                kit_stream_report_cancelled(&job->stream);
}

static TRITONSERVER_Error *respond_until_cancelled(struct job *job) {
        for (int i = 0; i < MANY; i++) {
                if (kit_stream_is_cancelled(&job->stream)) {
                        kit_stream_report_cancelled(&job->stream);
                        return NULL;
                }
                KIT_TRY(respond(job, false, false));
        }
        return NULL;
}

static TRITONSERVER_Error *take_step(struct job *job, char step) {
        switch (step) {
        case 'r': return respond(job, false, false);
        case 'f': return respond(job, false, true);
        case 'e': return respond(job, true, false);
        case 'E': return respond(job, true, true);
        case 'R': release(job); return NULL;
        case 'c': wait_for_cancel(job); return NULL;
        case 'g': return respond_until_cancelled(job);
        case 's': set_event(job->instance, *job->at++); return NULL;
        case 'w': wait_for_event(job->instance, *job->at++); return NULL;
        default: return kit_error(TRITONSERVER_ERROR_INVALID_ARG, "there is no step '%c'", step);
        }
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static void end_job(struct job *job, TRITONSERVER_Error *err) {
        kit_error_log(err, "a script failed");
        kit_stream_close(&job->stream);
        release(job);
        free(job->script);
        free(job);
}

static void run_job(void *work) {
        struct job         *job = work;
        TRITONSERVER_Error *err = NULL;

        while (err == NULL && *job->at != '\0') {
                char         *end;
                unsigned long n = strtoul(job->at, &end, 10);
                char          step = *end;

                n = end == job->at ? 1 : n;
                job->at = end + 1;
                if (step == 't') {
                        err = kit_workers_start(&job->instance->workers, run_job, job);
                        if (err == NULL)
                                return; /* the job is the other thread's */
                }
                for (; n > 0 && err == NULL && step != 't'; n--)
                        err = take_step(job, step);
        }
        end_job(job, err);
}

static char *find_script(TRITONBACKEND_Request *request) {
        uint32_t                   n = 0;
        const char                *name;
        TRITONSERVER_ParameterType type;
        const void                *value;

        kit_error_log(TRITONBACKEND_RequestParameterCount(request, &n), "no parameters");
        for (uint32_t i = 0; i < n; i++) {
                TRITONSERVER_Error *err;

                err = TRITONBACKEND_RequestParameter(request, i, &name, &type, &value);
                kit_error_log(err, "no parameter");
                if (err == NULL && strcmp(name, "script") == 0)
                        return strdup(value);
        }
        return strdup("");
}

static TRITONSERVER_Error *new_job(TRITONBACKEND_ModelInstance *instance,
                                   TRITONBACKEND_Request *request, struct job **ret) {
        struct job         *job = calloc(1, sizeof(*job));
        TRITONSERVER_Error *err;
        void               *state;

        if (job == NULL)
                abort();
        err = TRITONBACKEND_ModelInstanceState(instance, &state);
        if (err == NULL)
                err = kit_stream_open(&job->stream, instance, request);
        if (err != NULL) {
                free(job);
                return err;
        }
        job->instance = state;
        job->request = request;
        job->script = find_script(request);
        job->at = job->script;
        *ret = job;
        return NULL;
}

/* ---- entry points ---------------------------------------------------------------------------- */

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance *instance) {
        struct instance *state = calloc(1, sizeof(*state));

        if (state == NULL)
                abort();
        kit_workers_init(&state->workers);
        pthread_mutex_init(&state->lock, NULL);
        pthread_cond_init(&state->changed, NULL);
        return TRITONBACKEND_ModelInstanceSetState(instance, state);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance *instance) {
        struct instance *gone;
        void            *state;

        KIT_TRY(TRITONBACKEND_ModelInstanceState(instance, &state));
        gone = state;
        kit_workers_done(&gone->workers);
        pthread_cond_destroy(&gone->changed);
        pthread_mutex_destroy(&gone->lock);
        free(gone);
        return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *instance,
                                                       TRITONBACKEND_Request      **requests,
                                                       const uint32_t               request_count) {
        for (uint32_t i = 0; i < request_count; i++) {
                struct job         *job;
                TRITONSERVER_Error *err = new_job(instance, requests[i], &job);

                if (err != NULL)
                        kit_stream_refuse(instance, requests[i], err);
                else
                        run_job(job);
        }
        return NULL;
}
