/* SPDX-License-Identifier: BSD-3-Clause */
/* Services of the server that models use rarely, with requests in JSON: {"ask": "<service>", ...}.
 * The reply is a code (0: success) and a text.
 *
 *     family_new     name, description, kind (0 to 2)        reply: the family's id
 *     family_delete  id
 *     metric_new     family, labels {}, buckets [] or null   reply: the metric's id
 *     metric_delete  id
 *     metric_value   id                                      reply: the value
 *     load           model, config, files {path: base64}
 *     unload         model, dependents
 *     ready          model, version                          reply: "true" or "false"
 *
 * Loading and unloading run on threads of their own.
 *
 * Ownership.  Metrics belong to the process that created them, and are deleted after its end.
 * Threads.  The reader's.
 */
#pragma once

#include "python/python_instance.h"
#include "python/reply.h"

/* Handles a request; `json` is the payload of the call. */
void services_answer(struct instance *in, const char *json, size_t len, struct reply_to *to);

/* NOT_FOUND when there is no metric of that id. */
TRITONSERVER_Error *services_update_metric(struct instance *in, uint32_t id, enum shm_metric_op op,
                                           double value);

/* Deletes the metrics of a process that has ended. */
void services_free_metrics(struct instance *in);
