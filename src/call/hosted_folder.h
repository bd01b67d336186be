/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the model in a folder that a platform has unpacked (hosted_models.h).
 *
 * Ownership.  hosted_folder_done() frees what hosted_folder_find() makes.
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"

/* The model's directory in the repository that is registered for it. */
struct hosted_folder {
        char *repository; /* owned */
        char *directory;  /* owned; "." when the repository itself is the model */
};

/* `url` is the path of the folder. INVALID_ARG for a path that is not absolute, that is no folder, that
 * leads below /dev, /proc or /sys, that holds no model, or several of which not exactly one is an
 * ensemble. */
struct error *hosted_folder_find(const char *url, struct hosted_folder *ret) NODISCARD;
void          hosted_folder_done(struct hosted_folder *f);
