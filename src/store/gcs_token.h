/* SPDX-License-Identifier: BSD-3-Clause */
/* The access token of a setup of Google Cloud Storage, from the server that issues it.
 *
 * Ownership.  The caller gets a reference to the keys.
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"
#include "base/strbuf.h"
#include "store/gcs_setup.h"
#include "store/store_keys.h"

#include <stdint.h>

/* As aws_keys_get(). */
struct error *gcs_token_get(const struct gcs_setup *s, uint64_t now_ns, struct store_keys **ret)
        NODISCARD;
