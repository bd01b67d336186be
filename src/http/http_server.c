/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_server.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "http/http_server_private.h"
#include "net/listener.h"
#include "net/loop.h"

#include <unistd.h>

void http_server_options_init(struct http_server_options *o) {
        *o = (struct http_server_options){ .name = "http" };
        http_limits_init(&o->limits);
}

void http_server_conn_gone(struct http_server *s) {
        MUTEX_GUARD(&s->lock);

        if (--s->n_conns == 0)
                cond_broadcast(&s->changed);
}

static bool can_accept(void *owner) {
        struct http_server *s = owner;
        bool                is_room;

        mutex_lock(&s->lock);
        is_room = s->n_conns < s->options.limits.connections;
        if (is_room)
                s->n_conns++;
        mutex_unlock(&s->lock);
        if (!is_room && s->options.on_rejected)
                s->options.on_rejected(s->options.owner,
                                       http_limit_name(HTTP_LIMIT_CONNECTIONS));
        return is_room;
}

static void on_accept(void *owner, struct loop *l, int fd) {
        struct http_server *s = owner;

        http_conn_open(&s->homes[loop_index(l)], fd);
}

static void home_has_done(struct http_loop *home) {
        struct http_server *s = home->server;
        MUTEX_GUARD(&s->lock);

        if (--s->n_homes_busy == 0)
                cond_broadcast(&s->changed);
}

static void on_drain(struct mail *m) {
        struct http_loop *home = CONTAINER_OF(m, struct http_loop, drain);

        home->is_draining = true;
        LIST_FOR_EACH(&home->conns, node)
                http_conn_drain(LIST_ENTRY(node, struct http_conn, node));
        home_has_done(home);
}

static void on_kill(struct mail *m) {
        struct http_loop *home = CONTAINER_OF(m, struct http_loop, kill);

        LIST_FOR_EACH(&home->conns, node)
                http_conn_close(LIST_ENTRY(node, struct http_conn, node));
        home_has_done(home);
}

static void init_homes(struct http_server *s) {
        s->n_homes = loop_group_size(s->loops);
        s->homes = mem_zalloc(s->n_homes * sizeof(s->homes[0]));
        for (size_t i = 0; i < s->n_homes; i++) {
                struct http_loop *home = &s->homes[i];

                home->server = s;
                home->loop = loop_group_get(s->loops, i);
                list_init(&home->conns);
                home->drain.deliver = on_drain;
                home->kill.deliver = on_kill;
        }
}

struct error *http_server_new(const struct http_server_options *o, struct http_server **ret) {
        struct http_server *s = mem_zalloc(sizeof(*s));
        size_t              n_threads = o->n_threads > 0 ? o->n_threads : thread_cpu_count();
        struct error       *err;

        s->options = *o;
        s->options.address = NULL;
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
                http_server_free(s);
                return err;
        }
        s->port = listener_port(s->listener);
        *ret = s;
        return NULL;
}

void http_server_start(struct http_server *s) {
        listener_start(s->listener);
}

/* Every loop gets its mail; returns when all have done what it says. */
static void tell_homes(struct http_server *s, size_t mail_offset) {
        mutex_lock(&s->lock);
        s->n_homes_busy = s->n_homes;
        mutex_unlock(&s->lock);
        for (size_t i = 0; i < s->n_homes; i++)
                mailbox_post(loop_mailbox(s->homes[i].loop),
                             (struct mail *)(void *)((char *)&s->homes[i] + mail_offset));
        mutex_lock(&s->lock);
        while (s->n_homes_busy > 0)
                cond_wait(&s->changed, &s->lock);
        mutex_unlock(&s->lock);
}

void http_server_stop(struct http_server *s) {
        if (!s->listener)
                return;
        listener_close(STEAL(s->listener));
        tell_homes(s, offsetof(struct http_loop, drain));
}

size_t http_server_wait(struct http_server *s, uint64_t deadline_ns) {
        MUTEX_GUARD(&s->lock);

        while (s->n_conns > 0 && cond_wait_until(&s->changed, &s->lock, deadline_ns))
                ;
        return s->n_conns;
}

void http_server_free(struct http_server *s) {
        if (!s)
                return;
        http_server_stop(s);
        if (s->homes) {
                tell_homes(s, offsetof(struct http_loop, kill));
                http_server_wait(s, CLOCK_NEVER);
        }
        loop_group_free(s->loops);
        for (size_t i = 0; i < s->n_homes; i++)
                while (s->homes[i].n_spare > 0)
                        buf_unref(s->homes[i].spare[--s->homes[i].n_spare]);
        free(s->homes);
        cond_done(&s->changed);
        mutex_done(&s->lock);
        free(s);
}

uint16_t http_server_port(const struct http_server *s) {
        return s->port;
}

size_t http_server_n_connections(struct http_server *s) {
        MUTEX_GUARD(&s->lock);

        return s->n_conns;
}
