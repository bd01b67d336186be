/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/staged_output.h"

#include "base/mem.h"
#include "infer/buffer_copy.h"
#include "infer/model.h"

/* Lies before the bytes of the stage, whose alignment it keeps. */
struct stage {
        void                    *base; /* what the allocator gave */
        struct buffer_attributes attributes;
        _Alignas(64) char bytes[];
};

#define FEW_COPIES 8 /* on the stack */

static struct stage *stage_of(const struct response_output *o) {
        return CONTAINER_OF((char *)o->base, struct stage, bytes[0]);
}

static struct gpus *gpus_of(const struct response *r) {
        return r->source.model->gpus;
}

struct error *staged_output_begin(struct response_output *o) {
        struct response *r = o->response;
        struct stage    *stage;
        void            *memory;
        size_t           n_bytes;
        bool             is_pinned;

        if (!size_add(o->byte_size, sizeof(*stage), &n_bytes))
                return error_new(ERR_UNAVAILABLE, "output '%s' has too many bytes", o->name);
        TRY(gpu_pinned_alloc(gpus_of(r), n_bytes, &memory, &is_pinned));
        stage = memory;
        stage->base = o->base;
        stage->attributes = o->attributes;
        o->base = stage->bytes;
        o->attributes = buffer_of_host(o->byte_size, is_pinned);
        o->is_staged = true;
        r->has_staged = true;
        return NULL;
}

static uint32_t list_copies(const struct response *r, struct gpu_copy *ret) {
        uint32_t n = 0;

        for (const struct response_output *o = r->first_output; o != NULL; o = o->next) {
                const struct stage *stage;

                if (!o->is_staged)
                        continue;
                stage = stage_of(o);
                ret[n++] = (struct gpu_copy){ .to = stage->base,
                                              .from = stage->bytes,
                                              .to_device = buffer_device(&stage->attributes),
                                              .from_device = GPU_HOST,
                                              .bytes = o->byte_size };
        }
        return n;
}

static struct error *copy_all(const struct response *r) {
        struct gpu_copy  few[FEW_COPIES];
        struct gpu_copy *copies = few;
        struct error    *err;

        if (r->n_outputs > FEW_COPIES)
                copies = try_alloc(r->n_outputs * sizeof(*copies));
        if (copies == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory for a response");
        err = gpu_copy_all(gpus_of(r), copies, list_copies(r, copies));
        if (copies != few)
                free(copies);
        return error_wrap(err, "an output of model '%s' cannot be copied to a device",
                          r->source.model->name);
}

struct error *staged_outputs_copy(struct response *r) {
        struct error *err = copy_all(r);

        staged_outputs_drop(r);
        return err;
}

void staged_outputs_drop(struct response *r) {
        for (struct response_output *o = r->first_output; o != NULL; o = o->next) {
                struct stage *stage;

                if (!o->is_staged)
                        continue;
                stage = stage_of(o);
                o->base = stage->base;
                o->attributes = stage->attributes;
                o->is_staged = false;
                gpu_pinned_free(gpus_of(r), stage);
        }
        r->has_staged = false;
}
