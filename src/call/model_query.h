/* SPDX-License-Identifier: BSD-3-Clause */
/* Queries about models and about readiness, which the core answers.
 *
 * The answer to a model query is a message of JSON. A query about one model runs on the loop. A
 * query about all models (index, statistics) takes too long for a loop when there are thousands of
 * models: a bulk query runs on another thread, and the protocol encodes the answer there.
 *
 *     bulk_query_init -> the protocol offloads `work` -> query, encode -> `done`, on the loop
 *
 * A ready query is answered on the loop, unless the answer depends on backends: a backend may check itself
 * whether its model is ready (TRITONBACKEND_ModelInstanceReady), and a model in Python may take seconds for
 * that. Then a work thread runs the query:
 *
 *     ready_query_init -> ready_query_answer ->
 *             true:  the query has its answer
 *             false: the protocol starts a work thread for `work` -> `done`, on the loop
 *
 * Ownership.  Everything is embedded in the protocol's call, which ends in `done`.
 * Threads.  The init functions and `done`: the call's loop. encode: another thread, which may
 * access only the parts of the call that nothing else uses meanwhile.
 */
#pragma once

#include "base/error.h"
#include "net/loop.h"

#include <stdbool.h>
#include <stdint.h>

struct TRITONSERVER_Message;
struct TRITONSERVER_Server;

enum model_query_kind {
        MODEL_QUERY_METADATA,
        MODEL_QUERY_CONFIG,
        MODEL_QUERY_CONFIG_SOURCE, /* reads a file, so it is always a bulk query */
        MODEL_QUERY_STATISTICS,
        MODEL_QUERY_SEQUENCES,
        MODEL_QUERY_CHAIN,
        MODEL_QUERY_STACKS, /* waits for processes, so it is always a bulk query */
        MODEL_QUERY_INDEX,
        MODEL_QUERY_GPUS, /* about no model; reads NVML, so it is always a bulk query */
};

struct model_query {
        enum model_query_kind kind;
        const char           *model;      /* borrowed; "" = all models */
        int64_t               version;    /* -1 = the latest */
        bool                  only_ready; /* for MODEL_QUERY_INDEX */
};

/* The caller owns *ret, which is written on success only. */
struct error *model_query_ask(const struct model_query *q, struct TRITONSERVER_Server *core,
                              struct TRITONSERVER_Message **ret) NODISCARD;

struct bulk_query;

/* Encodes the answer for the protocol. `answer` is borrowed. */
typedef struct error *(*bulk_query_encode_fn)(struct bulk_query           *b,
                                              struct TRITONSERVER_Message *answer);

struct bulk_query {
        struct loop_work            work;
        struct TRITONSERVER_Server *core; /* borrowed */
        struct model_query          query;
        bulk_query_encode_fn        encode;
        struct error *failure; /* owned by `done`: the error of the core or of encode(); or NULL */
};

/* `query` is copied. */
void bulk_query_init(struct bulk_query *b, struct TRITONSERVER_Server *core,
                     const struct model_query *query, bulk_query_encode_fn encode,
                     loop_work_fn done);

/* A query whether the server, or a model, is ready. `done` owns `failure`. */
struct ready_query {
        struct loop_work            work;
        struct TRITONSERVER_Server *core;  /* borrowed */
        const char                 *model; /* borrowed; NULL = the server */
        int64_t                     version;
        bool                        is_ready;
        struct error               *failure; /* owned: the error of the core, or NULL */
};

/* `model` NULL queries the server. `done` is the end of `work`. */
void ready_query_init(struct ready_query *q, struct TRITONSERVER_Server *core, const char *model,
                      int64_t version, loop_work_fn done);
/* Writes is_ready and failure and returns true, if the core knows the answer without its backends. */
bool ready_query_answer(struct ready_query *q);
