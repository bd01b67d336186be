/* SPDX-License-Identifier: BSD-3-Clause */
/* The data flow of a run: which tensors are present, and which steps can start. */
#include "base/mem.h"
#include "pipeline/run_private.h"

#include <assert.h>
#include <string.h>

/* ---- frames ---------------------------------------------------------------------------------- */

void frame_init(struct frame *f, struct run *run, uint32_t stream, struct frame *parent) {
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

                step->run = run;
                step->frame = f;
                step->plan = &run->plan->steps[s->steps[i]];
                step->n_missing = step->plan->n_tensors;
        }
}

static void kept_done(struct kept_outputs *k) {
        if (k->response != NULL)
                response_free(k->response);
        if (k->own.text != NULL)
                free(k->own.text);
}

void frame_done(struct frame *f) {
        uint32_t n_steps = f->run->plan->streams[f->stream].n_steps;

        kept_done(&f->origin);
        for (uint32_t i = 0; i < n_steps; i++)
                kept_done(&f->steps[i].kept);
}

static NOINLINE struct frame *frame_new(struct frame *parent, uint32_t stream) {
        struct run   *run = parent->run;
        struct frame *f = try_alloc(frame_bytes(run->plan, stream));

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
static void leave_frame(struct frame *f) {
        while (--f->n_left == 0 && f->parent != NULL) {
                struct frame *parent = f->parent;

                list_remove(&f->node);
                frame_done(f);
                free(f);
                f = parent;
        }
}

static void drop_user(struct kept_outputs *k) {
        if (k->response != NULL && --k->n_users == 0)
                response_free(STEAL(k->response));
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Lists a step whose inputs are present. The driver starts it when it has taken all news: a step that ends at
 * once would otherwise call back into the flow in the middle of a change. */
static void open_step(struct step_run *s) {
        struct run         *run = s->run;
        struct ready_steps *ready = &run->ready;

        run->n_open++;
        if (run->n_open > run->n_paid)
                run_memory_charge_steps(run);
        run->n_flowing++;
        list_append(&run->open_steps, &s->open_node);
        s->start.next = NULL;
        if (ready->last != NULL)
                ready->last->next = &s->start;
        else
                ready->first = &s->start;
        ready->last = &s->start;
}

/* The caller has written the value in place: copying a struct right after storing its parts makes the
 * processor wait. */
static inline void value_is_set(struct frame *f, uint32_t tensor) {
        const struct run         *run = f->run;
        const struct plan_tensor *t = &run->plan->tensors[tensor];

        if (run->choice->is_output[tensor])
                f->n_missing--;
        for (uint32_t i = 0; i < t->n_readers; i++) {
                struct step_run *s = &f->steps[run->plan->steps[t->readers[i]].place];

                if (run->choice->has_step[t->readers[i]] && --s->n_missing == 0 &&
                    run->error == NULL)
                        open_step(s);
        }
}

/* `in` is NULL when the request lacks the input. */
static void set_input(struct frame *f, uint32_t tensor, const struct request_input *in) {
        struct value *v = frame_value(f, tensor);

        v->kind = in != NULL ? VALUE_INPUT : VALUE_ABSENT;
        v->input = in;
        v->batch_size = f->run->req->batch_size;
        value_is_set(f, tensor);
}

void flow_begin(struct run *run) {
        const struct model_io_set *io = run->req->model->io;
        const uint32_t            *tensors = run->plan->inputs;

        for (const struct request_input *in = run->req->first_input; in != NULL; in = in->next)
                set_input(run->first, tensors[in->io - io->inputs], in);
        for (uint32_t i = 0; i < io->n_inputs && io->n_inputs != run->req->n_inputs; i++)
                if (frame_value(run->first, tensors[i])->kind == VALUE_MISSING)
                        set_input(run->first, tensors[i], NULL);
        if (run->plan->is_chain)
                open_step(&run->first->steps[0]);
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

/* Copies a text of the response, which may be freed earlier. */
static NOINLINE struct error *read_own_mark(const struct step_run *s, const struct response *r,
                                            struct sequence_mark *ret) {
        ret->correlation = s->mark->correlation;
        ret->flags = s->mark->flags;
        TRY(read_parameters(r, ret));
        if (ret->correlation.text == NULL || ret->correlation.text == s->mark->correlation.text)
                return NULL;
        ret->text = try_alloc(strlen(ret->correlation.text) + 1);
        if (ret->text == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory");
        ret->correlation.text = strcpy(ret->text, ret->correlation.text);
        return NULL;
}

/* The step's, unless the response has parameters. The stages of a chain do not change the sequence. */
static struct error *read_mark(const struct step_run *s, const struct response *r,
                               struct kept_outputs *kept) {
        kept->mark = s->mark;
        if (r->parameters.n == 0 || s->run->plan->is_chain)
                return NULL;
        kept->mark = &kept->own;
        return read_own_mark(s, r, &kept->own);
}

/* ---- responses ------------------------------------------------------------------------------- */

static bool has_name(const struct response_output *o, const char *name) {
        return o->name == name || strcmp(o->name, name) == 0;
}

/* Outputs mostly come in the requested order: then it is `likely`, which may be NULL. */
static const struct response_output *find_output(const struct response *r, const char *name,
                                                 const struct response_output *likely) {
        if (likely != NULL && has_name(likely, name))
                return likely;
        for (const struct response_output *o = r->first_output; o != NULL; o = o->next)
                if (has_name(o, name))
                        return o;
        return NULL;
}

static void set_outputs(struct step_run *s, struct frame *to, const struct kept_outputs *k) {
        const struct plan_link       *link = s->plan->outputs, *end = link + s->plan->n_outputs;
        const struct response        *response = k->response;
        const struct response_output *likely = response->first_output;
        uint64_t                      batch_size =
                atomic_load_explicit(&s->inner, memory_order_relaxed)->request->batch_size;

        for (; link < end; link++) {
                struct value *v = link_value(to, link);

                v->mark = k->mark;
                v->batch_size = batch_size;
                v->output = find_output(response, link->io->name, likely);
                v->kind = v->output != NULL ? VALUE_OUTPUT : VALUE_ABSENT;
                if (v->output != NULL)
                        likely = v->output->next;
                value_is_set(to, link->tensor);
        }
        /* The line opens the next stage, not its tensors, which have no readers in a plan of a chain: so a
         * stage that reads nothing of this one also comes after it. */
        if (s->run->plan->is_chain && s->run->error == NULL)
                open_step(s + 1);
}

static struct error *too_many_responses(const struct step_run *s) {
        if (s->run->plan->is_chain)
                return error_new_text(ERR_INTERNAL, "more than one response");
        return error_new(ERR_INTERNAL,
                         "model '%s' has sent more than one response, and is not decoupled",
                         s->plan->model->name);
}

/* Finds the frame and the place that keep the response. */
static struct error *place_response(struct step_run *s, struct frame **ret_frame,
                                    struct kept_outputs **ret_kept) {
        if (is_decoupled(s->plan)) {
                *ret_frame = frame_new(s->frame, s->plan->out_stream);
                if (*ret_frame == NULL)
                        return error_new(ERR_UNAVAILABLE, "out of memory");
                *ret_kept = &(*ret_frame)->origin;
                return NULL;
        }
        if (s->n_responses > 1)
                return too_many_responses(s);
        *ret_frame = s->frame;
        *ret_kept = &s->kept;
        return NULL;
}

static struct error *take_response(struct step_run *s, struct response *response) {
        struct kept_outputs *kept;
        struct frame        *frame;

        if (response->error != NULL)
                return error_copy(response->error);
        TRY(place_response(s, &frame, &kept));
        TRY(read_mark(s, response, kept));
        kept->response = response;
        kept->n_users = s->run->choice->n_users[s->plan->index];
        set_outputs(s, frame, kept);
        return NULL;
}

static inline void use_response(struct step_run *s, struct response *response) {
        struct error *err;

        /* After a failure no tensor becomes present, so that no further step opens; those that are open still
         * end by themselves. */
        if (s->run->error == NULL) {
                err = take_response(s, response);
                if (err == NULL)
                        return;
                flow_fail(s->run, s->plan, err);
        }
        response_free(response);
}

void flow_response(struct step_run *s, struct response *response) {
        use_response(s, response);
}

void flow_final(struct step_run *s) {
        assert(!s->has_final && s->run->n_flowing > 0);
        s->has_final = true;
        s->run->n_flowing--;
}

void flow_fail(struct run *run, const struct plan_step *step, struct error *err) {
        if (run->error != NULL) {
                error_free(err);
                return;
        }
        run->error = err;
        run->failed = step;
        atomic_store(&run->has_failed, true);
}

/* ---- the end of a step ------------------------------------------------------------------------ */

static void set_never(struct frame *f, const struct plan_step *step) {
        for (uint32_t i = 0; i < step->n_outputs; i++) {
                uint32_t tensor = step->outputs[i].tensor;

                frame_value(f, tensor)->kind = VALUE_NEVER;
                if (f->run->choice->is_output[tensor])
                        f->is_dead = true;
        }
}

static bool lacks_input(const struct step_run *s) {
        for (uint32_t i = 0; i < s->plan->n_inputs; i++)
                if (link_value(s->frame, &s->plan->inputs[i])->kind == VALUE_NEVER)
                        return true;
        return false;
}

/* A step that is not decoupled ended without a response: skips the steps that depend on it. */
static void skip_readers(struct step_run *ended) {
        struct frame             *f = ended->frame;
        const struct plan_stream *stream = &f->run->plan->streams[f->stream];

        set_never(f, ended->plan);
        /* One pass is enough, because the steps of a stream come after those that they read from: a skipped
         * step has marked its outputs before its own readers are looked at. */
        for (uint32_t i = 0; i < stream->n_steps; i++) {
                struct step_run *s = &f->steps[i];

                if (!f->run->choice->has_step[s->plan->index] || s->n_missing == 0 ||
                    s->is_skipped || !lacks_input(s))
                        continue;
                s->is_skipped = true;
                if (!is_decoupled(s->plan))
                        set_never(f, s->plan);
                leave_frame(f); /* does not free f: `ended` has not left it yet */
        }
}

static void end_without_response(struct step_run *s) {
        struct run *run = s->run;

        if (run->error != NULL || is_decoupled(s->plan) || s->plan->is_passed_on)
                return;
        if (run->plan->is_chain)
                flow_fail(run, s->plan, error_new_text(ERR_INTERNAL, "no response"));
        else
                skip_readers(s);
}

void flow_end(struct step_run *s) {
        struct run   *run = s->run;
        struct frame *f = s->frame;

        if (!s->has_final)
                flow_final(s);
        if (s->answer != NULL)
                use_response(s, STEAL(s->answer));
        list_remove(&s->open_node);
        /* Not as soon as there is one portion too many: the next steps may open in a moment, and the budget is
         * an atomic of the whole server. */
        if (run->n_paid > STEPS_PAID_AT_FIRST && run->n_paid > run->n_open + 2 * STEPS_PAID_AT_ONCE)
                run_memory_give_steps(run);
        compute_sums_merge(&run->sums, &s->sums);
        if (s->n_responses == 0)
                end_without_response(s);
        /* Its request has ended, so no code reads these inputs any more. What a decoupled step has sent stays as
         * long as the frame, because its limit bounds the frames. */
        for (uint32_t i = 0; i < s->plan->n_feeders; i++) {
                const struct plan_step *feeder = &run->plan->steps[s->plan->feeders[i]];

                if (!is_decoupled(feeder))
                        drop_user(&f->steps[feeder->place].kept);
        }
        run->n_open--;
        leave_frame(f); /* last, since it may free the step */
}

void flow_sent(struct frame *f) {
        const struct run         *run = f->run;
        const struct plan_stream *stream = &run->plan->streams[f->stream];

        for (uint32_t i = 0; i < stream->n_steps; i++)
                if (run->choice->writes[stream->steps[i]] && !is_decoupled(f->steps[i].plan))
                        drop_user(&f->steps[i].kept);
        leave_frame(f);
}
