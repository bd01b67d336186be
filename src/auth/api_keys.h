/* SPDX-License-Identifier: BSD-3-Clause */
/* The API keys in force. The key file can be read again while the server runs.
 *
 * The content of one reading is a snapshot, which never changes. A request holds the snapshot that
 * it was checked with until it ends. A new reading of the file publishes a new snapshot. The old
 * snapshot is emptied by a later reading, after its last request has ended.
 *
 * api_keys_hold() takes no lock. It increments the snapshot's counter of holders, and then checks
 * whether the snapshot is still in force. The memory of a snapshot is freed only by
 * api_keys_free(), so the increment is safe even on an old snapshot. A new reading frees the
 * content of an unused snapshot and uses its memory again.
 *
 * Ownership.  api_keys_release() ends each api_keys_hold(). api_keys_free() is called after all of
 * these.
 * Threads.  Any. A reading takes a lock of its own.
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
        struct api_key_set *next; /* the list of all snapshots */
};

/* Reads the file, which must exist and contain at least one rule. */
struct error *api_keys_open(const char *path, struct api_keys **ret) NODISCARD;
void          api_keys_free(struct api_keys *k); /* NULL is fine */

/* Reads the file again. After an error the keys stay as they are. */
struct error *api_keys_reload(struct api_keys *k) NODISCARD;

/* For warnings to the administrator: true when others than the owner may write to the file. */
bool        api_keys_are_writable_by_others(const struct api_keys *k);
size_t      api_keys_count(struct api_keys *k);
const char *api_keys_path(const struct api_keys *k);

struct api_key_set *api_keys_hold(struct api_keys *k);
void                api_keys_release(struct api_key_set *set); /* NULL is fine */
/* Returns the snapshot in force, only to compare its address. Its content must not be read. */
const struct api_key_set *api_keys_current(const struct api_keys *k);
