/* SPDX-License-Identifier: BSD-3-Clause */
/* Host policies: names for where instances run (--host-policy). A policy gives its instances cores,
 * or a NUMA node: the node's memory comes first, and its cores are used where none are given.
 *
 * An instance belongs to the policy that its group names, else to that of its kind: "cpu",
 * "gpu_<device>", "model". A name that no policy has is allowed: such an instance runs anywhere.
 *
 * Anywhere is what the thread that made the server had. Instances are put there, too, once there
 * are policies: a placed instance may load a model, and the threads that do so inherit its place.
 *
 * Source: model configuration, instance_group.host_policy; TRITONSERVER_ServerOptionsSetHostPolicy.
 *
 * Ownership.  Owned by the server, borrowed by loaders and instances. Threads.  Never changes.
 */
#pragma once

#include "base/placement.h"
#include "base/strbuf.h"
#include "config/model_config.h"

#include <stddef.h>

struct host_policies;

/* One setting of one policy; a later one of the same name replaces it. */
struct host_policy_setting {
        const char *policy;
        const char *name; /* "numa-node" or "cpu-cores" */
        const char *value;
};

struct host_policies_options {
        const struct host_policy_setting *settings; /* copied */
        size_t                            n_settings;
        const char                       *nodes_directory; /* NULL: PLACEMENT_NODES_DIRECTORY */
};

/* Tries each policy on a thread of its own. INVALID_ARG "host policy '<name>': ..." with what this
 * machine lacks. *ret is NULL when there are no settings; that stands for no policies. */
struct error *host_policies_new(const struct host_policies_options *options,
                                struct host_policies **ret) NODISCARD;
void          host_policies_free(struct host_policies *policies); /* NULL is fine, as below */

/* UNSUPPORTED "Unsupported host policy setting '<name>' is specified, supported settings are
 * 'numa-node', 'cpu-cores'". */
struct error *host_policy_check_setting(const char *name) NODISCARD;

bool host_policies_has(const struct host_policies *policies, const char *name);
/* Where its instances belong; NULL: wherever the thread is that makes them. */
const struct placement *host_policies_place(const struct host_policies *policies, const char *name);
/* Where those without a policy belong; NULL the same. */
const struct placement *host_policies_anywhere(const struct host_policies *policies);
/* {"<name>":{"<setting>":"<value>",...}}, for TRITONBACKEND_ModelInstanceHostPolicy. */
void host_policies_print(const struct host_policies *policies, const char *name, struct strbuf *to);

/* The policy of a group's instance on this device; owned by the caller. */
char *host_policy_name(const Inference__ModelInstanceGroup *group, int32_t device_id);
