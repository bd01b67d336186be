/* SPDX-License-Identifier: BSD-3-Clause */
/* load_model() and unload_model() of Python models: each runs on a thread of its own, since a load has
 * no limit of time.
 *
 * Threads.  loads_start(): the reader's. The threads belong to the backend, which waits for them before
 * it ends.
 */
#pragma once

#include "kit/json.h"
#include "python/instance.h"
#include "python/reply.h"

/* Takes `doc`, see asks.h. */
void loads_start(struct instance *in, struct kit_json *doc, const struct reply_to *to);
