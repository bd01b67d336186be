/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads one version of a model: backend, instances, warm-up, scheduler.
 *
 * Order (model configuration, order of processing at load): the backend is found and opened;
 * instance groups are normalised for it; TRITONBACKEND_ModelInitialize may complete the
 * configuration, which is then normalised and checked again; labels; instances one after
 * another, each warmed up; the scheduler.
 *
 * Ownership.  *ret is one reference; its last unref sends the model to the reaper.
 * Threads.  Any; the calls into the backend happen on the calling thread.
 */
#pragma once

#include "base/error.h"

#include <stdint.h>

struct loaded_model;
struct model;
struct model_config;
struct model_files;
struct repo_parts;

struct error *model_load(const struct repo_parts *parts, const struct model_files *files,
                         int64_t version, struct model **ret) NODISCARD;

/* From now on its statistics and metrics are seen. One version of a model is published at a time:
 * one that is replaced must be hidden first. */
void model_publish(struct model *model);
void model_hide(struct model *model);

/* Instance groups as the model's backend wants them, checked. For `config` that is the model's
 * own or will be. */
struct error *model_load_normalize_groups(struct loaded_model *l, struct model_config *config)
        NODISCARD;
