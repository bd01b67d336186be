/* SPDX-License-Identifier: BSD-3-Clause */
/* Models of a scan wherever they are: in a local directory or in a remote repository.
 *
 * Threads.  A found model has one user at a time.
 */
#pragma once

#include "base/error.h"
#include "repo/repo_scan.h"

#include <stddef.h>

struct dir_fingerprint;
struct repo;

/* The fingerprint of its files, for a remote one as they were listed. */
struct error *found_model_fingerprint(const struct found_model *m, struct dir_fingerprint **ret)
        NODISCARD;
/* A local directory that has its configuration files; of a remote one they are fetched. Borrowed from the
 * model. "" on an error, which begins with the address of the file. */
struct error *found_model_config_directory(const struct found_model *m, const char **ret) NODISCARD;
/* Fetches the configuration files of many models at a time, so that the function above has them. */
void found_models_fetch_configs(struct repo *r, const struct found_model *const *found, size_t n);
