/* SPDX-License-Identifier: BSD-3-Clause */
/* A list of settings in the form of options such as `--backend-config=onnxruntime,threads=2`: each has a
 * group ("" without one), a name and a value.
 *
 * Ownership.  The list owns copies of all texts. A struct setting outside of a list may borrow them.
 * Threads.  One owner at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct setting {
        const char *group;
        const char *name;
        const char *value;
};

struct settings {
        struct setting *items; /* owned, in the order given */
        size_t          n_items;
};

/* Appends a setting. Of several with the same group and name, settings_find() returns the last. */
void settings_add(struct settings *s, const char *group, const char *name, const char *value);
void settings_add_all(struct settings *s, const struct setting *items, size_t n_items);
/* Appends "[<group>,]<name>=<value>". The name begins after the first comma before the first equal
 * sign. Returns false when there is no equal sign or no name. */
bool settings_read(struct settings *s, const char *text);

/* The last value; NULL when there is none. */
const char *settings_find(const struct settings *s, const char *group, const char *name);

void settings_done(struct settings *s);
