/* SPDX-License-Identifier: BSD-3-Clause */
/* The struct of a server, for http_server.c and the connections that belong to it.
 */
#pragma once

#include "http/http_server.h"

struct net_server;

struct http_server {
        struct http_server_options options;
        struct net_server         *net; /* owned */
};
