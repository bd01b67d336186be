/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the sequence of a correlation id: a hash map whose links are in the sequences.
 *
 * Clients choose ids, so the hash has a secret key: a client cannot choose ids that collide. A number
 * and a text with the same digits are different ids.
 *
 * Ownership.  Borrows its sequences. A sequence must be removed before it is freed.
 * Threads.  The caller holds the owner's lock.
 */
#pragma once

#include "base/error.h"
#include "base/siphash.h"
#include "infer/request.h"

#include <stddef.h>
#include <stdint.h>

/* Embedded in a sequence. */
struct sequence_link {
        struct sequence_link *next;
        uint64_t              hash;
        struct correlation_id id; /* its text, if any, is the sequence's */
};

struct sequence_ids {
        struct siphash_key     key;
        struct sequence_link **buckets; /* owned; n_buckets is a power of two */
        size_t                 n_buckets;
        size_t                 n;
};

/* Fails when the kernel has no random numbers. */
struct error *sequence_ids_init(struct sequence_ids *ids) NODISCARD;
void          sequence_ids_done(struct sequence_ids *ids);

uint64_t sequence_ids_hash(const struct sequence_ids *ids, const struct correlation_id *id);
/* Returns NULL for an unknown id. */
struct sequence_link *sequence_ids_find(const struct sequence_ids *ids, uint64_t hash,
                                        const struct correlation_id *id);
/* Adds a link that has its hash and its id. The map must not contain that id. */
void sequence_ids_add(struct sequence_ids *ids, struct sequence_link *link);
void sequence_ids_remove(struct sequence_ids *ids, struct sequence_link *link);
