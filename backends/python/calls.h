/* SPDX-License-Identifier: BSD-3-Clause */
/* What a stub asks the server for: inferences of other models, metrics, and what is rare (asks.h).
 *
 * Threads.  The reader's.
 */
#pragma once

#include "python/instance.h"

/* Of an instance that calls are made for. */
void calls_on_call(struct instance *in, const struct shm_message *message);
void calls_on_metric(struct instance *in, const struct shm_message *message);
void calls_on_cancel(struct instance *in, const struct shm_message *message);

/* For a process that has ended: cancels its calls and removes its metrics. */
void calls_cancel_all(struct instance *in);
