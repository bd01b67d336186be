/* SPDX-License-Identifier: BSD-3-Clause */
/* An HTTP server: a listening socket, loops, a route table, and what may be asked of it.
 *
 * The same machinery carries the inference API (http_api_routes()) and the metrics page
 * (http_metrics_routes()), each as a server of its own.
 *
 *     http_server_new -> net_server_start -> ... -> net_server_stop, net_server_wait -> free
 *
 * stop() ends accepting, closes connections that wait for a request, and lets the others finish
 * their request, which is answered with "Connection: close". wait() sleeps until the last
 * connection is gone or the deadline has passed. free() closes what is left and then waits for
 * handlers that have not answered: whoever works for them must still be alive, or be cancelled.
 *
 * Ownership.  Options are copied, except what is marked borrowed.
 * Threads.  new, start, stop, wait, free: one thread that is no loop. Callbacks: any loop.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"
#include "control/service.h"
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

/* Limits at their defaults, everything else zero. */
void http_server_options_init(struct http_server_options *o);

/* Binds and listens, so that the port is known; accepts nothing yet. */
struct error *http_server_new(const struct http_server_options *o, struct http_server **ret)
        NODISCARD;
void http_server_free(struct http_server *s); /* NULL is fine; stops when needed */

/* Starts, stops and asks the server: borrowed. NULL for NULL. */
struct net_server *http_server_net(struct http_server *s);

/* The KServe v2 API and Triton's extensions (http_api.c). */
struct http_route_table http_api_routes(void);
/* "/metrics" (http_metrics.c). */
struct http_route_table http_metrics_routes(void);
