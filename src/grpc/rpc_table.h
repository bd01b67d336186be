/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of all methods: inference.GRPCInferenceService, grpc.health.v1.Health, and both versions of
 * server reflection.
 *
 * Threads.  Constant.
 */
#pragma once

#include "grpc/grpc_call.h"

#include <stdbool.h>
#include <stddef.h>

struct ProtobufCMessageDescriptor;

struct grpc_method_table rpc_table(void);
/* True when messages of that row's method name a model; access to it is checked when they arrive. */
bool rpc_table_names_model(size_t row);
/* Type of the row's request message; NULL for methods that read their messages themselves. */
const struct ProtobufCMessageDescriptor *rpc_table_request(size_t row);
