/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/serve_grpc.h"

#include "base/clock.h"
#include "base/log.h"
#include "cli/cli_options.h"
#include "grpc/grpc_server.h"
#include "grpc/rpc_table.h"

void serve_grpc_init(struct serve_grpc *g) {
        *g = (struct serve_grpc){ 0 };
        endpoint_policy_init(&g->policy);
}

struct error *serve_grpc_prepare(struct serve_grpc *g, const struct cli_options *o,
                                 struct tls_context *tls) {
        const struct option_texts *protocols = &o->grpc_restricted_protocol;

        g->options = o;
        g->tls = tls;
        for (size_t i = 0; i < protocols->n_items; i++)
                TRY(endpoint_policy_add(&g->policy, protocols->items[i], "protocol",
                                        "triton-grpc-protocol-"));
        if (!grpc_compression_level_find(str_of(o->grpc_compression), &g->compression))
                return error_new(ERR_INVALID_ARG,
                                 "Bad option: \"--grpc-infer-response-compression-level\".\n"
                                 "expects none, low, medium or high, got: %s",
                                 o->grpc_compression);
        return NULL;
}

static uint64_t ns_of(int64_t ms) {
        return (uint64_t)ms * NS_PER_MS;
}

static void set_grpc_limits(const struct cli_options *o, struct grpc_limits *l) {
        l->header_bytes = (size_t)o->grpc_max_header_bytes;
        l->header_fields = (size_t)o->grpc_max_header_fields;
        l->message_bytes = (size_t)o->grpc_max_message_bytes;
        l->decompressed_bytes = (size_t)o->grpc_max_decompressed_bytes;
        l->streams = (uint32_t)o->grpc_max_streams;
        l->calls = 4 * l->streams;
        l->header_time_ns = ns_of(o->grpc_header_timeout_ms);
        l->message_window_bytes =
                (size_t)((uint64_t)o->grpc_min_message_rate * (l->message_window_ns / NS_PER_S));
        l->write_window_bytes =
                (size_t)((uint64_t)o->grpc_min_answer_rate * (l->write_stall_ns / NS_PER_S));
        l->resets_per_s = (uint32_t)o->grpc_max_reset_rate;
        l->resets_at_once = 10 * l->resets_per_s;
        l->keepalive_time_ns = ns_of(o->grpc_keepalive_ms);
        l->keepalive_timeout_ns = ns_of(o->grpc_keepalive_timeout_ms);
        l->keepalive_permit_without_calls = o->grpc_keepalive_without_calls;
        l->max_pings_without_data = (uint32_t)o->grpc_max_pings;
        l->min_recv_ping_interval_without_data_ns = ns_of(o->grpc_ping_interval_ms);
        l->max_ping_strikes = (uint32_t)o->grpc_max_ping_strikes;
        if (o->grpc_max_age_ms > 0)
                l->max_connection_age_ns = ns_of(o->grpc_max_age_ms);
        if (o->grpc_max_age_grace_ms > 0)
                l->max_connection_age_grace_ns = ns_of(o->grpc_max_age_grace_ms);
}

struct error *serve_grpc_start(struct serve_grpc *g, const struct service *service,
                               const struct net_server_options *net, struct admission *admission) {
        const struct cli_options  *o = g->options;
        struct grpc_server_options options;

        TRY(infer_core_init(&g->infer,
                            &(struct infer_core_options){
                                    .server = service->core,
                                    .shared_memory = service->shared_memory,
                                    .admission = admission,
                                    .header_forward_pattern = o->grpc_header_forward_pattern }));
        grpc_server_options_init(&options);
        options.net = *net;
        options.net.name = "neso-grpc";
        options.net.address = o->grpc_address;
        options.net.port = (uint16_t)o->grpc_port;
        options.net.set_by = "--grpc-address and --grpc-port";
        options.net.reuse_port = o->reuse_grpc_port;
        options.net.tls = g->tls;
        options.net.n_threads = (size_t)o->grpc_threads;
        options.net.limits = (struct net_limits){
                .connections = (size_t)o->grpc_max_connections,
                .connections_per_address =
                        cli_connections_per_address(o->grpc_max_connections_per_address,
                                                    o->grpc_max_connections),
                .handshake_time_ns = ns_of(o->grpc_header_timeout_ms),
        };
        set_grpc_limits(o, &options.limits);
        options.compression = g->compression;
        options.methods = rpc_table();
        options.service = *service;
        options.service.policy = &g->policy;
        options.service.infer = &g->infer;
        options.service.max_responses = (uint32_t)o->grpc_max_responses;
        TRY(grpc_server_new(&options, &g->server));
        net_server_start(grpc_server_net(g->server));
        log_info("Started GRPCInferenceService at %s:%u", o->grpc_address,
                 net_server_port(grpc_server_net(g->server)));
        return NULL;
}

void serve_grpc_done(struct serve_grpc *g) {
        endpoint_policy_done(&g->policy);
        grpc_server_free(g->server);
        infer_core_done(&g->infer);
}
