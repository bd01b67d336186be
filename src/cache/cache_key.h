/* SPDX-License-Identifier: BSD-3-Clause */
/* Cache keys of requests.
 *
 * A key is a hash of 128 bits (base/keyed_hash.h) of all inputs: for each, in the order of the
 * model's configuration, its place there, its number of bytes, shape and bytes. Different requests
 * hash different messages. Name and data type follow from the place.
 *
 * Two requests whose keys collide would get each other's answers. So the hash has two secrets: a
 * long one of the server, and a short one that is drawn at each load of a model. An attacker who
 * cannot read the server's memory cannot search for collisions; by chance two of n kept answers
 * collide with a probability of n^2/2^128. The secret of the load identifies model and version as
 * well. A model that is loaded again, perhaps from other files, finds none of its earlier answers.
 *
 * Parameters, correlation id, priority and the like are not part of the key. An answer with all
 * outputs serves requests for some of them. An answer with some outputs only is kept under a second
 * key, which depends on the set of outputs.
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
        struct cache_key all;     /* key of the answer with all outputs */
        struct cache_key some;    /* key of the answer with the requested outputs only */
        bool             is_some; /* the request asks for some outputs only */
};

/* Computes the keys of a request that request_prepare() has checked; `secret` is the server's.
 * False when the request has inputs that are not in CPU memory, or that differ between instances
 * (host policies), or when memory is short: then its answer is neither looked up nor kept. */
bool cache_keys_make(const struct request *req, const struct keyed_hash_key *secret,
                     struct cache_keys *ret);
