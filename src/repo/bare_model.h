/* SPDX-License-Identifier: BSD-3-Clause */
/* A bare model: a repository path whose folder is one model instead of a folder of models, as storage
 * initialisers of KServe leave it at /mnt/models.
 *
 *     BARE_VERSIONS    config.pbtxt or not, and version folders: <path>/1/model.onnx
 *     BARE_FILES       no version folder: <path>/model.onnx, perhaps with <path>/config.pbtxt
 *
 * Backends expect version folders. So for BARE_FILES there is a view: a folder of links, in which `1`
 * is the folder itself, and every entry of the folder has its own name. Changes of the files show
 * through the links; a new labels file does not, since the links are made once.
 *
 * Ownership.  A view is counted like the files of a load request (override.h) and removed by the last
 * unref.
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>

struct override_files;
struct override_store;

enum bare_form {
        BARE_NONE, /* a folder of models, or empty */
        BARE_VERSIONS,
        BARE_FILES,
};

/* Recognises the form by the contents. A folder with a model in it, which has a configuration or
 * version folders of its own, is a repository, also when it has a config.pbtxt: the reference server
 * does not read such a file. `config_name` is --model-config-name, "" for none. */
struct error *bare_model_find(const char *config_name, const char *path, enum bare_form *ret)
        NODISCARD;

/* Makes the view of a folder with the form BARE_FILES. */
struct error *bare_model_make_view(struct override_store *store, const char *path,
                                   struct override_files **ret) NODISCARD;
