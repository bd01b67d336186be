/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/siphash.h"

#include "base/random.h"

#include <endian.h>
#include <string.h>

struct error *siphash_key_make(struct siphash_key *ret) {
        return random_fill(ret->word, sizeof(ret->word));
}

void siphash_init(struct siphash *h, const struct siphash_key *key) {
        *h = (struct siphash){
                .v = {
                        key->word[0] ^ UINT64_C(0x736f6d6570736575),
                        key->word[1] ^ UINT64_C(0x646f72616e646f6d) ^ 0xee, /* of 128 bits */
                        key->word[0] ^ UINT64_C(0x6c7967656e657261),
                        key->word[1] ^ UINT64_C(0x7465646279746573),
                },
        };
}

static inline uint64_t word_at(const unsigned char *at) {
        uint64_t word;

        memcpy(&word, at, sizeof(word));
        return le64toh(word);
}

void siphash_add(struct siphash *h, const void *bytes, size_t len) {
        const unsigned char *at = bytes;
        unsigned             n_tail = h->n_bytes % 8;
        uint64_t             v[4] = { h->v[0], h->v[1], h->v[2], h->v[3] };

        h->n_bytes += len;
        if (n_tail > 0) {
                for (; n_tail < 8 && len > 0; n_tail++, at++, len--)
                        h->tail |= (uint64_t)*at << (8 * n_tail);
                if (n_tail < 8)
                        return;
                siphash_take_word_(v, h->tail);
                h->tail = 0;
        }
        for (; len >= 8; at += 8, len -= 8)
                siphash_take_word_(v, word_at(at));
        for (unsigned i = 0; i < len; i++)
                h->tail |= (uint64_t)at[i] << (8 * i);
        memcpy(h->v, v, sizeof(v));
}

void siphash_finish(const struct siphash *h, unsigned char ret[SIPHASH_BYTES]) {
        uint64_t v[4] = { h->v[0], h->v[1], h->v[2], h->v[3] };
        uint64_t words[2];

        siphash_take_word_(v, h->tail | h->n_bytes << 56);
        siphash_finish_words_(v, words);
        words[0] = htole64(words[0]);
        words[1] = htole64(words[1]);
        memcpy(ret, words, SIPHASH_BYTES);
}
