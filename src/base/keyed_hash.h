/* SPDX-License-Identifier: BSD-3-Clause */
/* A hash of 128 bits with two secret keys, as fast as memory, for messages of any length: two
 * different messages have the same hash with a probability of about 2^-127, even if an attacker who
 * does not know the keys chose them. The hashes reveal nothing about the keys.
 *
 *     keyed_hash_init -> keyed_hash_add_pair, keyed_hash_add ... keyed_hash_pad -> keyed_hash_finish
 *
 * A message is a sequence of pairs of words, cut into blocks of 2 KiB. Each block yields two sums
 * of 128 bits: of products of its words and words of a long key (NH, of Black, Halevi, Krawczyk,
 * Krovetz and Rogaway: UMAC, 1999):
 *
 *     first   sum of (a[i] + key[2i])     * (b[i] + key[2i + 1])     for pair i = (a[i], b[i])
 *     second  sum of (a[i] + key[2i + 2]) * (b[i] + key[2i + 3])
 *
 * with additions modulo 2^64 and sums modulo 2^128. SipHash-2-4-128, with a short key, computes the
 * hash of all sums and, as seven bytes, the number of pairs. Processors that multiply several
 * polynomials at a time treat all numbers as polynomials over GF(2): exclusive or for each sum,
 * products without carries (CLNH, of Lemire and Kaser: CLHASH, 2016). The long key records which of
 * the two is used.
 *
 * Bound.  Let two messages have the same number of pairs. Consider a block in which they differ,
 * and its last pair i that differs. Whatever the rest of the long key is, at most one value of the
 * word that multiplies the differing word makes the second sums equal. That word is one of key[2i +
 * 2] and key[2i + 3], which the first sums add to pair i + 1 only, where the messages are the same.
 * So both sums are equal with a probability of at most 2^-64 * 2^-64. Messages with different
 * numbers of pairs differ in that number. Then SipHash's inputs are different, and as a
 * pseudo-random function it maps them to one hash with a probability of 2^-128.
 *
 * Gain of each part on the `cache` lines of `make bench`, in CPU time of a hit: NH over SipHash
 * alone 12 against 2 GB/s of tensors, which is most of a hit from a few hundred bytes on;
 * carry-less products another 10 % of a hit of 1 KiB, 33 % at 64 KiB (4.9 against 7.4 us), 35 % at
 * 1 MiB.
 *
 * Ownership.  Keys belong to the caller and outlive the hash.
 * Threads.  One owner at a time; a key does not change after keyed_hash_key_make().
 */
#pragma once

#include "base/compiler.h"
#include "base/siphash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pairs in a block: short enough to stay in the nearest cache, long enough for SipHash's share of
 * the time to be small. */
#define KEYED_HASH_BLOCK_PAIRS 128
#define KEYED_HASH_PAIR_BYTES 16
#define KEYED_HASH_BYTES 16

struct keyed_hash_key {
        uint64_t word[2 * KEYED_HASH_BLOCK_PAIRS + 2];
        bool     is_carryless; /* products without carries */
};

struct keyed_hash {
        const struct keyed_hash_key *key; /* borrowed */
        uint128                      sum[2];
        uint64_t                     n_pairs;  /* so far */
        uint64_t                     outer[4]; /* SipHash's state, with the sums of all complete
                                                * blocks */
        unsigned                     n_tail;
        unsigned char                tail[KEYED_HASH_PAIR_BYTES]; /* bytes of an unfinished pair */
};

/* Draws the keys from the kernel's random numbers, for this processor; an error when there are
 * none. */
struct error *keyed_hash_key_make(struct keyed_hash_key *ret) NODISCARD;

void keyed_hash_init(struct keyed_hash *h, const struct keyed_hash_key *key,
                     const struct siphash_key *short_key);

/* Adds one pair of words. Allowed only where a pair may begin: after init, another pair, or pad. */
void keyed_hash_add_pair(struct keyed_hash *h, uint64_t a, uint64_t b);
/* Adds bytes in the machine's byte order, directly after the bytes added before. */
void keyed_hash_add(struct keyed_hash *h, const void *bytes, size_t len);
/* Adds zeros up to the next pair. The hash does not cover where the bytes end: a caller whose
 * number of bytes does not follow from the rest of the message adds that number, too. */
void keyed_hash_pad(struct keyed_hash *h);

/* Allowed after a whole pair. The message may be continued afterwards. */
void keyed_hash_finish(const struct keyed_hash *h, uint64_t ret[2]);
