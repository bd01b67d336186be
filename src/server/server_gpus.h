/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens the GPUs of a server from its options. */
#pragma once

#include "base/error.h"
#include "server/server_options.h"

struct gpus;

/* *ret is NULL without GPUs. Logs which options have no effect then, and which name a device that is not
 * used. */
struct error *server_gpus_open(const struct server_options *o, struct gpus **ret) NODISCARD;
