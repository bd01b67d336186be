/* SPDX-License-Identifier: BSD-3-Clause */
/* Detection of deadlocks: records which instances wait for which models, so that a call that could
 * never be served is refused.
 *
 * An instance whose execution calls a model and waits for it serves no request in the meantime. A
 * model can be served when one of its instances waits for nothing, or for a model that can be
 * served; models of other backends always can.
 *
 * Threads.  Any; the backend's lock is taken.
 */
#pragma once

#include "python/instance.h"

/* Returns false, and records nothing, when the call could never be served. */
bool waits_begin(struct instance *in, const char *model);
void waits_end(struct instance *in);
