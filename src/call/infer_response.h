/* SPDX-License-Identifier: BSD-3-Clause */
/* A response of the C API as a plain struct, and the classes that stand in place of scores when the
 * client asked for the k best.
 *
 * Ownership.  struct infer_response borrows from the core's response and from the request; struct
 * infer_classes holds the tensors of classes until done.
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "call/infer_message.h"

struct TRITONSERVER_InferenceResponse;
struct TRITONSERVER_Server;

/* The response as a plain struct, with each output's form and classes as `q` asked; the failure it
 * carries instead, if it does. Borrows from `response` and `q`. */
struct error *infer_response_read(struct TRITONSERVER_InferenceResponse *response,
                                  const struct infer_request *q, struct arena *arena,
                                  struct infer_response *ret) NODISCARD;

struct infer_classes {
        struct strbuf *tensors; /* each owned; the array in arena */
        size_t         n_tensors;
};

void infer_classes_init(struct infer_classes *c);
void infer_classes_done(struct infer_classes *c);

/* `r` was read from `response`. Shape and labels follow the model: it is asked whether it batches,
 * once per response. */
struct error *infer_classes_replace(struct infer_classes *c, struct TRITONSERVER_Server *core,
                                    struct TRITONSERVER_InferenceResponse *response,
                                    struct infer_response *r, struct arena *arena) NODISCARD;
