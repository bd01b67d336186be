/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests to a server that issues keys or tokens: STS, the metadata service of a machine, OAuth 2.0.
 *
 * An answer has at most 64 KiB. An error names the server and, when it refuses, its code
 * ("ExpiredTokenException", "invalid_grant"), but no other text of the answer: that could repeat a secret.
 *
 * Ownership.  Requests begin with token_request_init() and end with store_request_done(), answers with
 *             store_answer_done().
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"
#include "store/store_keys.h"
#include "store/store_request.h"

#include <stdatomic.h>
#include <stdint.h>

/* A service on the machine itself or its host answers at once, or is not there. */
#define TOKEN_METADATA_TIMEOUT_MS 2000
#define TOKEN_SERVER_TIMEOUT_MS 10000

/* The URL has no query yet; `body` is borrowed, and that of a form. The whole exchange takes at most twice
 * the timeout, since all requests to the store wait for it. It ends with CANCELLED once *is_cancelled, which is
 * borrowed and may be NULL. */
void token_request_init(struct store_request *r, const char *method, const char *url,
                        uint64_t timeout_ms, const atomic_bool *is_cancelled);

/* Makes `form` the request's body. */
void token_request_set_form(struct store_request *r, const struct strbuf *form);
/* The same for the query of its URL. */
void token_request_put_query(struct store_request *r, const char *name, const char *value);

/* The answer is one of status 2xx. UNAVAILABLE when none came, or 429 or 5xx; else INVALID_ARG
 * "https://host/path: answered 400 (invalid_grant)". *ret_status, which may be NULL, is 0 without one. */
struct error *token_server_ask(struct store_request *r, struct store_answer *ret, int *ret_status)
        NODISCARD;

/* For the last one of a list of sources, which gave `err` and `status`, or NULL and *ret: when it is not there,
 * is turned off or has no keys, and need not have them, the requests are anonymous, unless the request was
 * cancelled. Takes `err`. */
struct error *token_end_sources(struct error *err, int status, bool is_required,
                                struct store_keys **ret) NODISCARD;

/* Reads {"access_token": ..., "expires_in": seconds}, or "expires_on"; the number may be a text. INVALID_ARG
 * "<where>: the answer has no access_token". A token without such a time is taken to live 10 minutes. */
struct error *token_read_oauth(struct str json, const char *where, uint64_t now_ns,
                               struct store_keys **ret) NODISCARD;

/* A text member of a JSON object, copied; "" when it is not there. Owned by the caller, to be freed with
 * secret_free(). */
char *token_json_text(struct str json, const char *path);

/* Reads a file with a token in it, without blanks at both ends; `variable` says where its path comes from.
 * INVALID_ARG "<variable>: ...". Owned by the caller, as above. */
struct error *token_file_read(const char *variable, const char *path, char **ret) NODISCARD;

/* "https://host/path" of a URL: for messages. Owned by the caller. */
char *token_place(const char *url);
