/* SPDX-License-Identifier: BSD-3-Clause */
/* An HTTP server: a listening socket, loops, a route table, and what may be asked of it.
 *
 * The same machinery carries the inference API (http_api_routes()) and the metrics page
 * (http_metrics_routes()), each as a server of its own.
 *
 *     http_server_new -> start -> ... -> stop -> wait (as often as wanted) -> free
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
#include "http/http_limits.h"
#include "http/http_route.h"
#include "http/http_service.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct byte_budget;
struct tls_context;

/* One finished request, for the access log. Ranges hold during the call. */
struct http_access {
        const char *peer;
        struct str  method, path, model;
        struct str  key; /* the name of the API key; ptr NULL when there was none */
        unsigned    status;
        uint64_t    bytes_in;  /* head and body as received */
        uint64_t    bytes_out; /* head and body as written */
        uint64_t    duration_ns;
        bool        is_aborted; /* the client had gone */
};

struct http_server_options {
        const char *name;       /* of the threads; static */
        const char *address;    /* NULL = 0.0.0.0; borrowed for the call */
        uint16_t    port;       /* 0 = any free one */
        bool        reuse_port;
        size_t      n_threads;  /* 0 = one per core */
        struct tls_context *tls; /* borrowed; NULL = plain */
        struct byte_budget *budget; /* borrowed; NULL = memory is not counted */
        struct http_limits      limits;
        struct http_route_table routes;  /* rows borrowed: static */
        struct http_service     service;

        /* NULL = nobody counts, nobody logs. Must not block. */
        void (*on_rejected)(void *owner, const char *limit);
        void (*on_access)(void *owner, const struct http_access *access);
        void  *owner; /* borrowed: the callbacks' */
};

struct http_server;

/* Limits at their defaults, everything else zero. */
void http_server_options_init(struct http_server_options *o);

/* Binds and listens, so that the port is known; accepts nothing yet. */
struct error *http_server_new(const struct http_server_options *o,
                              struct http_server **ret) NODISCARD;
void          http_server_start(struct http_server *s);
void          http_server_stop(struct http_server *s);
/* The number of connections left: 0 = all gone before the deadline (monotonic ns). */
size_t        http_server_wait(struct http_server *s, uint64_t deadline_ns);
void          http_server_free(struct http_server *s); /* NULL is fine; stops when needed */

uint16_t http_server_port(const struct http_server *s);
size_t   http_server_n_connections(struct http_server *s);

/* The KServe v2 API and Triton's extensions (http_api.c). */
struct http_route_table http_api_routes(void);
/* "/metrics" (http_metrics.c). */
struct http_route_table http_metrics_routes(void);
