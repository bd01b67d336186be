/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys in force, which can be read again while requests are served.
 *
 * What a file said is a snapshot, which never changes. A request holds the snapshot that it was
 * checked with until its end. Reading the file again publishes a new snapshot; the old one goes
 * with the reading after its last request.
 *
 * No lock is taken to hold a snapshot: the counter of its holders is raised first, and then it is
 * seen whether the snapshot is still the one in force. Memory that holds a counter is never freed
 * before the keys are, so that raising the counter of an old snapshot for a moment harms nobody;
 * what the snapshot says is freed, and the memory used again.
 *
 * Ownership.  Each api_keys_hold() is ended by api_keys_release(). api_keys_free() when all are.
 * Threads.  Any. Reading takes a lock of its own.
 */
#pragma once

#include "auth/api_key_file.h"
#include "base/compiler.h"
#include "base/error.h"

#include <stdbool.h>

struct api_keys;

/* One reading of the file. */
struct api_key_set {
        struct api_key_file file;
        _Atomic uint32_t    n_holders;
        struct api_key_set *next; /* all that were made */
};

/* Reads the file: it must exist and say something. */
struct error *api_keys_open(const char *path, struct api_keys **ret) NODISCARD;
void          api_keys_free(struct api_keys *k); /* NULL is fine */

/* After an error the keys are what they were. */
struct error *api_keys_reload(struct api_keys *k) NODISCARD;

/* Warnings of the administrator: whether others than the file's owner may write to it. */
bool        api_keys_are_writable_by_others(const struct api_keys *k);
size_t      api_keys_count(struct api_keys *k);
const char *api_keys_path(const struct api_keys *k);

struct api_key_set *api_keys_hold(struct api_keys *k);
void                api_keys_release(struct api_key_set *set); /* NULL is fine */
/* The snapshot in force, to compare with: nothing in it may be looked at. */
const struct api_key_set *api_keys_current(const struct api_keys *k);
