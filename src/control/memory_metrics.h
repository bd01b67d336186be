/* SPDX-License-Identifier: BSD-3-Clause */
/* The byte budget on the metrics page: neso_memory_budget_used_bytes and
 * neso_memory_budget_limit_bytes. What is used is looked up when the page is asked for.
 *
 * Ownership.  memory_metrics_new() is ended by memory_metrics_free(), before the core is. The budget
 * is borrowed.
 * Threads.  memory_metrics_refresh(): any.
 */
#pragma once

#include "base/error.h"

struct byte_budget;
struct memory_metrics;

struct error *memory_metrics_new(const struct byte_budget *budget, struct memory_metrics **ret)
        NODISCARD;
void memory_metrics_free(struct memory_metrics *m);    /* NULL is fine */
void memory_metrics_refresh(struct memory_metrics *m); /* likewise */
