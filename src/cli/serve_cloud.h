/* SPDX-License-Identifier: BSD-3-Clause */
/* The ports for SageMaker and Vertex AI: their options, the variables that these platforms set, and the
 * servers.
 *
 *     set_defaults (before the options are read) -> complete -> prepare (before the models are loaded)
 *     -> start -> done
 *
 * Ownership.  Embedded in struct serve; the options outlive it.
 * Threads.  The main thread.
 */
#pragma once

#include "base/error.h"
#include "http/http_cloud.h"

struct TRITONSERVER_Server;
struct cli_options;
struct hosted_models;
struct http_server;
struct http_server_options;

struct serve_cloud {
        const struct cli_options *options; /* borrowed */
        struct cloud_front        sagemaker_front;
        struct cloud_front        vertex_ai_front;
        struct hosted_models     *models;        /* owned; of SageMaker */
        char                     *default_model; /* owned; of Vertex AI */
        struct http_server       *sagemaker;     /* owned; NULL = not open */
        struct http_server       *vertex_ai;     /* owned; NULL = not open */
};

/* Sets what the environment gives as defaults: AIP_MODE=PREDICTION turns Vertex AI on and HTTP and GRPC
 * off, and AIP_HTTP_PORT is its port. */
struct error *serve_cloud_set_defaults(struct cli_options *o) NODISCARD;
/* Adds what the environment gives and the command line has not: AIP_STORAGE_URI as the repository, and
 * MODEL_NAME as --model-name. */
struct error *serve_cloud_complete(struct cli_options *o) NODISCARD;
/* Checks options and variables. INVALID_ARG names the one that is wrong or missing. */
struct error *serve_cloud_prepare(struct serve_cloud *c, const struct cli_options *o) NODISCARD;
/* Opens the ports that the options turn on. `base` has what they share with the HTTP port. */
struct error *serve_cloud_start(struct serve_cloud *c, struct TRITONSERVER_Server *core,
                                const struct http_server_options *base) NODISCARD;
/* The ports must be closed. */
void serve_cloud_done(struct serve_cloud *c);
