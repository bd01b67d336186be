/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/peer_table.h"

#include "base/lock.h"
#include "base/map.h"
#include "base/mem.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#define V4_BYTES 4
#define V6_BYTES 8 /* prefix of a site: RFC 4291, 2.5.4 */

struct peer_entry {
        size_t n;
        size_t key_bytes;
        char   key[V6_BYTES];
};

struct peer_table {
        size_t max_per_address;

        struct mutex lock;  /* rank LOCK_LEAF; guards the fields below */
        struct map   peers; /* struct peer_entry, owned, by its key */
};

struct peer_table *peer_table_new(size_t max_per_address) {
        struct peer_table *t = mem_zalloc(sizeof(*t));

        t->max_per_address = max_per_address;
        mutex_init(&t->lock, LOCK_LEAF);
        map_init(&t->peers);
        return t;
}

void peer_table_free(struct peer_table *t) {
        if (t == NULL)
                return;
        map_done(&t->peers);
        mutex_done(&t->lock);
        free(t);
}

/* A missing address, or one of another family, has the empty key; all of these count together. */
static void set_key(struct peer_entry *e, const struct sockaddr *address) {
        const struct sockaddr_in  *v4 = (const struct sockaddr_in *)(const void *)address;
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;
        const void                *bytes = NULL;

        e->key_bytes = 0;
        if (address->sa_family == AF_INET) {
                bytes = &v4->sin_addr;
                e->key_bytes = V4_BYTES;
        } else if (address->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
                bytes = &v6->sin6_addr.s6_addr[sizeof(v6->sin6_addr) - V4_BYTES];
                e->key_bytes = V4_BYTES;
        } else if (address->sa_family == AF_INET6) {
                bytes = &v6->sin6_addr;
                e->key_bytes = V6_BYTES;
        }
        if (bytes != NULL)
                memcpy(e->key, bytes, e->key_bytes);
}

static struct str key_of(const struct peer_entry *e) {
        return str_range(e->key, e->key_bytes);
}

struct peer_entry *peer_table_enter(struct peer_table *t, const struct sockaddr *address) {
        struct peer_entry  wanted = { .n = 1 };
        struct peer_entry *e;
        MUTEX_GUARD(&t->lock);

        set_key(&wanted, address);
        e = map_find(&t->peers, key_of(&wanted));
        if (e == NULL) {
                e = mem_alloc(sizeof(*e));
                *e = wanted;
                map_set(&t->peers, key_of(e), e);
                return e;
        }
        if (e->n >= t->max_per_address)
                return NULL;
        e->n++;
        return e;
}

void peer_table_leave(struct peer_table *t, struct peer_entry *e) {
        MUTEX_GUARD(&t->lock);

        if (--e->n > 0)
                return;
        map_remove(&t->peers, key_of(e));
        free(e);
}

size_t peer_table_n_addresses(struct peer_table *t) {
        MUTEX_GUARD(&t->lock);

        return map_size(&t->peers);
}
