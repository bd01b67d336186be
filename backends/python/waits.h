/* SPDX-License-Identifier: BSD-3-Clause */
/* Which instances wait for which models, so that a call that nobody could ever serve is refused.
 *
 * An instance whose execution calls a model and waits for it serves nobody meanwhile. A model can be
 * served when one of its instances waits for nothing, or for a model that can be served; models of
 * other backends always can.
 *
 * Threads.  Any; the backend's lock is taken.
 */
#pragma once

#include "python/instance.h"

/* False: the call could never be served, and nothing was noted. */
bool waits_begin(struct instance *in, const char *model);
void waits_end(struct instance *in);
