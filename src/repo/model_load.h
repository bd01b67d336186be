/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads one version of a model: backend, instances, warm-up, scheduler.
 *
 * Order (model configuration, order of processing at load): the backend is found and opened;
 * instance groups are normalised for it; TRITONBACKEND_ModelInitialize may complete the
 * configuration, which is then normalised and checked again; labels; instances, each warmed up,
 * side by side if the backend allows it; the scheduler.
 *
 * Ownership.  *ret is one reference; its last unref sends the model to the reaper.
 * Threads.  Any; the calls into the backend happen on the calling thread, but for instances
 * that are made side by side or at a place of their own.
 */
#pragma once

#include "base/error.h"

#include <stdint.h>

struct model;
struct model_files;
struct repo_parts;

struct error *model_load(const struct repo_parts *parts, const struct model_files *files,
                         int64_t version, struct model **ret) NODISCARD;

/* From now on its statistics and metrics are seen. One version of a model is published at a time:
 * one that is replaced must be hidden first. */
void model_publish(struct model *model);
void model_hide(struct model *model);
