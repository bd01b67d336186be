/* SPDX-License-Identifier: BSD-3-Clause */
/* A signature with a private RSA key: RSASSA-PKCS1-v1_5 with SHA-256, which JSON Web Tokens call RS256
 * (RFC 7518, 3.3).
 *
 * Ownership.  The signature is appended to the caller's buffer.
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

/* `pem`: PKCS #8 or PKCS #1 without a passphrase. INVALID_ARG when it is not such a key; no text has a part
 * of it. */
struct error *rsa_sign_sha256(struct str pem, struct str bytes, struct strbuf *ret) NODISCARD;
