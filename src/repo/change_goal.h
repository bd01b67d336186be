/* SPDX-License-Identifier: BSD-3-Clause */
/* What a change of a model shall lead to, to decide whether a change that waits makes the running one
 * needless: a load whose result would be unloaded or replaced at once need not finish its warm-up.
 *
 * Ownership.  Borrows its text.
 * Threads.  Does not change.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CHANGE_FILES_UNKNOWN 0 /* uploaded files */

struct change_goal {
        bool        is_unload;
        uint64_t    files;       /* dir_fingerprint_digest() of the model's files */
        const char *config_json; /* that comes with the load; NULL: none */
};

/* True when the goal of the running change has no value beside the later one: it is loaded, and the later one
 * unloads it or loads something else. */
bool change_goal_supersedes(const struct change_goal *later, const struct change_goal *running);
