/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory for outputs of steps, and the ensemble's responses. */
#include "base/buf.h"
#include "base/mem.h"
#include "config/labels.h"
#include "config/shape.h"
#include "sched/client_memory.h"
#include "sched/ensemble_run.h"

#include <string.h>

/* ---- memory ---------------------------------------------------------------------------------- */

static size_t round_up(size_t n) {
        return (n + ENSEMBLE_INLINE_ALIGNMENT - 1) & ~(size_t)(ENSEMBLE_INLINE_ALIGNMENT - 1);
}

/* Memory within the run, for what is freed with the run. NULL: too large, or no such memory is left. */
static void *take_inline(const struct step_run *s, size_t bytes) {
        struct ensemble_run *run = s->run;
        size_t               at;

        if (s->plan->in_stream != 0 || s->plan->out_stream != 0 || bytes > ENSEMBLE_INLINE_BYTES)
                return NULL;
        at = atomic_load_explicit(&run->inline_used, memory_order_relaxed);
        do {
                if (round_up(bytes) > ENSEMBLE_INLINE_BYTES - at)
                        return NULL;
        } while (!atomic_compare_exchange_weak(&run->inline_used, &at, at + round_up(bytes)));
        return run->inline_memory + at;
}

/* The tensor, if the step writes the output directly into the client's memory; else ENSEMBLE_NONE. */
static uint32_t find_direct(const struct step_run *s, const char *output) {
        const struct ensemble_step *step = s->plan->step;

        if (s->plan->index != s->run->direct_step)
                return ENSEMBLE_NONE;
        for (uint32_t i = 0; i < step->n_outputs; i++)
                if (s->run->choice->is_output[step->outputs[i].tensor] &&
                    strcmp(s->plan->outputs[i]->name, output) == 0)
                        return step->outputs[i].tensor;
        return ENSEMBLE_NONE;
}

/* Has the type allocator_redirect_fn. */
static bool redirect(void *userp, const char *output, struct memory_origin *ret) {
        const struct step_run *s = userp;
        uint32_t               direct = find_direct(s, output);

        if (direct != ENSEMBLE_NONE)
                *ret = client_memory_of(s->run->req, s->run->plan->graph->tensors[direct].name);
        return direct != ENSEMBLE_NONE;
}

/* Has the type allocator_alloc_fn. */
static struct error *allocate(struct response_allocator *allocator, const char *output,
                              size_t byte_size, enum memory_type type, int64_t id, void *userp,
                              void **buffer, void **buffer_userp, enum memory_type *actual_type,
                              int64_t *actual_id) {
        const struct step_run *s = userp;
        struct buf            *b = NULL;

        (void)allocator;
        (void)type;
        (void)id;
        *buffer_userp = NULL;
        *actual_type = MEMORY_CPU;
        *actual_id = 0;
        *buffer = byte_size > 0 ? take_inline(s, byte_size) : NULL;
        if (byte_size == 0 || *buffer != NULL)
                return NULL;
        b = step_memory_get(s->run->ensemble->memory, byte_size);
        if (b == NULL)
                return step_memory_shortage(s->run->ensemble->memory, output, byte_size);
        *buffer = b->bytes;
        *buffer_userp = b;
        return NULL;
}

const struct response_allocator ensemble_allocator = { .alloc = allocate,
                                                       .release = inner_output_release,
                                                       .redirect = redirect };

/* ---- shapes ---------------------------------------------------------------------------------- */

static bool fits(const int64_t *config_dims, uint32_t n_config, const int64_t *dims, uint32_t n) {
        if (n_config != n)
                return false;
        for (uint32_t i = 0; i < n; i++)
                if (config_dims[i] != SHAPE_ANY_DIM && config_dims[i] != dims[i])
                        return false;
        return true;
}

void bridge_shape(const int64_t *config_dims, uint32_t n_config_dims, bool has_batch,
                  uint64_t batch_size, const int64_t *dims, uint32_t n_dims,
                  struct bridged_shape *ret) {
        bool is_plain = fits(config_dims, n_config_dims, dims, n_dims);

        ret->dims = dims;
        ret->n_dims = n_dims;
        if (has_batch == (batch_size != 0))
                return;
        if (has_batch && is_plain) {
                ret->room[0] = 1;
                if (n_dims > 0) /* at most REQUEST_MAX_DIMS, as of every tensor */
                        memcpy(&ret->room[1], dims, n_dims * sizeof(*dims));
                ret->dims = ret->room;
                ret->n_dims = n_dims + 1;
        } else if (!has_batch && !is_plain && batch_size == 1 && n_dims > 0) {
                ret->dims = dims + 1;
                ret->n_dims = n_dims - 1;
        }
}

/* ---- one response ---------------------------------------------------------------------------- */

static struct error *get_cpu_buffer(struct response_output *to, size_t bytes, char **ret) {
        enum memory_type type = MEMORY_CPU;
        int64_t          id = 0;
        void            *base;

        TRY(response_output_buffer(to, bytes, &type, &id, &base));
        if (type == MEMORY_GPU)
                return error_new(ERR_UNSUPPORTED,
                                 "output '%s' of an ensemble cannot be copied into GPU memory",
                                 to->name);
        *ret = base;
        return NULL;
}

static struct error *copy_output(struct response_output *to, const struct response_output *from) {
        size_t bytes = from->has_buffer ? from->byte_size : 0;
        char  *base;

        if (bytes > 0 && from->attributes.memory_type == MEMORY_GPU)
                return error_new(ERR_UNSUPPORTED,
                                 "output '%s' of an ensemble is in GPU memory, and is not written "
                                 "by the last step",
                                 to->name);
        TRY(get_cpu_buffer(to, bytes, &base));
        if (bytes > 0)
                memcpy(base, from->base, bytes);
        return NULL;
}

static struct error *copy_input(struct response_output *to, const struct request_input *from) {
        char *at;

        TRY(get_cpu_buffer(to, from->byte_size, &at));
        for (const struct input_chunk *c = from->first_chunk; c != NULL; c = c->next) {
                if (c->host_policy != NULL)
                        continue;
                memcpy(at, c->base, c->attributes.byte_size);
                at += c->attributes.byte_size;
        }
        return NULL;
}

/* Sets the labels of the step's model, under the name that the output has there, unless the ensemble has
 * labels of its own. */
static struct error *set_labels(struct response_output *to, struct labels *labels,
                                const char *name) {
        struct response *r = to->response;
        const char      *copy;

        if (labels == NULL || labels_count(labels, name) == 0 ||
            (r->source.model->labels != NULL &&
             labels_count(r->source.model->labels, to->name) > 0))
                return NULL;
        copy = arena_try_str(&r->arena, str_of(name));
        if (copy == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory for a response");
        response_set_labels(to, labels, copy);
        return NULL;
}

static struct error *inherit_labels(struct response_output       *to,
                                    const struct response_output *from) {
        if (from->labels != NULL)
                return set_labels(to, from->labels, from->labels_name);
        return set_labels(to, from->response->source.model->labels, from->name);
}

/* Follows the tensor to the step that writes it and, while that step is an ensemble, into that one. */
static struct error *label_output(struct response_output *o, const struct step_models *models,
                                  uint32_t tensor) {
        const struct ensemble_plan *plan = models->plan;

        while (o->labels == NULL && plan->graph->tensors[tensor].writer != ENSEMBLE_NONE) {
                const struct plan_step   *s = &plan->steps[plan->graph->tensors[tensor].writer];
                const struct step_models *nested = models->nested[s->index];
                const struct model_io    *t = NULL;

                for (uint32_t i = 0; i < s->step->n_outputs; i++)
                        if (s->step->outputs[i].tensor == tensor)
                                t = s->outputs[i];
                TRY(set_labels(o, s->model->labels, t->name));
                if (nested == NULL || nested->free_plan != ensemble_plan_free)
                        return NULL;
                models = nested;
                plan = nested->plan;
                tensor = plan->graph->outputs[t - s->model->io->outputs];
        }
        return NULL;
}

void output_label_all(const struct request *req, struct response *r,
                      const struct step_models *models) {
        const struct model_io_set  *io = req->model->io;
        const struct ensemble_plan *plan = models->plan;
        uint32_t                    at = 0;

        for (struct response_output *o = r->first_output; o != NULL; o = o->next, at++) {
                const struct model_io *t = model_io_find_output_named(io, o->name, at);

                /* If memory is short, the classes have no names. */
                if (t != NULL)
                        error_free(label_output(o, models, plan->graph->outputs[t - io->outputs]));
        }
}

static struct error *put_output(struct frame *f, struct response *r, const struct model_io *io,
                                const struct value *v) {
        const struct request   *req = f->run->req;
        bool                    is_output = v->kind == VALUE_OUTPUT;
        const int64_t          *dims = is_output ? v->output->shape : v->input->shape;
        uint32_t                n_dims = is_output ? v->output->n_dims : v->input->n_dims;
        struct response_output *to;
        struct bridged_shape    shape;
        struct error           *err;

        bridge_shape(io->has_reshape ? io->reshape : io->dims,
                     io->has_reshape ? io->n_reshape : io->n_dims, req->batch_size != 0,
                     v->batch_size, dims, n_dims, &shape);
        TRY(response_add_output(r, io->name, is_output ? v->output->type : v->input->type,
                                shape.dims, shape.n_dims, &to));
        if (!is_output)
                return copy_input(to, v->input);
        TRY(inherit_labels(to, v->output));
        if (client_memory_hand_over(to, (struct response_output *)v->output, &err))
                return err;
        return copy_output(to, v->output);
}

static struct error *add_mark(struct response *r, const struct request *req,
                              const struct sequence_mark *mark) {
        const char       *text = mark->correlation.text != NULL ? mark->correlation.text : "";
        struct parameter *p = arena_try_alloc(&r->arena, 3 * sizeof(*p));

        if (p == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory for a response");
        p[0] = (struct parameter){ .name = "sequence_id",
                                   .type = PARAMETER_INT,
                                   .integer = (int64_t)mark->correlation.number };
        p[1] = (struct parameter){ .name = "sequence_start",
                                   .type = PARAMETER_BOOL,
                                   .boolean = (mark->flags & REQUEST_SEQUENCE_START) != 0 };
        p[2] = (struct parameter){ .name = "sequence_end",
                                   .type = PARAMETER_BOOL,
                                   .boolean = (mark->flags & REQUEST_SEQUENCE_END) != 0 };
        if (req->correlation.text != NULL) {
                p[0].type = PARAMETER_STRING;
                p[0].string = arena_try_str(&r->arena, str_of(text));
                if (p[0].string == NULL)
                        return error_new(ERR_UNAVAILABLE, "out of memory for a response");
        }
        for (unsigned i = 0; i < 3; i++)
                parameter_list_link(&r->parameters, &p[i]);
        return NULL;
}

static struct error *put_all(struct frame *f, struct response *r) {
        const struct ensemble_run   *run = f->run;
        const struct model_io_set   *io = run->req->model->io;
        const struct sequence_mark  *mark = NULL;
        const struct ensemble_graph *g = run->plan->graph;

        for (uint32_t i = 0; i < io->n_outputs; i++) {
                const struct value *v = frame_value(f, g->outputs[i]);

                if (!run->choice->is_output[g->outputs[i]] || v->kind == VALUE_ABSENT)
                        continue;
                TRY(put_output(f, r, &io->outputs[i], v));
                if (mark == NULL)
                        mark = v->mark;
        }
        return mark != NULL ? add_mark(r, run->req, mark) : NULL;
}

struct error *output_make(struct frame *f, struct response **ret) {
        struct response *r;
        struct error    *err;

        TRY(response_new(f->run->req, &r));
        err = put_all(f, r);
        if (err != NULL) {
                response_free(r);
                return err;
        }
        *ret = r;
        return NULL;
}

/* ---- decoupled ensembles --------------------------------------------------------------------- */

/* The client has read enough, or has left. */
static void on_room(void *userp) {
        struct ensemble_run *run = userp;

        mutex_lock(&run->lock);
        run->waits_for_room = false;
        mutex_unlock(&run->lock);
        output_flush(run);
        run_close(run);
}

/* A slow reader must not hold the thread of a step's model, which others use as well: so the run waits for
 * room, open, without a thread. */
static bool must_wait_locked(struct ensemble_run *run) {
        struct response_source source = response_source_of(run->req);

        if (run->waits_for_room)
                return true;
        if (source.ticket != NULL || !response_stream_when_room(source.stream, on_room, run))
                return false;
        run->waits_for_room = true;
        run->n_open++;
        return true;
}

/* The next frame to send; NULL: none is ready, another thread is sending, or the client has no room. */
static struct frame *take_ready_locked(struct ensemble_run *run) {
        struct list_node *first = list_first(&run->out_frames);
        struct frame     *f = first != NULL ? LIST_ENTRY(first, struct frame, out_node) : NULL;

        if (run->is_sending || f == NULL || (f->n_missing > 0 && !f->is_dead))
                return NULL;
        if (!f->is_dead && must_wait_locked(run))
                return NULL;
        list_remove(first);
        run->is_sending = true;
        return f;
}

/* Returns false when nothing was sent. */
static bool send_frame(struct frame *f, uint32_t flags) {
        struct response *r;
        struct error    *err = output_make(f, &r);

        if (err != NULL) {
                run_fail(f->run, err);
                return false;
        }
        /* Cannot fail: nothing was sent after FINAL, which is sent once. */
        error_free(response_send(r, flags, NULL));
        return true;
}

/* FINAL is sent with the last response if that one is known to be the last. */
static bool is_last_locked(const struct ensemble_run *run) {
        return run->error == NULL && run->n_flowing == 0 && list_is_empty(&run->out_frames);
}

void output_flush(struct ensemble_run *run) {
        struct work   w = { 0 };
        struct frame *f;

        if (run->plan->n_streams == 1)
                return;
        mutex_lock(&run->lock);
        while ((f = take_ready_locked(run)) != NULL) {
                bool is_last = !f->is_dead && is_last_locked(run);
                bool was_sent = false;

                mutex_unlock(&run->lock);
                if (!f->is_dead)
                        was_sent = send_frame(f, is_last ? RESPONSE_FINAL : 0);
                mutex_lock(&run->lock);
                run->has_sent_final = run->has_sent_final || (was_sent && is_last);
                run->is_sending = false;
                flow_sent_locked(f, &w);
        }
        mutex_unlock(&run->lock);
        flow_follow(&w, false, 0);
}
