/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/keyed_hash.h"

#include "base/keyed_hash_private.h"
#include "base/random.h"

#include <assert.h>
#include <string.h>

struct error *keyed_hash_key_make(struct keyed_hash_key *ret) {
        ret->is_carryless = carryless_is_there();
        return random_fill(ret->word, sizeof(ret->word));
}

void keyed_hash_init(struct keyed_hash *h, const struct keyed_hash_key *key,
                     const struct siphash_key *short_key) {
        siphash_begin(h->outer, short_key);
        h->key = key;
        h->sum[0] = h->sum[1] = 0;
        h->n_pairs = 0;
        h->n_tail = 0;
}

static inline void take_sums(uint64_t outer[4], const uint128 sum[2]) {
        siphash_take(outer, (uint64_t)sum[0]);
        siphash_take(outer, (uint64_t)(sum[0] >> 64));
        siphash_take(outer, (uint64_t)sum[1]);
        siphash_take(outer, (uint64_t)(sum[1] >> 64));
}

static NOINLINE void end_block(struct keyed_hash *h) {
        take_sums(h->outer, h->sum);
        h->sum[0] = h->sum[1] = 0;
}

static inline uint128 product(uint64_t a, uint64_t b) {
        return (uint128)a * b;
}

static inline uint64_t word_at(const unsigned char *at) {
        uint64_t word;

        memcpy(&word, at, sizeof(word));
        return word;
}

struct sums {
        uint128 first, second;
};

static inline struct sums with_pair(struct sums s, const uint64_t *key, const unsigned char *at) {
        uint64_t a = word_at(at), b = word_at(at + sizeof(a));

        return (struct sums){ s.first + product(a + key[0], b + key[1]),
                              s.second + product(a + key[2], b + key[3]) };
}

static void carrying_add(uint128 sum[2], const uint64_t *key, const unsigned char *pairs,
                         size_t n_pairs) {
        struct sums s = { sum[0], sum[1] };

        /* Four at a time: a tenth faster, as neighbours share words of the key. */
        for (; n_pairs >= 4; n_pairs -= 4, key += 8, pairs += 4 * KEYED_HASH_PAIR_BYTES) {
                s = with_pair(s, key, pairs);
                s = with_pair(s, key + 2, pairs + KEYED_HASH_PAIR_BYTES);
                s = with_pair(s, key + 4, pairs + 2 * KEYED_HASH_PAIR_BYTES);
                s = with_pair(s, key + 6, pairs + 3 * KEYED_HASH_PAIR_BYTES);
        }
        for (; n_pairs > 0; n_pairs--, key += 2, pairs += KEYED_HASH_PAIR_BYTES)
                s = with_pair(s, key, pairs);
        sum[0] = s.first;
        sum[1] = s.second;
}

/* Adds words within one block. */
static inline void add_run(struct keyed_hash *h, const unsigned char *pairs, size_t n_pairs) {
        const uint64_t *key = &h->key->word[2 * (h->n_pairs % KEYED_HASH_BLOCK_PAIRS)];

        if (h->key->is_carryless)
                carryless_add(h->sum, key, pairs, n_pairs);
        else
                carrying_add(h->sum, key, pairs, n_pairs);
        h->n_pairs += n_pairs;
        if (h->n_pairs % KEYED_HASH_BLOCK_PAIRS == 0)
                end_block(h);
}

void keyed_hash_add_pair(struct keyed_hash *h, uint64_t a, uint64_t b) {
        const uint64_t pair[2] = { a, b };

        assert(h->n_tail == 0);
        add_run(h, (const unsigned char *)pair, 1);
}

/* Adds the bytes that the tail lacks; all of them if they do not complete its pair. */
static NOINLINE size_t fill_tail(struct keyed_hash *h, const unsigned char *at, size_t len) {
        size_t n = MIN(len, KEYED_HASH_PAIR_BYTES - h->n_tail);

        memcpy(h->tail + h->n_tail, at, n);
        h->n_tail += (unsigned)n;
        if (h->n_tail == KEYED_HASH_PAIR_BYTES) {
                h->n_tail = 0;
                add_run(h, h->tail, 1);
        }
        return n;
}

void keyed_hash_add(struct keyed_hash *h, const void *bytes, size_t len) {
        const unsigned char *at = bytes;

        if (len == 0)
                return;
        if (h->n_tail > 0) {
                size_t n = fill_tail(h, at, len);

                at += n;
                len -= n;
        }
        while (len >= KEYED_HASH_PAIR_BYTES) {
                size_t left = KEYED_HASH_BLOCK_PAIRS - h->n_pairs % KEYED_HASH_BLOCK_PAIRS;
                size_t n = MIN(left, len / KEYED_HASH_PAIR_BYTES);

                add_run(h, at, n);
                at += n * KEYED_HASH_PAIR_BYTES;
                len -= n * KEYED_HASH_PAIR_BYTES;
        }
        if (len > 0)
                fill_tail(h, at, len);
}

void keyed_hash_pad(struct keyed_hash *h) {
        static const unsigned char zeros[KEYED_HASH_PAIR_BYTES];

        if (h->n_tail > 0)
                fill_tail(h, zeros, sizeof(zeros));
}

void keyed_hash_finish(const struct keyed_hash *h, uint64_t ret[2]) {
        uint64_t outer[4] = { h->outer[0], h->outer[1], h->outer[2], h->outer[3] };
        uint64_t n_blocks = (h->n_pairs + KEYED_HASH_BLOCK_PAIRS - 1) / KEYED_HASH_BLOCK_PAIRS;

        assert(h->n_tail == 0);
        if (h->n_pairs % KEYED_HASH_BLOCK_PAIRS != 0)
                take_sums(outer, h->sum);
        /* SipHash's last word: seven bytes of pair count, and the number of all bytes that it was
         * given. */
        siphash_take(outer, (h->n_pairs & UINT64_MAX >> 8) | (n_blocks * sizeof(h->sum) + 7) << 56);
        siphash_end(outer, ret);
}
