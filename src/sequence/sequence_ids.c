/* SPDX-License-Identifier: BSD-3-Clause */
#include "sequence/sequence_ids.h"

#include "base/mem.h"

#include <string.h>

#define FIRST_BUCKETS 64

struct error *sequence_ids_init(struct sequence_ids *ids) {
        *ids = (struct sequence_ids){ .n_buckets = FIRST_BUCKETS };
        TRY(siphash_key_make(&ids->key));
        ids->buckets = mem_zalloc(FIRST_BUCKETS * sizeof(struct sequence_link *));
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

static struct sequence_link **bucket_of(const struct sequence_ids *ids, uint64_t hash) {
        return &ids->buckets[hash & (ids->n_buckets - 1)];
}

static bool is_same(const struct correlation_id *a, const struct correlation_id *b) {
        if (a->text == NULL || b->text == NULL)
                return a->text == b->text && a->number == b->number;
        return strcmp(a->text, b->text) == 0;
}

struct sequence_link *sequence_ids_find(const struct sequence_ids *ids, uint64_t hash,
                                        const struct correlation_id *id) {
        struct sequence_link *link = *bucket_of(ids, hash);

        while (link != NULL && !(link->hash == hash && is_same(&link->id, id)))
                link = link->next;
        return link;
}

static void insert_link(struct sequence_ids *ids, struct sequence_link *link) {
        struct sequence_link **bucket = bucket_of(ids, link->hash);

        link->next = *bucket;
        *bucket = link;
}

/* Without memory for more buckets, the chains become longer. */
static void grow_ids(struct sequence_ids *ids) {
        struct sequence_link **old = ids->buckets;
        size_t                 n_old = ids->n_buckets;
        struct sequence_link **larger = try_zalloc(2 * n_old * sizeof(struct sequence_link *));

        if (larger == NULL)
                return;
        ids->buckets = larger;
        ids->n_buckets = 2 * n_old;
        for (size_t i = 0; i < n_old; i++) {
                for (struct sequence_link *link = old[i], *next; link != NULL; link = next) {
                        next = link->next;
                        insert_link(ids, link);
                }
        }
        free(old);
}

void sequence_ids_add(struct sequence_ids *ids, struct sequence_link *link) {
        if (ids->n >= ids->n_buckets)
                grow_ids(ids);
        insert_link(ids, link);
        ids->n++;
}

void sequence_ids_remove(struct sequence_ids *ids, struct sequence_link *link) {
        struct sequence_link **at = bucket_of(ids, link->hash);

        while (*at != link)
                at = &(*at)->next;
        *at = link->next;
        ids->n--;
}
