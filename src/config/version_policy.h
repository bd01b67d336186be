/* SPDX-License-Identifier: BSD-3-Clause */
/* Selects the versions of a model directory that are served.
 *
 * First the names of the sub-directories are added to a scan, which keeps those that are version
 * numbers and adds a warning for each that looks like a mistake. Then the policy picks versions.
 * Source: model configuration, version_policy.
 *
 * Ownership.  version_scan_done() frees everything in the scan.
 * Threads.  One owner.
 */
#pragma once

#include "config/model_config.h"

#include <stddef.h>
#include <stdint.h>

struct version_scan {
        int64_t *versions; /* owned; ascending, each once */
        size_t   n_versions;
        char   **warnings; /* owned, as is each of them: the caller logs them */
        size_t   n_warnings;
};

void version_scan_init(struct version_scan *s);
void version_scan_done(struct version_scan *s);

/* Adds the name of one sub-directory: decimal digits without leading zeros are a version; warmup,
 * initial_state and configs are ignored; any other name gives a warning. */
void version_scan_add(struct version_scan *s, struct str directory_name);

/* "1" -> 1; false for any name that is not a version's directory name. */
bool version_from_name(struct str directory_name, int64_t *ret);

struct version_pick {
        int64_t *versions; /* owned; ascending */
        size_t   n_versions;
};

/* Picks versions under the policy. A version that the policy names and that does not exist adds a
 * warning to the scan, and so does a model without any. INVALID_ARG "at least one version must be
 * available under the version policy of model '<m>'" when none is left. */
struct error *version_policy_pick(const struct model_config *c, struct version_scan *s,
                                  struct version_pick *ret) NODISCARD;
bool          version_pick_has(const struct version_pick *p, int64_t version);
void          version_pick_done(struct version_pick *p);
