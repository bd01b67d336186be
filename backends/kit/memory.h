/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors in the memory of GPUs, for backends that compute there.
 *
 * A backend gives its batches a struct kit_memory (kit_batch.memory). Inputs are then gathered by
 * kit_gather_on(), and outputs go to the memory that the client's allocator gives, wherever it is. Copies
 * are collected and made together, with one wait:
 *
 *     kit_gather_on() of each input -> kit_memory_run() -> [the model runs] ->
 *     kit_scatter_from() of each output -> kit_memory_finish()
 *
 * The server makes the copies (NESO_MemoryManagerCopy()), so a backend needs no library of CUDA for them.
 * On servers without that function, a batch that needs a copy from or to a GPU fails with UNSUPPORTED.
 *
 * Ownership.  The backend's instance owns it. The bytes of copies are borrowed until they were made.
 * Threads.  One user at a time.
 */
#pragma once

#include "kit/batch.h"
#include "kit/input.h"
#include "kit/scratch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Addresses in the memory of a GPU where a tensor is used without a copy: the widest loads of kernels. */
#define KIT_DEVICE_ALIGNMENT 16

/* Where bytes are. */
struct kit_place {
        TRITONSERVER_MemoryType type;
        int64_t                 id; /* of a GPU */
};

static inline bool kit_place_is_gpu(const struct kit_place *place) {
        return place->type == TRITONSERVER_MEMORY_GPU;
}

struct NESO_MemoryCopy; /* triton/core/neso.h */
struct kit_copy_owner;

struct kit_memory {
        TRITONBACKEND_MemoryManager *manager; /* borrowed */
        struct kit_place             device;  /* that the instance computes on */
        struct NESO_MemoryCopy      *copies;  /* owned; those to be made, */
        struct kit_copy_owner       *owners;  /* owned; and whose they are */
        uint32_t                     n_copies;
        uint32_t                     room;
};

/* Memory of the device that is kept from one batch to the next, as struct kit_scratch keeps the host's. */
struct kit_device_scratch {
        void  *bytes; /* owned */
        size_t n_bytes;
};

/* Of an instance of KIND_GPU. */
TRITONSERVER_Error *kit_memory_open(TRITONBACKEND_ModelInstance *instance, struct kit_memory *ret);
void                kit_memory_close(struct kit_memory *memory);

struct kit_copy {
        void            *to;
        const void      *from;
        size_t           n_bytes;
        struct kit_place to_place;
        struct kit_place from_place;
};

/* The same for NESO_MemoryManagerCopy(). */
struct NESO_MemoryCopy kit_copy_for_server(const struct kit_copy *copy);
/* Makes the copy by kit_memory_run() or kit_memory_finish(); at once where both places are on the host. The
 * places may overlap only there. `slot`: whose copy it is; NULL: the batch's. `state`: to be committed after
 * the copy, even of no bytes; NULL: none. */
TRITONSERVER_Error *kit_memory_copy(struct kit_memory *memory, const struct kit_copy *copy,
                                    struct kit_slot *slot, TRITONBACKEND_State *state);
/* Makes it now. */
TRITONSERVER_Error *kit_memory_copy_now(const struct kit_memory *memory,
                                        const struct kit_copy   *copy);

/* Makes the copies that were collected. After an error none is left. */
TRITONSERVER_Error *kit_memory_run(struct kit_memory *memory);
/* The same for outputs: commits their states as well. When a copy fails, only its slot is answered with the
 * error. */
void kit_memory_finish(struct kit_memory *memory, struct kit_batch *batch);
/* Forgets what was collected. */
void kit_memory_drop(struct kit_memory *memory);

/* Returns at least n_bytes of the device with undefined contents; the old contents are lost. */
TRITONSERVER_Error *kit_device_scratch_reserve(struct kit_device_scratch *scratch,
                                               const struct kit_memory *memory, size_t n_bytes);
void kit_device_scratch_done(struct kit_device_scratch *scratch, const struct kit_memory *memory);

/* An input as the run takes it. */
struct kit_gathered_on {
        struct kit_gathered tensor;
        struct kit_place    place; /* the host, or the device of the batch's memory */
};

/* As kit_gather(), without a copy to the host. What lies on the host stays there; a single request's bytes on
 * the device are used where they lie; all else is gathered in `device` by the next kit_memory_run(). BYTES
 * are always on the host. */
TRITONSERVER_Error *kit_gather_on(const struct kit_batch *batch, const char *name,
                                  struct kit_scratch *host, struct kit_device_scratch *device,
                                  struct kit_gathered_on *ret);

#ifdef __cplusplus
}
#endif
