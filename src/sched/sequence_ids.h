/* SPDX-License-Identifier: BSD-3-Clause */
/* Which sequence a correlation id belongs to: a hash map whose links are in the sequences.
 *
 * Ids are chosen by peers, so the hash has a secret key: nobody can choose ids that collide. A
 * number and a text with its digits are different ids.
 *
 * Ownership.  Borrows its sequences; one must be removed before it goes.
 * Threads.  The owner's lock.
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

/* An error where the kernel has no random numbers. */
struct error *sequence_ids_init(struct sequence_ids *ids) NODISCARD;
void          sequence_ids_done(struct sequence_ids *ids);

uint64_t         sequence_ids_hash(const struct sequence_ids *ids, const struct correlation_id *id);
struct sequence *sequence_ids_find(const struct sequence_ids *ids, uint64_t hash,
                                   const struct correlation_id *id); /* NULL: unknown */
/* Its link has the hash; no sequence of that id may be there. */
void sequence_ids_add(struct sequence_ids *ids, struct sequence *seq);
void sequence_ids_remove(struct sequence_ids *ids, struct sequence *seq);
