/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared Key authorization of Azure Blob Storage, version 2009-09-19 and later.
 *
 * Ownership.  Headers are added to the request, which copies them.
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"
#include "store/store_keys.h"
#include "store/store_request.h"

#include <stdint.h>

/* The version of the service that every request asks for, signed or not. */
#define AZURE_VERSION "2020-10-02"

/* `keys` of kind STORE_KEYS_AZURE_SHARED; now_ns by the wall clock. Where a host serves
 * several accounts, as Azurite does, the path of the URL begins with the account's name. INVALID_ARG for a URL that cannot be
 * signed. */
struct error *sign_azure(const struct store_keys *keys, uint64_t now_ns, struct store_request *r)
        NODISCARD;
