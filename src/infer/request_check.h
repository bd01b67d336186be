/* SPDX-License-Identifier: BSD-3-Clause */
/* A request against its model's configuration.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>

struct request;

/* Fills in what the configuration implies (raw inputs, reshape, batch size, output names) and
 * checks the rest: names, counts, types, shapes, byte sizes, string elements. INVALID_ARG with
 * the reference server's texts. May be called again after a release. */
struct error *request_prepare(struct request *req);

/* Does it run the chain that begins with its model? Not as a step of another one, and not when it has
 * the parameter "chain": false. */
bool request_runs_chain(const struct request *req);
