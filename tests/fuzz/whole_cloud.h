/* SPDX-License-Identifier: BSD-3-Clause */
/* The ports of the cloud platforms in the server of whole_server.h.
 *
 * Ownership.  whole_server.c, which stops their servers before it frees this.
 * Threads.  The target's thread.
 */
#pragma once

#include "base/error.h"
#include "http/http_server.h"
#include "whole_server.h"

#include <stddef.h>

struct whole_cloud;
struct net_server;

/* Each port has these options. Writes their numbers into `server`. */
struct error *whole_cloud_start(struct http_server_options options, struct whole_server *server,
                                struct whole_cloud **ret) NODISCARD;
/* NULL when there are no such ports. */
struct net_server *whole_cloud_net(struct whole_cloud *c, size_t index);
void               whole_cloud_free(struct whole_cloud *c); /* NULL is fine */
