/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/grpc_server.h"

#include "base/buf.h"
#include "base/mem.h"
#include "grpc/h2_conn.h"
#include "net/loop.h"
#include "net/net_server.h"

struct grpc_server {
        struct grpc_server_options options;
        struct str                *paths; /* owned; paths of the methods, in the same order */
        struct net_server         *net;   /* owned */
};

void grpc_server_options_init(struct grpc_server_options *o) {
        *o = (struct grpc_server_options){ .net.name = "grpc" };
        net_limits_init(&o->net.limits);
        grpc_limits_init(&o->limits);
}

static struct h2_shard *h2_shard_of(struct net_shard *shard) {
        return CONTAINER_OF(shard, struct h2_shard, net);
}

void grpc_server_init_shard(struct h2_shard *shard, const struct grpc_server_options *o,
                            const struct str *paths) {
        h2_shard_init(shard, &grpc_call_stream_ops, &o->limits);
        shard->options = o;
        shard->paths = paths;
        shard->on_rejected = o->net.on_rejected;
        shard->rejected_owner = o->net.rejected_owner;
}

static void on_shard(struct net_shard *net, void *owner) {
        struct grpc_server *s = owner;
        struct h2_shard    *shard = h2_shard_of(net);

        grpc_server_init_shard(shard, &s->options, s->paths);
        shard->drain = s->options.service.drain;
        shard->pool = loop_buf_pool(net->loop);
        shard->blocks.account.budget = buf_pool_budget(shard->pool);
        shard->mailbox = loop_mailbox(net->loop);
}

static void on_shard_done(struct net_shard *shard) {
        h2_shard_done(h2_shard_of(shard));
}

static void on_accept(struct net_shard *shard, int fd) {
        h2_conn_open(h2_shard_of(shard), fd);
}

static bool on_make_room(struct net_shard *shard, enum leave_need need) {
        return h2_shard_make_room(h2_shard_of(shard), need);
}

static void on_drain(struct net_shard *shard) {
        LIST_FOR_EACH(&shard->conns, node)
                h2_conn_drain(LIST_ENTRY(node, struct h2_conn, place.node));
}

static void on_kill(struct net_shard *shard) {
        LIST_FOR_EACH(&shard->conns, node)
                h2_conn_kill(LIST_ENTRY(node, struct h2_conn, place.node));
}

static const struct net_server_ops server_ops = {
        .shard_bytes = sizeof(struct h2_shard),
        .on_shard = on_shard,
        .on_shard_done = on_shard_done,
        .on_accept = on_accept,
        .on_make_room = on_make_room,
        .on_drain = on_drain,
        .on_kill = on_kill,
};

static void measure_paths(struct grpc_server *s) {
        const struct grpc_method_table *table = &s->options.methods;

        s->paths = mem_zalloc((table->n_rows + 1) * sizeof(s->paths[0]));
        for (size_t i = 0; i < table->n_rows; i++)
                s->paths[i] = str_of(table->rows[i].path);
}

/* Access to a method without a group could not be checked. */
static struct error *check_methods(const struct grpc_method_table *table) {
        for (size_t i = 0; i < table->n_rows; i++)
                if (!endpoint_group_is_valid(table->rows[i].group))
                        return error_new(ERR_INTERNAL,
                                         "the method '%s' is in no group of endpoints",
                                         table->rows[i].path);
        return NULL;
}

struct error *grpc_server_new(const struct grpc_server_options *o, struct grpc_server **ret) {
        struct grpc_server       *s = mem_zalloc(sizeof(*s));
        struct net_server_options net = o->net;
        struct error             *err;

        net.owner = s;
        s->options = *o;
        s->options.net.address = NULL;
        measure_paths(s);
        err = check_methods(&o->methods);
        if (err == NULL)
                err = net_server_new(&net, &server_ops, &s->net);
        if (err != NULL) {
                free(s->paths);
                free(s);
                return err;
        }
        *ret = s;
        return NULL;
}

struct net_server *grpc_server_net(struct grpc_server *s) {
        return s != NULL ? s->net : NULL;
}

void grpc_server_free(struct grpc_server *s) {
        if (s == NULL)
                return;
        net_server_free(s->net);
        free(s->paths);
        free(s);
}
