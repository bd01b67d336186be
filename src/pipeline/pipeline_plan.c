/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/pipeline_plan.h"

#include "base/mem.h"
#include "config/model_io.h"
#include "infer/model.h"
#include "infer/request.h"
#include "pipeline/step_cost.h"

#include <stdatomic.h>
#include <string.h>

/* ---- the requested outputs ------------------------------------------------------------------- */

/* Allocates all arrays as one zeroed block. False when memory is short. */
static bool choice_init(const struct pipeline_plan *p, struct plan_choice *c) {
        size_t n_steps = p->n_steps, n_tensors = p->n_tensors;
        size_t words = n_steps + p->n_streams;
        char  *at = try_zalloc(words * sizeof(uint32_t) + 2 * (n_steps + n_tensors));

        if (at == NULL)
                return false;
        *c = (struct plan_choice){ .memory = at, .direct_step = PLAN_NONE };
        c->n_users = (uint32_t *)at;
        c->n_steps = c->n_users + n_steps;
        c->has_step = (bool *)(c->n_steps + p->n_streams);
        c->writes = c->has_step + n_steps;
        c->is_output = c->writes + n_steps;
        c->is_used = c->is_output + n_tensors;
        return true;
}

void plan_choice_done(struct plan_choice *c) {
        free(c->memory);
}

static void mark_used(const struct pipeline_plan *p, struct plan_choice *c) {
        for (uint32_t i = 0; i < p->n_tensors; i++) {
                const struct plan_tensor *t = &p->tensors[i];

                c->is_used[i] = c->is_output[i] || p->is_chain;
                for (uint32_t k = 0; k < t->n_readers && !c->is_used[i]; k++)
                        c->is_used[i] = c->has_step[t->readers[k]];
        }
}

static void mark_writer(const struct pipeline_plan *p, struct plan_choice *c, uint32_t tensor) {
        uint32_t writer = p->tensors[tensor].writer;

        if (writer != PLAN_NONE)
                c->has_step[writer] = true;
}

/* Marks the needed steps: follows the data backwards, from the requested outputs to the inputs. */
static void mark_needed(const struct pipeline_plan *p, struct plan_choice *c) {
        for (uint32_t i = 0; i < p->n_tensors; i++)
                if (c->is_output[i])
                        mark_writer(p, c, i);
        for (uint32_t i = p->n_ordered; i-- > 0;) {
                const struct plan_step *step = &p->steps[p->order[i]];

                c->has_step[step->index] |= p->is_chain;
                for (uint32_t k = 0; c->has_step[step->index] && k < step->n_inputs; k++)
                        mark_writer(p, c, step->inputs[k].tensor);
        }
}

static uint32_t count_outputs(const struct plan_choice *c, const struct plan_step *s) {
        uint32_t n = 0;

        for (uint32_t i = 0; i < s->n_outputs; i++)
                n += c->is_output[s->outputs[i].tensor];
        return n;
}

/* Without decoupled steps, the response is sent after all steps have ended, so the other steps can
 * read the outputs in the client's memory. With decoupled steps, a response may be sent before a
 * step has read them. */
static bool may_be_direct(const struct pipeline_plan *p, const struct plan_choice *c,
                          const struct plan_step *s) {
        if (p->n_streams == 1)
                return true;
        for (uint32_t i = 0; i < s->n_outputs; i++)
                if (c->is_output[s->outputs[i].tensor] &&
                    p->tensors[s->outputs[i].tensor].n_readers > 0)
                        return false;
        return true;
}

static void count_users(const struct pipeline_plan *p, struct plan_choice *c) {
        uint32_t most = 0;

        for (uint32_t i = 0; i < p->n_ordered; i++) {
                const struct plan_step *step = &p->steps[p->order[i]];
                uint32_t                n = count_outputs(c, step);

                if (!c->has_step[step->index])
                        continue;
                c->n_steps[step->in_stream]++;
                c->writes[step->index] = n > 0;
                c->n_users[step->index] += n > 0;
                for (uint32_t k = 0; k < step->n_feeders; k++)
                        c->n_users[step->feeders[k]]++;
                if (step->is_passed_on && !step->model->is_decoupled)
                        c->direct_step = step->index;
                if (n > 0 && n >= most && may_be_direct(p, c, step)) {
                        most = n;
                        c->direct_step = step->index;
                }
        }
}

static void choice_finish(const struct pipeline_plan *p, struct plan_choice *c) {
        mark_needed(p, c);
        mark_used(p, c);
        count_users(p, c);
}

bool plan_choice_make(const struct pipeline_plan *p, const struct request *req,
                      struct plan_choice *ret) {
        const struct model_io_set *io = req->model->io;

        if (!choice_init(p, ret))
                return false;
        for (uint32_t i = 0; i < req->n_output_names; i++) {
                const struct model_io *t = model_io_find_output_named(io, req->output_names[i], i);

                ret->is_output[p->outputs[t - io->outputs]] = true;
        }
        ret->n_outputs = req->n_output_names;
        choice_finish(p, ret);
        return true;
}

static bool choose_all(struct pipeline_plan *p) {
        if (!choice_init(p, &p->all))
                return false;
        for (uint32_t i = 0; i < p->n_outputs; i++)
                p->all.is_output[p->outputs[i]] = true;
        p->all.n_outputs = p->n_outputs;
        choice_finish(p, &p->all);
        return true;
}

/* ---- steps and streams ----------------------------------------------------------------------- */

static bool contains(const uint32_t *items, uint32_t n, uint32_t item) {
        while (n > 0 && items[n - 1] != item)
                n--;
        return n > 0;
}

/* A stage of a chain reads from the stage before it, even if it takes none of its outputs. */
static bool find_feeder_of_stage(struct pipeline_plan *p, struct plan_step *s) {
        s->feeders = arena_try_calloc(&p->arena, 1, sizeof(*s->feeders));
        if (s->feeders == NULL)
                return false;
        s->n_feeders = s->index > 0;
        s->feeders[0] = s->index - 1;
        return true;
}

static bool find_feeders(struct pipeline_plan *p, struct plan_step *s) {
        bool *is_seen = try_zalloc((size_t)p->n_tensors + 1); /* bounded: see the graph */

        s->feeders = arena_try_calloc(&p->arena, s->n_inputs, sizeof(*s->feeders));
        if (s->feeders == NULL || is_seen == NULL) {
                free(is_seen);
                return false;
        }
        for (uint32_t i = 0; i < s->n_inputs; i++) {
                uint32_t tensor = s->inputs[i].tensor;
                uint32_t writer = p->tensors[tensor].writer;

                if (is_seen[tensor])
                        continue;
                is_seen[tensor] = true;
                s->n_tensors++;
                if (writer != PLAN_NONE && !contains(s->feeders, s->n_feeders, writer))
                        s->feeders[s->n_feeders++] = writer;
        }
        free(is_seen);
        return true;
}

static void place_links(const struct pipeline_plan *p, struct plan_link *links, uint32_t n) {
        for (uint32_t i = 0; i < n; i++)
                links[i].place = p->tensors[links[i].tensor].place;
}

static bool place_in_streams(struct pipeline_plan *p) {
        p->streams = arena_try_calloc(&p->arena, p->n_streams, sizeof(*p->streams));
        if (p->streams == NULL)
                return false;
        for (uint32_t i = 0; i < p->n_tensors; i++)
                p->tensors[i].place = p->streams[p->tensors[i].stream].n_tensors++;
        for (uint32_t i = 0; i < p->n_steps; i++) {
                place_links(p, p->steps[i].inputs, p->steps[i].n_inputs);
                place_links(p, p->steps[i].outputs, p->steps[i].n_outputs);
                p->streams[p->steps[i].in_stream].n_steps++;
        }
        for (uint32_t i = 0; i < p->n_streams; i++) {
                p->streams[i].producer = PLAN_NONE;
                p->streams[i].steps =
                        arena_try_calloc(&p->arena, p->streams[i].n_steps, sizeof(uint32_t));
                if (p->streams[i].steps == NULL)
                        return false;
                p->streams[i].n_steps = 0;
        }
        for (uint32_t i = 0; i < p->n_ordered; i++) {
                struct plan_step   *s = &p->steps[p->order[i]];
                struct plan_stream *stream = &p->streams[s->in_stream];

                s->place = stream->n_steps;
                stream->steps[stream->n_steps++] = s->index;
                if (s->out_stream != s->in_stream)
                        p->streams[s->out_stream].producer = s->index;
        }
        return true;
}

bool pipeline_plan_finish(struct pipeline_plan *p) {
        static _Atomic uint64_t last_id;

        p->id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
        for (uint32_t i = 0; i < p->n_steps; i++)
                if (!(p->is_chain ? find_feeder_of_stage : find_feeders)(p, &p->steps[i]))
                        return false;
        for (uint32_t i = 0; i < p->n_steps; i++) {
                struct plan_step *s = &p->steps[i];

                p->step_bytes = MAX(p->step_bytes, step_cost_request(s->model));
                s->is_in_run = s->in_stream == 0 && s->out_stream == 0 && !s->is_passed_on;
        }
        return place_in_streams(p) && choose_all(p);
}

void pipeline_plan_done(struct pipeline_plan *p) {
        plan_choice_done(&p->all);
        arena_done(&p->arena);
}
