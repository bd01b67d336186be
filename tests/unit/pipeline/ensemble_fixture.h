/* SPDX-License-Identifier: BSD-3-Clause */
/* Ensembles of test models (sched/fixture_model.h), and clients that keep the responses that they get.
 *
 * Include after cmocka.h.
 */
#pragma once

#include "suite.h"

#include "config/config_check.h"
#include "infer/model_submit.h"
#include "pipeline/ensemble.h"
#include "pipeline/step_memory.h"
#include "pipeline/step_models.h"
#include "sched/fixture_model.h"

#define FIXTURE_MAX_OUTPUTS 8
#define FIXTURE_MAX_RESPONSES 64

/* ---- ensembles ------------------------------------------------------------------------------- */

struct fixture_ensemble {
        struct fake_model        *fake;
        struct step_models_holder holder;
        struct timer_thread      *timers;
        struct byte_budget        budget;
        struct step_memory        memory;
};

#define FIXTURE_BUDGET_BYTES ((size_t)1 << 30)

/* `steps`: the model of each step, in the order of the configuration. */
static inline void fixture_ensemble_open(struct fixture_ensemble *e, const char *name,
                                         const char *config, const struct step_model *steps,
                                         size_t n) {
        struct step_models *models = step_models_new(steps, n);
        bool                is_decoupled;

        e->fake = fixture_fake_new(name, config);
        assert_ok(model_config_check(e->fake->model.config), config);
        assert_int_equal(e->fake->model.config->pb->ensemble_scheduling->n_step, n);
        assert_ok(ensemble_prepare(e->fake->model.config, models, &is_decoupled), config);
        e->fake->model.is_decoupled = is_decoupled;
        step_models_holder_init(&e->holder);
        step_models_holder_set(&e->holder, models);
        assert_ok(timer_thread_new(&e->timers), "timers");
        byte_budget_init(&e->budget, FIXTURE_BUDGET_BYTES);
        step_memory_init(&e->memory, &e->budget, e->timers);
        assert_ok(ensemble_new(&e->fake->model, &e->holder, &e->memory, &e->fake->model.scheduler),
                  config);
}

static inline void fixture_ensemble_close(struct fixture_ensemble *e) {
        assert_int_equal(atomic_load(&e->fake->model.n_in_flight), 0);
        e->fake->model.scheduler->ops->free(e->fake->model.scheduler);
        step_memory_done(&e->memory);
        assert_int_equal(byte_budget_used(&e->budget), 0);
        timer_thread_free(e->timers);
        step_models_holder_done(&e->holder);
        fake_model_free(e->fake);
}

/* ---- clients --------------------------------------------------------------------------------- */

struct fixture_output {
        const char *name;  /* borrowed: from the kept response */
        uint32_t    value; /* the first element */
        uint32_t    n_dims;
        int64_t     dims[4];
        const void *base;
};

struct fixture_got {
        struct response      *response; /* owned */
        struct fixture_output outputs[FIXTURE_MAX_OUTPUTS];
        uint32_t              n_outputs;
        uint32_t              flags;
};

struct fixture_call {
        struct request *req;
        _Atomic int n_buffers; /* buffers that the client's allocator gave and did not get back */
        _Atomic int n_allocated;
        const char *refuses; /* output that gets no memory; NULL: none */

        /* Guarded by fixture_lock. */
        struct fixture_got got[FIXTURE_MAX_RESPONSES];
        unsigned           n_got;
        unsigned           n_finals;
        bool               is_released;
};

/* The signature of allocator_alloc_fn. */
static inline struct error *fixture_alloc(struct response_allocator *allocator, const char *tensor,
                                          size_t byte_size, enum memory_type type, int64_t id,
                                          void *userp, void **buffer, void **buffer_userp,
                                          enum memory_type *actual_type, int64_t *actual_id) {
        struct fixture_call *c = userp;

        (void)allocator;
        (void)type;
        (void)id;
        if (c->refuses != NULL && strcmp(c->refuses, tensor) == 0)
                return error_new(ERR_UNAVAILABLE, "no room for '%s'", tensor);
        *buffer = malloc(byte_size + 1);
        *buffer_userp = c;
        *actual_type = MEMORY_CPU;
        *actual_id = 0;
        atomic_fetch_add(&c->n_buffers, 1);
        atomic_fetch_add(&c->n_allocated, 1);
        return NULL;
}

static inline struct error *fixture_release(struct response_allocator *allocator, void *buffer,
                                            void *buffer_userp, size_t byte_size,
                                            enum memory_type type, int64_t id) {
        struct fixture_call *c = buffer_userp;

        (void)allocator;
        (void)byte_size;
        (void)type;
        (void)id;
        atomic_fetch_sub(&c->n_buffers, 1);
        free(buffer);
        return NULL;
}

static inline void fixture_keep_outputs(struct fixture_got *g) {
        for (const struct response_output *o = g->response->first_output;
             o != NULL && g->n_outputs < FIXTURE_MAX_OUTPUTS; o = o->next) {
                struct fixture_output *to = &g->outputs[g->n_outputs++];

                *to = (struct fixture_output){ .name = o->name,
                                               .n_dims = o->n_dims,
                                               .base = o->base };
                for (uint32_t i = 0; i < o->n_dims && i < 4; i++)
                        to->dims[i] = o->shape[i];
                if (o->byte_size >= sizeof(to->value))
                        memcpy(&to->value, o->base, sizeof(to->value));
        }
}

static inline void fixture_on_response(struct response *response, uint32_t flags, void *userp) {
        struct fixture_call *c = userp;
        struct fixture_got  *g;

        mutex_lock(&fixture_lock);
        c->n_finals += (flags & RESPONSE_FINAL) != 0;
        if (response != NULL) {
                g = &c->got[c->n_got % FIXTURE_MAX_RESPONSES];
                *g = (struct fixture_got){ .response = response, .flags = flags };
                fixture_keep_outputs(g);
                c->n_got++;
        }
        cond_broadcast(&fixture_changed);
        mutex_unlock(&fixture_lock);
}

static inline void fixture_on_release(struct request *req, uint32_t flags, void *userp) {
        struct fixture_call *c = userp;

        (void)req;
        (void)flags;
        mutex_lock(&fixture_lock);
        c->is_released = true;
        cond_broadcast(&fixture_changed);
        mutex_unlock(&fixture_lock);
}

static const struct response_allocator fixture_allocator = { .alloc = fixture_alloc,
                                                             .release = fixture_release };

static inline void fixture_call_open(struct fixture_call *c, struct fake_model *model) {
        memset(c, 0, sizeof(*c));
        c->req = fake_request(model);
        c->req->allocator = &fixture_allocator;
        c->req->allocator_userp = c;
        c->req->on_response = fixture_on_response;
        c->req->on_response_userp = c;
        c->req->on_release = fixture_on_release;
        c->req->on_release_userp = c;
}

/* Adds an input of one element. `value` is a pointer that must live as long as the call; dims
 * follow. */
#define fixture_input(c, name, value, ...)                                                         \
        do {                                                                                       \
                assert_ok(request_add_input((c)->req, name, DATA_TYPE_UINT32,                      \
                                            (int64_t[]){ __VA_ARGS__ }, N_DIMS(__VA_ARGS__)),      \
                          name);                                                                   \
                append_bytes((c)->req, name, value, sizeof(uint32_t));                             \
        } while (0)

/* Answers, and then deletes a response that it did not send, when the request may be gone. */
static inline void fixture_execute_and_delete(struct executor *e, struct request **requests,
                                              uint32_t n) {
        struct response *unsent =
                fixture_response(CONTAINER_OF(e, struct fixture_model, executor), requests[0], 0);

        fixture_execute(e, requests, n);
        response_free(unsent);
}

static const struct executor_ops fixture_ops_that_delete UNUSED = {
        .execute = fixture_execute_and_delete, .is_ready = fixture_is_ready
};

static inline void fixture_submit(struct fixture_call *c) {
        assert_ok(model_submit(c->req), "submit");
}

static inline void fixture_wait(struct fixture_call *c) {
        FIXTURE_WAIT_FOR(c->is_released && c->n_finals > 0);
        assert_int_equal(c->n_finals, 1);
}

static inline void fixture_run(struct fixture_call *c) {
        fixture_submit(c);
        fixture_wait(c);
}

static inline void fixture_call_close(struct fixture_call *c) {
        for (unsigned i = 0; i < MIN(c->n_got, FIXTURE_MAX_RESPONSES); i++)
                response_free(c->got[i].response);
        request_free(c->req);
        assert_int_equal(atomic_load(&c->n_buffers), 0);
}

/* Asserts that the only response is this error. */
static inline void fixture_assert_error(const struct fixture_call *c, enum error_code code,
                                        const char *text) {
        assert_int_equal(c->n_got, 1);
        if (c->got[0].response->error == NULL)
                fail_msg("no error, expected \"%s\"", text);
        assert_string_equal(c->got[0].response->error->message, text);
        assert_int_equal(c->got[0].response->error->code, code);
        assert_int_equal(c->got[0].flags, RESPONSE_FINAL);
}

static inline const struct fixture_output *fixture_output(const struct fixture_call *c,
                                                          unsigned response, const char *name) {
        if (response >= c->n_got)
                fail_msg("there is no response %u", response);
        if (c->got[response].response->error != NULL)
                fail_msg("%s", c->got[response].response->error->message);
        for (uint32_t i = 0; i < c->got[response].n_outputs; i++)
                if (strcmp(c->got[response].outputs[i].name, name) == 0)
                        return &c->got[response].outputs[i];
        fail_msg("there is no output %s", name);
        return NULL;
}
