/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads one version of a model: backend, instances, warm-up, scheduler.
 *
 * Order (model configuration, order of processing at load): the backend is found and opened.
 * Instance groups are normalised for it. TRITONBACKEND_ModelInitialize may complete the
 * configuration, which is then normalised and checked again. Labels are read. Instances are made
 * and warmed up, in parallel if the backend allows it. The scheduler is made last.
 *
 * Ownership.  *ret is one reference. Its last unref passes the model to the reaper.
 * Threads.  Any. The calls into the backend happen on the calling thread, except for instances that
 * are made in parallel or at a place of their own.
 */
#pragma once

#include "base/error.h"

#include <stdint.h>

struct model;
struct model_files;
struct repo_environment;

struct error *model_load(const struct repo_environment *env, const struct model_files *files,
                         int64_t version, struct model **ret) NODISCARD;

/* Shows the statistics and metrics of the model from now on. Only one load of a version is
 * published at a time: a load that is replaced must be hidden first. */
void model_publish(struct model *model);
void model_hide(struct model *model);
