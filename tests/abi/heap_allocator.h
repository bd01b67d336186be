/* SPDX-License-Identifier: BSD-3-Clause */
/* An allocator for the outputs of responses that gives memory of the heap, whatever memory is wanted.
 *
 * Ownership.  The caller deletes the allocator. The output of a response is freed with the response.
 * Threads.  Any.
 */
#pragma once

struct TRITONSERVER_ResponseAllocator;

/* Ends the program when there is no memory. */
struct TRITONSERVER_ResponseAllocator *heap_allocator_new(void);
