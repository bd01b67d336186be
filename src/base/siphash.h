/* SPDX-License-Identifier: BSD-3-Clause */
/* SipHash: a hash with a secret key, so that nobody who does not know the key can choose bytes
 * that collide. Here as SipHash-2-4 with 128 bits, of bytes that come in pieces:
 *
 *     siphash_init -> siphash_add (any number) -> siphash_finish
 *
 * A struct siphash may be copied at any point and gone on with from there. Its round is also what
 * base/map.h hashes with.
 *
 * Threads.  One owner at a time; a key that is made does not change.
 */
#pragma once

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define SIPHASH_BYTES 16

struct siphash_key {
        uint64_t word[2];
};

struct siphash {
        uint64_t v[4];
        uint64_t tail;    /* the bytes since the last full word, the first one lowest */
        uint64_t n_bytes; /* so far */
};

/* From the kernel's random numbers; an error where there are none. */
struct error *siphash_key_make(struct siphash_key *ret) NODISCARD;

void siphash_init(struct siphash *h, const struct siphash_key *key);
void siphash_add(struct siphash *h, const void *bytes, size_t len);
void siphash_finish(const struct siphash *h, unsigned char ret[SIPHASH_BYTES]);

/* Eight bytes, as the machine keeps them. */
static inline void siphash_add_u64(struct siphash *h, uint64_t value) {
        siphash_add(h, &value, sizeof(value));
}

static inline uint64_t siphash_rotate(uint64_t x, unsigned bits) {
        return x << bits | x >> (64 - bits);
}

static inline void siphash_round(uint64_t v[4]) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = siphash_rotate(v[1], 13) ^ v[0];
        v[3] = siphash_rotate(v[3], 16) ^ v[2];
        v[0] = siphash_rotate(v[0], 32) + v[3];
        v[2] += v[1];
        v[3] = siphash_rotate(v[3], 21) ^ v[0];
        v[1] = siphash_rotate(v[1], 17) ^ v[2];
        v[2] = siphash_rotate(v[2], 32);
}
