/* SPDX-License-Identifier: BSD-3-Clause */
/* The groups of endpoints, and who may use them: one table for every protocol.
 *
 * The administrator ties a group to a secret header ("restricted APIs"); a request without it is
 * refused. Each protocol's route table names the group of each route, and one check per request
 * looks here, so that no front end can forget it for one of its routes.
 *
 * Ownership.  endpoint_policy_done() frees what rules hold.
 * Threads.  Filled at start, then constant.
 */
#pragma once

#include "base/compiler.h"
#include "base/error.h"
#include "base/str.h"

#include <stdbool.h>

enum endpoint_group {
        ENDPOINT_HEALTH,
        ENDPOINT_METADATA,
        ENDPOINT_INFERENCE,
        ENDPOINT_SHARED_MEMORY,
        ENDPOINT_MODEL_CONFIG,
        ENDPOINT_MODEL_REPOSITORY,
        ENDPOINT_STATISTICS,
        ENDPOINT_TRACE,
        ENDPOINT_LOGGING,
        N_ENDPOINT_GROUPS,
        /* Metrics and the like: no rule can be given. */
        ENDPOINT_OPEN = N_ENDPOINT_GROUPS,
};

struct endpoint_rule {
        char *header; /* owned; NULL = the group is open to everybody */
        char *value;  /* owned */
};

struct endpoint_policy {
        struct endpoint_rule rules[N_ENDPOINT_GROUPS];
};

/* The name users write: "health", "shared-memory", ... */
const char *endpoint_group_name(enum endpoint_group group);

void endpoint_policy_init(struct endpoint_policy *p);
void endpoint_policy_done(struct endpoint_policy *p);

/* Adds "<group>,<group>:<header>=<value>", the text of --http-restricted-api ("api") or
 * --grpc-restricted-protocol ("protocol"): `kind` is that word, for the messages. `header_prefix`
 * is put before the header's name (gRPC: "triton-grpc-protocol-"). INVALID_ARG:
 * "unknown restricted <kind> '<x>' ", "restricted <kind> '<x>' can not be specified in multiple
 * config groups". */
struct error *endpoint_policy_add(struct endpoint_policy *p, const char *text, const char *kind,
                                  const char *header_prefix) NODISCARD;

/* NULL = everybody may. `p` may be NULL. */
const struct endpoint_rule *endpoint_policy_find(const struct endpoint_policy *p,
                                                 enum endpoint_group group);
/* Compares in a time that does not tell how much of the secret was right. */
bool endpoint_rule_allows(const struct endpoint_rule *rule, struct str presented);
