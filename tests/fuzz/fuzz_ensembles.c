/* SPDX-License-Identifier: BSD-3-Clause */
/* Ensembles of arbitrary graphs under arbitrary events. What the checks accept runs: each request of a
 * client is answered by exactly one FINAL and released once, each request of a step is given to its
 * model's scheduler at most once for each input that it may have, no more of one step are under way than
 * max_inflight_requests says, and nothing is left at the end.
 *
 * The bytes say first what the graph is (print_graph()), then, two for an event, what happens.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "base/timer.h"
#include "config/config_check.h"
#include "config/config_normalize.h"
#include "config/state_specs.h"
#include "infer/model.h"
#include "infer/model_submit.h"
#include "infer/request.h"
#include "infer/request_shape.h"
#include "infer/response.h"
#include "infer/response_stream.h"
#include "observe/model_stats.h"
#include "pipeline/ensemble.h"
#include "pipeline/step_memory.h"
#include "pipeline/step_models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void must(bool is_so) {
        if (!is_so)
                abort();
}

enum { MAX_STEPS = 6, MAX_INPUTS = 3, MAX_TENSORS = 16, MAX_CALLS = 8, MAX_EVENTS = 512 };

static void must_ok(struct error *err) {
        if (err != NULL)
                fprintf(stderr, "%s\n", err->message);
        must(err == NULL);
}

/* A model whose scheduler keeps requests until an event answers them. */
struct step {
        struct scheduler base;
        struct model     model;
        struct request  *waiting[64]; /* given by the ensemble, not answered yet */
        unsigned         n_waiting;
};

struct call {
        struct request *req; /* NULL: none */
        unsigned        n_finals, n_releases, n_buffers;
        uint32_t        values[8]; /* of its inputs */
};

struct fuzz {
        const uint8_t            *input;
        size_t                    size, at;
        struct step               steps[MAX_STEPS];
        uint32_t                  n_steps, max_inflight;
        bool                      has_optional, has_batches;
        struct model              model; /* the ensemble's */
        struct step_models_holder holder;
        struct call               calls[MAX_CALLS];
};

static struct fuzz          f;
static struct timer_thread *timers;
static struct byte_budget   budget;
static struct step_memory   memory;

static uint8_t next_byte(void) {
        return f.at < f.size ? f.input[f.at++] : 0;
}

/* ---- models ---------------------------------------------------------------------------------- */

static struct error *step_submit(struct scheduler *s, struct request *req) {
        struct step *step = CONTAINER_OF(s, struct step, base);

        if (step->n_waiting == sizeof(step->waiting) / sizeof(step->waiting[0]))
                return error_new(ERR_UNAVAILABLE, "the queue is full");
        step->waiting[step->n_waiting++] = req;
        must(f.max_inflight == 0 || step->n_waiting <= f.max_inflight);
        atomic_store(&req->state, REQUEST_PENDING);
        return NULL;
}

static void step_cancel(struct scheduler *s, struct request *req) {
        (void)s, (void)req; /* what waits is answered by an event all the same */
}

static void on_unused(struct model *m) {
        (void)m;
}

/* Statistics take the most of a model's making: they are kept, by `index`. */
static struct model_stats *stats_of(unsigned index) {
        static struct metric_registry *registry;
        static struct model_metrics   *metrics;
        static struct model_stats     *all[MAX_STEPS + 1];

        if (metrics == NULL) {
                registry = metric_registry_new();
                metrics = model_metrics_new(registry, &(struct model_metrics_options){ 0 });
        }
        if (all[index] == NULL)
                all[index] = model_stats_new(metrics, &(struct model_stats_options){
                                                              .model = "m", .version = index });
        return all[index];
}

static void open_model(struct model *m, const char *name, unsigned index, const char *config) {
        *m = (struct model){ .name = name,
                             .label = name,
                             .namespace = "",
                             .version = 1,
                             .on_unused = on_unused,
                             .stats = stats_of(index) };
        ref_init(&m->ref);
        must_ok(model_config_read_text(str_of(config), "config.pbtxt", &m->config));
        must_ok(model_config_normalize(m->config));
        must_ok(model_io_set_new(m->config, &m->io));
        must_ok(state_specs_new(m->config, "/nowhere", NULL, &m->states));
        m->needs_equal_shapes = model_io_needs_equal_shapes(m->io);
        m->is_decoupled = model_config_is_decoupled(m->config);
}

/* Only this holds it now. */
static void close_model(struct model *m) {
        must(atomic_load(&m->n_in_flight) == 0);
        must(ref_put(&m->ref));
        state_specs_free(m->states);
        model_io_set_free(m->io);
        model_config_free(m->config);
}

static void open_step(unsigned i, const char *config) {
        static const struct scheduler_ops ops = { .submit = step_submit, .cancel = step_cancel };

        f.steps[i].base.ops = &ops;
        open_model(&f.steps[i].model, "s", i, config);
        f.steps[i].model.scheduler = &f.steps[i].base;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static const char *type_of(uint8_t choice) {
        return choice % 16 == 0 ? "TYPE_INT32" : "TYPE_UINT32";
}

static void print_tensor(struct strbuf *out, const char *what, const char *name, unsigned number,
                         const char *type, bool is_optional) {
        strbuf_printf(out, "%s { name: '%s%u' data_type: %s dims: 1 %s} ", what, name, number, type,
                      is_optional ? "optional: true " : "");
}

/* A step reads any tensors and writes new ones, so most graphs have no circle: what comes from a tensor
 * that is not there yet is refused by the checks. */
static void print_step(struct strbuf *out, struct strbuf *model, unsigned *n_tensors) {
        uint8_t  what = next_byte();
        unsigned n_inputs = 1 + what % MAX_INPUTS, n_outputs = 1 + (what >> 2) % 2;

        strbuf_printf(model, "name: 's' max_batch_size: %d ", (what & 0x10) != 0 ? 4 : 0);
        if ((what & 0xe0) == 0xe0)
                strbuf_puts(model, "model_transaction_policy { decoupled: true } ");
        strbuf_puts(out, "step { model_name: 's' model_version: -1 ");
        for (unsigned k = 0; k < n_inputs; k++) {
                uint8_t choice = next_byte();

                strbuf_printf(out, "input_map { key: 'I%u' value: 't%u' } ", k,
                              choice % (*n_tensors + ((choice & 0x80) != 0)));
                print_tensor(model, "input", "I", k, "TYPE_UINT32", k > 0);
        }
        for (unsigned k = 0; k < n_outputs; k++) {
                strbuf_printf(out, "output_map { key: 'O%u' value: 't%u' } ", k, (*n_tensors)++);
                print_tensor(model, "output", "O", k, type_of(next_byte() + 1), false);
        }
        strbuf_puts(out, "} ");
}

/* The ensemble's text, and a model for each step. */
static void print_graph(struct strbuf *out) {
        AUTO_STRBUF steps = { 0 };
        unsigned    n_tensors;
        uint8_t     what = next_byte();
        uint16_t    outputs;

        f.n_steps = 1 + what % MAX_STEPS;
        f.has_optional = (what & 0x40) != 0;
        f.has_batches = (what & 0x80) != 0;
        f.max_inflight = next_byte() % 4;
        n_tensors = 1 + f.has_optional;
        strbuf_init(&steps, 0);
        for (unsigned i = 0; i < f.n_steps; i++) {
                AUTO_STRBUF model = { 0 };

                strbuf_init(&model, 0);
                print_step(&steps, &model, &n_tensors);
                open_step(i, strbuf_cstr(&model));
        }
        strbuf_printf(out, "name: 'e' platform: 'ensemble' max_batch_size: %d ",
                      f.has_batches ? 4 : 0);
        print_tensor(out, "input", "t", 0, "TYPE_UINT32", false);
        if (f.has_optional)
                print_tensor(out, "input", "t", 1, "TYPE_UINT32", true);
        outputs = (uint16_t)(next_byte() | next_byte() << 8);
        for (unsigned t = 0; t < n_tensors; t++)
                if ((outputs >> t & 1) != 0 || t + 1 == n_tensors)
                        print_tensor(out, "output", "t", t, "TYPE_UINT32", false);
        strbuf_printf(out, "ensemble_scheduling { max_inflight_requests: %u %s}", f.max_inflight,
                      strbuf_cstr(&steps));
}

/* False when the checks refuse it. */
static bool open_ensemble(void) {
        struct step_model   models[MAX_STEPS];
        struct step_models *snapshot;
        AUTO_STRBUF         text = { 0 };
        AUTO_ERROR          err = NULL;
        bool                is_decoupled;

        strbuf_init(&text, 0);
        print_graph(&text);
        open_model(&f.model, "e", MAX_STEPS, strbuf_cstr(&text));
        err = model_config_check(f.model.config);
        if (err != NULL)
                return false;
        for (unsigned i = 0; i < f.n_steps; i++)
                models[i] = (struct step_model){ &f.steps[i].model, NULL, 0 };
        snapshot = step_models_new(models, f.n_steps);
        err = ensemble_prepare(f.model.config, snapshot, &is_decoupled);
        if (err != NULL) {
                step_models_unref(snapshot);
                return false;
        }
        f.model.is_decoupled = is_decoupled;
        step_models_holder_init(&f.holder);
        step_models_holder_set(&f.holder, snapshot);
        err = ensemble_new(&f.model, &f.holder, &memory, &f.model.scheduler);
        must(err == NULL);
        return true;
}

static void close_ensemble(bool was_opened) {
        if (was_opened) {
                f.model.scheduler->ops->free(f.model.scheduler);
                step_models_holder_done(&f.holder);
        }
        close_model(&f.model);
        for (unsigned i = 0; i < f.n_steps; i++)
                close_model(&f.steps[i].model);
}

/* ---- clients --------------------------------------------------------------------------------- */

/* The signature of allocator_alloc_fn. */
static struct error *give(struct response_allocator *allocator, const char *tensor,
                          size_t byte_size, enum memory_type type, int64_t id, void *userp,
                          void **buffer, void **buffer_userp, enum memory_type *actual_type,
                          int64_t *actual_id) {
        (void)allocator, (void)tensor, (void)type, (void)id;
        *buffer = malloc(byte_size + 1);
        *buffer_userp = userp;
        *actual_type = MEMORY_CPU;
        *actual_id = 0;
        ((struct call *)userp)->n_buffers++;
        return NULL;
}

static struct error *take_back(struct response_allocator *allocator, void *buffer,
                               void *buffer_userp, size_t byte_size, enum memory_type type,
                               int64_t id) {
        (void)allocator, (void)byte_size, (void)type, (void)id;
        must(((struct call *)buffer_userp)->n_buffers-- > 0);
        free(buffer);
        return NULL;
}

static void on_response(struct response *response, uint32_t flags, void *userp) {
        struct call *c = userp;

        must(c->n_finals == 0);
        c->n_finals += (flags & RESPONSE_FINAL) != 0;
        if (response == NULL)
                return;
        /* An answer has all that was asked for, but for what a step left out. */
        must(response->error != NULL || response->n_outputs <= c->req->n_output_names);
        response_free(response);
}

static void on_release(struct request *req, uint32_t flags, void *userp) {
        struct call *c = userp;

        (void)flags;
        must(req == c->req && c->n_releases++ == 0);
}

static void add_tensor(struct call *c, unsigned number, int64_t rows) {
        struct buffer_attributes attributes = { .memory_type = MEMORY_CPU };
        const int64_t            dims[] = { rows, 1 };
        char                     name[8];

        snprintf(name, sizeof(name), "t%u", number);
        must_ok(request_add_input(c->req, name, DATA_TYPE_UINT32, dims + !f.has_batches,
                                  f.has_batches ? 2 : 1));
        attributes.byte_size = (f.has_batches ? (size_t)rows : 1) * sizeof(uint32_t);
        must_ok(request_append_bytes(c->req, name, c->values + 4 * number, &attributes, NULL));
}

static void choose_outputs(struct call *c, uint8_t mask) {
        const struct model_io_set *io = f.model.io;

        for (uint32_t i = 0; i < io->n_outputs; i++)
                if ((mask >> i % 8 & 1) != 0)
                        must_ok(request_add_output(c->req, io->outputs[i].name));
}

static void submit(struct call *c, uint8_t how) {
        static const struct response_allocator allocator = { .alloc = give, .release = take_back };
        struct error                          *err;

        if (c->req != NULL)
                return;
        *c = (struct call){ .req = request_new(&f.model), .values = { 1, 2, 3, 4, 5, 6, 7, 8 } };
        must(c->req != NULL);
        c->req->allocator = &allocator;
        c->req->allocator_userp = c;
        c->req->on_response = on_response;
        c->req->on_response_userp = c;
        c->req->on_release = on_release;
        c->req->on_release_userp = c;
        add_tensor(c, 0, 1 + how % 4);
        if (f.has_optional && (how & 0x04) != 0)
                add_tensor(c, 1, 1 + how % 4);
        if ((how & 0x08) != 0)
                choose_outputs(c, how >> 4);
        /* A deadline that is over, never one that passes in a line: the clock is no input. */
        if (f.max_inflight == 0 && how == 0xff)
                c->req->timeout_us = 1;
        if ((how & 0xc0) == 0xc0)
                request_cancel(c->req);
        err = model_submit(c->req);
        if (err == NULL)
                return;
        error_free(err);
        must(c->n_finals == 0 && c->n_releases == 0);
        request_free(STEAL(c->req));
}

static void collect(struct call *c) {
        if (c->req == NULL || c->n_releases == 0)
                return;
        must(c->n_finals == 1 && c->n_buffers == 0);
        request_free(STEAL(c->req));
}

/* ---- answers of steps ------------------------------------------------------------------------ */

static void add_parameters(struct response *r, uint8_t how) {
        struct parameter id = { .name = "sequence_id", .type = PARAMETER_INT, .integer = how };
        struct parameter start = { .name = "sequence_start", .type = PARAMETER_BOOL };

        if ((how & 0x20) != 0)
                id = (struct parameter){ .name = "sequence_id",
                                         .type = PARAMETER_STRING,
                                         .string = "a text" };
        if ((how & 0x40) != 0)
                start.type = PARAMETER_INT; /* refused */
        if ((how & 0x10) == 0)
                return;
        must_ok(response_add_parameter(r, &id));
        must_ok(response_add_parameter(r, &start));
}

static struct error *add_outputs(const struct request *req, struct response *r,
                                 bool leaves_one_out) {
        const struct request_input *in = req->first_input;

        for (uint32_t k = leaves_one_out; k < req->n_output_names; k++) {
                enum memory_type        type = MEMORY_CPU;
                int64_t                 id = 0;
                struct response_output *o;
                void                   *bytes;

                TRY(response_add_output(r, req->output_names[k], DATA_TYPE_UINT32, in->shape,
                                        in->n_dims, &o));
                TRY(response_output_buffer(o, in->byte_size, &type, &id, &bytes));
                for (const struct request_input *from = in; from != NULL; from = from->next)
                        for (size_t i = 0; i < MIN(from->byte_size, in->byte_size); i++)
                                ((char *)bytes)[i] = ((const char *)from->only_chunk.base)[i];
        }
        return NULL;
}

/* With outputs; an error of the ensemble's allocator goes back with it, as of a backend. */
static void send(const struct request *req, uint8_t how, bool is_final) {
        struct response *r;
        struct error    *err;

        must_ok(response_new(req, &r));
        add_parameters(r, how);
        err = add_outputs(req, r, (how & 0x08) != 0);
        if (err == NULL && (how & 0x87) == 0x87)
                err = error_new(ERR_INTERNAL, "boom");
        must_ok(response_send(r, is_final ? RESPONSE_FINAL : 0, err));
        error_free(err);
}

static struct request *take_waiting(struct step *s, unsigned at) {
        struct request *req = s->waiting[at];

        memmove(&s->waiting[at], &s->waiting[at + 1], (--s->n_waiting - at) * sizeof(req));
        return req;
}

static void release(struct request *req) {
        atomic_store(&req->state, REQUEST_EXECUTING);
        request_release(req, REQUEST_RELEASE_ALL);
}

static void answer(struct step *s, unsigned at, uint8_t how) {
        struct request *req = take_waiting(s, at);
        bool            is_late = (how & 0x03) == 0x01;

        atomic_store(&req->state, REQUEST_EXECUTING);
        if ((how & 0x07) != 0x02)
                send(req, how, !is_late);
        /* None at all, two of a model that is not decoupled, FINAL by itself. */
        if (is_late && (how & 0x04) != 0 && s->model.is_decoupled)
                send(req, how, false);
        if (is_late || (how & 0x07) == 0x02)
                must_ok(request_send_flags(req, RESPONSE_FINAL));
        release(req);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* Of the steps with requests, the one with that number, counted round. */
static struct step *find_busy(unsigned number) {
        for (unsigned i = 0; i < f.n_steps; i++) {
                struct step *s = &f.steps[(number + i) % f.n_steps];

                if (s->n_waiting > 0)
                        return s;
        }
        return NULL;
}

static void run_event(uint8_t what, uint8_t how) {
        struct call *c = &f.calls[what / 16 % MAX_CALLS];
        struct step *s = find_busy(what / 16);

        switch (what % 8) {
        case 0:
        case 1: submit(c, how); break;
        case 2:
                if (c->req != NULL)
                        request_cancel(c->req);
                break;
        case 3: /* one more response of a stream */
                if (s != NULL && s->model.is_decoupled)
                        send(s->waiting[0], how, false);
                break;
        default:
                if (s != NULL)
                        answer(s, how % s->n_waiting, (uint8_t)(how ^ what));
        }
        for (unsigned i = 0; i < MAX_CALLS; i++)
                collect(&f.calls[i]);
}

static void finish(void) {
        struct step *s;

        while ((s = find_busy(0)) != NULL)
                answer(s, 0, 0);
        for (unsigned i = 0; i < MAX_CALLS; i++) {
                collect(&f.calls[i]);
                must(f.calls[i].req == NULL);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
        bool is_open;

        if (timers == NULL) {
                must(timer_thread_new(&timers) == NULL);
                byte_budget_init(&budget, (size_t)1 << 30);
                step_memory_init(&memory, &budget, timers);
                /* A response that would wait for room does not, on this one thread. */
                response_stream_allow_wait(false);
        }
        f = (struct fuzz){ .input = input, .size = size };
        is_open = open_ensemble();
        for (unsigned n = 0; is_open && f.at < f.size && n < MAX_EVENTS; n++) {
                uint8_t what = next_byte();

                run_event(what, next_byte());
        }
        if (is_open)
                finish();
        close_ensemble(is_open);
        return 0;
}
