/* SPDX-License-Identifier: BSD-3-Clause */
/* Questions about models: the core answers each with a message of JSON.
 *
 * A question about one model is asked on the loop. One about all models (the index, the statistics of
 * all) takes longer than other calls should wait when there are thousands: a bulk query asks it on
 * another thread and has the protocol encode the answer there.
 *
 *     bulk_query_init -> the protocol offloads `work` -> ask, encode -> `done`, on the loop
 *
 * Ownership.  Everything is embedded in the protocol's call, which ends in `done`.
 * Threads.  init and `done`: the call's loop. encode: another thread, which may touch nothing of the
 * call but what encode() has to itself.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"
#include "net/loop.h"

#include <stdbool.h>
#include <stdint.h>

struct TRITONSERVER_Message;
struct TRITONSERVER_Server;

enum model_query_kind {
        MODEL_QUERY_METADATA,
        MODEL_QUERY_CONFIG,
        MODEL_QUERY_STATISTICS,
        MODEL_QUERY_SEQUENCES,
        MODEL_QUERY_CHAIN,
        MODEL_QUERY_STACKS, /* waits for processes: to be asked in bulk */
        MODEL_QUERY_INDEX,
};

struct model_query {
        enum model_query_kind kind;
        const char           *model;      /* borrowed; "" = all models */
        int64_t               version;    /* -1 = the latest */
        bool                  only_ready; /* of MODEL_QUERY_INDEX */
};

/* *ret is the caller's; written on success only. */
struct error *model_query_ask(const struct model_query *q, struct TRITONSERVER_Server *core,
                              struct TRITONSERVER_Message **ret) NODISCARD;

struct bulk_query;

/* Makes the protocol's answer; `answer` is borrowed. */
typedef struct error *(*bulk_query_encode_fn)(struct bulk_query           *b,
                                              struct TRITONSERVER_Message *answer);

struct bulk_query {
        struct loop_work            work;
        struct TRITONSERVER_Server *core; /* borrowed */
        struct model_query          query;
        bulk_query_encode_fn        encode;
        struct error *failure; /* owned by `done`: the core's or encode()'s; or NULL */
};

/* `query` is copied. */
void bulk_query_init(struct bulk_query *b, struct TRITONSERVER_Server *core,
                     const struct model_query *query, bulk_query_encode_fn encode,
                     loop_work_fn done);

/* Is the server ready, or a model? A backend may ask the model itself
 * (TRITONBACKEND_ModelInstanceReady), and a model in Python may take seconds: a work thread waits for
 * the answer.
 *
 *     ready_query_init -> the protocol starts a work thread for `work` -> `done`, on the loop
 *
 * `done` owns `failure`. */
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
