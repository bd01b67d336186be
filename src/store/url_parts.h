/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of the URL of a request, as signatures need them.
 *
 * Ownership.  Parts are ranges of the URL; parameters are in the caller's arena.
 * Threads.  Any.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct url_parts {
        struct str origin; /* "https://host:port" */
        struct str host;   /* "host:port", without the scheme's own port */
        struct str path;   /* "/a/b", percent-encoded; "" when the URL ends after the host */
        struct str query;  /* without '?'; "" */
        bool       is_tls;
};

/* False when it is not "http://host..." or "https://host...", or has a user's name or a control character in
 * it. */
bool url_parts_read(struct str url, struct url_parts *ret);
/* INVALID_ARG "<name> is not a URL with http:// or https:// and a host" also for one with a query. */
struct error *url_check(const char *url, const char *name) NODISCARD;
/* True for 127.0.0.0/8, ::1 and "localhost", whatever the port. */
bool url_host_is_loopback(struct str host);
/* True for those, and for the addresses at which a machine finds the services of its cloud: 169.254.0.0/16
 * and Amazon's fd00:ec2::/32. */
bool url_host_is_local(struct str host);

#define URL_MAX_PARAMETERS 64

struct url_parameter {
        char *name;  /* in arena */
        char *value; /* in arena; "" without '=' */
};

/* Decodes "a=b&c=d"; parts that are empty are skipped. INVALID_ARG for a malformed escape and for more than
 * URL_MAX_PARAMETERS; `ret` has room for so many. */
struct error *url_parameters_read(struct str query, struct arena *arena, struct url_parameter *ret,
                                  size_t *ret_n) NODISCARD;
/* By name, then by value. */
void url_parameters_sort(struct url_parameter *p, size_t n);
