/* SPDX-License-Identifier: BSD-3-Clause */
/* An HTTP server: a listening socket, loops, a route table, and limits.
 *
 * The inference API (http_api_routes()) and the metrics page (http_metrics_routes()) each have a server.
 *
 *     http_server_new -> net_server_start -> ... -> net_server_stop, net_server_wait -> free
 *
 * stop() ends accepting. It closes idle connections, and busy ones after their request, which is answered
 * with "Connection: close". wait() sleeps until the last connection is gone or the deadline has
 * passed. free() closes the remaining connections and then waits for handlers that have not answered: the
 * threads that work for them must still run, or their requests be cancelled.
 *
 * Ownership.  Options are copied, except what is marked borrowed.
 * Threads.  new, start, stop, wait, free: one thread, which runs no loop. Callbacks: any loop.
 */
#pragma once

#include "base/error.h"
#include "call/service.h"
#include "http/http_limits.h"
#include "http/http_route.h"
#include "net/net_server.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_server_options {
        struct net_server_options net; /* the server sets its `owner` */
        struct http_limits        limits;
        struct http_route_table   routes; /* rows borrowed: static */
        struct service            service;
};

struct http_server;

/* Sets limits to their defaults and everything else to zero. */
void http_server_options_init(struct http_server_options *o);

/* Binds and listens, so the port is known; does not accept yet. */
struct error *http_server_new(const struct http_server_options *o, struct http_server **ret)
        NODISCARD;
/* The same, and starts it: logs "Started <title> at <address>:<port>". */
struct error *http_server_start(const struct http_server_options *o, const char *title,
                                struct http_server **ret) NODISCARD;
void http_server_free(struct http_server *s); /* NULL is fine; stops first when necessary */

/* The server's lower part, which starts and stops it; borrowed. NULL for NULL. */
struct net_server *http_server_net(struct http_server *s);

/* The KServe v2 API and Triton's extensions (http_api.c). */
struct http_route_table http_api_routes(void);
/* The same for --allow-dashboard=false: the paths of the dashboard are unknown. */
struct http_route_table http_api_routes_without_dashboard(void);
/* The OpenAI API and the health of the server, for a port of its own (http_api.c). */
struct http_route_table http_openai_routes(void);
/* "/metrics" (http_metrics.c). */
struct http_route_table http_metrics_routes(void);
