/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys that sign requests until they expire. They do not change: renewing makes new ones.
 *
 * Ownership.  References are counted; the last store_keys_unref() overwrites and frees the keys.
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"
#include "base/ref.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum store_keys_kind {
        STORE_KEYS_NONE, /* anonymous */
        STORE_KEYS_AWS,
        STORE_KEYS_BEARER,       /* "Authorization: Bearer" */
        STORE_KEYS_AZURE_SHARED, /* the key of a storage account */
        STORE_KEYS_AZURE_SAS,    /* parameters of the query */
};

struct store_keys {
        struct ref           ref;
        enum store_keys_kind kind;
        uint64_t             expires_ns; /* by the wall clock; CLOCK_NEVER */
        char                *id;         /* owned; AWS: id of the key; AZURE_SHARED: account */
        char                *secret;     /* owned; the key, the token, the parameters */
        char                *token;      /* owned; of a session of AWS; "": none */
};

/* The texts are copied; they have no NUL. */
struct store_keys *store_keys_new(enum store_keys_kind kind, struct str id, struct str secret,
                                  struct str token, uint64_t expires_ns);
struct store_keys *store_keys_anonymous(void); /* STORE_KEYS_NONE */
struct store_keys *store_keys_ref(struct store_keys *k);
void               store_keys_unref(struct store_keys *k); /* NULL is fine */
/* INVALID_ARG when one of them cannot be the value of a header. */
struct error *store_keys_check(const struct store_keys *k) NODISCARD;
bool          store_keys_equal(const struct store_keys *a, const struct store_keys *b);
