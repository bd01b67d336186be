/* SPDX-License-Identifier: BSD-3-Clause */
/* The byte budget on the metrics page: neso_memory_budget_used_bytes and
 * neso_memory_budget_limit_bytes. The number of used bytes is updated when a client requests the
 * page.
 *
 * Ownership.  memory_metrics_free() frees what memory_metrics_new() returns, before the core is
 * deleted. The budget is borrowed.
 * Threads.  memory_metrics_refresh(): any.
 */
#pragma once

#include "base/error.h"

struct byte_budget;
struct memory_metrics;

struct error *memory_metrics_new(const struct byte_budget *budget, struct memory_metrics **ret)
        NODISCARD;
void memory_metrics_free(struct memory_metrics *m);    /* NULL is fine */
void memory_metrics_refresh(struct memory_metrics *m); /* NULL is fine */
