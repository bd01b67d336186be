/* SPDX-License-Identifier: BSD-3-Clause */
/* What HTTP/2 asks of the fields of a request (RFC 9113, 8.2 and 8.3), field by field as they come.
 *
 *     h2_fields_init(&f, is_trailer);
 *     for each field of the block
 *             switch (h2_fields_read(&f, name, value)) ...
 *     if (!h2_fields_are_complete(&f)) ...      of a request, not of its trailers
 *
 * nghttp2 can do the same, and is told not to: it does not say which name it has recognised, so that
 * each would be looked at twice, and its tables take a tenth of what a small call costs.
 *
 * A pseudo-header that is unknown, repeated or late, a name with a capital, CR, LF or NUL in a name
 * or a value, and fields that belong to a connection make the request malformed. Other fields whose
 * name or value has bytes that do not belong there are left out. Blanks at the ends of a value are
 * kept, except in pseudo-headers.
 *
 * Threads.  One owner at a time; nothing here knows a stream.
 */
#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum h2_field {
        H2_FIELD_MALFORMED, /* and so is the whole request */
        H2_FIELD_LEFT_OUT,
        H2_FIELD_METHOD, /* these four are pseudo-headers */
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
        uint32_t seen; /* bits by enum h2_field */
        bool     is_trailer;
        bool     has_ordinary;   /* no pseudo-header may follow */
        int64_t  content_length; /* -1 = not given */
};

void          h2_fields_init(struct h2_fields *f, bool is_trailer);
enum h2_field h2_fields_read(struct h2_fields *f, struct str name, struct str value);
bool          h2_fields_are_complete(const struct h2_fields *f);
/* Of one that is neither MALFORMED, LEFT_OUT nor OTHER; NUL-terminated. */
struct str h2_field_name(enum h2_field field);
