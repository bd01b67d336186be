/* SPDX-License-Identifier: BSD-3-Clause */
/* Under which key the answer to a request is kept.
 *
 * A key is a hash of 128 bits (base/keyed_hash.h) of all inputs: for each, in the order of the
 * model's configuration, its place there, its number of bytes, shape and bytes. No two different
 * requests hash the same message. Name and data type follow from the place.
 *
 * Two requests whose keys collide would get each other's answers; so the hash has secrets: a long
 * one of the server and a short one, which each load of a model draws for itself. Nobody who cannot
 * read the server's memory can look for collisions, and by chance two of n kept answers collide
 * with a probability of n^2/2^128. The secret of the load stands for model and version as well, and
 * a model that is loaded again, perhaps from other files, finds nothing of what it answered before.
 *
 * Parameters, correlation id, priority and the like do not enter. An answer to a request for all
 * outputs serves requests for some; what was asked for some outputs alone is kept under a second
 * key, into which enters what they are.
 */
#pragma once

#include "base/keyed_hash.h"

#include <stdbool.h>

struct request;

#define CACHE_KEY_TEXT_BYTES (2 * KEYED_HASH_BYTES + 1)

struct cache_key {
        char text[CACHE_KEY_TEXT_BYTES]; /* hexadecimal digits */
};

struct cache_keys {
        struct cache_key all;     /* of the answer with all outputs */
        struct cache_key some;    /* of that with those that are asked for */
        bool             is_some; /* the request asks for some */
};

/* Of a request that request_prepare() has checked; `secret` is the server's. False when it has
 * inputs that are not in CPU memory, or that differ between instances (host policies), or when
 * memory is short: its answer is neither looked for nor kept. */
bool cache_keys_make(const struct request *req, const struct keyed_hash_key *secret,
                     struct cache_keys *ret);
