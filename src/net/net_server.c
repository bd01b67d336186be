/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/net_server.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/reserve.h"
#include "base/thread.h"
#include "net/conn.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/peer_table.h"

#include <stdatomic.h>

struct net_server {
        struct net_server_options    options;
        const struct net_server_ops *ops;      /* borrowed: static */
        struct conn_security         security; /* of each connection; used with options.tls */
        struct peer_table           *peers;    /* owned; NULL = addresses are not counted */
        struct listener             *listener; /* owned; NULL once stopped */
        struct loop_group           *loops;    /* owned */
        char                        *shards; /* owned; n_shards structs of ops->shard_bytes each */
        size_t                       n_shards; /* one per loop */
        uint16_t                     port;
        const char *full_limit; /* static: met by the last refused connection; used by its loop */

        struct mutex lock; /* rank LOCK_LEAF; guards the fields below */
        struct cond  changed;
        size_t       n_conns; /* open connections, including those on their way to a loop */
        size_t n_leaving;     /* of them, those that on_make_room() closes: their places are free */
        size_t n_shards_busy; /* shards that have not yet handled the mail of run_on_shards() */

        _Atomic size_t
                n_unprobed; /* shards that have not yet handled the mail of net_server_probe() */
};

void net_limits_init(struct net_limits *l) {
        *l = (struct net_limits){ .connections = 16384, .handshake_time_ns = 10 * NS_PER_S };
}

static struct net_shard *shard_at(const struct net_server *s, size_t i) {
        return (struct net_shard *)(void *)(s->shards + i * s->ops->shard_bytes);
}

void net_shard_conn_gone(struct net_shard *shard) {
        struct net_server *s = shard->server;
        MUTEX_GUARD(&s->lock);

        if (s->n_leaving > 0) /* whichever it was: it is closed within a round of its loop */
                s->n_leaving--;
        if (--s->n_conns == 0)
                cond_broadcast(&s->changed);
}

static bool can_accept(void *owner) {
        struct net_server *s = owner;
        bool               is_short = reserve_is_short();
        MUTEX_GUARD(&s->lock);

        s->full_limit = is_short ? "memory" : "connections";
        if (is_short || s->n_conns - s->n_leaving >= s->options.limits.connections)
                return false;
        s->n_conns++;
        return true;
}

static void on_refused(void *owner) {
        struct net_server *s = owner;

        if (s->options.on_rejected != NULL)
                s->options.on_rejected(s->options.rejected_owner, s->full_limit);
}

/* The connections that will remain, the one that was just accepted included. */
static size_t n_staying(struct net_server *s) {
        MUTEX_GUARD(&s->lock);

        return s->n_conns - s->n_leaving;
}

static void make_room(struct net_server *s, struct net_shard *shard) {
        size_t          max = s->options.limits.connections;
        size_t          last_tenth = max / 10, n = n_staying(s);
        enum leave_need need =
                n > max - last_tenth + last_tenth / 2 ? LEAVE_TAKES_NEW : LEAVE_SPARES_NEW;

        if (s->ops->on_make_room == NULL || n <= max - last_tenth ||
            !s->ops->on_make_room(shard, need))
                return;
        mutex_lock(&s->lock);
        s->n_leaving++;
        mutex_unlock(&s->lock);
}

static void on_accept(void *owner, struct loop *l, int fd) {
        struct net_server *s = owner;
        struct net_shard  *shard = shard_at(s, loop_index(l));

        make_room(s, shard);
        s->ops->on_accept(shard, fd);
}

struct error *net_shard_open(struct net_shard *shard, int fd, const struct conn_ops *ops,
                             void *owner, struct conn **ret) {
        struct net_server *s = shard->server;
        struct conn       *c;

        TRY(conn_open(shard->loop, fd, ops, owner, &c));
        if (s->peers != NULL && !conn_count_peer(c, s->peers)) {
                if (s->options.on_rejected != NULL)
                        s->options.on_rejected(s->options.rejected_owner,
                                               "connections_per_address");
                conn_abandon(c);
                return error_new(ERR_UNAVAILABLE, "too many connections of one address");
        }
        if (s->options.tls != NULL) {
                struct error *err = conn_secure(c, &s->security);

                if (err != NULL) {
                        conn_abandon(c);
                        return err;
                }
        }
        *ret = c;
        return NULL;
}

static void shard_is_done(struct net_shard *shard) {
        struct net_server *s = shard->server;
        MUTEX_GUARD(&s->lock);

        if (--s->n_shards_busy == 0)
                cond_broadcast(&s->changed);
}

static void on_drain(struct mail *m) {
        struct net_shard *shard = CONTAINER_OF(m, struct net_shard, drain);

        shard->is_draining = true;
        shard->server->ops->on_drain(shard);
        shard_is_done(shard);
}

static void on_kill(struct mail *m) {
        struct net_shard *shard = CONTAINER_OF(m, struct net_shard, kill);

        shard->server->ops->on_kill(shard);
        shard_is_done(shard);
}

static void on_probe(struct mail *m) {
        struct net_shard *shard = CONTAINER_OF(m, struct net_shard, probe);

        atomic_fetch_sub(&shard->server->n_unprobed, 1);
}

static void init_shards(struct net_server *s) {
        size_t n_shards = loop_group_size(s->loops);

        s->shards = mem_zalloc(n_shards * s->ops->shard_bytes);
        while (s->n_shards < n_shards) {
                struct net_shard *shard = shard_at(s, s->n_shards);

                shard->server = s;
                shard->loop = loop_group_get(s->loops, s->n_shards++);
                list_init(&shard->conns);
                shard->drain.deliver = on_drain;
                shard->kill.deliver = on_kill;
                shard->probe.deliver = on_probe;
                s->ops->on_shard(shard, s->options.owner);
        }
}

static struct error *open_listener(struct net_server *s, const struct net_server_options *o) {
        const struct listener_options listening = {
                .address = o->address,
                .set_by = o->set_by,
                .port = s->options.port,
                .reuse_port = s->options.reuse_port,
                .inherited_fd = s->options.inherited_fd,
                .loops = s->loops,
                .on_accept = on_accept,
                .can_accept = can_accept,
                .on_refused = on_refused,
                .owner = s,
        };

        TRY(listener_open(&listening, &s->listener));
        s->port = listener_port(s->listener);
        return NULL;
}

struct error *net_server_new(const struct net_server_options *o, const struct net_server_ops *ops,
                             struct net_server **ret) {
        struct net_server *s = mem_zalloc(sizeof(*s));
        size_t             n_threads = o->n_threads > 0 ? o->n_threads : thread_cpu_count();
        struct error      *err;

        s->options = *o;
        s->options.address = s->options.set_by = NULL;
        s->ops = ops;
        s->security = (struct conn_security){
                .context = o->tls,
                .handshake_time_ns = o->limits.handshake_time_ns,
                .on_rejected = o->on_rejected,
                .owner = o->rejected_owner,
        };
        if (o->limits.connections_per_address > 0)
                s->peers = peer_table_new(o->limits.connections_per_address);
        mutex_init(&s->lock, LOCK_LEAF);
        cond_init(&s->changed);
        err = loop_group_new(o->name, n_threads, &s->loops);
        if (err == NULL && o->budget != NULL)
                loop_group_set_budget(s->loops, o->budget);
        if (err == NULL) {
                init_shards(s);
                err = open_listener(s, o);
        }
        if (err != NULL) {
                net_server_free(s);
                return err;
        }
        *ret = s;
        return NULL;
}

void net_server_start(struct net_server *s) {
        listener_start(s->listener);
}

/* Posts a mail to every loop; returns after all loops have handled it. */
static void run_on_shards(struct net_server *s, size_t mail_offset) {
        mutex_lock(&s->lock);
        s->n_shards_busy = s->n_shards;
        mutex_unlock(&s->lock);
        for (size_t i = 0; i < s->n_shards; i++)
                mailbox_post(loop_mailbox(shard_at(s, i)->loop),
                             (struct mail *)(void *)((char *)shard_at(s, i) + mail_offset));
        mutex_lock(&s->lock);
        while (s->n_shards_busy > 0)
                cond_wait(&s->changed, &s->lock);
        mutex_unlock(&s->lock);
}

bool net_server_probe(struct net_server *s) {
        if (atomic_load(&s->n_unprobed) > 0)
                return false;
        atomic_store(&s->n_unprobed, s->n_shards);
        for (size_t i = 0; i < s->n_shards; i++)
                mailbox_post(loop_mailbox(shard_at(s, i)->loop), &shard_at(s, i)->probe);
        return true;
}

void net_server_stop(struct net_server *s) {
        if (s->listener == NULL)
                return;
        listener_close(STEAL(s->listener));
        run_on_shards(s, offsetof(struct net_shard, drain));
}

size_t net_server_wait(struct net_server *s, uint64_t deadline_ns) {
        MUTEX_GUARD(&s->lock);

        while (s->n_conns > 0 && cond_wait_until(&s->changed, &s->lock, deadline_ns))
                ;
        return s->n_conns;
}

void net_server_free(struct net_server *s) {
        if (s == NULL)
                return;
        net_server_stop(s);
        run_on_shards(s, offsetof(struct net_shard, kill));
        net_server_wait(s, CLOCK_NEVER);
        loop_group_free(s->loops);
        for (size_t i = 0; i < s->n_shards; i++)
                s->ops->on_shard_done(shard_at(s, i));
        free(s->shards);
        peer_table_free(s->peers);
        cond_done(&s->changed);
        mutex_done(&s->lock);
        free(s);
}

uint16_t net_server_port(const struct net_server *s) {
        return s->port;
}

size_t net_server_n_loops(const struct net_server *s) {
        return s->n_shards;
}

size_t net_server_n_connections(struct net_server *s) {
        MUTEX_GUARD(&s->lock);

        return s->n_conns;
}
