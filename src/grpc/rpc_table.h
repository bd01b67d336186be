/* SPDX-License-Identifier: BSD-3-Clause */
/* Every method of the server: inference.GRPCInferenceService, grpc.health.v1.Health, and server
 * reflection in both of its versions.
 *
 * Threads.  Constant.
 */
#pragma once

#include "grpc/grpc_call.h"

struct grpc_method_table rpc_table(void);
