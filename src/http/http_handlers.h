/* SPDX-License-Identifier: BSD-3-Clause */
/* The handlers of the route tables, except those of inference (http_infer.h, http_generate.h). Each
 * answers one call with results of the C API.
 *
 * Threads.  The call's loop; operations that block run through http_call_start_work_thread().
 */
#pragma once

#include "http/http_call.h"

struct cuda_place;
struct model_query;
struct shm_place;

/* http_health.c */
void http_health_live(struct http_call *call);
void http_health_ready(struct http_call *call);
void http_drain_post(struct http_call *call);
void http_health_model(struct http_call *call);

/* http_metadata.c */
void http_metadata_server(struct http_call *call);
void http_metadata_model(struct http_call *call);
void http_metadata_config(struct http_call *call);
void http_metadata_config_source(struct http_call *call);
void http_metadata_sequences(struct http_call *call);
void http_metadata_gpus(struct http_call *call);
void http_metadata_stacks(struct http_call *call);
void http_metadata_chain(struct http_call *call);
void http_metadata_statistics(struct http_call *call); /* of one model or of all */
/* Runs a query about all models on a work thread, then answers the call. */
void http_metadata_reply_bulk(struct http_call *call, const struct model_query *query);

/* http_repository.c */
void http_repository_index(struct http_call *call);
void http_repository_load(struct http_call *call);
void http_repository_unload(struct http_call *call);
void http_repository_named(
        struct http_call *call); /* refuses load and unload of a named repository */

/* http_shm.c */
void http_shm_system_status(struct http_call *call);
void http_shm_cuda_status(struct http_call *call);
void http_shm_system_register(struct http_call *call);
void http_shm_cuda_register(struct http_call *call);
void http_shm_system_unregister(struct http_call *call);
void http_shm_cuda_unregister(struct http_call *call);
/* Read the body of a request that registers a region of system or of CUDA shared memory:
 *
 *     {"key":"/name","offset":0,"byte_size":64}
 *     {"raw_handle":{"b64":"..."},"device_id":0,"byte_size":64}
 *
 * The offset is optional. The first of several equal members counts; unknown members are ignored.
 * Set all fields of *ret but the name; key and handle are in the arena. INVALID_ARG reports the
 * first fault in the order above. The length of a handle is not checked. */
struct error *http_shm_decode(struct str body, struct arena *arena, struct shm_place *ret)
        NODISCARD;
struct error *http_shm_decode_cuda(struct str body, struct arena *arena, struct cuda_place *ret)
        NODISCARD;

/* http_dashboard.c */
void http_dashboard_page(struct http_call *call); /* and its files */
void http_dashboard_get(struct http_call *call);

/* http_logging.c */
void http_logging_get(struct http_call *call);
void http_logging_post(struct http_call *call);

/* http_trace.c */
void http_trace_get(struct http_call *call);
void http_trace_post(struct http_call *call);
