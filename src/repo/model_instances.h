/* SPDX-License-Identifier: BSD-3-Clause */
/* The instances of a loaded model. They are made at its load, and changed while it serves when only
 * the instance groups of its configuration differ.
 *
 * An instance whose group stays the same (except for its name and count) is kept and never stops.
 * Missing instances are made and warmed up first. Then the superfluous ones leave after their last
 * batch. The model is never without instances, and a failure changes nothing.
 *
 * Ownership.  The loaded model owns its instances.
 * Threads.  One change at a time for each model. Queries: any thread.
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

/* Returns the place at which the model itself is initialised. When all its instances run at one
 * place, it is that place, so that what a backend allocates once for all of them is there as well.
 * Otherwise it is any core. NULL: the current one. */
const struct placement *model_instances_place(const struct loaded_model *l);
/* Where the instances of a normalised configuration are. */
struct instance_devices {
        int  first;         /* the first GPU; GPU_HOST: no instance is on one */
        int  only;          /* the one GPU of all instances on GPUs; GPU_HOST: none; GPU_SEVERAL */
        bool has_no_cpu;    /* all groups are KIND_GPU or KIND_MODEL */
        bool has_only_gpus; /* all groups are KIND_GPU */
};

struct instance_devices model_instances_devices(const struct model_config *c);
/* True when a group has instances on the GPU; with GPU_HOST, when a group has no GPUs. */
bool model_instances_are_at(const struct model_config *c, int device);
/* Makes the instances of the model's configuration, without a scheduler yet. */
struct error *model_instances_make(struct loaded_model *l) NODISCARD;
void          model_instances_free(struct loaded_model *l);

/* Calls `visit` for each instance, without a lock. None of them is freed meanwhile. */
void model_instances_visit(struct loaded_model *l,
                           void (*visit)(struct backend_instance *in, void *userp), void *userp);
/* The number of instances that exist now; 0 for a model that is made of other models. */
size_t model_instances_count(struct loaded_model *l);
/* True when all instances can serve (TRITONBACKEND_ModelInstanceReady). */
bool model_instances_are_ready(struct loaded_model *l);

/* Prepares a change to the groups of `config` (not yet normalised for the backend): makes the
 * missing instances and adds them to the scheduler. *ret is NULL when nothing differs. */
struct model_update;
/* False when the instances would be on more, fewer or other GPUs than before, on GPUs besides the CPU, or the
 * reverse: requests that wait may have tensors where the new instances cannot read them, and a backend
 * prepares a model for the devices that it has when it is loaded. */
bool          model_update_is_possible(struct loaded_model *l, const struct model_config *config);
struct error *model_update_prepare(struct loaded_model *l, const struct model_config *config,
                                   struct model_update **ret) NODISCARD;
/* Commits or cancels the change, and frees it. commit() waits for the last batch of each instance
 * that leaves. NULL is fine. */
void model_update_commit(struct model_update *u);
void model_update_cancel(struct model_update *u);

/* Prints the configuration in force as JSON, see model_config_print_json(). */
struct error *model_print_config(struct model *model, uint32_t config_version, struct strbuf *to)
        NODISCARD;
