/* SPDX-License-Identifier: BSD-3-Clause */
/* A hash of 128 bits with two secret keys, as fast as memory, for messages of any length: two
 * different messages have the same hash with a probability of about 2^-127, whoever chose them, as
 * long as the keys are not known. The hashes themselves tell nothing of the keys.
 *
 *     keyed_hash_init -> keyed_hash_add_pair, keyed_hash_add ... keyed_hash_pad -> keyed_hash_finish
 *
 * A message is a row of pairs of words, cut into blocks of 2 KiB. Each block becomes two sums of
 * 128 bits, of products of what is in it and words of a long key (NH, of Black, Halevi, Krawczyk,
 * Krovetz and Rogaway: UMAC, 1999):
 *
 *     first   sum of (a[i] + key[2i])     * (b[i] + key[2i + 1])     for pair i = (a[i], b[i])
 *     second  sum of (a[i] + key[2i + 2]) * (b[i] + key[2i + 3])
 *
 * with additions modulo 2^64, sums modulo 2^128. SipHash-2-4-128, with a short key, makes the hash
 * of all sums and, as seven bytes, the number of pairs. Processors that multiply polynomials several
 * at a time have all the numbers as polynomials over GF(2): exclusive or for each sum, products
 * without carries (CLNH, of Lemire and Kaser: CLHASH, 2016). Which of the two, the long key says.
 *
 * Bound.  Let two messages have the same number of pairs, and look at a block in which they
 * differ, at its last pair i that differs. Whatever the rest of the long key is, at most one value
 * of the word that multiplies what differs makes the second sums equal. That word is one of
 * key[2i + 2] and key[2i + 3], which the first sums add to pair i + 1 only, where the messages are
 * the same. So both sums are equal with a probability of at most 2^-64 * 2^-64. Messages with
 * different numbers of pairs differ in that number. What SipHash is given is different then, and as
 * a pseudo-random function it makes one hash of it with a probability of 2^-128.
 *
 * What each part earns on the `cache` lines of `make bench`, CPU time of a hit: NH over SipHash
 * alone 12 against 2 GB/s of tensors, which is most of a hit from a few hundred bytes on;
 * carry-less products another 10 % of a hit of 1 KiB, 33 % at 64 KiB (4.9 against 7.4 us), 35 % at 1 MiB.
 *
 * Ownership.  Keys are the caller's, and outlive the hash.
 * Threads.  One owner at a time; keys that are made do not change.
 */
#pragma once

#include "base/compiler.h"
#include "base/siphash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Short enough to stay near the processor, long enough for SipHash's share to be small. */
#define KEYED_HASH_BLOCK_PAIRS 128
#define KEYED_HASH_PAIR_BYTES 16
#define KEYED_HASH_BYTES 16

struct keyed_hash_key {
        uint64_t word[2 * KEYED_HASH_BLOCK_PAIRS + 2];
        bool     is_carryless; /* which products */
};

struct keyed_hash {
        const struct keyed_hash_key *key; /* borrowed */
        uint128                      sum[2];
        uint64_t                     n_pairs;  /* so far */
        uint64_t                     outer[4]; /* SipHash's state, with the blocks so far */
        unsigned                     n_tail;
        unsigned char                tail[KEYED_HASH_PAIR_BYTES]; /* bytes of an unfinished pair */
};

/* From the kernel's random numbers, for this processor; an error where there are none. */
struct error *keyed_hash_key_make(struct keyed_hash_key *ret) NODISCARD;

void keyed_hash_init(struct keyed_hash *h, const struct keyed_hash_key *key,
                     const struct siphash_key *short_key);

/* One pair of words. Only where a pair may begin: after init, another pair, or pad. */
void keyed_hash_add_pair(struct keyed_hash *h, uint64_t a, uint64_t b);
/* Bytes in the order of the machine; the next ones follow without a gap. */
void keyed_hash_add(struct keyed_hash *h, const void *bytes, size_t len);
/* Zeros up to the next pair. Where bytes end is not seen in the hash: who adds bytes whose number
 * does not follow from the rest of the message adds it, too. */
void keyed_hash_pad(struct keyed_hash *h);

/* Behind a whole pair. The message may go on afterwards. */
void keyed_hash_finish(const struct keyed_hash *h, uint64_t ret[2]);
