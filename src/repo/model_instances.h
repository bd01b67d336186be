/* SPDX-License-Identifier: BSD-3-Clause */
/* The instances of a loaded model: made at its load, and changed while it serves when nothing but
 * the instance groups of its configuration is different.
 *
 * Instances whose group stays the same (its name and count aside) are kept and never stop; the
 * missing ones are made and warmed up first, then the superfluous ones leave after their last
 * batch. So the model is never without instances, and a failure changes nothing.
 *
 * Threads.  One change at a time for each model; questions from any thread.
 */
#pragma once

#include "base/error.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

struct backend_instance;
struct loaded_model;
struct model;
struct model_config;
struct placement;

/* Where the model itself is initialised: where its instances will run when that is one place, so
 * that what a backend makes once for all of them is there as well; else anywhere. NULL: here. */
const struct placement *model_instances_place(const struct loaded_model *l);
/* Those of the model's configuration, without a scheduler yet. */
struct error *model_instances_make(struct loaded_model *l) NODISCARD;
void          model_instances_free(struct loaded_model *l);

/* Calls `visit` for each instance, without a lock; none is freed meanwhile. */
void model_instances_visit(struct loaded_model *l,
                           void (*visit)(struct backend_instance *in, void *userp), void *userp);
/* Are all instances able to serve (TRITONBACKEND_ModelInstanceReady)? */
bool model_instances_are_ready(struct loaded_model *l);

/* What it would take to have the groups of `config` (not yet normalised for the backend): makes
 * the instances that are missing, and lets them run. *ret is NULL when nothing differs. */
struct model_update;
struct error *model_update_prepare(struct loaded_model *l, const struct model_config *config,
                                   struct model_update **ret) NODISCARD;
/* Either ends it. commit() waits for the last batch of each instance that goes. NULL is fine. */
void model_update_commit(struct model_update *u);
void model_update_cancel(struct model_update *u);

/* The configuration in force, as JSON: model_config_print_json(). */
struct error *model_print_config(struct model *model, uint32_t config_version, struct strbuf *to)
        NODISCARD;
