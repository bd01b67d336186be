/* SPDX-License-Identifier: BSD-3-Clause */
/* Inputs that a stub gets in the memory of GPUs. Each is copied there: the copy is kept until the stub has let go of
 * it, however long the model keeps the tensor, and the request is answered and released as any other. A model with
 * GPU_INPUTS_IN_PLACE gets the input itself, and lets go of it before it answers.
 *
 *     request_write()  -> hold_new(), hold_share() for each such input, hold_fill()
 *     holds_add()      -> the entry of the request has the hold
 *     entry_release()  -> holds_release(): the entry has it no longer; a hold of inputs in place ends
 *     SHM_DROPPED      -> holds_on_dropped(): the stub has closed all
 *     the stub's end   -> holds_end_all()
 *
 * A call of another model that reads such an input (holds_find()) defers the end until holds_leave(). An output of
 * a call that the stub wants on a GPU has a hold, too.
 *
 * Ownership.  Counted: by the instance's list and by those calls. A hold owns its copies.
 * Threads.  Any; the instance's lock guards its list.
 */
#pragma once

#include "kit/input.h"
#include "python/device_memory.h"
#include "python/python_instance.h"

/* An input of a request. */
struct held_input {
        const void *memory; /* NULL: in main memory, or not shared yet */
        uint64_t    n_bytes;
        int64_t     device;  /* -1: in main memory */
        bool        is_copy; /* owned */
};

struct hold {
        struct hold          *next;
        const struct backend *backend;
        struct entry         *entry; /* NULL: it has ended */
        TRITONBACKEND_Request
                *request; /* owned: inputs in place that a call still reads; NULL: none */
        uint32_t release_flags;
        uint64_t
                number; /* that the stub names it by. The handle of a request returns when a tensor of it
                            * may still be kept */
        bool              in_place; /* inputs are not copied, unless they are in pieces */
        uint32_t          n_users;  /* guarded by the instance's lock, once it is in the list */
        uint32_t          n_inputs;
        struct held_input inputs[]; /* all of the request; of a call: its one output */
};

/* NULL when memory is short. */
struct hold *hold_new(const struct model *model, uint32_t n_inputs);
/* Before holds_add(); NULL is fine. */
void hold_free(struct hold *hold);

/* Whether an input lies on a GPU, entirely or in part. */
TRITONSERVER_Error *hold_is_needed(const struct kit_input *input, bool *ret);
/* Allocates the copy, if there is one, and fills in what the stub opens it with. */
TRITONSERVER_Error *hold_share(struct hold *hold, uint32_t i, const struct kit_input *input,
                               struct shm_device *ret);
/* Makes all copies, with one wait. */
TRITONSERVER_Error *hold_fill(const struct hold *hold, const struct kit_input *inputs);

void holds_add(struct entry *e, struct hold *hold);
/* Ends the hold of an entry whose block the stub never sees. */
void holds_drop(struct entry *e);
/* An output of a call, whose memory goes over to the hold. Adds to its place what the stub names it by. Fails when
 * the process of the session has ended, since holds_end_all() has run then, or is about to. */
TRITONSERVER_Error *holds_add_output(struct instance *in, const struct session *s, int64_t device,
                                     void *memory, uint64_t n_bytes, struct shm_device *place);
/* The request of the entry is about to be released. Returns true when the hold does that later. */
bool holds_release(struct entry *e, uint32_t release_flags);
void holds_on_dropped(struct instance *in, uint64_t number);
void holds_end_all(struct instance *in); /* after the session is over */
/* Finds n_bytes of an input that the stub names, and keeps them until holds_leave(). NULL: it has no such
 * input. */
struct hold *holds_find(struct instance *in, const struct shm_device *place, uint64_t n_bytes,
                        struct device_bytes *ret);
void         holds_leave(struct instance *in, struct hold *hold); /* NULL is fine */
