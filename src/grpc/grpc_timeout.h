/* SPDX-License-Identifier: BSD-3-Clause */
/* The header grpc-timeout: how long the client waits.
 */
#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

/* "100m", "5S": at most eight digits and a unit of H M S m u n ("PROTOCOL-HTTP2, Timeout"). False
 * when the text is anything else. */
bool grpc_timeout_decode(struct str text, uint64_t *ret_ns);
