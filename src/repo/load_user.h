/* SPDX-License-Identifier: BSD-3-Clause */
/* The model on whose behalf a thread loads and unloads others: its initialization waits for them (load_slots.h).
 *
 * Ownership.  The name is the caller's, until another user is set.
 * Threads.  Each has a user of its own.
 */
#pragma once

#include <stdint.h>

struct load_user {
        const char *name; /* borrowed; NULL: none */
        int64_t     version;
};

/* Sets the user of the calling thread; returns the previous one. */
struct load_user load_user_set(struct load_user user);
struct load_user load_user_get(void);
