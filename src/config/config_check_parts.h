/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of config_check.h, one file each; nobody else includes this.
 */
#pragma once

#include "config/model_config.h"

struct error *check_sequence_batching(const Inference__ModelConfig *pb) NODISCARD;
struct error *check_ensemble(const Inference__ModelConfig *pb) NODISCARD;

/* The name of an enum's value; "<unknown>" for a number without one. */
const char *check_enum_name(const ProtobufCEnumDescriptor *type, int value);
