/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's responses, and the errors in them. */
#include "pipeline/run_answer.h"

#include "base/log.h"
#include "config/labels.h"
#include "config/shape.h"
#include "pipeline/client_memory.h"
#include "pipeline/ensemble_plan.h"
#include "pipeline/run_private.h"
#include "pipeline/tensor_copies.h"

#include <string.h>

static struct error *out_of_memory(void) {
        return error_new(ERR_UNAVAILABLE, "out of memory for a response");
}

/* In a chain a cancellation is returned unchanged. */
struct error *run_error(const struct run *run, const struct plan_step *step, struct error *why) {
        const char *name = run->req->model->name;

        if (!run->plan->is_chain)
                return error_prefix(why, "in ensemble '%s', ", name);
        if (why->code == ERR_CANCELLED || step == NULL)
                return why;
        return error_prefix(why, "in chain '%s' stage '%s' (%u/%u): ", name, step->model->name,
                            step->index + 1, run->plan->n_steps);
}

/* ---- labels ---------------------------------------------------------------------------------- */

/* Sets the labels of the step's model, under the name that the output has there. */
static struct error *set_labels(struct response_output *to, struct labels *labels,
                                const char *name) {
        const char *copy;

        if (labels == NULL || labels_count(labels, name) == 0)
                return NULL;
        copy = arena_try_str(&to->response->arena, str_of(name));
        if (copy == NULL)
                return out_of_memory();
        response_set_labels(to, labels, copy);
        return NULL;
}

static struct error *inherit_labels(struct response_output       *to,
                                    const struct response_output *from) {
        if (from->labels != NULL)
                return set_labels(to, from->labels, from->labels_name);
        return set_labels(to, from->response->source.model->labels, from->name);
}

static bool has_own_labels(const struct response_output *o) {
        struct labels *own = o->response->source.model->labels;

        return own != NULL && labels_count(own, o->name) > 0;
}

static const struct model_io *find_written(const struct plan_step *s, uint32_t tensor) {
        const struct model_io *io = NULL;

        for (uint32_t i = 0; i < s->n_outputs; i++)
                if (s->outputs[i].tensor == tensor)
                        io = s->outputs[i].io;
        return io;
}

/* Follows the tensor to the step that writes it and, while that step is an ensemble, into that one. */
static struct error *label_output(struct response_output *o, const struct step_models *models,
                                  uint32_t tensor) {
        const struct pipeline_plan *plan = models->plan;

        while (o->labels == NULL && plan->tensors[tensor].writer != PLAN_NONE) {
                const struct plan_step   *s = &plan->steps[plan->tensors[tensor].writer];
                const struct step_models *nested = models->nested[s->index];
                const struct model_io    *t = find_written(s, tensor);

                TRY(set_labels(o, s->model->labels, t->name));
                if (nested == NULL || nested->free_plan != ensemble_plan_free)
                        return NULL;
                models = nested;
                plan = nested->plan;
                tensor = plan->outputs[t - s->model->io->outputs];
        }
        return NULL;
}

void run_answer_label_all(const struct request *req, struct response *r,
                          const struct step_models *models) {
        const struct model_io_set  *io = req->model->io;
        const struct pipeline_plan *plan = models->plan;
        uint32_t                    at = 0;

        for (struct response_output *o = r->first_output; o != NULL; o = o->next, at++) {
                const struct model_io *t = model_io_find_output_named(io, o->name, at);

                /* If memory is short, the classes have no names. */
                if (t != NULL && !has_own_labels(o))
                        error_free(label_output(o, models, plan->outputs[t - io->outputs]));
        }
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Asks the client for memory of the kind that the bytes are in. Whatever it gives is written by a copy. */
static struct error *get_buffer(const struct tensor_copies *copies, struct response_output *to,
                                size_t bytes, const struct buffer_attributes *from, char **ret) {
        enum memory_type type;
        int64_t          id;
        void            *base;

        tensor_preferred(from, &type, &id);
        TRY(response_output_buffer(to, bytes, &type, &id, &base));
        if (type == MEMORY_GPU && copies->gpus == NULL)
                return error_new(ERR_UNSUPPORTED,
                                 "output '%s' of an ensemble cannot be copied into GPU memory",
                                 to->name);
        *ret = base;
        return NULL;
}

static struct error *copy_output(struct tensor_copies *copies, struct response_output *to,
                                 const struct response_output *from) {
        size_t bytes = from->has_buffer ? from->byte_size : 0;
        char  *base;

        if (bytes > 0 && from->attributes.memory_type == MEMORY_GPU && copies->gpus == NULL)
                return error_new(ERR_UNSUPPORTED,
                                 "output '%s' of an ensemble is in GPU memory, and is not written "
                                 "by the last step",
                                 to->name);
        TRY(get_buffer(copies, to, bytes, &from->attributes, &base));
        return tensor_copies_add(copies, base, buffer_device(&to->attributes), from->base,
                                 buffer_device(&from->attributes), bytes);
}

static struct error *copy_input(struct tensor_copies *copies, struct response_output *to,
                                const struct request_input *from) {
        static const struct buffer_attributes nowhere;
        const struct input_chunk             *first = from->first_chunk;
        char                                 *at;

        TRY(get_buffer(copies, to, from->byte_size, first != NULL ? &first->attributes : &nowhere,
                       &at));
        for (const struct input_chunk *c = first; c != NULL; c = c->next) {
                if (c->host_policy != NULL)
                        continue;
                TRY(tensor_copies_add(copies, at, buffer_device(&to->attributes), c->base,
                                      buffer_device(&c->attributes), c->attributes.byte_size));
                at += c->attributes.byte_size;
        }
        return NULL;
}

/* The client's memory if the step has written there, else a copy. */
static struct error *take_bytes(struct tensor_copies *copies, struct response_output *to,
                                const struct response_output *from) {
        struct error *err;

        if (client_memory_hand_over(to, (struct response_output *)from, &err))
                return err;
        return copy_output(copies, to, from);
}

/* ---- the response of an ensemble ------------------------------------------------------------- */

static struct error *put_output(struct frame *f, struct response *r, const struct model_io *io,
                                const struct value *v, struct tensor_copies *copies) {
        bool              has_batch = f->run->req->batch_size != 0;
        bool              is_output = v->kind == VALUE_OUTPUT;
        struct shape_form config = { io->has_reshape ? io->reshape : io->dims,
                                     io->has_reshape ? io->n_reshape : io->n_dims };
        struct shape_form shape = { is_output ? v->output->shape : v->input->shape,
                                    is_output ? v->output->n_dims : v->input->n_dims };
        struct bridged_shape    bridged;
        struct response_output *to;

        tensor_bridge_apply(tensor_bridge_choose(config, has_batch, v->batch_size, shape), shape,
                            &bridged);
        TRY(response_add_output(r, io->name, is_output ? v->output->type : v->input->type,
                                bridged.dims, bridged.n_dims, &to));
        if (!is_output)
                return copy_input(copies, to, v->input);
        if (!has_own_labels(to))
                TRY(inherit_labels(to, v->output));
        return take_bytes(copies, to, v->output);
}

static struct error *add_mark(struct response *r, const struct request *req,
                              const struct sequence_mark *mark) {
        const char       *text = mark->correlation.text != NULL ? mark->correlation.text : "";
        struct parameter *p = arena_try_alloc(&r->arena, 3 * sizeof(*p));

        if (p == NULL)
                return out_of_memory();
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
                        return out_of_memory();
        }
        for (unsigned i = 0; i < 3; i++)
                parameter_list_link(&r->parameters, &p[i]);
        return NULL;
}

static struct error *put_all(struct frame *f, struct response *r) {
        const struct run           *run = f->run;
        const struct model_io_set  *io = run->req->model->io;
        const struct sequence_mark *mark = NULL;
        const uint32_t             *tensors = run->plan->outputs;
        struct tensor_copies        copies;

        tensor_copies_init(&copies, run->runner->options.memory->gpus);
        for (uint32_t i = 0; i < io->n_outputs; i++) {
                const struct value *v = frame_value(f, tensors[i]);

                if (!run->choice->is_output[tensors[i]])
                        continue;
                if (v->kind == VALUE_ABSENT) {
                        log_verbose(1, "Composing models did not output tensor %s",
                                    io->outputs[i].name);
                        continue;
                }
                TRY(put_output(f, r, &io->outputs[i], v, &copies));
                if (mark == NULL)
                        mark = v->mark;
        }
        TRY(tensor_copies_wait(&copies));
        return mark != NULL ? add_mark(r, run->req, mark) : NULL;
}

struct error *run_answer_make(struct frame *f, struct response **ret) {
        struct response *r;

        TRY(response_new(f->run->req, &r));
        TRY_OR(put_all(f, r), response_free(r));
        *ret = r;
        return NULL;
}

/* ---- the response of a chain ----------------------------------------------------------------- */

/* Memory of a device is asked for only where the bytes are on one. */
static struct error *copy_for_client(struct tensor_copies *copies, struct response_output *to,
                                     const struct response_output *from) {
        enum memory_type type;
        int64_t          id;
        void            *bytes;

        tensor_preferred(&from->attributes, &type, &id);
        TRY(response_output_buffer(to, from->byte_size, &type, &id, &bytes));
        if (type == MEMORY_GPU && copies->gpus == NULL)
                return error_new(ERR_UNSUPPORTED, "output '%s' is wanted in the memory of a GPU",
                                 from->name);
        return tensor_copies_add(copies, bytes, buffer_device(&to->attributes), from->base,
                                 buffer_device(&from->attributes), from->byte_size);
}

static struct error *add_output(struct tensor_copies *copies, const struct response_output *from,
                                struct response *to) {
        const char             *name = arena_try_str(&to->arena, str_of(from->name));
        struct response_output *o;
        int64_t                *shape;
        struct error           *err = NULL;

        TRY(response_add_client_output(to, name, from->type, from->n_dims, &o, &shape));
        if (from->n_dims > 0)
                memcpy(shape, from->shape, from->n_dims * sizeof(*shape));
        TRY(inherit_labels(o, from));
        if (client_memory_hand_over(o, (struct response_output *)from, &err))
                return err;
        return copy_for_client(copies, o, from);
}

static struct error *fill_response(struct gpus *gpus, const struct response *from,
                                   struct response *to) {
        struct tensor_copies copies;

        if (from->error != NULL)
                return error_copy(from->error);
        tensor_copies_init(&copies, gpus);
        for (const struct response_output *o = from->first_output; o != NULL; o = o->next)
                TRY(add_output(&copies, o, to));
        TRY(tensor_copies_wait(&copies));
        for (const struct parameter *p = from->parameters.first; p != NULL; p = p->next)
                TRY(response_add_parameter(to, p));
        return NULL;
}

struct error *run_answer_pass_on(struct step_run *s, const struct response *from, uint32_t flags) {
        const struct request *outer = s->run->req;
        struct response      *to;
        struct error         *err, *why = NULL;

        if (from == NULL) {
                error_free(request_send_flags(outer, flags));
                s->has_answered = (flags & RESPONSE_FINAL) != 0;
                return NULL;
        }
        TRY(response_new(outer, &to));
        s->has_answered = (flags & RESPONSE_FINAL) != 0;
        err = fill_response(s->run->runner->options.memory->gpus, from, to);
        if (err != NULL)
                why = run_error(s->run, s->plan, error_copy(err));
        error_free(response_send(to, flags, why));
        error_free(why);
        return err;
}
