/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_server.h"

#include "auth/endpoint.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "http/http_conn.h"
#include "net/net_server.h"

#include <stdlib.h>

void http_server_options_init(struct http_server_options *o) {
        *o = (struct http_server_options){ .net.name = "http" };
        net_limits_init(&o->net.limits);
        http_limits_init(&o->limits);
}

static struct http_loop *http_home(struct net_home *home) {
        return CONTAINER_OF(home, struct http_loop, net);
}

static void arm_leave_timer(struct http_loop *home) {
        uint64_t leave_ns = home->server->options.limits.leave_ns;

        if (!loop_timer_arm(home->net.loop, &home->leave, clock_now_ns() + leave_ns))
                home->leave.fire(&home->leave); /* out of memory: do not wait */
}

/* Runs twice while the server stops. The first time, requests on their way have had time to arrive; the
 * second time, clients have had time to close their idle connections. Those that left in on_drain() have had
 * that time already the first time. */
static void on_leave(struct loop_timer *t) {
        struct http_loop *home = CONTAINER_OF(t, struct http_loop, leave);
        uint64_t          leave_ns = home->server->options.limits.leave_ns;
        uint64_t          now_ns = clock_now_ns();
        bool              is_second = home->is_leaving;

        home->is_leaving = true;
        LIST_FOR_EACH(&home->net.conns, node) {
                struct http_conn *c = LIST_ENTRY(node, struct http_conn, place.node);

                if (is_second || http_conn_has_left(c, now_ns, leave_ns))
                        http_conn_give_up(c);
                else
                        http_conn_leave(c);
        }
        if (!is_second)
                arm_leave_timer(home);
}

static void on_home(struct net_home *net, void *owner) {
        struct http_loop   *home = http_home(net);
        struct http_server *server = owner;

        home->server = server;
        home->scratch = mem_alloc(HTTP_READ_BYTES);
        list_init(&home->waiting);
        loop_timer_init(&home->leave, on_leave);
}

static void on_home_done(struct net_home *net) {
        struct http_loop *home = http_home(net);

        while (home->n_spare > 0)
                buf_unref(home->spare[--home->n_spare]);
        free(home->scratch);
}

static void on_accept(struct net_home *home, int fd) {
        http_conn_open(http_home(home), fd);
}

static bool on_make_room(struct net_home *home, enum leave_need need) {
        return http_loop_make_room(http_home(home), need);
}

/* A connection that has been idle for as long as the others may still send a request leaves at once. */
static void on_drain(struct net_home *net) {
        struct http_loop *home = http_home(net);
        uint64_t          leave_ns = home->server->options.limits.leave_ns;
        uint64_t          now_ns = clock_now_ns();

        LIST_FOR_EACH(&net->conns, node) {
                struct http_conn *c = LIST_ENTRY(node, struct http_conn, place.node);

                if (http_conn_is_quiet(c, now_ns, leave_ns))
                        http_conn_leave(c);
        }
        arm_leave_timer(home);
}

static void on_kill(struct net_home *home) {
        loop_timer_cancel(&http_home(home)->leave);
        LIST_FOR_EACH(&home->conns, node)
                http_conn_close(LIST_ENTRY(node, struct http_conn, place.node));
}

static const struct net_server_ops server_ops = {
        .home_bytes = sizeof(struct http_loop),
        .on_home = on_home,
        .on_home_done = on_home_done,
        .on_accept = on_accept,
        .on_make_room = on_make_room,
        .on_drain = on_drain,
        .on_kill = on_kill,
};

struct error *http_server_new(const struct http_server_options *o, struct http_server **ret) {
        struct http_server       *s = mem_zalloc(sizeof(*s));
        struct net_server_options net = o->net;
        struct error             *err;

        net.owner = s;
        s->options = *o;
        s->options.net.address = NULL;
        err = http_route_check(&o->routes);
        if (err == NULL)
                err = net_server_new(&net, &server_ops, &s->net);
        if (err != NULL) {
                free(s);
                return err;
        }
        *ret = s;
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
