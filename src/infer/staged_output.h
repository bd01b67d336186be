/* SPDX-License-Identifier: BSD-3-Clause */
/* An output whose allocator gave memory of a device to code that writes on the CPU: a backend that does not
 * look at the type of memory (!takes_device_memory, infer/model.h), or the core.
 *
 * That code gets memory of the host in its place (the stage). When the response is sent, the bytes are
 * copied to the device, and the client sees the memory that its allocator gave.
 *
 *     response_output_buffer() --> staged: base and attributes are those of the stage
 *     response_send()          --> copied: base and attributes are those of the allocator's answer again
 *     response_free(), error   --> the same, without the copy
 *
 * Ownership.  The response owns its stages. They are pinned, from the pool of the server's GPUs.
 * Threads.  The owner of the response. The copy blocks the thread that sends it.
 */
#pragma once

#include "base/error.h"
#include "infer/response.h"

/* Gives the output, whose buffer lies on a device of the server, a stage. UNAVAILABLE when memory is
 * short. */
struct error *staged_output_begin(struct response_output *output) NODISCARD;
/* Copies all stages of the response to their devices, with one wait, and frees them, also on an error. */
struct error *staged_outputs_copy(struct response *response) NODISCARD;
/* Frees the stages without a copy. */
void staged_outputs_drop(struct response *response) COLD;
