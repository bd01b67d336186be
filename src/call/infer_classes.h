/* SPDX-License-Identifier: BSD-3-Clause */
/* Outputs of which the client wants the k best classes, replaced by these classes.
 *
 * Ownership.  struct infer_classes holds the new tensors until done.
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/strbuf.h"
#include "call/infer_message.h"

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
