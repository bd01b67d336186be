/* SPDX-License-Identifier: BSD-3-Clause */
/* A server with models of the fake backend, in folders of its own.
 *
 * Ownership.  server_place_end() frees everything; it stops the server where that is still to do.
 */
#pragma once

#include "backend/fake_host.h"
#include "backend/temp_tree.h"
#include "server/server.h"
#include "server/server_options.h"

struct server_place {
        struct temp_tree       tree;
        struct fake_library    library;
        struct server_options *options; /* owned; for the test to change before it starts */
        struct server         *server;  /* owned; NULL: not started */
};

/* Inputs and outputs as probe_add_row() has them. */
#define SERVER_PLACE_CONFIG                                                                        \
        "backend: 'fake' max_batch_size: 4 "                                                       \
        "input [{ name: 'IN' data_type: TYPE_INT32 dims: [ 2 ] }] "                                \
        "output [{ name: 'OUT' data_type: TYPE_INT32 dims: [ 2 ] }] "

void server_place_begin(struct server_place *p);
void server_place_end(struct server_place *p);

/* models/<name>/config.pbtxt with this text, and versions 1 to n. */
void server_place_add(struct server_place *p, const char *name, const char *config,
                      unsigned n_versions);
/* Starts it; that must succeed. */
void server_place_start(struct server_place *p);
