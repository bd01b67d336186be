/* SPDX-License-Identifier: BSD-3-Clause */
/* A model's directory: its configuration file and its versions.
 */
#pragma once

#include "base/error.h"
#include "config/model_config.h"
#include "config/version_policy.h"

struct repo_parts;

/* What a directory says before any backend is asked. */
struct model_files {
        char                *name;      /* owned */
        char                *directory; /* owned */
        struct model_config *config;    /* owned; filled, normalised, checked */
        struct version_pick  versions;  /* owned; under the version policy */
};

/* Reads `<directory>/config.pbtxt` (or the named one), fills in what it leaves out, checks it and
 * picks versions. Warnings about odd directories go to the log. */
struct error *model_files_read(const struct repo_parts *parts, const char *directory,
                               const char *name, struct model_files *ret) NODISCARD;
void          model_files_done(struct model_files *f);
