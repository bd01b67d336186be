/* SPDX-License-Identifier: BSD-3-Clause */
/* Access control: the one check that every request of every protocol passes, before its body or its
 * first message is read and before its handler runs.
 *
 * A request is granted when it carries the header that the administrator tied to the endpoint's
 * group (endpoint.h) and, if there is a key file, an API key that grants the group and the model
 * (api_key_file.h). Clients send a key as "Authorization: Bearer <key>" or as "X-Api-Key: <key>". A
 * request with several different keys is refused, since two readers might pick different ones.
 * Other schemes of Authorization do not count as keys.
 *
 * A protocol that learns the name of the model later, from a message, calls access_check_model()
 * then. That function also notices when the key file was read again during a stream: a key that was
 * removed grants nothing any more.
 *
 * Ownership.  access_check() fills a struct access; access_done() ends it. Texts are in the arena
 * or static.
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
        ACCESS_NO_HEADER,   /* the header of the group's rule is missing or wrong: HTTP 403, gRPC
                             * UNAVAILABLE */
        ACCESS_NO_KEY,      /* no key, or an unknown one: 401, UNAUTHENTICATED */
        ACCESS_NOT_ALLOWED, /* the key does not grant it: 403, PERMISSION_DENIED */
};

/* What one request may do. A request that was not checked yet has zeros, which allow everything. */
struct access {
        const struct endpoint_policy *policy;
        struct api_key_set           *keys; /* a reference; NULL = there is no key file */
        const struct api_key         *key;  /* in `keys`; NULL = no known key */
        enum endpoint_group           group;
};

/* Returns field `at` of the request. Names may be in upper or lower case. */
typedef void (*access_field_fn)(const void *call, size_t at, struct str *ret_name,
                                struct str *ret_value);

struct access_question {
        enum endpoint_group group;
        bool                knows_model; /* false: access_check_model() follows */
        struct str          model;       /* empty: the request names no model */
        const char         *noun;        /* "API" or "protocol", for the error message of the
                                          * rule */
        access_field_fn     field;
        const void         *call; /* borrowed: argument of field() */
        size_t              n_fields;
        struct arena       *arena; /* for *ret_text */
};

/* When the verdict is not GRANTED, writes to *ret_text what is missing. The text contains no
 * secret. */
enum access_verdict access_check(const struct endpoint_policy *policy,
                                 const struct access_question *q, struct access *a,
                                 const char **ret_text) NODISCARD;
/* Checks the model that a message of the request names; empty when it names none. */
enum access_verdict access_check_model(struct access *a, struct str model, struct arena *arena,
                                       const char **ret_text) NODISCARD;
/* True when the request may not use all models. */
bool access_is_limited(const struct access *a);
/* True when the request may use the model too. Reports no refusal and changes nothing, so that any
 * thread may call it while the request lasts. */
bool access_grants_model(const struct access *a, struct str model);
/* True when the request may use endpoints of that group too, about all models. A group that a rule ties to
 * a header is not granted: this request's header was not compared with it. Reports no refusal. */
bool access_grants_group(const struct access *a, const struct endpoint_policy *policy,
                         enum endpoint_group group);
/* True when a field of that name may hold the key, so that it must not be forwarded to a
 * backend. */
bool access_hides_field(const struct access *a, struct str name);
/* Returns the key's name for the access log; ptr is NULL when there is no key. */
struct str access_key_name(const struct access *a);
void       access_release_keys(struct access *a);

static inline void access_done(struct access *a) {
        if (a->keys != NULL)
                access_release_keys(a);
}
