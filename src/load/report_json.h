/* SPDX-License-Identifier: BSD-3-Clause */
/* Results as JSON: the times of each request (--profile-export-file, in the format of the reference's load
 * generator), and the figures of each load (--json).
 *
 * Ownership.  Text is appended to the caller's strbuf.
 */
#pragma once

#include "base/strbuf.h"
#include "load/load_run.h"

void report_json_put_requests(const struct load_results *results, const struct load_model *m,
                              const struct load_plan *plan, const struct target *t,
                              struct strbuf *out);
void report_json_put(const struct load_results *results, const struct load_model *m,
                     const struct load_plan *plan, const struct target *t, struct strbuf *out);
/* "no answer", "status 400". Static or in `room`. */
const char *report_error_kind(const struct tally_error *e, char *room, size_t room_bytes);
