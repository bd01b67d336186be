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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct correlation_id;
struct sequence;

/* Embedded in a sequence. */
struct sequence_link {
        struct sequence *next;
        uint64_t         hash;
};

struct sequence_ids {
        struct siphash_key key;
        struct sequence  **buckets; /* owned; n_buckets is a power of two */
        size_t             n_buckets;
        size_t             n;
};

/* Fails when the kernel has no random numbers. */
struct error *sequence_ids_init(struct sequence_ids *ids) NODISCARD;
void          sequence_ids_done(struct sequence_ids *ids);

uint64_t         sequence_ids_hash(const struct sequence_ids *ids, const struct correlation_id *id);
struct sequence *sequence_ids_find(const struct sequence_ids *ids, uint64_t hash,
                                   const struct correlation_id *id); /* NULL: unknown id */
/* Adds a sequence whose link has the hash. The map must not contain a sequence with that id. */
void sequence_ids_add(struct sequence_ids *ids, struct sequence *seq);
void sequence_ids_remove(struct sequence_ids *ids, struct sequence *seq);
