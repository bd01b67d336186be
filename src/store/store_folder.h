/* SPDX-License-Identifier: BSD-3-Clause */
/* A server's folder for the local copies of the models of one remote repository.
 *
 *     <parent>/folderXXXXXX/neso.lock    locked as long as the server runs
 *                           cache/       when the server has no directory for it
 *                           0/, 1/ ...   one for each copy
 *
 * The parent is the same as in the reference server: TRITON_AWS_MOUNT_DIRECTORY, TRITON_GCS_MOUNT_DIRECTORY,
 * TRITON_AZURE_MOUNT_DIRECTORY, else /tmp; for the web the directory of the cache, else /tmp. The kernel
 * releases the lock when the process ends, for any reason. So a folder with a free lock belongs to a server
 * that has ended; the next server of the same user removes that folder when it opens its own.
 *
 * Ownership.  store_folder_close() removes the folder.
 * Threads.  store_folder_make_place(): any, at the same time.
 */
#pragma once

#include "base/error.h"
#include "store/store_url.h"

struct store_folder;

/* Returns the parent, which the caller owns. `cache_directory` "" : none. */
char *store_folder_parent(enum store_kind kind, const char *cache_directory);

struct error *store_folder_open(const char *parent, struct store_folder **ret) NODISCARD;
void          store_folder_close(struct store_folder *f); /* NULL is fine */
const char   *store_folder_path(const struct store_folder *f);

/* Makes an empty directory. The caller owns the path, and removes the directory. */
struct error *store_folder_make_place(struct store_folder *f, char **ret) NODISCARD;
