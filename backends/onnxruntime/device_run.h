/* SPDX-License-Identifier: BSD-3-Clause */
/* What an instance on a GPU adds to a run (run.h): its tensors are bound to the runtime's session where they
 * lie (IO binding), so that they pass through main memory only when the client's are there.
 *
 *     tensor                                bound as
 *     input on the instance's GPU           the bytes where they lie, of a single request
 *     input on the host                     the bytes of the host; the runtime copies them to the GPU
 *     input on another GPU, inputs of a     scratch memory of the GPU, to which the server copies them
 *     batch of which one is on a GPU
 *     output of a fixed shape               the buffer that the allocator gives, when it is the GPU's or the
 *                                           host's, of a single request
 *     other outputs                         memory of the runtime on the GPU, from which the server copies
 *                                           to the buffers that the allocator gives
 *     BYTES                                 memory of the host
 *
 * The runtime works on streams of its own. The server's copies of inputs have ended before the run begins, and
 * those of outputs begin after the runtime has been waited for.
 *
 * Ownership.  An instance owns one; it borrows the plan.
 * Threads.  As the instance.
 */
#pragma once

#include "kit/memory.h"
#include "onnxruntime/run.h"

struct device_run;

TRITONSERVER_Error *device_run_new(const struct run_plan *plan, TRITONBACKEND_ModelInstance *triton,
                                   struct device_run **ret);
void                device_run_free(struct device_run *run); /* NULL is fine */

/* For the batches of the instance. */
struct kit_memory *device_run_memory(struct device_run *run);

/* Gathers the i-th input of the plan and creates its value, which is complete after kit_memory_run(). */
TRITONSERVER_Error *device_run_input(struct device_run *run, const struct kit_batch *batch,
                                     size_t i, struct kit_scratch *host, OrtValue **ret);

/* Create an output of one request before the run, with a value over its buffer. *ret stays NULL when the run
 * cannot write there. */
TRITONSERVER_Error *device_run_bind_response(struct device_run *run, const struct kit_slot *slot,
                                             const struct kit_output *made, struct run_bound *bound,
                                             OrtValue **ret);
TRITONSERVER_Error *device_run_bind_state(struct device_run *run, const struct kit_slot *slot,
                                          const struct kit_output *made, struct run_bound *bound,
                                          OrtValue **ret);

/* Runs the session on the values of the instance, and sets those of outputs that have none. */
TRITONSERVER_Error *device_run_execute(struct device_run *run, struct run_instance *instance);

/* Ends the use of the values, whether the run was made or not: they may be released. */
void device_run_end(struct device_run *run);
