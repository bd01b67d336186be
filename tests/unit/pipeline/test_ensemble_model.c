/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs random graphs, and compares the scheduler with a simple model of an ensemble: how often each
 * step runs, and the values of the outputs.
 *
 * A graph is a sequence of segments; each one is a stream. Within a segment, steps read any tensors
 * of the segment: lines, diamonds, joins. A decoupled step reads all tensors that no step has read
 * yet, and begins the next segment. A step has a required input I0 and up to three optional ones.
 * It has an output O0, and may have an output O1, which some steps never send. The ensemble has an
 * input X and may have an optional input Z.
 */
#include "suite.h"

#include "pipeline/ensemble_fixture.h"

enum {
        MAX_STEPS = 20,
        MAX_INPUTS = 4,
        MAX_TENSORS = 2 * MAX_STEPS + 2,
        N_CALLS = 3,
        MAX_FRAMES = 64
};
enum { X = 0, Z = 1 }; /* tensors: the ensemble's inputs */

struct made_step {
        int      inputs[MAX_INPUTS]; /* tensors */
        int      n_inputs;
        int      outputs[2]; /* tensors; -1: not mapped */
        bool     is_decoupled, omits, fails, is_slow;
        unsigned n_responses;
        int      stream; /* of the tensors that it reads */
};

struct made_graph {
        struct made_step steps[MAX_STEPS]; /* each after those that it reads from */
        int              n_steps;
        int              n_tensors;
        int              writer[MAX_TENSORS]; /* -1: X or Z */
        int              stream[MAX_TENSORS];
        bool             is_read[MAX_TENSORS];
        bool             may_be_absent[MAX_TENSORS];
        bool             is_output[MAX_TENSORS];
        bool             has_z;
        int              n_streams;
        unsigned         max_inflight;
};

static uint32_t seed;

static uint32_t random_below(uint32_t n) {
        seed = seed * 1664525u + 1013904223u;
        return (uint32_t)(((uint64_t)(seed >> 8) * n) >> 24);
}

static bool chance(uint32_t percent) {
        return random_below(100) < percent;
}

/* ---- making graphs --------------------------------------------------------------------------- */

static int new_tensor(struct made_graph *g, int writer, int stream) {
        int t = g->n_tensors++;

        g->writer[t] = writer;
        g->stream[t] = stream;
        return t;
}

static int count_unread(const struct made_graph *g, int stream) {
        int n = 0;

        for (int t = 0; t < g->n_tensors; t++)
                n += g->stream[t] == stream && !g->is_read[t] && (t != Z || g->has_z);
        return n;
}

/* Picks a random tensor of the stream that the step may read; -1: there is none. */
static int pick_tensor(const struct made_graph *g, int stream, bool only_unread,
                       bool must_be_there) {
        int found[MAX_TENSORS], n = 0;

        for (int t = 0; t < g->n_tensors; t++)
                if (g->stream[t] == stream && (t != Z || g->has_z) &&
                    !(only_unread && g->is_read[t]) && !(must_be_there && g->may_be_absent[t]))
                        found[n++] = t;
        return n > 0 ? found[random_below((uint32_t)n)] : -1;
}

static void read_tensor(struct made_graph *g, struct made_step *s, int tensor) {
        assert_in_range(tensor, 0, MAX_TENSORS - 1);
        s->inputs[s->n_inputs++] = tensor;
        g->is_read[tensor] = true;
}

static void add_step(struct made_graph *g, int stream, bool is_decoupled) {
        struct made_step *s = &g->steps[g->n_steps];
        int               t = pick_tensor(g, stream, chance(50), true);

        *s = (struct made_step){ .outputs = { -1, -1 },
                                 .stream = stream,
                                 .is_decoupled = is_decoupled,
                                 .is_slow = chance(50),
                                 .n_responses = random_below(4) };
        read_tensor(g, s, t >= 0 ? t : pick_tensor(g, stream, false, true));
        while (s->n_inputs < MAX_INPUTS &&
               (is_decoupled ? count_unread(g, stream) > 0 : chance(40)))
                read_tensor(g, s,
                            pick_tensor(g, stream,
                                        is_decoupled || (chance(70) && count_unread(g, stream) > 0),
                                        false));
        if (is_decoupled)
                stream = g->n_streams++;
        s->outputs[0] = new_tensor(g, g->n_steps, stream);
        if (chance(40)) {
                s->outputs[1] = new_tensor(g, g->n_steps, stream);
                s->omits = chance(40);
                g->may_be_absent[s->outputs[1]] = s->omits;
        }
        g->n_steps++;
}

static void make_graph(struct made_graph *g) {
        int n_steps = 1 + (int)random_below(MAX_STEPS - 4), stream = 0;

        memset(g, 0, sizeof(*g));
        g->n_streams = 1;
        g->has_z = chance(50);
        new_tensor(g, -1, 0);
        new_tensor(g, -1, 0);
        g->may_be_absent[Z] = true;
        while (g->n_steps < n_steps) {
                bool is_decoupled =
                        g->n_streams < 3 && chance(12) && count_unread(g, stream) <= MAX_INPUTS - 1;

                add_step(g, stream, is_decoupled);
                stream = g->n_streams - 1;
        }
        /* X and Z must have readers. */
        while (g->n_streams == 1 && g->n_steps < MAX_STEPS &&
               (!g->is_read[X] || (g->has_z && !g->is_read[Z])))
                add_step(g, 0, false);
        for (int t = 2; t < g->n_tensors; t++)
                g->is_output[t] = g->stream[t] == stream && (!g->is_read[t] || chance(20));
        g->max_inflight = random_below(3);
        if (chance(25))
                g->steps[random_below((uint32_t)g->n_steps)].fails = true;
}

/* False for a graph that is not a valid ensemble: a tensor of an earlier stream has no reader, or
 * the number of outputs is wrong. */
static bool is_whole(const struct made_graph *g) {
        int n_outputs = 0;

        for (int t = 0; t < g->n_tensors; t++) {
                if (t == Z && !g->has_z)
                        continue;
                if (!g->is_read[t] && !g->is_output[t])
                        return false;
                n_outputs += g->is_output[t];
        }
        return n_outputs > 0 && n_outputs <= FIXTURE_MAX_OUTPUTS;
}

static void print_config(const struct made_graph *g, struct strbuf *out) {
        strbuf_puts(out, "name: 'e' platform: 'ensemble' "
                         "input { name: 't0' data_type: TYPE_UINT32 dims: 1 } ");
        if (g->has_z)
                strbuf_puts(out,
                            "input { name: 't1' data_type: TYPE_UINT32 dims: 1 optional: true } ");
        for (int t = 0; t < g->n_tensors; t++)
                if (g->is_output[t])
                        strbuf_printf(out, "output { name: 't%d' data_type: TYPE_UINT32 dims: 1 } ",
                                      t);
        strbuf_printf(out, "ensemble_scheduling { max_inflight_requests: %u ", g->max_inflight);
        for (int i = g->n_steps - 1; i >= 0; i--) {
                const struct made_step *s = &g->steps[i];

                strbuf_printf(out, "step { model_name: 's%d' model_version: -1 ", i);
                for (int k = 0; k < s->n_inputs; k++)
                        strbuf_printf(out, "input_map { key: 'I%d' value: 't%d' } ", k,
                                      s->inputs[k]);
                for (int k = 0; k < 2 && s->outputs[k] >= 0; k++)
                        strbuf_printf(out, "output_map { key: 'O%d' value: 't%d' } ", k,
                                      s->outputs[k]);
                strbuf_puts(out, "} ");
        }
        strbuf_puts(out, "}");
}

/* ---- the model ------------------------------------------------------------------------------- */

struct frame_values {
        bool     is_there[MAX_TENSORS];
        uint32_t values[MAX_TENSORS];
};

struct expected {
        bool                is_needed[MAX_STEPS];
        bool                is_asked[MAX_TENSORS];
        unsigned            n_runs[MAX_STEPS];
        bool                may_fail[MAX_STEPS]; /* the request may end with its error */
        bool                fails;
        struct frame_values frames[MAX_FRAMES]; /* one for each element of the outputs' stream */
        bool                was_met[MAX_FRAMES];
        unsigned            n_frames;
};

static void find_needed(const struct made_graph *g, struct expected *e) {
        for (int i = g->n_steps - 1; i >= 0; i--) {
                const struct made_step *s = &g->steps[i];

                for (int k = 0; k < 2 && s->outputs[k] >= 0; k++) {
                        int t = s->outputs[k];

                        e->is_needed[i] = e->is_needed[i] || e->is_asked[t];
                        for (int r = i + 1; r < g->n_steps; r++)
                                for (int n = 0; n < g->steps[r].n_inputs; n++)
                                        if (g->steps[r].inputs[n] == t && e->is_needed[r])
                                                e->is_needed[i] = true;
                }
        }
}

static void write_outputs(const struct made_step *s, int index, const struct frame_values *in,
                          uint32_t j, struct frame_values *out) {
        uint32_t sum = 0;

        for (int k = 0; k < s->n_inputs; k++)
                if (in->is_there[s->inputs[k]])
                        sum += 3 * in->values[s->inputs[k]];
        for (int k = 0; k < 2 && s->outputs[k] >= 0; k++) {
                out->is_there[s->outputs[k]] = k == 0 || !s->omits;
                out->values[s->outputs[k]] = sum + (uint32_t)index + 7 * (uint32_t)k + 101 * j;
        }
}

/* Runs all steps of the frame's stream. A decoupled step makes a frame of the next stream for each
 * response, and runs that. */
static void run_frame(const struct made_graph *g, int stream, struct frame_values *f,
                      struct expected *e) {
        bool has_failed[MAX_TENSORS] = { false };

        for (int i = 0; i < g->n_steps; i++) {
                const struct made_step *s = &g->steps[i];
                bool                    is_fed = true;

                if (s->stream != stream || !e->is_needed[i])
                        continue;
                for (int k = 0; k < s->n_inputs; k++)
                        is_fed = is_fed && !has_failed[s->inputs[k]];
                if (is_fed && s->fails)
                        e->fails = e->may_fail[i] = true;
                e->n_runs[i] += is_fed;
                if (!is_fed || s->fails) {
                        for (int k = 0; k < 2 && s->outputs[k] >= 0; k++)
                                has_failed[s->outputs[k]] = true;
                        continue;
                }
                if (!s->is_decoupled) {
                        write_outputs(s, i, f, 0, f);
                        continue;
                }
                for (uint32_t j = 0; j < s->n_responses; j++) {
                        struct frame_values next = { 0 };

                        write_outputs(s, i, f, j, &next);
                        run_frame(g, stream + 1, &next, e);
                }
        }
        if (stream == g->n_streams - 1 && e->n_frames < MAX_FRAMES)
                e->frames[e->n_frames++] = *f;
}

static void predict(const struct made_graph *g, const struct frame_values *inputs,
                    struct expected *e) {
        struct frame_values first = *inputs;

        find_needed(g, e);
        run_frame(g, 0, &first, e);
}

/* ---- comparing ------------------------------------------------------------------------------- */

static bool is_frame(const struct made_graph *g, const struct expected *e,
                     const struct fixture_got *got, const struct frame_values *f) {
        uint32_t at = 0;

        for (int t = 0; t < g->n_tensors; t++) {
                char name[16];

                if (!g->is_output[t] || !e->is_asked[t] || !f->is_there[t])
                        continue;
                snprintf(name, sizeof(name), "t%d", t);
                if (at == got->n_outputs || strcmp(got->outputs[at].name, name) != 0 ||
                    got->outputs[at].value != f->values[t])
                        return false;
                at++;
        }
        return at == got->n_outputs;
}

/* With one decoupled step the responses come in order. With more, runs of the second one may
 * overtake each other, so responses may come in any order. */
static void compare(const struct made_graph *g, struct expected *e, const struct fixture_call *c) {
        assert_int_equal(c->n_got, e->n_frames);
        for (unsigned i = 0; i < c->n_got; i++) {
                unsigned at = g->n_streams > 2 ? 0 : i;

                assert_null(c->got[i].response->error);
                while (g->n_streams > 2 && at < e->n_frames &&
                       (e->was_met[at] || !is_frame(g, e, &c->got[i], &e->frames[at])))
                        at++;
                assert_true(at < e->n_frames);
                assert_true(is_frame(g, e, &c->got[i], &e->frames[at]));
                e->was_met[at] = true;
        }
}

static void compare_error(const struct made_graph *g, const struct expected *e,
                          const struct fixture_call *c, bool was_cancelled) {
        const struct error *err = c->n_got > 0 ? c->got[c->n_got - 1].response->error : NULL;

        assert_non_null(err);
        assert_int_equal(c->got[c->n_got - 1].flags, RESPONSE_FINAL);
        if (err->code == ERR_CANCELLED && was_cancelled)
                return;
        for (int i = 0; i < g->n_steps; i++) {
                char text[64];

                snprintf(text, sizeof(text), "in ensemble 'e', boom %d", i);
                if (e->may_fail[i] && strcmp(err->message, text) == 0)
                        return;
        }
        fail_msg("%s", err->message);
}

/* ---- running --------------------------------------------------------------------------------- */

/* A model serves one graph after the other as a step with its configuration: each has a thread, and a machine that is
 * busy takes long to start and to join the thousands that the graphs would need. */
struct idle_model {
        struct fixture_model model;
        char                *config; /* owned */
        struct idle_model   *next;
};

static struct idle_model *idle_models;

static struct idle_model *take_model(const char *config, struct timer_thread *timers) {
        struct idle_model **at = &idle_models, *m;

        while (*at != NULL && strcmp((*at)->config, config) != 0)
                at = &(*at)->next;
        m = *at;
        if (m != NULL) {
                *at = m->next;
                return m;
        }
        m = calloc(1, sizeof(*m));
        assert_non_null(m);
        m->config = strdup(config);
        fixture_model_open(&m->model, "s", config, timers);
        return m;
}

static void give_model(struct idle_model *m) {
        assert_int_equal(atomic_load(&m->model.fake->model.n_in_flight), 0);
        FIXTURE_WAIT_FOR(m->model.n_running == 0); /* its thread may be about to note it */
        mutex_lock(&fixture_lock);
        m->model.n_executed = m->model.n_most = 0;
        mutex_unlock(&fixture_lock);
        m->next = idle_models;
        idle_models = m;
}

static void close_models(void) {
        while (idle_models != NULL) {
                struct idle_model *m = idle_models;

                idle_models = m->next;
                fixture_model_close(&m->model);
                free(m->config);
                free(m);
        }
}

struct story {
        struct made_graph       graph;
        struct idle_model      *models[MAX_STEPS]; /* owned */
        char                    texts[MAX_STEPS][24];
        struct fixture_ensemble ensemble;
        struct fixture_call     calls[N_CALLS];
        uint32_t                x[N_CALLS], z[N_CALLS];
        struct expected         expected[N_CALLS];
        bool                    is_cancelled[N_CALLS];
};

static void open_step(struct story *s, int i, struct timer_thread *timers) {
        const struct made_step *step = &s->graph.steps[i];
        struct fixture_model   *m;
        struct strbuf           config;

        strbuf_init(&config, 0);
        strbuf_puts(&config, "name: 's' input { name: 'I0' data_type: TYPE_UINT32 dims: 1 } ");
        for (int k = 1; k < step->n_inputs; k++)
                strbuf_printf(
                        &config,
                        "input { name: 'I%d' data_type: TYPE_UINT32 dims: 1 optional: true } ", k);
        for (int k = 0; k < 2 && step->outputs[k] >= 0; k++)
                strbuf_printf(&config, "output { name: 'O%d' data_type: TYPE_UINT32 dims: 1 } ", k);
        if (step->is_decoupled)
                strbuf_puts(&config, "model_transaction_policy { decoupled: true } ");
        strbuf_printf(&config,
                      "parameters { key: 'inline_execution' value { string_value: '%s' } } ",
                      step->is_slow || step->is_decoupled ? "never" : "always");
        s->models[i] = take_model(strbuf_cstr(&config), timers);
        m = &s->models[i]->model;
        strbuf_done(&config);
        snprintf(s->texts[i], sizeof(s->texts[i]), "boom %d", i);
        m->add = (uint32_t)i;
        m->error = step->fails ? s->texts[i] : NULL;
        m->omits = step->omits ? "O1" : NULL;
        m->n_responses = step->n_responses;
        m->has_late_final = step->is_decoupled && chance(50);
}

static void open_story(struct story *s, struct timer_thread *timers) {
        struct step_model steps[MAX_STEPS];
        struct strbuf     config;

        do
                make_graph(&s->graph);
        while (!is_whole(&s->graph));
        strbuf_init(&config, 0);
        print_config(&s->graph, &config);
        for (int i = 0; i < s->graph.n_steps; i++) {
                open_step(s, i, timers);
                /* The configuration lists the steps in the opposite order. */
                steps[s->graph.n_steps - 1 - i] =
                        (struct step_model){ &s->models[i]->model.fake->model, NULL, 0 };
        }
        fixture_ensemble_open(&s->ensemble, "e", strbuf_cstr(&config), steps,
                              (size_t)s->graph.n_steps);
        assert_int_equal(s->ensemble.fake->model.is_decoupled, s->graph.n_streams > 1);
        strbuf_done(&config);
}

/* Some requests ask for some of the outputs only, and some have no input Z. */
static void open_call(struct story *s, int n) {
        const struct made_graph *g = &s->graph;
        struct fixture_call     *c = &s->calls[n];
        struct expected         *e = &s->expected[n];
        struct frame_values      inputs = { 0 };
        bool                     asks = chance(50);

        fixture_call_open(c, s->ensemble.fake);
        memset(e, 0, sizeof(*e));
        s->x[n] = random_below(1000);
        s->z[n] = random_below(1000);
        fixture_input(c, "t0", &s->x[n], 1);
        inputs.is_there[X] = true;
        inputs.values[X] = s->x[n];
        if (g->has_z && chance(50)) {
                fixture_input(c, "t1", &s->z[n], 1);
                inputs.is_there[Z] = true;
                inputs.values[Z] = s->z[n];
        }
        for (int t = 0; t < g->n_tensors; t++) {
                char name[16];

                snprintf(name, sizeof(name), "t%d", t);
                e->is_asked[t] = g->is_output[t] && (!asks || chance(40));
                if (asks && e->is_asked[t])
                        assert_ok(request_add_output(c->req, name), name);
        }
        for (int t = 0; t < g->n_tensors; t++)
                if (c->req->n_outputs == 0)
                        e->is_asked[t] = g->is_output[t];
        predict(g, &inputs, e);
        s->is_cancelled[n] = chance(15);
}

static void close_story(struct story *s) {
        unsigned n_runs;
        bool     is_exact = true;

        for (int n = 0; n < N_CALLS; n++)
                is_exact = is_exact && !s->is_cancelled[n] && !s->expected[n].fails;
        for (int i = 0; i < s->graph.n_steps; i++) {
                n_runs = 0;
                for (int n = 0; n < N_CALLS; n++)
                        n_runs += s->expected[n].n_runs[i];
                if (is_exact)
                        assert_int_equal(fixture_count(&s->models[i]->model), n_runs);
                else
                        assert_in_range(fixture_count(&s->models[i]->model), 0, n_runs);
                if (s->graph.max_inflight > 0)
                        assert_in_range(s->models[i]->model.n_most, 0, s->graph.max_inflight);
        }
        fixture_ensemble_close(&s->ensemble);
        for (int i = 0; i < s->graph.n_steps; i++)
                give_model(s->models[i]);
}

static void run_story(struct story *s, struct timer_thread *timers) {
        open_story(s, timers);
        for (int n = 0; n < N_CALLS; n++)
                open_call(s, n);
        for (int n = 0; n < N_CALLS; n++) {
                fixture_submit(&s->calls[n]);
                if (s->is_cancelled[n])
                        request_cancel(s->calls[n].req);
        }
        for (int n = 0; n < N_CALLS; n++) {
                struct fixture_call *c = &s->calls[n];
                bool                 has_error;

                fixture_wait(c);
                has_error = c->n_got > 0 && c->got[c->n_got - 1].response->error != NULL;
                if (s->expected[n].fails || has_error)
                        compare_error(&s->graph, &s->expected[n], c, s->is_cancelled[n]);
                else
                        compare(&s->graph, &s->expected[n], c);
                fixture_call_close(c);
        }
        close_story(s);
}

static void test_random_graphs(void **state) {
        enum { N_STORIES = 200 };
        struct story        *s = malloc(sizeof(*s));
        struct timer_thread *timers;

        (void)state;
        assert_non_null(s);
        assert_ok(timer_thread_new(&timers), "timers");
        for (uint32_t i = 1; i <= N_STORIES; i++) {
                seed = i * 2654435761u;
                run_story(s, timers);
        }
        close_models();
        timer_thread_free(timers);
        free(s);
}

SUITE(ensemble_model) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_random_graphs),
        };

        fixture_open();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
