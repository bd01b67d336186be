/* SPDX-License-Identifier: BSD-3-Clause */
/* A client for a running server. It sends one request and waits for the answer before the next. It
 * follows the variables http_proxy, https_proxy and no_proxy as other clients do, except that it
 * uses no proxy for this machine's loopback addresses.
 *
 * Ownership.  http_client_free() frees it. The client borrows the texts of its options.
 * Threads.  One.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limit of an answer, as the server's own for one message. */
#define HTTP_CLIENT_MAX_BYTES ((size_t)1 << 30)

struct http_client_options {
        const char *url;    /* "http://127.0.0.1:8000"; may have a path, which is put before all
                             * others */
        const char *key;    /* sent as a bearer token; NULL: none */
        const char *cacert; /* certificates of the accepted authorities; NULL: the system's */
        const char *cert;   /* the client's own certificate, with key_file; NULL: none */
        const char *key_file;
        bool        is_insecure; /* accepts any certificate */
        uint64_t timeout_ms; /* for a whole answer; 0: no limit. May change between two questions */
};

struct http_question {
        const char *path; /* "/v2/models/m/infer" */
        bool        is_post;
        struct str  body;          /* of a POST */
        size_t      header_length; /* length of the JSON before binary tensors; 0: there are no
                                    * binary tensors */
};

struct http_reply {
        long          status;
        size_t        header_length; /* 0: the answer has no such header */
        struct strbuf body;          /* owned */
};

struct http_client;

/* UNAVAILABLE without libcurl; INVALID_ARG for a malformed URL. */
struct error *http_client_new(const struct http_client_options *o, struct http_client **ret)
        NODISCARD;
void http_client_free(struct http_client *c); /* NULL is fine */

/* An answer with any status is a success. UNAVAILABLE, with the server's address and the reason,
 * when no answer came; INVALID_ARG when the URL or a certificate's file is wrong. */
struct error *http_client_ask(struct http_client *c, const struct http_question *q,
                              struct http_reply *ret) NODISCARD;
void          http_reply_done(struct http_reply *r);
