/* SPDX-License-Identifier: BSD-3-Clause */
/* What models ask for rarely, as JSON: {"ask": "<what>", ...}. The reply is a code (0: success) and a
 * text.
 *
 *     family_new     name, description, kind (0 to 2)        the family's id
 *     family_delete  id
 *     metric_new     family, labels {}, buckets [] or null   the metric's id
 *     metric_delete  id
 *     metric_value   id                                      the value
 *     load           model, config, files {path: base64}
 *     unload         model, dependents
 *     ready          model, version                          "true" or "false"
 *
 * Loading and unloading run on threads of their own.
 *
 * Ownership.  Metrics belong to the process that made them, and are deleted after it.
 * Threads.  The reader's.
 */
#pragma once

#include "python/instance.h"
#include "python/reply.h"

struct metrics;

/* The JSON is that of the call's payload. */
void services_answer(struct instance *in, const char *json, size_t len, struct reply_to *to);

/* Counts in a metric; an id of none is ignored. */
void services_update_metric(struct instance *in, uint32_t id, enum shm_metric_op op, double value);

/* The process has ended. */
void services_free_metrics(struct instance *in);
