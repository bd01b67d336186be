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

static inline void siphash_take_word_(uint64_t v[4], uint64_t word) {
        v[3] ^= word;
        siphash_round(v);
        siphash_round(v);
        v[0] ^= word;
}

static inline uint64_t siphash_finish_half_(uint64_t v[4]) {
        siphash_round(v);
        siphash_round(v);
        siphash_round(v);
        siphash_round(v);
        return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* The hash of a message whose last word, with the number of its bytes, has been taken. */
static inline void siphash_finish_words_(uint64_t v[4], uint64_t ret[2]) {
        v[2] ^= 0xee;
        ret[0] = siphash_finish_half_(v);
        v[1] ^= 0xdd;
        ret[1] = siphash_finish_half_(v);
}
