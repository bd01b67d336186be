/* SPDX-License-Identifier: BSD-3-Clause */
/* The fronts for the cloud platforms SageMaker and Vertex AI: further HTTP ports with paths of their
 * own, which lead to the handlers of the usual front. So requests have the same limits, access rules,
 * traces and log lines there. What differs:
 *
 *                          SageMaker                      Vertex AI
 *     paths                /ping /invocations /models...  those of AIP_HEALTH_ROUTE, AIP_PREDICT_ROUTE
 *     other paths          400 without a body             400 without a body
 *     health               200, or 400 without a body     the same
 *     length of the JSON   a parameter of Content-Type, in requests and answers
 *
 * Ownership.  A struct cloud_front is filled before its server starts and outlives it.
 * Threads.  Any; it is constant while the server runs.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"
#include "http/http_route.h"

#include <stdbool.h>
#include <stddef.h>

struct hosted_models;

enum cloud_inference {
        CLOUD_INFER,
        CLOUD_GENERATE,
        CLOUD_GENERATE_STREAM,
        N_CLOUD_INFERENCES,
};

/* The media types of bodies with binary tensors. Their parameter is CLOUD_JSON_SIZE. */
#define SAGEMAKER_BINARY "application/vnd.sagemaker-triton.binary+json"
#define VERTEX_AI_BINARY "application/vnd.vertex-ai-triton.binary+json"
#define CLOUD_JSON_SIZE "json-header-size"
/* Room for one of them with its parameter. */
#define CLOUD_TYPE_BYTES (sizeof(SAGEMAKER_BINARY ";" CLOUD_JSON_SIZE "=") + 20)

struct cloud_front {
        const char *binary_type;   /* static */
        const char *default_model; /* borrowed; "" = none */
        /* See cloud_error_status(); NULL: the platform expects the usual ones. */
        unsigned (*error_status)(const struct http_call *call, const struct error *err);

        /* SageMaker */
        enum cloud_inference  inference;    /* of /invocations */
        bool                  asks_if_live; /* /ping reports liveness, not readiness */
        struct hosted_models *models;       /* borrowed */

        /* Vertex AI */
        struct str predict_route, health_route; /* borrowed */
};

/* Reads the length of the JSON part of a body. `content_type` ptr NULL, or another type than the front's
 * binary one: the whole body. INVALID_ARG "inference header size should be in range (0, <bytes>), got:
 * <text>" for anything but a number of at most body_bytes; 0 is a raw request, as over HTTP. */
struct error *cloud_read_json_bytes(const struct cloud_front *cloud, struct str content_type,
                                    size_t body_bytes, size_t *ret) NODISCARD;
/* INVALID_ARG for several Content-Type that differ: two readers might take different ones, and with them
 * different lengths. */
struct error *cloud_check_types(struct http_call *call) NODISCARD;
/* True when the body has binary tensors behind its JSON, or is one. */
bool cloud_is_binary(const struct cloud_front *cloud, struct str content_type);

/* Returns the status of an error of inference that the platform expects instead of that of the error's code;
 * 0 = none. The call may be one of any front. */
unsigned cloud_error_status(const struct http_call *call, const struct error *err);
/* SageMaker's, for struct cloud_front. */
unsigned http_sagemaker_error_status(const struct http_call *call, const struct error *err);

/* Reads "infer", "generate" or "generate_stream"; false for another word. */
bool cloud_inference_find(struct str word, enum cloud_inference *ret);

/* "/ping", "/invocations", "/models" and below (http_sagemaker.c). */
struct http_route_table http_sagemaker_routes(void);
/* The two routes of a struct cloud_front. A prediction with the header X-Vertex-Ai-Triton-Redirect goes
 * to the endpoint that it names, such as "v2/models/m/infer" or "metrics" (http_vertex_ai.c). */
struct http_route_table http_vertex_ai_routes(void);
/* The two routes alone, with the names of the variables as their paths, for a list of all endpoints. */
struct http_route_table http_vertex_ai_own_routes(void);

/* The handler of unknown paths. */
void http_cloud_refuse_path(struct http_call *call);
