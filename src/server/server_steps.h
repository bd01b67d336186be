/* SPDX-License-Identifier: BSD-3-Clause */
/* The models that run a request: those of an ensemble's steps, or of a chain's stages.
 *
 * Threads.  Any.
 */
#pragma once

#include <stdbool.h>

struct request;

/* Calls each() with the name of every model that would run the request now, also those of nested
 * ensembles, as often as it runs; else with the name of the request's own model. Returns true for an
 * ensemble or a chain; one whose models are not ready has none. */
bool server_each_step(const struct request *req, void (*each)(const char *model, void *userp),
                      void                 *userp);
