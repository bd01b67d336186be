/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads a response of the C API into a plain struct, and replaces scores by classes when the client
 * asked for the k best.
 *
 * Ownership.  A struct infer_response borrows from the core's response and from the request. A
 * struct infer_classes holds the tensors of classes until infer_classes_done().
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "call/infer_message.h"

struct TRITONSERVER_InferenceResponse;
struct TRITONSERVER_Server;

/* Reads the response, with the form and the number of classes of each output as `q` asks. Returns
 * the error of a response that carries one. Borrows from `response` and `q`. */
struct error *infer_response_read(struct TRITONSERVER_InferenceResponse *response,
                                  const struct infer_request *q, struct arena *arena,
                                  struct infer_response *ret) NODISCARD;

struct infer_classes {
        struct strbuf *tensors; /* each owned; the array in arena */
        size_t         n_tensors;
};

void infer_classes_init(struct infer_classes *c);
void infer_classes_done(struct infer_classes *c);

/* Replaces outputs of `r`, which was read from `response`. Shape and labels depend on whether the
 * model batches: the function queries that once for each response. */
struct error *infer_classes_replace(struct infer_classes *c, struct TRITONSERVER_Server *core,
                                    struct TRITONSERVER_InferenceResponse *response,
                                    struct infer_response *r, struct arena *arena) NODISCARD;
