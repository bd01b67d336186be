/* SPDX-License-Identifier: BSD-3-Clause */
/* Host policies: named placements of instances (--host-policy). A policy gives its instances CPU cores,
 * or a NUMA node: memory is allocated on the node first, and the node's cores are used when no cores
 * are given.
 *
 * The policy of an instance is the one that its group names, else that of its kind: "cpu",
 * "gpu_<device>", "model". A name without a policy is allowed: such an instance runs anywhere.
 *
 * "Anywhere" is the placement of the thread that created the server. Once there are policies, instances
 * without one are placed there explicitly: a placed instance may load a model, and the threads that do
 * so inherit its placement.
 *
 * Source: model configuration, instance_group.host_policy; TRITONSERVER_ServerOptionsSetHostPolicy.
 *
 * Ownership.  Owned by the server, borrowed by loaders and instances.
 * Threads.  Immutable.
 */
#pragma once

#include "base/placement.h"
#include "base/settings.h"
#include "base/strbuf.h"
#include "config/model_config.h"

#include <stddef.h>

struct host_policies;

struct host_policies_options {
        /* Copied. The group is the policy, the name "numa-node" or "cpu-cores"; a later setting of the
         * same policy and name replaces it. */
        const struct setting *settings;
        size_t                n_settings;
        const char           *nodes_directory; /* NULL: PLACEMENT_NODES_DIRECTORY */
};

/* Tries each policy on a thread of its own. INVALID_ARG "host policy '<name>': ..." with the resource
 * that this machine lacks. *ret is NULL when there are no settings, which means no policies. */
struct error *host_policies_new(const struct host_policies_options *options,
                                struct host_policies              **ret) NODISCARD;
void          host_policies_free(struct host_policies *policies); /* NULL is fine, as below */

/* UNSUPPORTED "Unsupported host policy setting '<name>' is specified, supported settings are
 * 'numa-node', 'cpu-cores'". */
struct error *host_policy_check_setting(const char *name) NODISCARD;

bool host_policies_has(const struct host_policies *policies, const char *name);
/* The placement of the policy's instances; NULL: that of the thread that creates them. */
const struct placement *host_policies_place(const struct host_policies *policies, const char *name);
/* The placement of instances without a policy; NULL as above. */
const struct placement *host_policies_anywhere(const struct host_policies *policies);
/* {"<name>":{"<setting>":"<value>",...}}, for TRITONBACKEND_ModelInstanceHostPolicy. */
void host_policies_print(const struct host_policies *policies, const char *name, struct strbuf *to);

/* The name of the policy for a group's instance on this device; owned by the caller. */
char *host_policy_name(const Inference__ModelInstanceGroup *group, int32_t device_id);
