/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/siphash.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

struct error *siphash_key_make(struct siphash_key *ret) {
        char   *at = (char *)ret->word;
        size_t  left = sizeof(ret->word);
        ssize_t got;

        while (left > 0) {
                got = getrandom(at, left, 0);
                if (got < 0 && errno != EINTR)
                        return error_errno(errno, "no random numbers from the kernel");
                if (got > 0) {
                        at += got;
                        left -= (size_t)got;
                }
        }
        return NULL;
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

static inline void take_word(uint64_t v[4], uint64_t word) {
        v[3] ^= word;
        siphash_round(v);
        siphash_round(v);
        v[0] ^= word;
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
                take_word(v, h->tail);
                h->tail = 0;
        }
        for (; len >= 8; at += 8, len -= 8)
                take_word(v, word_at(at));
        for (unsigned i = 0; i < len; i++)
                h->tail |= (uint64_t)at[i] << (8 * i);
        memcpy(h->v, v, sizeof(v));
}

static void finish_half(uint64_t v[4], unsigned char ret[8]) {
        uint64_t word;

        for (int i = 0; i < 4; i++)
                siphash_round(v);
        word = htole64(v[0] ^ v[1] ^ v[2] ^ v[3]);
        memcpy(ret, &word, sizeof(word));
}

void siphash_finish(const struct siphash *h, unsigned char ret[SIPHASH_BYTES]) {
        uint64_t v[4] = { h->v[0], h->v[1], h->v[2], h->v[3] };

        take_word(v, h->tail | h->n_bytes << 56);
        v[2] ^= 0xee;
        finish_half(v, ret);
        v[1] ^= 0xdd;
        finish_half(v, ret + 8);
}
