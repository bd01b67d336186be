/* SPDX-License-Identifier: BSD-3-Clause */
/* SipHash: a hash with a secret key. Without the key, an attacker cannot choose messages that
 * collide, and hashes do not reveal the key. This is SipHash-2-4 with 128 bits, a word at a time:
 *
 *     siphash_begin -> siphash_take (each word of the message, then its last one) -> siphash_end
 *
 * The last word has the up to seven bytes after the last whole word, the first one lowest, and in
 * its highest byte the number of bytes of the message, modulo 256. base/keyed_hash.h uses it, and
 * base/map.h hashes with its round.
 *
 * Threads.  A state has one owner; a key does not change after siphash_key_make().
 */
#pragma once

#include "base/error.h"
#include "base/random.h"

#include <stdint.h>

struct siphash_key {
        uint64_t word[2];
};

/* Draws the key from the kernel's random numbers; an error when there are none. */
NODISCARD static inline struct error *siphash_key_make(struct siphash_key *ret) {
        return random_fill(ret->word, sizeof(ret->word));
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

static inline void siphash_begin(uint64_t v[4], const struct siphash_key *key) {
        v[0] = key->word[0] ^ UINT64_C(0x736f6d6570736575);
        v[1] = key->word[1] ^ UINT64_C(0x646f72616e646f6d) ^ 0xee; /* variant with 128 bits */
        v[2] = key->word[0] ^ UINT64_C(0x6c7967656e657261);
        v[3] = key->word[1] ^ UINT64_C(0x7465646279746573);
}

static inline void siphash_take(uint64_t v[4], uint64_t word) {
        v[3] ^= word;
        siphash_round(v);
        siphash_round(v);
        v[0] ^= word;
}

static inline uint64_t siphash_end_half_(uint64_t v[4]) {
        siphash_round(v);
        siphash_round(v);
        siphash_round(v);
        siphash_round(v);
        return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* Returns the first eight bytes of the hash, the first one lowest, and the other eight. */
static inline void siphash_end(uint64_t v[4], uint64_t ret[2]) {
        v[2] ^= 0xee;
        ret[0] = siphash_end_half_(v);
        v[1] ^= 0xdd;
        ret[1] = siphash_end_half_(v);
}
