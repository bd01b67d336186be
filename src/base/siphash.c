/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/siphash.h"

#include "base/random.h"

struct error *siphash_key_make(struct siphash_key *ret) {
        return random_fill(ret->word, sizeof(ret->word));
}
