/* SPDX-License-Identifier: BSD-3-Clause */
/* An inference that the server itself makes: a warm-up, a step of a pipeline.
 *
 *     inner_request_new() -> inputs -> inner_request_submit()            the model's scheduler has it
 *                                 '-> inner_request_prepare(), _begin()  and an executor is called
 *     on_response() for each response, then on_end() once, when the last response and the release
 *     have both come
 *
 * The memory of its outputs is counted: inner_output_buf() gives the buffer of an output, and with a
 * reference to it the bytes outlive the response, so that an output becomes an input of the next
 * step where it lies.
 *
 * Ownership.  The owner's, except between submit and on_end(); freed with inner_request_free().
 * on_response() takes the response. Input bytes are borrowed until on_end().
 * Threads.  on_response() and on_end() come on any thread, one at a time, with no lock held.
 */
#pragma once

#include "base/error.h"

#include <stdatomic.h>
#include <stdint.h>

struct buf;
struct inner_request;
struct model;
struct request;
struct response;
struct response_output;

struct inner_request_ops {
        /* `response` may be NULL when FINAL comes alone. */
        void (*on_response)(struct inner_request *r, struct response *response, uint32_t flags);
        void (*on_end)(struct inner_request *r);
};

struct inner_request {
        struct request                 *request; /* owned, and this is in its arena */
        const struct inner_request_ops *ops;
        void                           *owner;  /* borrowed: whoever made it */
        _Atomic unsigned                n_open; /* the last response and the release */
};

/* For one inference of the model. NULL when memory is short. */
struct inner_request *inner_request_new(struct model *model, const struct inner_request_ops *ops,
                                        void *owner) NODISCARD;
/* The same without a reference to the model, for owners that hold it until the request and its
 * responses have ended. */
struct inner_request *inner_request_new_borrowing(struct model                   *model,
                                                  const struct inner_request_ops *ops, void *owner)
        NODISCARD;
void inner_request_free(struct inner_request *r); /* NULL is fine; not under way */

/* Through the model's scheduler. On error nothing was begun. */
struct error *inner_request_submit(struct inner_request *r) NODISCARD;

/* Several for one model at once, see model_submit_all(). ret_errors has one for each; those with an
 * error were not begun. */
void inner_request_submit_all(struct inner_request *const *requests, uint32_t n,
                              struct error **ret_errors);

/* For an executor that is called directly. prepare() checks it against the model; begin() cannot
 * fail, and is followed by the execution. */
struct error *inner_request_prepare(struct inner_request *r) NODISCARD;
void          inner_request_begin(struct inner_request *r);

/* Borrowed from the response, until a reference is taken. NULL: the output has no bytes. */
struct buf *inner_output_buf(const struct response_output *output);
