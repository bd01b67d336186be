/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys of a setup of Azure: the setup contains them, or Microsoft Entra issues a token.
 *
 * Ownership.  The caller gets a reference to the keys.
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"
#include "store/azure_setup.h"
#include "store/store_keys.h"

#include <stdint.h>

/* As aws_keys_get(). */
struct error *azure_token_get(const struct azure_setup *s, uint64_t now_ns, struct store_keys **ret)
        NODISCARD;
