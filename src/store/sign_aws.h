/* SPDX-License-Identifier: BSD-3-Clause */
/* Signature Version 4 of AWS, in the header "Authorization".
 *
 * Every header of the request is signed, and the hash of its body. For S3 the path is signed as it stands in
 * the URL (other services encode it twice, of which only "/" is used here), and the hash of the body is a
 * header of its own. libcurl can sign too, but the release of Debian 12 signs the query as it is written,
 * which is wrong where its order is not the canonical one.
 *
 * Ownership.  Headers are added to the request, which copies them.
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"
#include "store/store_keys.h"
#include "store/store_request.h"

#include <stdint.h>

struct aws_signer {
        const struct store_keys *keys;    /* of kind STORE_KEYS_AWS */
        const char              *region;  /* "us-east-1" */
        const char              *service; /* "s3", "sts" */
        uint64_t                 now_ns;  /* by the wall clock */
};

/* INVALID_ARG for a URL that cannot be signed. */
struct error *sign_aws(const struct aws_signer *s, struct store_request *r) NODISCARD;
