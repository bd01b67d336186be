/* SPDX-License-Identifier: BSD-3-Clause */
/* The API keys of `neso serve`: read before anything listens, read again on SIGHUP.
 *
 * Threads.  The main thread; refusals are counted on any loop.
 */
#pragma once

#include "auth/api_keys.h"
#include "auth/endpoint.h"
#include "base/error.h"

#include <stdbool.h>

struct TRITONSERVER_Server;
struct cli_options;

struct serve_keys {
        struct api_keys            *keys; /* owned; NULL = there is no key file */
        struct TRITONSERVER_Server *core; /* borrowed: counts refusals; NULL before it is there */
};

/* Reads the file of --api-key-file, if one is given. */
struct error *serve_keys_open(struct serve_keys *k, const struct cli_options *o) NODISCARD;
void          serve_keys_done(struct serve_keys *k);
/* Says in the log what is in force, and counts refusals from now on. Before any front end starts. */
void serve_keys_start(struct serve_keys *k, struct TRITONSERVER_Server *core);

/* From now on the policy's front end asks for keys, if there is a file. */
void serve_keys_apply(struct serve_keys *k, struct endpoint_policy *policy);

/* SIGHUP: reads the file again. What is wrong is logged, and the keys stay what they were. */
void serve_keys_reload(struct serve_keys *k);
