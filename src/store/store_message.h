/* SPDX-License-Identifier: BSD-3-Clause */
/* A request to a store or to a server of tokens, and its answer, without the way between (store_request.h).
 *
 * Ownership.  A request borrows its texts but for its URL and its headers, which store_request_done() frees.
 *             store_answer_done() frees the answer.
 * Threads.  A request and an answer have one owner.
 */
#pragma once

#include "base/compiler.h"
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
        void              *userp;
        const atomic_bool *is_cancelled; /* borrowed; NULL: none */
};

struct store_answer {
        int                  status;  /* 200 ... */
        struct store_header *headers; /* owned */
        size_t               n_headers;
        struct strbuf        body; /* owned; of an error its beginning */
};

/* The value of a header; NULL when there is none. `name` in lower case. */
const char *store_header_find(const struct store_header *headers, size_t n, const char *name);

/* Adds a header; the texts are copied. */
void store_request_add(struct store_request *r, const char *name, const char *value);
/* Replaces or adds. */
void store_request_set(struct store_request *r, const char *name, const char *value);
/* By name, as signatures need them. */
void store_request_sort_headers(struct store_request *r);
void store_request_done(struct store_request *r);
#define AUTO_STORE_REQUEST CLEANUP(store_request_done) struct store_request

/* "" when there is none. `name` in lower case. */
const char *store_answer_header(const struct store_answer *a, const char *name);
void        store_answer_add(struct store_answer *a, struct str name, struct str value);
void        store_answer_clear_headers(struct store_answer *a);
void        store_answer_done(struct store_answer *a);
#define AUTO_STORE_ANSWER CLEANUP(store_answer_done) struct store_answer
