/* SPDX-License-Identifier: BSD-3-Clause */
/* The server as users run it, within a fuzz target: the core with models of the identity backend, HTTP
 * and gRPC on ports of their own, and a client that writes bytes and reads until the connection ends.
 *
 * The models, in a folder that the end of the program removes, are those of whole_models.c: "numbers" (FP32),
 * "texts" (BYTES), "batches" (FP32, dynamic batching), and those of a full server. Only what whole_server_options switches on lets a client change
 * more than that: without it no model can be loaded and no region registered, so that inputs find the
 * same server.
 *
 * Ownership.  One server per process; whole_server_get() starts it, the end of the program stops it and
 * asserts that it stops.
 * Threads.  The target's thread.
 */
#pragma once

#include "base/str.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct TRITONSERVER_Server;
struct shared_memory;

/* Ports of the cloud platforms: SageMaker with inferences, SageMaker with streams, Vertex AI. */
#define N_CLOUD_PORTS 3

struct whole_server_options {
        bool        may_load;     /* model control mode explicit; else none */
        bool        has_regions;  /* clients may register shared memory */
        bool        needs_no_net; /* without ports */
        bool        is_strict;    /* configurations are not completed */
        bool        is_full;      /* all models; over HTTP the OpenAI API and the dashboard, too */
        bool        has_cloud;    /* with the ports of the cloud platforms; needs may_load */
        const char *cache;        /* name of a response cache below FUZZ_CACHES; or NULL */
        const char *const
                *python_settings; /* keys and values of its backend, NULL at the end; or NULL */
};

struct whole_server {
        struct TRITONSERVER_Server *core;
        const char                 *models;  /* path of the repository */
        struct shared_memory       *regions; /* NULL without has_regions */
        uint16_t                    http_port, grpc_port;
        uint16_t                    cloud_ports[N_CLOUD_PORTS];
};

/* The options count at the first call. */
const struct whole_server *whole_server_get(const struct whole_server_options *options);

/* Writes models/<name>/config.pbtxt and the folder of version 1. */
void whole_server_put_config(const char *name, struct str config);

/* Submits a request with 8 bytes for the input "I". Ends the program unless it is refused, or answered and
 * released once each. */
void whole_server_infer(const char *model, bool cancels);

/* Sends the bytes in pieces of that size (0: in one), closes the sending side, and reads all answers into
 * `ret`, whose max bounds them. False: the connection was reset, so that the answers may be cut. */
bool whole_server_talk(uint16_t port, struct str bytes, size_t piece, struct strbuf *ret);
/* The same, but the client closes its side after the server has closed its own, or has become silent: a server
 * need not begin to answer a client that has left. `last` is sent behind the bytes, in one piece. */
bool whole_server_talk_to_end(uint16_t port, struct str bytes, struct str last, size_t piece,
                              struct strbuf *ret);

/* HTTP. `how`: the size of the pieces, and WHOLE_CLOSES_AT_ONCE for whole_server_talk(). */
#define WHOLE_CLOSES_AT_ONCE 0x80
bool whole_server_talk_http(uint16_t port, struct str bytes, uint8_t how, struct strbuf *ret);

/* True for bytes that could make an inference of "several" take long: it does what a request says. */
bool whole_server_is_slow(struct str requests);

/* False for bytes whose answers cannot be told apart: an answer to HEAD has the length of a body that does not
 * follow, one to HTTP/1.0 may end with its connection. */
bool whole_server_can_check(struct str requests);
/* Ends the program unless the text is a series of HTTP/1.1 answers, of which the last may be cut. */
void whole_server_check_answers(struct str text);

/* Sends one POST and reads its answer. Returns the status; the body is appended to `ret_body`. */
int whole_server_ask(const char *path, struct str body, struct strbuf *ret_body);
