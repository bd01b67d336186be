/* SPDX-License-Identifier: BSD-3-Clause */
/* Who may: the one check that every request of every protocol passes, before its body or its first
 * message is read and before its handler sees it.
 *
 * A request may when it carries the header that the administrator tied to the endpoint's group
 * (endpoint.h) and, if there is a key file, an API key that grants the group and the model
 * (api_key_file.h). Keys come as "Authorization: Bearer <key>" or as "X-Api-Key: <key>"; a request
 * with several that differ is refused, since two readers might see different ones. Other schemes
 * of Authorization are no keys.
 *
 * A protocol that learns a model's name later, from a message, asks again with
 * access_check_model(). A stream notices then that the keys were read again: a key that is gone
 * grants nothing any more.
 *
 * Ownership.  access_check() fills what access_done() ends; texts are in the arena or static.
 * Threads.  One owner at a time.
 */
#pragma once

#include "auth/endpoint.h"
#include "base/arena.h"
#include "base/compiler.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct api_key;
struct api_key_set;

enum access_verdict {
        ACCESS_GRANTED,
        ACCESS_NO_HEADER,   /* of the group's rule: HTTP 403, gRPC UNAVAILABLE */
        ACCESS_NO_KEY,      /* none, or an unknown one: 401, UNAUTHENTICATED */
        ACCESS_NOT_ALLOWED, /* the key does not grant it: 403, PERMISSION_DENIED */
};

/* What one request may do. Zeros: everything, before it was checked. */
struct access {
        const struct endpoint_policy *policy;
        struct api_key_set           *keys; /* held; NULL = there is no key file */
        const struct api_key         *key;  /* in keys; NULL = none is known */
        enum endpoint_group           group;
};

/* Field `at` of the request; names may be in any case. */
typedef void (*access_field_fn)(const void *call, size_t at, struct str *ret_name,
                                struct str *ret_value);

struct access_question {
        enum endpoint_group group;
        bool                knows_model; /* else access_check_model() follows */
        struct str          model;       /* empty: the request names none */
        const char         *noun;        /* "API" or "protocol", for the message of the rule */
        access_field_fn     field;
        const void         *call; /* borrowed: field's */
        size_t              n_fields;
        struct arena       *arena; /* for *ret_text */
};

/* *ret_text is written when the verdict is not GRANTED: what is missing. It holds no secret. */
enum access_verdict access_check(const struct endpoint_policy *policy,
                                 const struct access_question *q, struct access *a,
                                 const char **ret_text) NODISCARD;
/* The model that a message of the request names; empty when it names none. */
enum access_verdict access_check_model(struct access *a, struct str model, struct arena *arena,
                                       const char **ret_text) NODISCARD;
/* Whether a field with that name may hold the key that was asked for: it is not for backends. */
bool access_hides_field(const struct access *a, struct str name);
/* The key's name for the access log; ptr NULL when there is none. */
struct str access_key_name(const struct access *a);
void       access_release_keys(struct access *a);

static inline void access_done(struct access *a) {
        if (UNLIKELY(a->keys != NULL))
                access_release_keys(a);
}
