/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/device_tensor.h"

#include "kit/scratch.h"
#include "python/holds.h"

#include <string.h>

static TRITONSERVER_Error *broken_tensor(const struct answer_source *source) {
        region_break(source->region);
        return kit_error(TRITONSERVER_ERROR_INTERNAL,
                         "the Python process wrote a wrong place on a GPU");
}

/* Takes `err`. The model gave the handle, not the client: a wrong one is no fault of the request. */
static TRITONSERVER_Error *cannot_open(TRITONSERVER_Error *err, const char *name, int64_t device) {
        TRITONSERVER_Error_Code code = TRITONSERVER_ErrorCode(err);
        TRITONSERVER_Error     *longer =
                kit_error(code == TRITONSERVER_ERROR_INVALID_ARG ? TRITONSERVER_ERROR_INTERNAL
                                                                 : code,
                          "tensor '%s' on GPU %lld cannot be read from the Python process: %s",
                          name, (long long)device, TRITONSERVER_ErrorMessage(err));

        TRITONSERVER_ErrorDelete(err);
        return longer;
}

static TRITONSERVER_Error *open_own(const struct answer_source *source,
                                    const struct shm_device *place, uint64_t n_bytes,
                                    struct device_tensor *ret) {
        uint64_t end;

        if (__builtin_add_overflow(place->offset, n_bytes, &end))
                return broken_tensor(source);
        KIT_TRY(device_open(source->instance->model->backend, ret->found.place.id, place->handle,
                            end, &ret->base));
        memcpy(ret->handle, place->handle, sizeof(ret->handle));
        ret->found.bytes = (const char *)ret->base + place->offset;
        return NULL;
}

TRITONSERVER_Error *device_tensor_open(const struct answer_source *source,
                                       const struct shm_tensor *tensor, const char *name,
                                       struct device_tensor *ret) {
        const void       *at = region_find(source->region, tensor->data, sizeof(struct shm_device));
        struct shm_device place;
        TRITONSERVER_Error *err;

        if (at == NULL)
                return broken_tensor(source);
        memcpy(&place, at, sizeof(place));
        *ret = (struct device_tensor){
                .found = { { TRITONSERVER_MEMORY_GPU, (int64_t)tensor->gpu - 1 }, NULL }
        };
        if (tensor->n_bytes == 0)
                return NULL;
        if (place.hold != 0) {
                ret->hold = holds_find(source->instance, &place, tensor->n_bytes, &ret->found);
                return ret->hold != NULL ? NULL : broken_tensor(source);
        }
        err = open_own(source, &place, tensor->n_bytes, ret);
        return err != NULL ? cannot_open(err, name, ret->found.place.id) : NULL;
}

void device_tensor_close(struct instance *in, struct device_tensor *opened) {
        if (opened->base != NULL)
                device_close(in->model->backend, opened->found.place.id, opened->base);
        holds_leave(in, opened->hold);
        *opened = (struct device_tensor){ 0 };
}
