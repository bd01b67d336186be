/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests on eight bytes of text at a time, for checks with the same result for nearly every text. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WORD_BYTES sizeof(uint64_t)
#define WORD_EACH(byte) (UINT64_C(0x0101010101010101) * (byte))
#define WORD_HIGH_BITS WORD_EACH(0x80)

static inline uint64_t word_load(const char *at) {
        uint64_t word;

        memcpy(&word, at, sizeof(word));
        return word;
}

/* Loads 1 to 7 bytes, some of them twice, padded with blanks, in no order. */
static inline uint64_t word_load_few(const char *at, size_t n) {
        uint32_t head, tail;

        if (n >= sizeof(head)) {
                memcpy(&head, at, sizeof(head));
                memcpy(&tail, at + n - sizeof(tail), sizeof(tail));
                return (uint64_t)head << 32 | tail;
        }
        return (WORD_EACH(' ') & ~UINT64_C(0xffffff)) | (uint64_t)(unsigned char)at[0] << 16 |
               (uint64_t)(unsigned char)at[n / 2] << 8 | (unsigned char)at[n - 1];
}
