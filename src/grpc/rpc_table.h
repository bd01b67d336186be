/* SPDX-License-Identifier: BSD-3-Clause */
/* Every method of the server: inference.GRPCInferenceService, grpc.health.v1.Health, and server
 * reflection in both of its versions.
 *
 * Threads.  Constant.
 */
#pragma once

#include "grpc/grpc_call.h"

#include <stdbool.h>
#include <stddef.h>

struct ProtobufCMessageDescriptor;

struct grpc_method_table rpc_table(void);
/* Whether messages of that row's method name a model; access to it is checked when they come. */
bool rpc_table_names_model(size_t row);
/* What its message is read as; NULL for methods that read it by themselves. */
const struct ProtobufCMessageDescriptor *rpc_table_request(size_t row);
