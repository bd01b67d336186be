/* SPDX-License-Identifier: BSD-3-Clause */
/* One request to a store or to a server of tokens, over libcurl, and its answer.
 *
 * Each thread uses one connection at a time; connections are kept and used again. Nothing here tries
 * again: see store_retry.h.
 *
 * Ownership.  A request borrows its texts but for its headers, which store_request_done() frees.
 *             store_answer_done() frees the answer.
 * Threads.  store_exchange(): any, at the same time.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store_header {
        char *name;  /* owned; in lower case */
        char *value; /* owned */
};

struct store_request {
        const char   *method; /* "GET", "HEAD", "POST", "PUT" */
        struct strbuf url;    /* owned; "https://host:port/path?query", each part percent-encoded */
        struct store_header *headers;
        size_t               n_headers;
        struct str           body;
        uint64_t             timeout_ms; /* without a byte in either direction; 0: 30 s */
        uint64_t             max_ms;     /* of the whole exchange; 0: no limit */
        size_t max_answer_bytes;         /* of a body that is kept; more is an error; 0: 1 MiB */
        /* Gets the body of a 2xx answer in pieces; the status and the headers are in the answer by then. False
         * ends the exchange, which is then an error, CANCELLED. NULL: the answer keeps the body. */
        bool (*take)(void *userp, struct str bytes);
        void        *userp;
        atomic_bool *is_cancelled; /* borrowed; NULL: none */
};

struct store_answer {
        int                  status;  /* 200 ... */
        struct store_header *headers; /* owned */
        size_t               n_headers;
        struct strbuf        body; /* owned; of an error too, cut at max_answer_bytes */
};

/* Adds a header; the texts are copied. */
void store_request_add(struct store_request *r, const char *name, const char *value);
/* Replaces or adds. */
void store_request_set(struct store_request *r, const char *name, const char *value);
void store_request_done(struct store_request *r);

/* "" when there is none. `name` in lower case. */
const char *store_answer_header(const struct store_answer *a, const char *name);
void        store_answer_done(struct store_answer *a);

/* An answer of any status is a success. Redirects are not followed here. UNAVAILABLE when no answer came,
 * or only a part of it: "<scheme>://<host>/<path>: <what>", without the query; INVALID_ARG likewise when another
 * try would fail for the same reason: a certificate; CANCELLED. */
struct error *store_exchange(struct store_request *r, struct store_answer *ret) NODISCARD;

/* Loads libcurl, which the first exchange would load. Error when it is missing. */
struct error *store_request_prepare(void) NODISCARD;
/* Closes the connections that no thread uses now. */
void store_request_close_idle(void);
