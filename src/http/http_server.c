/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_server.h"

#include "auth/endpoint.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "http/http_conn.h"
#include "net/net_server.h"

#include <stdlib.h>

void http_server_options_init(struct http_server_options *o) {
        *o = (struct http_server_options){ .net.name = "http" };
        net_limits_init(&o->net.limits);
        http_limits_init(&o->limits);
}

static struct http_shard *http_shard_of(struct net_shard *shard) {
        return CONTAINER_OF(shard, struct http_shard, net);
}

static void arm_leave_timer(struct http_shard *shard) {
        uint64_t leave_ns = shard->server->options.limits.leave_ns;

        if (!loop_timer_arm(shard->net.loop, &shard->leave, clock_now_ns() + leave_ns))
                shard->leave.fire(&shard->leave); /* out of memory: do not wait */
}

/* Runs twice while the server stops. The first time, requests on their way have had time to arrive; the
 * second time, clients have had time to close their idle connections. Those that left in on_drain() have had
 * that time already the first time. */
static void on_leave(struct loop_timer *t) {
        struct http_shard *shard = CONTAINER_OF(t, struct http_shard, leave);
        uint64_t           leave_ns = shard->server->options.limits.leave_ns;
        uint64_t           now_ns = clock_now_ns();
        bool               is_second = shard->is_leaving;

        shard->is_leaving = true;
        LIST_FOR_EACH(&shard->net.conns, node) {
                struct http_conn *c = LIST_ENTRY(node, struct http_conn, place.node);

                if (is_second || http_conn_has_left(c, now_ns, leave_ns))
                        http_conn_give_up(c, now_ns, leave_ns);
                else
                        http_conn_leave(c);
        }
        if (!is_second)
                arm_leave_timer(shard);
}

static void on_shard(struct net_shard *net, void *owner) {
        struct http_shard  *shard = http_shard_of(net);
        struct http_server *server = owner;

        shard->server = server;
        shard->scratch = mem_alloc(HTTP_READ_BYTES);
        list_init(&shard->waiting);
        loop_timer_init(&shard->leave, on_leave);
}

static void on_shard_done(struct net_shard *net) {
        struct http_shard *shard = http_shard_of(net);

        while (shard->n_spare > 0)
                buf_unref(shard->spare[--shard->n_spare]);
        free(shard->scratch);
}

static void on_accept(struct net_shard *shard, int fd) {
        http_conn_open(http_shard_of(shard), fd);
}

static bool on_make_room(struct net_shard *shard, enum leave_need need) {
        return http_shard_make_room(http_shard_of(shard), need);
}

/* A connection that has been idle for as long as the others may still send a request leaves at once. */
static void on_drain(struct net_shard *net) {
        struct http_shard *shard = http_shard_of(net);
        uint64_t           leave_ns = shard->server->options.limits.leave_ns;
        uint64_t           now_ns = clock_now_ns();

        LIST_FOR_EACH(&net->conns, node) {
                struct http_conn *c = LIST_ENTRY(node, struct http_conn, place.node);

                if (http_conn_is_quiet(c, now_ns, leave_ns))
                        http_conn_leave(c);
        }
        arm_leave_timer(shard);
}

static void on_kill(struct net_shard *shard) {
        loop_timer_cancel(&http_shard_of(shard)->leave);
        LIST_FOR_EACH(&shard->conns, node)
                http_conn_close(LIST_ENTRY(node, struct http_conn, place.node));
}

static const struct net_server_ops server_ops = {
        .shard_bytes = sizeof(struct http_shard),
        .on_shard = on_shard,
        .on_shard_done = on_shard_done,
        .on_accept = on_accept,
        .on_make_room = on_make_room,
        .on_drain = on_drain,
        .on_kill = on_kill,
};

struct error *http_server_new(const struct http_server_options *o, struct http_server **ret) {
        struct http_server       *s = mem_zalloc(sizeof(*s));
        struct net_server_options net = o->net;

        net.owner = s;
        s->options = *o;
        s->options.net.address = NULL;
        TRY_OR(http_route_check(&o->routes), free(s));
        TRY_OR(net_server_new(&net, &server_ops, &s->net), free(s));
        *ret = s;
        return NULL;
}

struct error *http_server_start(const struct http_server_options *o, const char *title,
                                struct http_server **ret) {
        TRY(http_server_new(o, ret));
        net_server_start((*ret)->net);
        log_info("Started %s at %s:%u", title, o->net.address, net_server_port((*ret)->net));
        return NULL;
}

struct net_server *http_server_net(struct http_server *s) {
        return s != NULL ? s->net : NULL;
}

void http_server_free(struct http_server *s) {
        if (s == NULL)
                return;
        net_server_free(s->net);
        free(s);
}
