/* SPDX-License-Identifier: BSD-3-Clause */
/* Models without files and backends: real engines with fake executors that compute numbers.
 *
 * Output k of a model is, element by element, 3 * (sum of its inputs) + `add` + 7 * k, modulo 2^32. A
 * decoupled model adds 101 * j to its j-th response. All tensors are UINT32.
 *
 * Include after cmocka.h.
 */
#pragma once

#include "suite.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/timer.h"
#include "infer/fake_model.h"
#include "infer/response.h"
#include "repo/scheduler_choice.h"
#include "sched/sched_setup.h"

#include <pthread.h>
#include <stdio.h>

#define FIXTURE_PATIENCE_NS (60 * NS_PER_S)

/* One lock for all state that the tests read; rank LOCK_SERVER. */
static struct mutex fixture_lock;
static struct cond  fixture_changed;

static inline void fixture_open(void) {
        mutex_init(&fixture_lock, LOCK_SERVER);
        cond_init(&fixture_changed);
}

#define FIXTURE_WAIT_FOR(condition)                                                                \
        do {                                                                                       \
                uint64_t give_up_ns_ = clock_now_ns() + FIXTURE_PATIENCE_NS;                       \
                bool     is_met_;                                                                  \
                mutex_lock(&fixture_lock);                                                         \
                while (!(condition) && clock_now_ns() < give_up_ns_)                               \
                        cond_wait_until(&fixture_changed, &fixture_lock, give_up_ns_);             \
                is_met_ = (condition);                                                             \
                mutex_unlock(&fixture_lock);                                                       \
                if (!is_met_)                                                                      \
                        fail_msg("did not happen: %s", #condition);                                \
        } while (0)

static inline void fixture_spin(uint64_t spin_ns) {
        uint64_t until_ns = clock_now_ns() + spin_ns;

        while (clock_now_ns() < until_ns)
                continue;
}

/* ---- models ---------------------------------------------------------------------------------- */

/* The last request of a model, as its executor saw it. */
struct fixture_seen {
        char                  id[32];
        struct correlation_id correlation; /* the text is in `text` */
        char                  text[32];
        uint32_t              flags;
        uint64_t              priority;
        uint64_t              timeout_us;
        uint32_t              n_parameters;
        uint32_t              n_inputs;
        uint32_t              n_output_names;
        uint32_t              n_dims; /* bytes of its first input */
        int64_t               dims[4];
        const void           *input;  /* address of these bytes */
        const void           *output; /* memory requested for the first output */
        pthread_t             thread;
        const void           *frame; /* where the stack was */
};

struct fixture_model {
        struct fake_model   *fake;
        struct timer_thread *timers; /* owned, unless it is shared */
        struct executor      executor;

        uint32_t                add;
        const char             *error;          /* sends this error, INVALID_ARG; NULL: no error */
        bool                    is_silent;      /* releases the request without a response */
        const char             *omits;          /* name of an output that it leaves out */
        unsigned                n_responses;    /* number of responses, if decoupled */
        bool                    has_late_final; /* sends FINAL without a response */
        bool                    says_sequence;
        int64_t                 sequence_id;
        const char             *sequence_text;
        bool                    sequence_start, sequence_end;
        const struct parameter *says; /* an additional parameter of its responses; NULL: none */
        /* does not send a response that it cannot create */
        bool     may_lack_memory;
        uint64_t spin_ns; /* minimum duration of an execution */

        /* Guarded by fixture_lock. */
        bool                is_held;                       /* executions wait before they answer */
        unsigned            n_running, n_executed, n_most; /* number of requests */
        unsigned            n_cancelled;                   /* seen at an execution */
        struct fixture_seen seen;
};

static inline void fixture_note(struct fixture_model *m, const struct request *req,
                                const void *frame) {
        const struct request_input *in = req->first_input;
        struct fixture_seen        *s = &m->seen;

        snprintf(s->id, sizeof(s->id), "%s", req->id);
        s->correlation = req->correlation;
        snprintf(s->text, sizeof(s->text), "%s",
                 req->correlation.text != NULL ? req->correlation.text : "");
        s->flags = req->flags;
        s->priority = req->priority;
        s->timeout_us = req->timeout_us;
        s->n_parameters = req->parameters.n;
        s->n_inputs = req->n_inputs;
        s->n_output_names = req->n_output_names;
        s->n_dims = in->n_dims;
        for (uint32_t i = 0; i < in->n_dims && i < 4; i++)
                s->dims[i] = in->shape[i];
        s->input = in->only_chunk.base;
        s->thread = pthread_self();
        s->frame = frame;
}

static inline void fixture_add_parameters(const struct fixture_model *m, struct response *r) {
        struct parameter id = { .name = "sequence_id", .type = PARAMETER_INT };
        struct parameter start = { .name = "sequence_start", .type = PARAMETER_BOOL };
        struct parameter end = { .name = "sequence_end", .type = PARAMETER_BOOL };

        if (m->says != NULL)
                assert_ok(response_add_parameter(r, m->says), "parameter");
        if (!m->says_sequence)
                return;
        id.integer = m->sequence_id;
        if (m->sequence_text != NULL) {
                id.type = PARAMETER_STRING;
                id.string = m->sequence_text;
        }
        start.boolean = m->sequence_start;
        end.boolean = m->sequence_end;
        assert_ok(response_add_parameter(r, &id), "parameter");
        assert_ok(response_add_parameter(r, &start), "parameter");
        assert_ok(response_add_parameter(r, &end), "parameter");
}

static inline void fixture_compute(const struct request *req, uint32_t *y, size_t n,
                                   uint32_t plus) {
        for (size_t i = 0; i < n; i++)
                y[i] = plus;
        for (const struct request_input *in = req->first_input; in != NULL; in = in->next)
                for (size_t i = 0; i < n && i * sizeof(*y) < in->byte_size; i++)
                        y[i] += 3 * ((const uint32_t *)in->only_chunk.base)[i];
}

/* When memory is short, only FINAL is sent. */
static inline bool fixture_try_response(const struct request *req, struct response **ret) {
        struct error *err = response_new(req, ret);

        if (err == NULL)
                return true;
        error_free(err);
        assert_ok(request_send_flags(req, RESPONSE_FINAL), "flags");
        return false;
}

/* Returns NULL, and has sent the error, when there is no memory for an output. */
static inline struct response *fixture_response(struct fixture_model *m, const struct request *req,
                                                unsigned j) {
        const struct request_input *first = req->first_input;
        size_t                      n = first->byte_size / sizeof(uint32_t);
        struct response            *r;

        if (m->may_lack_memory) {
                if (!fixture_try_response(req, &r))
                        return NULL;
        } else {
                assert_ok(response_new(req, &r), "response");
        }
        fixture_add_parameters(m, r);
        for (uint32_t k = 0; k < req->n_output_names; k++) {
                const struct model_io *io =
                        model_io_find_output(req->model->io, str_of(req->output_names[k]), k);
                uint32_t                number = (uint32_t)(io - req->model->io->outputs);
                enum memory_type        type = MEMORY_CPU;
                int64_t                 id = 0;
                struct response_output *o;
                struct error           *err;
                void                   *y;

                if (m->omits != NULL && strcmp(m->omits, io->name) == 0)
                        continue;
                err = response_add_output(r, io->name, DATA_TYPE_UINT32, first->shape,
                                          first->n_dims, &o);
                if (err == NULL)
                        err = response_output_buffer(o, n * sizeof(uint32_t), &type, &id, &y);
                if (err != NULL) {
                        error_free(response_send(r, RESPONSE_FINAL, err));
                        error_free(err);
                        return NULL;
                }
                fixture_compute(req, y, n, m->add + 7 * number + 101 * j);
                mutex_lock(&fixture_lock);
                m->seen.output = y;
                mutex_unlock(&fixture_lock);
        }
        return r;
}

static inline void fixture_refuse(const struct request *req, const char *text) {
        static struct error cancelled = ERROR_STATIC(ERR_CANCELLED, "");
        struct error    *err = text != NULL ? error_new(ERR_INVALID_ARG, "%s", text) : &cancelled;
        struct response *r;

        assert_ok(response_new(req, &r), "response");
        assert_ok(response_send(r, RESPONSE_FINAL, err), "send");
        error_free(err);
}

static inline void fixture_answer(struct fixture_model *m, struct request *req) {
        bool     is_decoupled = req->model->is_decoupled;
        unsigned n = is_decoupled ? m->n_responses : 1;

        if (request_is_cancelled(req)) {
                fixture_refuse(req, NULL);
                return;
        }
        if (m->error != NULL) {
                fixture_refuse(req, m->error);
                return;
        }
        if (m->is_silent)
                n = 0;
        for (unsigned j = 0; j < n; j++) {
                bool             is_last = j + 1 == n && !m->has_late_final;
                struct response *r = fixture_response(m, req, j);

                if (r == NULL)
                        return;
                assert_ok(response_send(r, is_last ? RESPONSE_FINAL : 0, NULL), "send");
        }
        if (n == 0 || m->has_late_final)
                assert_ok(request_send_flags(req, RESPONSE_FINAL), "flags");
}

static inline void fixture_report(struct fixture_model *m, struct request *req) {
        struct request_times t = { .exec_start_ns = 1000,
                                   .compute_start_ns = 1001,
                                   .compute_end_ns = 1011,
                                   .exec_end_ns = 1111 };

        if (req->is_inner && req->sums != NULL)
                compute_sums_add(req->sums, &t);
        model_stats_success(m->fake->model.stats, &t, 1);
}

static inline void fixture_execute(struct executor *e, struct request **requests, uint32_t n) {
        struct fixture_model *m = CONTAINER_OF(e, struct fixture_model, executor);

        mutex_lock(&fixture_lock);
        m->n_running += n;
        m->n_executed += n;
        m->n_most = MAX(m->n_most, m->n_running);
        fixture_note(m, requests[0], __builtin_frame_address(0));
        cond_broadcast(&fixture_changed);
        while (m->is_held)
                cond_wait(&fixture_changed, &fixture_lock);
        for (uint32_t i = 0; i < n; i++)
                m->n_cancelled += request_is_cancelled(requests[i]);
        mutex_unlock(&fixture_lock);
        fixture_spin(m->spin_ns);
        for (uint32_t i = 0; i < n; i++) {
                fixture_report(m, requests[i]);
                fixture_answer(m, requests[i]);
                request_release(requests[i], REQUEST_RELEASE_ALL);
        }
        mutex_lock(&fixture_lock);
        m->n_running -= n;
        cond_broadcast(&fixture_changed);
        mutex_unlock(&fixture_lock);
}

static inline bool fixture_is_ready(struct executor *e) {
        (void)e;
        return true;
}

static inline struct fake_model *fixture_fake_new(const char *name, const char *config) {
        struct fake_model *f = fake_model_new(config);

        f->model.name = f->model.label = name;
        f->model.namespace = "";
        return f;
}

/* `timers` may be NULL: then the model has its own. `limiter` may be NULL; else it limits the model as
 * the first instance group states. The configuration is read like that of a file. */
static inline void fixture_model_open_limited(struct fixture_model *m, const char *name,
                                              const char *config, struct timer_thread *timers,
                                              struct rate_limiter *limiter) {
        static const struct executor_ops ops = { .execute = fixture_execute,
                                                 .is_ready = fixture_is_ready };
        struct executor                 *executors[] = { &m->executor };
        struct sched_setup setup = { .executors = executors, .n_executors = 1, .limiter = limiter };

        *m = (struct fixture_model){ .n_responses = 1,
                                     .executor = { .ops = &ops, .name = "i", .may_inline = true } };
        m->fake = fixture_fake_new(name, config);
        if (limiter != NULL)
                m->executor.limits = m->fake->model.config->pb->instance_group[0]->rate_limiter;
        if (timers == NULL)
                assert_ok(timer_thread_new(&m->timers), "timers");
        setup.model = &m->fake->model;
        setup.timers = timers != NULL ? timers : m->timers;
        assert_ok(sched_new(&setup, &m->fake->model.scheduler), "scheduler");
}

static inline void fixture_model_open(struct fixture_model *m, const char *name, const char *config,
                                      struct timer_thread *timers) {
        fixture_model_open_limited(m, name, config, timers, NULL);
}

/* Ends its threads; the model stays. */
static inline void fixture_model_stop(struct fixture_model *m) {
        struct scheduler *s = m->fake->model.scheduler;

        assert_int_equal(atomic_load(&m->fake->model.n_in_flight), 0);
        s->ops->free(s);
        timer_thread_free(m->timers);
}

static inline void fixture_model_close(struct fixture_model *m) {
        fixture_model_stop(m);
        fake_model_free(m->fake);
}

static inline void fixture_hold(struct fixture_model *m, bool is_held) {
        mutex_lock(&fixture_lock);
        m->is_held = is_held;
        cond_broadcast(&fixture_changed);
        mutex_unlock(&fixture_lock);
}

static inline unsigned fixture_count(struct fixture_model *m) {
        MUTEX_GUARD(&fixture_lock);
        return m->n_executed;
}
