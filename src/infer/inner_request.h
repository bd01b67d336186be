/* SPDX-License-Identifier: BSD-3-Clause */
/* An inference that the server itself requests: a warm-up, a step of a pipeline, or a part of a split
 * request (infer/request_split.h).
 *
 *     inner_request_new() -> inputs -> inner_request_submit()             through the model's scheduler
 *                                  '-> inner_request_run()                the same, see there
 *                                  '-> inner_request_prepare(), _begin()  for a direct call of an executor
 *
 * on_response() is called for each response. on_end() is called once, after the last response and the
 * release of the request, except when inner_request_run() reports the end.
 *
 * The memory of the outputs is reference counted. inner_output_buf() returns the buffer of an output;
 * a reference to it keeps the bytes after the response was freed, so that an output can be an input of
 * the next step without a copy.
 *
 * Ownership.  Belongs to its creator, except between submit and on_end(), or the return of
 * inner_request_run(). on_response() takes the response. Input bytes are borrowed until on_end().
 * Threads.  on_response() and on_end() run on any thread, one at a time, with no lock held.
 */
#pragma once

#include "base/error.h"
#include "infer/buffer_attributes.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct inner_request;
struct model;
struct request;
struct response;
struct response_allocator;
struct response_output;
struct infer_thread;

struct inner_request_ops {
        /* `response` is NULL when FINAL is sent without a response. */
        void (*on_response)(struct inner_request *r, struct response *response, uint32_t flags);
        void (*on_end)(struct inner_request *r);
};

struct inner_request {
        struct request                 *request; /* owned; this struct is in its arena */
        const struct inner_request_ops *ops;
        void                           *owner; /* borrowed: the creator */
        /* Number of events before on_end(): the last response, the release, and the return of
         * inner_request_run(). */
        _Atomic unsigned n_open;
        /* The thread that is inside inner_request_run(); NULL: none. It counts its own events in
         * n_here, without an atomic operation. */
        _Atomic(struct infer_thread *) thread;
        unsigned                       n_here;
};

/* Creates a request for one inference of the model. NULL when memory is short. */
struct inner_request *inner_request_new(struct model *model, const struct inner_request_ops *ops,
                                        void *owner) NODISCARD;
/* As inner_request_new(), without a reference to the model: the caller holds the model until the
 * request and its responses have ended. */
struct inner_request *inner_request_new_borrowing(struct model                   *model,
                                                  const struct inner_request_ops *ops, void *owner)
        NODISCARD;
void inner_request_free(struct inner_request *r); /* NULL is fine; not while in flight */

/* Submits through the model's scheduler. On error the inference was not begun. */
struct error *inner_request_submit(struct inner_request *r) NODISCARD;

/* Submits, and reports whether the inference has ended by the time of the return, as it has when it ran
 * on this thread. Then on_end() is not called, and the request belongs to its creator again. Else it
 * will be called, or was, on another thread, or later on this one. */
struct error *inner_request_run(struct inner_request *r, bool *ret_has_ended) NODISCARD;

/* Submits several for one model at once, see model_submit_all(). ret_errors has one entry for each
 * request; those with an error were not begun. */
void inner_request_submit_all(struct inner_request *const *requests, uint32_t n,
                              struct error **ret_errors);

/* For a direct call of an executor. prepare() checks the request against the model; begin() cannot
 * fail, and the caller executes the request next. */
struct error *inner_request_prepare(struct inner_request *r) NODISCARD;
void          inner_request_begin(struct inner_request *r);

/* Borrowed from the response, unless the caller takes a reference. NULL: the output has no bytes. */
struct buf *inner_output_buf(const struct response_output *output);
/* Has the type allocator_release_fn. buffer_userp: a reference-counted buf, or NULL for memory that
 * needs no release. */
struct error *inner_output_release(struct response_allocator *allocator, void *buffer,
                                   void *buffer_userp, size_t byte_size, enum memory_type type,
                                   int64_t id);
