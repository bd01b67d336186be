/* SPDX-License-Identifier: BSD-3-Clause */
/* SHA-256 and MD5 of bytes that come in pieces, HMAC-SHA256, and comparisons in constant time.
 *
 *     digest_init -> digest_add (any number) -> digest_finish        digest_done, always
 *
 * MD5 is for files whose publishers give no better digest. It does not protect against an attacker,
 * and some builds of the crypto library refuse it.
 *
 * Ownership.  digest_done() frees the state that digest_init() allocated; it may be called at any
 * point, also after a failure.
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/compiler.h"
#include "base/error.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

enum digest_kind { DIGEST_MD5, DIGEST_SHA256 };

/* Largest digest of all kinds. */
#define DIGEST_MAX_BYTES 32
#define DIGEST_SHA256_BYTES 32
#define DIGEST_MD5_BYTES 16

struct digest {
        void            *state; /* owned */
        enum digest_kind kind;
        bool             has_failed; /* reported by digest_finish() */
};

/* 16 or 32. */
size_t digest_bytes(enum digest_kind kind);

/* UNSUPPORTED when the library has no such digest, UNAVAILABLE when memory is short. */
struct error *digest_init(struct digest *d, enum digest_kind kind) NODISCARD;
void          digest_add(struct digest *d, const void *bytes, size_t len);
/* digest_bytes() of the kind; nothing may be added afterwards. */
struct error *digest_finish(struct digest *d, unsigned char *ret) NODISCARD;
void          digest_done(struct digest *d);

/* The same for bytes in one piece. */
struct error *digest_of(enum digest_kind kind, struct str bytes, unsigned char *ret) NODISCARD;

/* HMAC-SHA256 (RFC 2104); DIGEST_SHA256_BYTES. */
struct error *digest_hmac_sha256(struct str key, struct str bytes, unsigned char *ret) NODISCARD;

/* Writes two digits in lower case for each byte, and a NUL: `ret` has room for 2 * n_bytes + 1. */
void digest_print_hex(const unsigned char *bytes, size_t n_bytes, char *ret);

/* Hexadecimal digits in either case, two for each of the `n_bytes`; false for anything else. */
bool digest_read_hex(struct str text, unsigned char *ret, size_t n_bytes);

/* Reads every byte, whatever the result: constant time. */
bool digest_equal(const unsigned char *a, const unsigned char *b, size_t n_bytes);

#define AUTO_DIGEST CLEANUP(digest_done) struct digest
