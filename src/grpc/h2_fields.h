/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks the header fields of a request by the rules of HTTP/2 (RFC 9113, 8.2 and 8.3), one by one.
 *
 *     h2_fields_init(&f, is_trailer);
 *     for each field of the block
 *             switch (h2_fields_read(&f, name, value)) ...
 *     if (!h2_fields_are_complete(&f)) ...      of a request, not of its trailers
 *
 * nghttp2 has the same checks, which are switched off: it does not report which name it has recognized, so
 * each name would be looked up twice, and its tables take a tenth of the cost of a small call.
 *
 * The request is malformed when a pseudo-header is unknown, repeated or late, a name has a capital, a name
 * or value contains CR, LF or NUL, or a field is connection-specific. Other fields with invalid bytes in
 * their name or value are left out. Blanks at the ends of a value are kept, except in pseudo-headers, where
 * they are malformed.
 *
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum h2_field {
        H2_FIELD_MALFORMED, /* the whole request is malformed */
        H2_FIELD_LEFT_OUT,
        H2_FIELD_METHOD, /* this and the next three are pseudo-headers */
        H2_FIELD_SCHEME,
        H2_FIELD_PATH,
        H2_FIELD_AUTHORITY,
        H2_FIELD_HOST,
        H2_FIELD_TE,
        H2_FIELD_USER_AGENT,
        H2_FIELD_CONTENT_TYPE,
        H2_FIELD_CONTENT_LENGTH,
        H2_FIELD_GRPC_TIMEOUT,
        H2_FIELD_GRPC_ENCODING,
        H2_FIELD_GRPC_ACCEPT_ENCODING,
        H2_FIELD_OTHER,
        N_H2_FIELDS,
};

struct h2_fields {
        uint32_t seen; /* set of enum h2_field, as bits */
        bool     is_trailer;
        bool     has_ordinary;   /* an ordinary field came; no pseudo-header may follow */
        int64_t  content_length; /* -1 = not given */
};

void          h2_fields_init(struct h2_fields *f, bool is_trailer);
enum h2_field h2_fields_read(struct h2_fields *f, struct str name, struct str value);
bool          h2_fields_are_complete(const struct h2_fields *f);
/* The field must not be MALFORMED, LEFT_OUT or OTHER. NUL-terminated. */
struct str h2_field_name(enum h2_field field);
