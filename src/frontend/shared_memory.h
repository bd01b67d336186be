/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared memory extensions, as far as they go: clients may not register regions, so there are
 * none, and whatever they name is unknown.
 *
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"
#include "frontend/infer_message.h"

#include <stdbool.h>

/* NOT_FOUND for a region by its name; "" asks for all there are. `kind`: "system" or "cuda". */
struct error *shared_memory_find(const char *kind, struct str region) NODISCARD;

/* What a client is told that wants to register or unregister a region. */
struct error *shared_memory_refuse_change(bool allow_client_shm) NODISCARD;

/* NOT_FOUND for the first input or output that is in a region. */
struct error *shared_memory_check_request(const struct infer_request *q) NODISCARD;
