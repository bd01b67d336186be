/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/map.h"

#include "base/mem.h"
#include "base/siphash.h"

#include <pthread.h>
#include <unistd.h>

#define MAP_FIRST_SLOTS 16 /* a power of two, as are all numbers of slots */

/* Keys may come from peers: a keyed hash with a key of the process, so that peers cannot choose
 * keys that collide. SipHash with one round per word and three at the end. */
static struct siphash_key hash_key;
static pthread_once_t     hash_key_once = PTHREAD_ONCE_INIT;

static void make_hash_key(void) {
        AUTO_ERROR err = siphash_key_make(&hash_key);

        if (err != NULL) /* a kernel without getrandom(2): an address is better than a fixed key */
                hash_key.word[0] = (uint64_t)(uintptr_t)&err ^ ((uint64_t)getpid() << 40);
}

static uint64_t hash_of(struct str key) {
        uint64_t v[4] = {
                hash_key.word[0] ^ UINT64_C(0x736f6d6570736575),
                hash_key.word[1] ^ UINT64_C(0x646f72616e646f6d),
                hash_key.word[0] ^ UINT64_C(0x6c7967656e657261),
                hash_key.word[1] ^ UINT64_C(0x7465646279746573),
        };
        const char *at = key.ptr;
        size_t      left = key.len;
        uint64_t    word;

        for (; left >= sizeof(word); at += sizeof(word), left -= sizeof(word)) {
                memcpy(&word, at, sizeof(word));
                v[3] ^= word;
                siphash_round(v);
                v[0] ^= word;
        }
        word = 0;
        if (left > 0)
                memcpy(&word, at, left);
        word |= (uint64_t)key.len << 56;
        v[3] ^= word;
        siphash_round(v);
        v[0] ^= word;

        v[2] ^= 0xff;
        for (int i = 0; i < 3; i++)
                siphash_round(v);
        return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* Number of entries that fit before the table must grow: three quarters of the slots. */
static size_t entries_cap(size_t n_slots) {
        return n_slots / 4 * 3;
}

void map_init(struct map *m) {
        pthread_once(&hash_key_once, make_hash_key);
        *m = (struct map){ .entries = NULL };
}

void map_done(struct map *m) {
        for (size_t i = 0; i < m->n_entries; i++)
                free((char *)m->entries[i].key);
        free(m->entries);
        free(m->slots);
        *m = (struct map){ .entries = NULL };
}

/* Slot where the probe for `hash` ends: the slot of the key, or the first free one. */
static size_t probe(const struct map *m, struct str key, uint64_t hash) {
        size_t mask = m->n_slots - 1;
        size_t slot = (size_t)hash & mask;

        while (m->slots[slot] != 0) {
                const struct map_entry *e = &m->entries[m->slots[slot] - 1];

                if (e->key != NULL && e->hash == hash && e->key_len == key.len &&
                    (key.len == 0 || memcmp(e->key, key.ptr, key.len) == 0))
                        break;
                slot = (slot + 1) & mask;
        }
        return slot;
}

static struct map_entry *find_entry(const struct map *m, struct str key) {
        size_t slot;

        if (m->n_live == 0)
                return NULL;
        slot = probe(m, key, hash_of(key));
        return m->slots[slot] != 0 ? &m->entries[m->slots[slot] - 1] : NULL;
}

void *map_find(const struct map *m, struct str key) {
        const struct map_entry *e = find_entry(m, key);

        return e != NULL ? e->value : NULL;
}

/* Closes the gaps of removed entries, and doubles the slots when too few are free. */
static void rebuild(struct map *m) {
        size_t n_slots = MAX(m->n_slots, (size_t)MAP_FIRST_SLOTS);
        size_t n_kept = 0, mask, bytes;

        if (m->n_live > entries_cap(n_slots) / 2)
                n_slots *= 2;
        if (n_slots > UINT32_MAX / 2 ||
            !size_mul(entries_cap(n_slots), sizeof(*m->entries), &bytes))
                abort(); /* two thousand million keys: no map of this server can grow so large */

        for (size_t i = 0; i < m->n_entries; i++) {
                if (m->entries[i].key != NULL)
                        m->entries[n_kept++] = m->entries[i];
        }
        m->n_entries = n_kept;
        m->entries = mem_realloc(m->entries, bytes);

        free(m->slots);
        m->slots = mem_zalloc(n_slots * sizeof(*m->slots));
        m->n_slots = n_slots;
        mask = n_slots - 1;
        for (size_t i = 0; i < n_kept; i++) {
                size_t slot = (size_t)m->entries[i].hash & mask;

                while (m->slots[slot] != 0)
                        slot = (slot + 1) & mask;
                m->slots[slot] = (uint32_t)(i + 1);
        }
}

void *map_set(struct map *m, struct str key, void *value) {
        struct map_entry *e = find_entry(m, key);
        uint64_t          hash;

        if (e != NULL) {
                void *old = e->value;

                e->value = value;
                return old;
        }
        if (m->n_entries == entries_cap(m->n_slots))
                rebuild(m);

        hash = hash_of(key);
        m->slots[probe(m, key, hash)] = (uint32_t)(m->n_entries + 1);
        m->entries[m->n_entries++] = (struct map_entry){
                .key = mem_strndup(key.ptr, key.len),
                .key_len = key.len,
                .hash = hash,
                .value = value,
        };
        m->n_live++;
        return NULL;
}

void *map_remove(struct map *m, struct str key) {
        struct map_entry *e = find_entry(m, key);

        if (e == NULL)
                return NULL;
        free((char *)e->key);
        e->key = NULL; /* its slot stays taken until rebuild(), so that probes pass over it */
        m->n_live--;
        return STEAL(e->value);
}

size_t map_size(const struct map *m) {
        return m->n_live;
}

const struct map_entry *map_next(const struct map *m, size_t *at) {
        while (*at < m->n_entries) {
                const struct map_entry *e = &m->entries[(*at)++];

                if (e->key != NULL)
                        return e;
        }
        return NULL;
}
