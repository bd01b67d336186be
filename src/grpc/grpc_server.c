/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/grpc_server.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "grpc/h2_conn.h"
#include "net/listener.h"
#include "net/loop.h"

struct grpc_server {
        struct grpc_server_options options;
        struct str                *paths;    /* owned; of the methods, same order */
        struct listener           *listener; /* owned; NULL once stopped */
        struct loop_group         *loops;    /* owned */
        struct h2_loop            *homes;    /* owned; one per loop */
        uint16_t                   port;
        size_t                     n_homes;

        struct mutex lock; /* rank LOCK_MAILBOX; guards what follows */
        struct cond  changed;
        size_t       n_conns; /* struct h2_conn alive, those dealt included */
        size_t       n_homes_busy; /* loops that have not yet done what they were told */
};

void grpc_server_options_init(struct grpc_server_options *o) {
        *o = (struct grpc_server_options){ .name = "grpc" };
        grpc_limits_init(&o->limits);
        o->service.max_message_bytes = o->limits.message_bytes;
}

static void on_conn_gone(struct h2_loop *home) {
        struct grpc_server *s = home->server;
        MUTEX_GUARD(&s->lock);

        if (--s->n_conns == 0)
                cond_broadcast(&s->changed);
}

static bool can_accept(void *owner) {
        struct grpc_server *s = owner;
        bool                is_room;

        mutex_lock(&s->lock);
        is_room = s->n_conns < s->options.limits.connections;
        if (is_room)
                s->n_conns++;
        mutex_unlock(&s->lock);
        if (!is_room && s->options.on_rejected)
                s->options.on_rejected(s->options.owner,
                                       grpc_limit_name(GRPC_LIMIT_CONNECTIONS));
        return is_room;
}

static void on_accept(void *owner, struct loop *l, int fd) {
        struct grpc_server *s = owner;

        h2_conn_open(&s->homes[loop_index(l)], fd);
}

static void home_has_done(struct h2_loop *home) {
        struct grpc_server *s = home->server;
        MUTEX_GUARD(&s->lock);

        if (--s->n_homes_busy == 0)
                cond_broadcast(&s->changed);
}

static void on_drain(struct mail *m) {
        struct h2_loop *home = CONTAINER_OF(m, struct h2_loop, drain);

        home->is_draining = true;
        LIST_FOR_EACH(&home->conns, node)
                h2_conn_drain(LIST_ENTRY(node, struct h2_conn, node));
        home_has_done(home);
}

static void on_kill(struct mail *m) {
        struct h2_loop *home = CONTAINER_OF(m, struct h2_loop, kill);

        LIST_FOR_EACH(&home->conns, node)
                h2_conn_kill(LIST_ENTRY(node, struct h2_conn, node));
        home_has_done(home);
}

static void init_homes(struct grpc_server *s) {
        s->n_homes = loop_group_size(s->loops);
        s->homes = mem_zalloc(s->n_homes * sizeof(s->homes[0]));
        for (size_t i = 0; i < s->n_homes; i++) {
                struct h2_loop *home = &s->homes[i];

                h2_loop_init(home, &s->options, s->paths);
                home->loop = loop_group_get(s->loops, i);
                home->pool = loop_buf_pool(home->loop);
                home->mailbox = loop_mailbox(home->loop);
                home->server = s;
                home->on_conn_gone = on_conn_gone;
                home->drain.deliver = on_drain;
                home->kill.deliver = on_kill;
        }
}

static void measure_paths(struct grpc_server *s) {
        const struct grpc_method_table *table = &s->options.methods;

        s->paths = mem_zalloc((table->n_rows + 1) * sizeof(s->paths[0]));
        for (size_t i = 0; i < table->n_rows; i++)
                s->paths[i] = str_of(table->rows[i].path);
}

struct error *grpc_server_new(const struct grpc_server_options *o, struct grpc_server **ret) {
        struct grpc_server *s = mem_zalloc(sizeof(*s));
        size_t              n_threads = o->n_threads > 0 ? o->n_threads : thread_cpu_count();
        struct error       *err;

        s->options = *o;
        s->options.address = NULL;
        measure_paths(s);
        mutex_init(&s->lock, LOCK_MAILBOX);
        cond_init(&s->changed);
        err = loop_group_new(o->name, n_threads, &s->loops);
        if (!err) {
                const struct listener_options listening = {
                        .address = o->address,
                        .port = o->port,
                        .reuse_port = o->reuse_port,
                        .loops = s->loops,
                        .on_accept = on_accept,
                        .can_accept = can_accept,
                        .owner = s,
                };

                init_homes(s);
                err = listener_open(&listening, &s->listener);
        }
        if (err) {
                grpc_server_free(s);
                return err;
        }
        s->port = listener_port(s->listener);
        *ret = s;
        return NULL;
}

void grpc_server_start(struct grpc_server *s) {
        listener_start(s->listener);
}

/* Every loop gets its mail; returns when all have done what it says. */
static void tell_homes(struct grpc_server *s, size_t mail_offset) {
        mutex_lock(&s->lock);
        s->n_homes_busy = s->n_homes;
        mutex_unlock(&s->lock);
        for (size_t i = 0; i < s->n_homes; i++)
                mailbox_post(s->homes[i].mailbox,
                             (struct mail *)(void *)((char *)&s->homes[i] + mail_offset));
        mutex_lock(&s->lock);
        while (s->n_homes_busy > 0)
                cond_wait(&s->changed, &s->lock);
        mutex_unlock(&s->lock);
}

void grpc_server_stop(struct grpc_server *s) {
        if (!s->listener)
                return;
        listener_close(STEAL(s->listener));
        tell_homes(s, offsetof(struct h2_loop, drain));
}

size_t grpc_server_wait(struct grpc_server *s, uint64_t deadline_ns) {
        MUTEX_GUARD(&s->lock);

        while (s->n_conns > 0 && cond_wait_until(&s->changed, &s->lock, deadline_ns))
                ;
        return s->n_conns;
}

void grpc_server_free(struct grpc_server *s) {
        if (!s)
                return;
        grpc_server_stop(s);
        if (s->homes) {
                tell_homes(s, offsetof(struct h2_loop, kill));
                grpc_server_wait(s, CLOCK_NEVER);
        }
        loop_group_free(s->loops);
        for (size_t i = 0; i < s->n_homes; i++)
                h2_loop_done(&s->homes[i]);
        free(s->homes);
        free(s->paths);
        cond_done(&s->changed);
        mutex_done(&s->lock);
        free(s);
}

uint16_t grpc_server_port(const struct grpc_server *s) {
        return s->port;
}

size_t grpc_server_n_connections(struct grpc_server *s) {
        MUTEX_GUARD(&s->lock);

        return s->n_conns;
}
