/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/sequence_ids.h"

#include "base/mem.h"
#include "sched/sequence_table.h"

#include <string.h>

#define FIRST_BUCKETS 64

struct error *sequence_ids_init(struct sequence_ids *ids) {
        *ids = (struct sequence_ids){ .n_buckets = FIRST_BUCKETS };
        TRY(siphash_key_make(&ids->key));
        ids->buckets = mem_zalloc(FIRST_BUCKETS * sizeof(struct sequence *));
        return NULL;
}

void sequence_ids_done(struct sequence_ids *ids) {
        free(ids->buckets);
}

/* The last word distinguishes a text from a number: it has the length of the text, and 0 for a
 * number. */
uint64_t sequence_ids_hash(const struct sequence_ids *ids, const struct correlation_id *id) {
        uint64_t state[4], hash[2], last = 0;

        siphash_begin(state, &ids->key);
        if (id->text == NULL) {
                siphash_take(state, id->number);
        } else {
                size_t      len = strlen(id->text);
                const char *at = id->text;

                last = (uint64_t)len << 1 | 1;
                for (; len > 0;
                     at += MIN(len, sizeof(uint64_t)), len -= MIN(len, sizeof(uint64_t))) {
                        uint64_t word = 0;

                        memcpy(&word, at, MIN(len, sizeof(word)));
                        siphash_take(state, word);
                }
        }
        siphash_take(state, last);
        siphash_end(state, hash);
        return hash[0];
}

static struct sequence **bucket_of(const struct sequence_ids *ids, uint64_t hash) {
        return &ids->buckets[hash & (ids->n_buckets - 1)];
}

static bool is_same(const struct sequence *seq, const struct correlation_id *id) {
        if (id->text == NULL)
                return !seq->is_text && seq->number == id->number;
        return seq->is_text && strcmp(sequence_text(seq), id->text) == 0;
}

struct sequence *sequence_ids_find(const struct sequence_ids *ids, uint64_t hash,
                                   const struct correlation_id *id) {
        struct sequence *seq = *bucket_of(ids, hash);

        while (seq != NULL && !(seq->link.hash == hash && is_same(seq, id)))
                seq = seq->link.next;
        return seq;
}

static void insert(struct sequence_ids *ids, struct sequence *seq) {
        struct sequence **bucket = bucket_of(ids, seq->link.hash);

        seq->link.next = *bucket;
        *bucket = seq;
}

/* Without memory for more buckets, the chains become longer. */
static void grow(struct sequence_ids *ids) {
        struct sequence **old = ids->buckets;
        size_t            n_old = ids->n_buckets;
        struct sequence **larger = try_zalloc(2 * n_old * sizeof(struct sequence *));

        if (larger == NULL)
                return;
        ids->buckets = larger;
        ids->n_buckets = 2 * n_old;
        for (size_t i = 0; i < n_old; i++) {
                for (struct sequence *seq = old[i], *next; seq != NULL; seq = next) {
                        next = seq->link.next;
                        insert(ids, seq);
                }
        }
        free(old);
}

void sequence_ids_add(struct sequence_ids *ids, struct sequence *seq) {
        if (ids->n >= ids->n_buckets)
                grow(ids);
        insert(ids, seq);
        ids->n++;
}

void sequence_ids_remove(struct sequence_ids *ids, struct sequence *seq) {
        struct sequence **at = bucket_of(ids, seq->link.hash);

        while (*at != seq)
                at = &(*at)->link.next;
        *at = seq->link.next;
        ids->n--;
}
