/* SPDX-License-Identifier: BSD-3-Clause */
/* The checksum of a file whose pieces arrive in any order. A piece is added after all pieces before it; its
 * bytes are read from the file, which the page cache still has in memory.
 *
 * Ownership.  file_checksum_done() frees the state.
 * Threads.  One at a time; the caller ensures this.
 */
#pragma once

#include "base/digest.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct file_checksum {
        struct digest    digest;
        bool             has_digest; /* false: nothing is compared */
        enum digest_kind kind;
        unsigned char    expected[DIGEST_MAX_BYTES];
};

/* A digest that the crypto library refuses is not compared. */
struct error *file_checksum_init(struct file_checksum *c, enum digest_kind kind,
                                 const unsigned char *expected) NODISCARD;
void          file_checksum_init_none(struct file_checksum *c);
void          file_checksum_done(struct file_checksum *c);

struct error *file_checksum_add(struct file_checksum *c, int fd, uint64_t begin, uint64_t end)
        NODISCARD;
/* *ret: the file has the expected checksum, or none is known. */
struct error *file_checksum_finish(struct file_checksum *c, bool *ret) NODISCARD;
