/* SPDX-License-Identifier: BSD-3-Clause */
/* SHA-256 and MD5 of bytes that come in pieces, and comparisons that tell nothing by their time.
 *
 *     digest_init -> digest_add (any number) -> digest_finish        digest_done, always
 *
 * MD5 is for files whose publishers give nothing better; it proves nothing against an attacker,
 * and libraries that are built to refuse it do.
 *
 * Ownership.  digest_done() frees what init made; it may follow at any point, and after a failure.
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/compiler.h"
#include "base/error.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

enum digest_kind { DIGEST_MD5, DIGEST_SHA256 };

/* The longest of them. */
#define DIGEST_MAX_BYTES 32
#define DIGEST_SHA256_BYTES 32
#define DIGEST_MD5_BYTES 16

struct digest {
        void            *state; /* owned */
        enum digest_kind kind;
        bool             has_failed; /* told by digest_finish() */
};

/* 16 or 32. */
size_t digest_bytes(enum digest_kind kind);

/* UNSUPPORTED when the library has no such digest, UNAVAILABLE when memory is short. */
struct error *digest_init(struct digest *d, enum digest_kind kind) NODISCARD;
void          digest_add(struct digest *d, const void *bytes, size_t len);
/* digest_bytes() of the kind; nothing may be added afterwards. */
struct error *digest_finish(struct digest *d, unsigned char *ret) NODISCARD;
void          digest_done(struct digest *d);

/* The same in one call. */
struct error *digest_of(enum digest_kind kind, struct str bytes, unsigned char *ret) NODISCARD;

/* Hexadecimal digits in either case, two for each of the `n_bytes`; false for anything else. */
bool digest_read_hex(struct str text, unsigned char *ret, size_t n_bytes);

/* Looks at every byte, whatever it finds. */
bool digest_equal(const unsigned char *a, const unsigned char *b, size_t n_bytes);

#define AUTO_DIGEST CLEANUP(digest_done) struct digest
