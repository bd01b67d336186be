/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors on devices: where the outputs of steps are written, and copies for the steps that read them. */
#include "base/buf.h"
#include "base/mem.h"
#include "gpu/gpu.h"
#include "pipeline/run_private.h"
#include "pipeline/tensor_copies.h"

#include <string.h>

/* ---- outputs --------------------------------------------------------------------------------- */

static bool is_read_on_device(const struct pipeline_plan *plan, uint32_t tensor);

/* A composed model reads an input where its own steps do. */
static bool takes_device_memory(const struct plan_step *step, const struct model_io *input) {
        const struct pipeline_plan *nested = step->nested != NULL ? step->nested->plan : NULL;

        if (nested == NULL)
                return step->model->takes_device_memory;
        return is_read_on_device(nested, nested->inputs[input - step->model->io->inputs]);
}

static bool is_read_on_device(const struct pipeline_plan *plan, uint32_t tensor) {
        for (uint32_t i = 0; i < plan->n_steps; i++) {
                const struct plan_step *step = &plan->steps[i];

                for (uint32_t k = 0; k < step->n_inputs; k++)
                        if (step->inputs[k].tensor == tensor &&
                            takes_device_memory(step, step->inputs[k].io))
                                return true;
        }
        return false;
}

/* The client's memory is not known yet: a copy from the device to it is made in any case. */
static bool may_be_on_device(const struct step_run *s, const char *output) {
        const struct plan_step   *step = s->plan;
        const struct plan_choice *choice = s->run->choice;

        for (uint32_t i = 0; i < step->n_outputs; i++) {
                const struct plan_link *link = &step->outputs[i];

                if (strcmp(link->io->name, output) == 0 &&
                    (choice->is_output[link->tensor] ||
                     is_read_on_device(s->run->plan, link->tensor)))
                        return true;
        }
        return false;
}

struct error *run_device_allocate(const struct step_run *s, const char *output, size_t bytes,
                                  enum memory_type type, int64_t id, struct step_buffer *ret) {
        struct step_memory *m = s->run->runner->options.memory;
        struct error       *err;

        if (type == MEMORY_GPU && gpus_find(m->gpus, id) != NULL && may_be_on_device(s, output))
                err = step_memory_get_device(m, (int)id, bytes, ret);
        else
                err = step_memory_get_pinned(m, bytes, ret);
        return err != NULL ? error_prefix(err, "output '%s': ", output) : NULL;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* Two inputs may begin at one place, and differ in their bytes: a client chooses the parts of its region. */
static const struct moved_input *find_moved(const struct step_run *s, const void *from,
                                            size_t n_bytes) {
        const struct moved_input *m = s->moved;

        while (m != NULL && (m->from != from || m->n_bytes != n_bytes))
                m = m->next;
        return m;
}

static struct error *copy_input(struct step_run *s, const void *from, int from_device, size_t bytes,
                                struct moved_input *to) {
        struct step_memory  *m = s->run->runner->options.memory;
        struct tensor_copies copies;
        struct error        *err;

        TRY(step_memory_get_device(m, s->plan->model->device, bytes, &to->buffer));
        tensor_copies_init(&copies, m->gpus);
        err = tensor_copies_add(&copies, to->buffer.bytes,
                                to->buffer.type == MEMORY_GPU ? (int)to->buffer.id : GPU_HOST, from,
                                from_device, bytes);
        if (err == NULL)
                err = tensor_copies_wait(&copies);
        if (err != NULL)
                buf_unref(to->buffer.buf);
        return err;
}

static struct error *move_input(struct step_run *s, const void *from, int from_device, size_t bytes,
                                const struct moved_input **ret) {
        struct moved_input *m = try_alloc(sizeof(*m));

        if (m == NULL)
                return run_no_memory(s);
        TRY_OR(copy_input(s, from, from_device, bytes, m), free(m));
        m->from = from;
        m->n_bytes = bytes;
        m->next = s->moved;
        s->moved = m;
        *ret = m;
        return NULL;
}

/* Instances on several devices, or none: a copy to one of them would mostly be in vain. */
static bool is_on_one_other(const struct plan_step *step, int device) {
        const struct model *model = step->model;

        return step->nested == NULL && model->takes_device_memory && model->device >= 0 &&
               model->device != device;
}

struct error *run_device_bring(struct step_run *s, const void **base,
                               struct buffer_attributes *attributes) {
        int                       device = buffer_device(attributes);
        const struct moved_input *m;

        if (device == GPU_HOST || !is_on_one_other(s->plan, device) || attributes->byte_size == 0)
                return NULL;
        m = find_moved(s, *base, attributes->byte_size);
        if (m == NULL)
                TRY(move_input(s, *base, device, attributes->byte_size, &m));
        *base = m->buffer.bytes;
        attributes->memory_type = m->buffer.type;
        attributes->memory_id = m->buffer.id;
        attributes->cuda_ipc_handle = NULL;
        return NULL;
}

void run_device_free_moved(struct step_run *s) {
        for (struct moved_input *m = s->moved, *next; m != NULL; m = next) {
                next = m->next;
                buf_unref(m->buffer.buf);
                free(m);
        }
        s->moved = NULL;
}
