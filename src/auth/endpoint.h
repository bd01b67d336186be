/* SPDX-License-Identifier: BSD-3-Clause */
/* The groups of endpoints, and the headers that the administrator ties to them ("restricted APIs").
 * A request without the header is refused.
 *
 * The table of each protocol names the group of each route. A server whose table has a row without
 * a group does not start. access.h holds the one check that uses this.
 *
 * Ownership.  endpoint_policy_done() frees what the rules hold. The keys are borrowed.
 * Threads.  Filled at the start, then constant.
 */
#pragma once

#include "base/compiler.h"
#include "base/error.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct api_keys;

enum endpoint_group {
        ENDPOINT_NONE, /* zero value of a route without a group; access control refuses it */
        ENDPOINT_HEALTH,
        ENDPOINT_METADATA,
        ENDPOINT_INFERENCE,
        ENDPOINT_SHARED_MEMORY,
        ENDPOINT_MODEL_CONFIG,
        ENDPOINT_MODEL_REPOSITORY,
        ENDPOINT_STATISTICS,
        ENDPOINT_TRACE,
        ENDPOINT_LOGGING,
        ENDPOINT_METRICS,
        N_ENDPOINT_GROUPS,
        /* No group: files that are the same on every server and hold no data of it. They are read by who
         * has no key yet. Neither a key nor a rule can name it. */
        ENDPOINT_PUBLIC = 100,
};

struct endpoint_rule {
        char *header; /* owned; NULL = no header is required */
        char *value;  /* owned */
};

/* The requirements for the requests of one front end. */
struct endpoint_policy {
        struct endpoint_rule rules[N_ENDPOINT_GROUPS];
        struct api_keys     *keys; /* borrowed; NULL = no key file, no key is required */
        /* Called for each refused key; NULL: refusals are not counted. `reason` is static:
         * "missing", "unknown", "group", "model". */
        void (*on_key_refused)(void *owner, const char *key, const char *reason);
        void *owner; /* borrowed: argument of the callback */
};

/* Returns the name that users write: "health", "shared-memory", ...; "none" for an invalid
 * group. */
const char *endpoint_group_name(enum endpoint_group group);
bool        endpoint_group_find(struct str name, enum endpoint_group *ret);
/* Returns the group name that is most similar to the word, or NULL when none is similar. */
const char *endpoint_group_suggest(struct str word);
bool        endpoint_group_is_valid(enum endpoint_group group);
/* True for a valid group and for ENDPOINT_PUBLIC: what a row of a table may have. */
bool endpoint_group_is_routable(enum endpoint_group group);
/* True when an endpoint of the group that names no model concerns all models. */
bool endpoint_group_spans_models(enum endpoint_group group);

void endpoint_policy_init(struct endpoint_policy *p);
void endpoint_policy_done(struct endpoint_policy *p);

/* Adds "<group>,<group>:<header>=<value>", the text of --http-restricted-api or of
 * --grpc-restricted-protocol. `kind` is the word in the error messages, "api" or "protocol".
 * `header_prefix` is put before the name of the header (gRPC: "triton-grpc-protocol-").
 * INVALID_ARG: "unknown restricted <kind> '<x>' ", "restricted <kind> '<x>' can not be specified in
 * multiple config groups". */
struct error *endpoint_policy_add(struct endpoint_policy *p, const char *text, const char *kind,
                                  const char *header_prefix) NODISCARD;

/* Returns the rule of a group; NULL = the group is not restricted. `p` may be NULL. */
const struct endpoint_rule *endpoint_policy_find(const struct endpoint_policy *p,
                                                 enum endpoint_group           group);
/* Compares the values. The time that this takes does not show how much of the secret was right. */
bool endpoint_rule_allows(const struct endpoint_rule *rule, struct str presented);
