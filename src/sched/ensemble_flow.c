/* SPDX-License-Identifier: BSD-3-Clause */
/* The data flow of a run: which tensors are present, and which steps can start. */
#include "base/mem.h"
#include "config/labels.h"
#include "sched/ensemble_run.h"
#include "sched/step_cost.h"

#include <assert.h>
#include <string.h>

/* ---- frames ---------------------------------------------------------------------------------- */

/* Cannot overflow: the counts are bounded by the size of a configuration file. */
size_t frame_bytes(const struct ensemble_plan *p, uint32_t stream) {
        return sizeof(struct frame) + p->streams[stream].n_tensors * sizeof(struct value) +
               p->streams[stream].n_steps * sizeof(struct step_run);
}

size_t frame_cost(const struct ensemble_plan *p, uint32_t stream) {
        const struct plan_step *producer = &p->steps[p->streams[stream].producer];

        return frame_bytes(p, stream) + step_cost_response(producer->model->io->n_outputs) -
               sizeof(struct response);
}

void frame_init(struct frame *f, struct ensemble_run *run, uint32_t stream, struct frame *parent) {
        const struct plan_stream *s = &run->plan->streams[stream];
        bool                      is_out = stream == run->plan->out_stream;

        memset(f, 0, frame_bytes(run->plan, stream));
        f->run = run;
        f->parent = parent;
        f->stream = stream;
        f->n_left = run->choice->n_steps[stream] + is_out;
        f->n_missing = is_out ? run->choice->n_outputs : 0;
        f->values = (struct value *)(f + 1);
        f->steps = (struct step_run *)(f->values + s->n_tensors);
        for (uint32_t i = 0; i < s->n_steps; i++) {
                struct step_run *step = &f->steps[i];

                step->start.run = step_start;
                step->run = run;
                step->frame = f;
                step->plan = &run->plan->steps[s->steps[i]];
                step->n_missing = step->plan->n_tensors;
        }
}

static void kept_done(struct kept_outputs *k) {
        response_free(k->response);
        free(k->mark.text);
}

void frame_done(struct frame *f) {
        kept_done(&f->origin);
        for (uint32_t i = 0; i < f->run->plan->streams[f->stream].n_steps; i++)
                kept_done(&f->steps[i].kept);
}

static struct frame *frame_new_locked(struct frame *parent, uint32_t stream) {
        struct ensemble_run *run = parent->run;
        struct frame        *f = try_alloc(frame_bytes(run->plan, stream));

        if (f == NULL)
                return NULL;
        frame_init(f, run, stream, parent);
        parent->n_left++;
        list_append(&run->frames, &f->node);
        if (stream == run->plan->out_stream)
                list_append(&run->out_frames, &f->out_node);
        return f;
}

/* The last to leave a frame also leaves the frame that it came from. */
static void leave_frame_locked(struct frame *f, struct work *w) {
        while (--f->n_left == 0 && f->parent != NULL) {
                struct frame *parent = f->parent;

                list_remove(&f->node);
                f->node.next = (struct list_node *)w->frames;
                w->frames = f;
                f = parent;
        }
}

/* ---- work after the lock is released --------------------------------------------------------- */

static void free_later(struct response *response, struct work *w) {
        response->next = w->responses;
        w->responses = response;
}

static void drop_user_locked(struct kept_outputs *k, struct work *w) {
        if (!k->is_small && k->response != NULL && --k->n_users == 0)
                free_later(STEAL(k->response), w);
}

static void pay_for_steps_locked(struct ensemble_run *run) {
        run->n_paid += STEPS_PAID_AT_ONCE;
        byte_budget_force(run->ensemble->memory->budget,
                          STEPS_PAID_AT_ONCE * run->plan->step_bytes);
}

/* A run that had many open steps gets back what it paid for them. */
static void reclaim_locked(struct ensemble_run *run) {
        run->n_paid -= STEPS_PAID_AT_ONCE;
        byte_budget_give(run->ensemble->memory->budget, STEPS_PAID_AT_ONCE * run->plan->step_bytes);
}

static void open_step_locked(struct step_run *s, struct work *w) {
        struct ensemble_run *run = s->run;

        run->n_open++;
        if (UNLIKELY(run->n_open > run->n_paid))
                pay_for_steps_locked(run);
        run->n_flowing++;
        list_append(&run->open_steps, &s->open_node);
        s->start.next = NULL;
        if (w->last != NULL)
                w->last->next = &s->start;
        else
                w->first = &s->start;
        w->last = &s->start;
}

void flow_follow(struct work *w, bool now, uint64_t now_ns) {
        for (struct response *r = w->responses, *next; r != NULL; r = next) {
                next = r->next;
                response_free(r);
        }
        for (struct frame *f = w->frames, *next; f != NULL; f = next) {
                next = (struct frame *)f->node.next;
                frame_done(f);
                free(f);
        }
        if (w->first == NULL)
                return;
        if (now)
                submitter_start_now(w->first);
        else
                submitter_start(w->first, now_ns);
}

void flow_fail_locked(struct ensemble_run *run, struct error *err, struct work *w) {
        if (run->error != NULL) {
                error_free(err);
                return;
        }
        run->error = err;
        atomic_store(&run->has_failed, true);
        w->has_failed = true;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* The caller has written the value in place: copying a struct right after storing its parts makes the
 * processor wait. */
static void value_is_set_locked(struct frame *f, uint32_t tensor, struct work *w) {
        struct ensemble_run          *run = f->run;
        const struct plan_choice     *choice = run->choice;
        const struct ensemble_tensor *t = &run->plan->graph->tensors[tensor];

        if (choice->is_output[tensor])
                f->n_missing--;
        for (uint32_t i = 0; i < t->n_readers; i++) {
                struct step_run *s = &f->steps[run->plan->steps[t->readers[i]].place];

                if (choice->has_step[t->readers[i]] && --s->n_missing == 0 && run->error == NULL)
                        open_step_locked(s, w);
        }
}

/* `in` is NULL when the request lacks the input. */
static void set_input(struct frame *f, uint32_t tensor, const struct request_input *in,
                      struct work *w) {
        struct value *v = frame_value(f, tensor);

        v->kind = in != NULL ? VALUE_INPUT : VALUE_ABSENT;
        v->input = in;
        v->batch_size = f->run->req->batch_size;
        value_is_set_locked(f, tensor, w);
}

void flow_begin(struct ensemble_run *run, struct work *w) {
        const struct model_io_set *io = run->req->model->io;
        const uint32_t            *tensors = run->plan->graph->inputs;

        for (const struct request_input *in = run->req->first_input; in != NULL; in = in->next)
                set_input(run->first, tensors[in->io - io->inputs], in, w);
        if (io->n_inputs == run->req->n_inputs)
                return;
        for (uint32_t i = 0; i < io->n_inputs; i++)
                if (frame_value(run->first, tensors[i])->kind == VALUE_MISSING)
                        set_input(run->first, tensors[i], NULL, w);
}

/* ---- the sequence of a response -------------------------------------------------------------- */

static struct error *wrong_parameter(const char *text) {
        return error_new(ERR_INVALID_ARG, "%s", text);
}

static struct error *read_sequence_id(const struct parameter *p, struct sequence_mark *mark) {
        if (p->type == PARAMETER_INT)
                mark->correlation = (struct correlation_id){ .number = (uint64_t)p->integer };
        else if (p->type == PARAMETER_STRING)
                mark->correlation = (struct correlation_id){ .text = p->string };
        else
                return wrong_parameter(
                        "expected parameter 'sequence_id' to be "
                        "TRITONSERVER_PARAMETER_INT or TRITONSERVER_PARAMETER_STRING");
        return NULL;
}

static struct error *read_flag(const struct parameter *p, uint32_t flag, uint32_t *flags) {
        if (p->type != PARAMETER_BOOL)
                return error_new(ERR_INVALID_ARG,
                                 "expect parameter '%s' to be TRITONSERVER_PARAMETER_BOOL",
                                 p->name);
        *flags |= p->boolean ? flag : 0;
        return NULL;
}

/* Changes `mark` as the response's parameters state. */
static struct error *read_parameters(const struct response *r, struct sequence_mark *mark) {
        uint32_t flags = 0;
        bool     is_set = false;

        for (const struct parameter *p = r->parameters.first; p != NULL; p = p->next) {
                bool is_id = strcmp(p->name, "sequence_id") == 0;
                bool is_start = strcmp(p->name, "sequence_start") == 0;
                bool is_end = strcmp(p->name, "sequence_end") == 0;

                if (is_id)
                        TRY(read_sequence_id(p, mark));
                if (is_start)
                        TRY(read_flag(p, REQUEST_SEQUENCE_START, &flags));
                if (is_end)
                        TRY(read_flag(p, REQUEST_SEQUENCE_END, &flags));
                is_set = is_set || is_id || is_start || is_end;
        }
        if (is_set)
                mark->flags = flags;
        return NULL;
}

/* Starts with what the step was given. Copies a text that does not belong to the outer request: its
 * owner may be freed earlier. */
static struct error *read_mark(const struct step_run *s, const struct response *r,
                               struct sequence_mark *ret) {
        ret->correlation.number = s->given.correlation.number;
        ret->correlation.text = s->given.correlation.text;
        ret->flags = s->given.flags;
        ret->text = NULL;
        if (r->parameters.n > 0)
                TRY(read_parameters(r, ret));
        if (ret->correlation.text == NULL || ret->correlation.text == s->run->req->correlation.text)
                return NULL;
        ret->text = try_alloc(strlen(ret->correlation.text) + 1);
        if (ret->text == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory");
        ret->correlation.text = strcpy(ret->text, ret->correlation.text);
        return NULL;
}

/* ---- responses ------------------------------------------------------------------------------- */

/* Outputs mostly come in the requested order, so the search starts after the last one found. */
static const struct response_output *find_output(const struct response *r, const char *name,
                                                 const struct response_output **last) {
        const struct response_output *o =
                *last != NULL && (*last)->next != NULL ? (*last)->next : r->first_output;

        for (uint32_t n = r->n_outputs; n > 0; n--) {
                if (o->name == name || strcmp(o->name, name) == 0)
                        return *last = o;
                o = o->next != NULL ? o->next : r->first_output;
        }
        return NULL;
}

static void set_outputs_locked(struct step_run *s, struct frame *to, const struct kept_outputs *k,
                               struct work *w) {
        const struct ensemble_step   *step = s->plan->step;
        const struct response_output *last = NULL;

        for (uint32_t i = 0; i < step->n_outputs; i++) {
                struct value *v = frame_value(to, step->outputs[i].tensor);

                v->mark = &k->mark;
                v->batch_size = atomic_load(&s->inner)->request->batch_size;
                v->output = find_output(k->response, s->plan->outputs[i]->name, &last);
                v->kind = v->output != NULL ? VALUE_OUTPUT : VALUE_ABSENT;
                value_is_set_locked(to, step->outputs[i].tensor, w);
        }
}

/* Finds the frame and the place that keep the response. */
static struct error *place_response_locked(struct step_run *s, struct frame **ret_frame,
                                           struct kept_outputs **ret_kept) {
        if (is_decoupled(s->plan)) {
                *ret_frame = frame_new_locked(s->frame, s->plan->out_stream);
                if (*ret_frame == NULL)
                        return error_new(ERR_UNAVAILABLE, "out of memory");
                *ret_kept = &(*ret_frame)->origin;
                return NULL;
        }
        if (s->n_responses > 1)
                return error_new(ERR_INTERNAL,
                                 "model '%s' has sent more than one response, and is not decoupled",
                                 s->plan->model->name);
        *ret_frame = s->frame;
        *ret_kept = &s->kept;
        return NULL;
}

/* With streams each response is freed early, however small: a decoupled step may send many. */
static bool may_stay(const struct step_run *s, const struct response *response) {
        size_t n_bytes = 0;

        if (s->run->plan->n_streams > 1)
                return false;
        for (const struct response_output *o = response->first_output; o != NULL; o = o->next)
                if (!size_add(n_bytes, o->byte_size, &n_bytes))
                        return false;
        return n_bytes <= ENSEMBLE_SMALL_BYTES;
}

static struct error *take_response_locked(struct step_run *s, struct response *response,
                                          struct work *w) {
        struct kept_outputs *kept;
        struct frame        *frame;

        if (response->error != NULL)
                return error_copy(response->error);
        TRY(place_response_locked(s, &frame, &kept));
        TRY(read_mark(s, response, &kept->mark));
        kept->response = response;
        kept->n_users = s->run->choice->n_users[s->plan->index];
        kept->is_small = may_stay(s, response);
        set_outputs_locked(s, frame, kept, w);
        return NULL;
}

void flow_response_locked(struct step_run *s, struct response *response, struct work *w) {
        struct error *err = NULL;

        if (s->run->error == NULL) {
                err = take_response_locked(s, response, w);
                if (err == NULL)
                        return;
                flow_fail_locked(s->run, err, w);
        }
        free_later(response, w);
}

void flow_final_locked(struct step_run *s) {
        assert(!s->has_final && s->run->n_flowing > 0);
        s->has_final = true;
        s->run->n_flowing--;
}

/* ---- the end of a step ------------------------------------------------------------------------ */

static void never_locked(struct frame *f, const struct plan_step *step) {
        for (uint32_t i = 0; i < step->step->n_outputs; i++) {
                uint32_t tensor = step->step->outputs[i].tensor;

                frame_value(f, tensor)->kind = VALUE_NEVER;
                if (f->run->choice->is_output[tensor])
                        f->is_dead = true;
        }
}

static bool lacks_input(const struct step_run *s) {
        for (uint32_t i = 0; i < s->plan->step->n_inputs; i++)
                if (frame_value(s->frame, s->plan->step->inputs[i].tensor)->kind == VALUE_NEVER)
                        return true;
        return false;
}

/* A step that is not decoupled ended without a response: skips the steps that depend on it. */
static void skip_locked(struct step_run *ended, struct work *w) {
        struct frame             *f = ended->frame;
        const struct plan_stream *stream = &f->run->plan->streams[f->stream];

        never_locked(f, ended->plan);
        for (uint32_t i = 0; i < stream->n_steps; i++) {
                struct step_run *s = &f->steps[i];

                if (!f->run->choice->has_step[s->plan->index] || s->n_missing == 0 ||
                    s->is_skipped || !lacks_input(s))
                        continue;
                s->is_skipped = true;
                if (!is_decoupled(s->plan))
                        never_locked(f, s->plan);
                leave_frame_locked(f, w); /* does not free f: `ended` has not left it yet */
        }
}

void flow_end_locked(struct step_run *s, struct work *w) {
        struct ensemble_run *run = s->run;
        struct frame        *f = s->frame;

        if (!s->has_final)
                flow_final_locked(s);
        if (s->answer != NULL)
                flow_response_locked(s, STEAL(s->answer), w);
        list_remove(&s->open_node);
        if (UNLIKELY(run->n_paid > STEPS_PAID_AT_FIRST &&
                     run->n_paid > run->n_open + 2 * STEPS_PAID_AT_ONCE))
                reclaim_locked(run);
        compute_sums_merge(&run->sums, &s->sums);
        if (run->error == NULL && s->n_responses == 0 && !is_decoupled(s->plan))
                skip_locked(s, w);
        for (uint32_t i = 0; i < s->plan->n_feeders; i++) {
                const struct plan_step *feeder = &run->plan->steps[s->plan->feeders[i]];

                if (!is_decoupled(feeder))
                        drop_user_locked(&f->steps[feeder->place].kept, w);
        }
        leave_frame_locked(f, w);
}

void flow_sent_locked(struct frame *f, struct work *w) {
        const struct ensemble_run *run = f->run;
        const struct plan_stream  *stream = &run->plan->streams[f->stream];

        for (uint32_t i = 0; i < stream->n_steps; i++)
                if (run->choice->writes[stream->steps[i]] && !is_decoupled(f->steps[i].plan))
                        drop_user_locked(&f->steps[i].kept, w);
        leave_frame_locked(f, w);
}
