/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys of a setup of AWS: the setup contains them, or a token server issues them.
 *
 * Ownership.  The caller gets a reference to the keys.
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"
#include "store/aws_setup.h"
#include "store/store_keys.h"

#include <stdint.h>

/* UNAVAILABLE when a server does not answer, INVALID_ARG when it refuses, or for an answer without keys;
 * the text names the server. An instance without a role, and a machine without a metadata service, give
 * STORE_KEYS_NONE unless the setup requires them. now_ns by the wall clock. */
struct error *aws_keys_get(const struct aws_setup *s, uint64_t now_ns, struct store_keys **ret)
        NODISCARD;
