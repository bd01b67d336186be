/* SPDX-License-Identifier: BSD-3-Clause */
/* Is the server ready, or a model? A backend may ask the model itself (TRITONBACKEND_ModelInstanceReady),
 * and a model in Python may take seconds, so the core is asked on a work thread:
 *
 *     ready_query_init -> the protocol starts a work thread for `work` -> `done`, on the loop
 *
 * Ownership.  Embedded in the protocol's call, which ends in `done`. `done` owns `failure`.
 * Threads.  The call's loop; `work` runs on another thread.
 */
#pragma once

#include "base/error.h"
#include "net/loop.h"

#include <stdbool.h>
#include <stdint.h>

struct TRITONSERVER_Server;

struct ready_query {
        struct loop_work            work;
        struct TRITONSERVER_Server *core;  /* borrowed */
        const char                 *model; /* borrowed; NULL = the server */
        int64_t                     version;
        bool                        is_ready;
        struct error               *failure; /* owned: the core's */
};

/* `model` NULL: the server. */
void ready_query_init(struct ready_query *q, struct TRITONSERVER_Server *core, const char *model,
                      int64_t version, loop_work_fn done);
