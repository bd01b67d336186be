/* SPDX-License-Identifier: BSD-3-Clause */
/* The identity of the server for one store: where its keys come from, and how a request is signed.
 *
 * One object serves all requests below one address. Keys that expire are renewed five minutes before;
 * one thread renews, and the others use the old keys while these are valid, and then wait. Without any,
 * requests are anonymous. docs/decisions/store-credentials.md has the sources of keys.
 *
 * Ownership.  store_credentials_free() frees it; no request may use it any more.
 * Threads.  Any. No lock is held during an exchange; threads that need the new keys wait on a condition.
 */
#pragma once

#include "base/error.h"
#include "store/store_request.h"
#include "store/store_url.h"

#include <stdatomic.h>

struct store_credentials;

/* Reads the file of TRITON_CLOUD_CREDENTIAL_PATH, the environment and the profile files, as far as they
 * concern this address. Asks no server. INVALID_ARG that names the variable or the file at fault. */
struct error *store_credentials_open(const struct store_url *url, struct store_credentials **ret)
        NODISCARD;
void store_credentials_free(struct store_credentials *c);
/* Requests for keys end with CANCELLED once it is true; borrowed. To be called before the first request. */
void store_credentials_set_end(struct store_credentials *c, const atomic_bool *is_cancelled);

/* The service's own "https://host" for an address without a host (the region of S3 is known here), or the
 * host of the address with its scheme; without a slash at its end. The bucket follows as the first part of
 * the path, for every store: S3's names of hosts with the bucket in them have no certificate for buckets
 * with dots. Borrowed from the credentials. */
const char *store_credentials_origin(const struct store_credentials *c);

/* Adds the headers of the signature, or parameters to the query. The request is complete but for that;
 * a request is signed once: to try again, make it anew. UNAVAILABLE when a server of tokens does not
 * answer, INVALID_ARG when it refuses, and for a request to another host than that of the origin; never the
 * key in the text. */
struct error *store_credentials_sign(struct store_credentials *c, struct store_request *r)
        NODISCARD;

/* After an answer of 401 or 403: reads or fetches the keys anew. `n_renewals` is the value of
 * store_credentials_renewals() before the request was signed. True when there are other keys now, from this
 * call or from that of another thread since then: the request is worth another try, one. False when the keys
 * are the same, could not be fetched, or were refused less than 10 s ago: then the refusal counts. */
unsigned store_credentials_renewals(const struct store_credentials *c);
bool     store_credentials_renew(struct store_credentials *c, unsigned n_renewals) NODISCARD;
