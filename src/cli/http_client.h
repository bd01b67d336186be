/* SPDX-License-Identifier: BSD-3-Clause */
/* A client for a running server: one request after the other, each waited for. The variables
 * http_proxy, https_proxy and no_proxy count as for other clients, but a server on this machine's
 * loopback addresses is asked without a proxy.
 *
 * Ownership.  http_client_free() ends it. Texts of the options are borrowed for its life.
 * Threads.  One.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of an answer: that of the server's own limit for one message. */
#define HTTP_CLIENT_MAX_BYTES ((size_t)1 << 30)

struct http_client_options {
        const char *url;    /* "http://127.0.0.1:8000"; may have a path in front of all others */
        const char *key;    /* sent as a bearer token; NULL: none */
        const char *cacert; /* who may have signed the server's certificate; NULL: the system's */
        const char *cert;   /* the client's own, with key_file; NULL: none */
        const char *key_file;
        bool        is_insecure; /* takes any certificate */
        uint64_t    timeout_s;   /* for a whole answer; 0: as long as it takes */
};

struct http_question {
        const char *path; /* "/v2/models/m/infer" */
        bool        is_post;
        struct str  body;          /* of a POST */
        size_t      header_length; /* of the JSON in front of binary tensors; 0: there are none */
};

struct http_reply {
        long          status;
        size_t        header_length; /* 0: the answer said nothing of it */
        struct strbuf body;          /* owned */
};

struct http_client;

/* UNAVAILABLE without libcurl; INVALID_ARG for a URL that is none. */
struct error *http_client_new(const struct http_client_options *o, struct http_client **ret)
        NODISCARD;
void http_client_free(struct http_client *c); /* NULL is fine */

/* UNAVAILABLE when no answer came: whom it was asked of, and why; INVALID_ARG when the URL or a file
 * of a certificate is wrong. Any status is an answer. */
struct error *http_client_ask(struct http_client *c, const struct http_question *q,
                              struct http_reply *ret) NODISCARD;
void          http_reply_done(struct http_reply *r);
