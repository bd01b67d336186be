/* SPDX-License-Identifier: BSD-3-Clause */
/* Detection of deadlocks: records which instances wait for which models, so that a call that could
 * never be served is refused.
 *
 * An instance whose execution calls a model and waits for it serves no request in the meantime. A call
 * of an ensemble or a chain waits for the models of all of its steps. A model can be served when one
 * of its instances waits for nothing, or only for models that can be served; models of other backends
 * always can. So it does not matter which requests wait: two instances of one model that both wait for
 * a third one are found as well, and the call that came last is refused.
 *
 * Threads.  Any; the backend's lock is taken, except in waits_forget_locked(), whose caller has it.
 */
#pragma once

#include "python/instance.h"

struct kit_text;

/* Records one more model that the instance waits for. Returns false, and does not record it, when it
 * could never be served; then adds the models that wait for each other to `cycle` (NULL: not needed), as
 * " -> <model>" each. */
bool waits_begin(struct instance *in, const char *model, struct kit_text *cycle);
/* The instance waits for nothing. */
void waits_end(struct instance *in);
/* To be called when a model ends. */
void waits_forget_locked(const struct model *gone);
