/* SPDX-License-Identifier: BSD-3-Clause */
/* The groups of endpoints, and the headers that the administrator ties to them ("restricted
 * APIs"): a request without the header is refused.
 *
 * Each protocol's table names the group of each of its routes; a server whose table has a row
 * without one does not start. access.h holds the one check that looks here.
 *
 * Ownership.  endpoint_policy_done() frees what rules hold; the keys are borrowed.
 * Threads.  Filled at start, then constant.
 */
#pragma once

#include "base/compiler.h"
#include "base/error.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct api_keys;

enum endpoint_group {
        ENDPOINT_NONE, /* what a row says that forgot its group: nobody may */
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
};

struct endpoint_rule {
        char *header; /* owned; NULL = no header is asked for */
        char *value;  /* owned */
};

/* What is asked of the requests of one front end. */
struct endpoint_policy {
        struct endpoint_rule rules[N_ENDPOINT_GROUPS];
        struct api_keys     *keys; /* borrowed; NULL = no key file: no keys are asked for */
        /* NULL: refusals are not counted. `reason` is static: "missing", "unknown", "group", "model". */
        void (*on_key_refused)(void *owner, const char *key, const char *reason);
        void *owner; /* borrowed: the callback's */
};

/* The name users write: "health", "shared-memory", ...; "none" for what is no group. */
const char *endpoint_group_name(enum endpoint_group group);
bool        endpoint_group_find(struct str name, enum endpoint_group *ret);
/* The name nearest to that word, if one is near; else NULL. */
const char *endpoint_group_suggest(struct str word);
bool        endpoint_group_is_valid(enum endpoint_group group);
/* Endpoints of such a group that name no model speak of all models at once. */
bool endpoint_group_spans_models(enum endpoint_group group);

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
                                                 enum endpoint_group           group);
/* Compares in a time that does not tell how much of the secret was right. */
bool endpoint_rule_allows(const struct endpoint_rule *rule, struct str presented);
