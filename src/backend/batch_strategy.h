/* SPDX-License-Identifier: BSD-3-Clause */
/* A model's custom batching: five functions that may end a batch before a request that would fit.
 *
 * They are in the library that the model's parameter TRITON_BATCH_STRATEGY_PATH names (a path in the
 * model's directory, absolute or relative to it), else in batchstrategy.so in the version's, the
 * model's or the backend's directory, else in the backend itself. A library has all five or none.
 * Source: the backend C API, TRITONBACKEND_ModelBatch...; model configuration, custom batching.
 *
 * Ownership.  Owned by the loader; borrows the model, which outlives it.
 * Threads.  See infer/batch_filter.h.
 */
#pragma once

#include "backend/backend_model.h"
#include "infer/batch_filter.h"

struct batch_strategy;

/* Checks that the library of the parameter exists in the model's `directory`; opens nothing.
 * INVALID_ARG. */
struct error *batch_strategy_check(const struct model_config *config, const char *directory)
        NODISCARD;

/* ret is NULL for a model without custom batching. A model without a dynamic batcher has none; when it
 * sets the parameter, a warning is logged. Calls TRITONBACKEND_ModelBatcherInitialize. */
struct error *batch_strategy_open(struct backend_model *model, struct batch_strategy **ret)
        NODISCARD;
/* Calls TRITONBACKEND_ModelBatcherFinalize. NULL is fine. */
void batch_strategy_close(struct batch_strategy *s);
/* The filter for the model's scheduler; NULL for NULL. */
struct batch_filter *batch_strategy_filter(struct batch_strategy *s);
