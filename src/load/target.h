/* SPDX-License-Identifier: BSD-3-Clause */
/* The server that a load goes to: its address, the protocol, TLS, and what each request carries.
 *
 * Ownership.  target_done() frees all members. A target outlives its channels.
 * Threads.  Constant while channels use it.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "net/conn.h"

#include <stdbool.h>
#include <sys/socket.h>

enum target_protocol { TARGET_HTTP, TARGET_GRPC };

struct target_options {
        enum target_protocol protocol;
        const char          *url;     /* "host:port", "https://host:port", "[::1]:8000" */
        const char          *key;     /* API key; NULL: none */
        char *const         *headers; /* "name: value" */
        size_t               n_headers;
        bool                 has_tls;
        const char          *ca_path;              /* NULL: the authorities of the system */
        const char          *cert_path, *key_path; /* of the client; NULL: none */
        bool                 accepts_any_certificate, accepts_any_host;
};

struct target {
        enum target_protocol    protocol;
        char                   *host; /* owned */
        uint16_t                port;
        char                   *authority; /* owned: "host:port" */
        struct sockaddr_storage address;
        struct conn_security    security; /* context NULL: no TLS; owned */
        struct strbuf           headers; /* owned: lines of HTTP/1.1, or fields of a header block */
};

/* INVALID_ARG for a malformed address or header, UNAVAILABLE when the host has no address. */
struct error *target_open(const struct target_options *o, struct target *ret) NODISCARD;
void          target_done(struct target *t);
bool          target_is_local(const struct target *t); /* a loopback address */
