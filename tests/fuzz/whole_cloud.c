/* SPDX-License-Identifier: BSD-3-Clause */
#include "whole_cloud.h"

#include "base/mem.h"
#include "call/hosted_models.h"
#include "http/http_cloud.h"

struct whole_cloud {
        struct hosted_models *models; /* owned */
        struct cloud_front    fronts[N_CLOUD_PORTS];
        struct http_server   *servers[N_CLOUD_PORTS]; /* owned; NULL: not started */
};

static void set_fronts(struct whole_cloud *c) {
        c->fronts[0] = (struct cloud_front){ .binary_type = SAGEMAKER_BINARY,
                                             .default_model = "numbers",
                                             .models = c->models };
        c->fronts[1] = (struct cloud_front){ .binary_type = SAGEMAKER_BINARY,
                                             .default_model = "texts",
                                             .inference = CLOUD_GENERATE_STREAM,
                                             .models = c->models };
        c->fronts[2] = (struct cloud_front){ .binary_type = VERTEX_AI_BINARY,
                                             .default_model = "texts",
                                             .predict_route = STR_LIT("/predict"),
                                             .health_route = STR_LIT("/health") };
}

struct error *whole_cloud_start(struct http_server_options options, struct whole_server *server,
                                struct whole_cloud **ret) {
        struct whole_cloud *c = mem_zalloc(sizeof(*c));

        c->models = hosted_models_new(server->core);
        set_fronts(c);
        *ret = c;
        for (size_t i = 0; i < N_CLOUD_PORTS; i++) {
                struct net_server *net;

                options.routes = i < 2 ? http_sagemaker_routes() : http_vertex_ai_routes();
                options.service.cloud = &c->fronts[i];
                TRY(http_server_new(&options, &c->servers[i]));
                net = http_server_net(c->servers[i]);
                net_server_start(net);
                server->cloud_ports[i] = net_server_port(net);
        }
        return NULL;
}

struct net_server *whole_cloud_net(struct whole_cloud *c, size_t index) {
        return c != NULL ? http_server_net(c->servers[index]) : NULL;
}

void whole_cloud_free(struct whole_cloud *c) {
        if (c == NULL)
                return;
        for (size_t i = 0; i < N_CLOUD_PORTS; i++)
                http_server_free(c->servers[i]);
        hosted_models_free(c->models);
        free(c);
}
