/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the handler of a method and path in a table of routes.
 *
 * A pattern is literal text with captures that each match one path segment: "{m}" a model, "{e}" a model
 * whose name is percent-encoded (the OpenAI API), "{v}" a
 * version (digits only, else the pattern does not match), "{r}" a shared memory region, "{*}" anything.
 * The whole path must match; http_route_find() does not percent-decode. The first row whose pattern and
 * method match is taken. Rows are tried in their order, so the most frequent ones come first where that
 * does not change the result.
 *
 * Ownership.  Tables are static. Captures are ranges of the path.
 * Threads.  Any.
 */
#pragma once

#include "auth/endpoint.h"
#include "base/str.h"
#include "http/http_call.h"

#include <stddef.h>

/* The limit of a body that was announced and is not read yet. */
struct http_body_limit {
        size_t      max_bytes;
        const char *refusal_type; /* content type of the refusal of a larger one */
};

struct http_route {
        const char         *pattern;
        enum http_method    method;
        enum endpoint_group group;
        /* Content type of a 403 or 405 of this row; NULL = text/plain. */
        const char  *refusal_type;
        http_call_fn handler;
};

struct http_captures {
        struct str model, version, region; /* ptr NULL when the pattern has none */
        bool       model_is_encoded;       /* the capture was "{e}" */
};

enum http_route_verdict {
        HTTP_ROUTE_OK,
        HTTP_ROUTE_NOT_FOUND,
        HTTP_ROUTE_WRONG_METHOD, /* ret_row is a row of that path */
};

struct http_route_table {
        const struct http_route *rows;
        size_t                   n_rows;
        /* Handler of unknown paths; NULL = 404 {"error":"Not Found"}. */
        http_call_fn        fallback;
        enum endpoint_group fallback_group; /* of the fallback, if there is one; may be PUBLIC */
        /* Called before a body is read that is chunked or exceeds the limit of JSON. `bytes`: its
         * Content-Length, 0 for a chunked one. *limit: that of JSON, which it may change. An error refuses
         * the request. NULL = each route has the limit of JSON. */
        struct error *(*check_body)(const struct http_call *call, uint64_t bytes,
                                    struct http_body_limit *limit);
        /* Finds the row of a call whose head is complete. It may return rows of other tables. NULL =
         * http_route_find() by method and path. */
        enum http_route_verdict (*find)(const struct http_route_table *table,
                                        struct http_call *call, const struct http_route **ret_row,
                                        struct http_captures *ret_captures);
        /* The table of the paths of the OpenAI API, whose errors have a form of their own; NULL = it is not
         * offered. */
        const struct http_route_table *openai;
};

/* Writes the captures on OK and WRONG_METHOD. */
enum http_route_verdict http_route_find(const struct http_route_table *table,
                                        enum http_method method, struct str path,
                                        const struct http_route **ret_row,
                                        struct http_captures     *ret_captures);

/* True for a path of the OpenAI API: below "/v1" or "/openai/v1". */
bool http_route_is_openai(const struct http_route_table *table, struct str path);

/* Returns the path of a request target without its query. "http://host/path" is equivalent to "/path"
 * (RFC 9112, 3.2.2). */
struct str http_route_path(struct str target);
/* Returns the methods of the row's path for the header Allow: "GET, POST". */
struct str http_route_allowed(const struct http_route_table *table, const struct http_route *row);

/* INTERNAL for a row without a group of endpoints, to which access could not be checked. */
struct error *http_route_check(const struct http_route_table *table) NODISCARD;

bool http_route_matches(const char *pattern, struct str path, struct http_captures *ret);

/* Reads the model's name from its path segment: *ret is the segment or its decoded copy in the arena.
 *
 * The reference server does not decode percent escapes: "a%5Fb" does not name the model "a_b", and a
 * name may contain '%'. A client cannot send a name with characters beyond ASCII that way. So a
 * segment with an escape of a byte of 0x80 or above is percent-decoded as a whole, and any other
 * segment is the name as it stands. INVALID_ARG when the escapes are malformed or yield invalid UTF-8,
 * a slash or a NUL. */
struct error *http_route_read_model(struct str segment, struct arena *arena, struct str *ret)
        NODISCARD;
/* The same for a capture "{e}": the segment is always decoded, and the name may have slashes. */
struct error *http_route_decode_model(struct str segment, struct arena *arena, struct str *ret)
        NODISCARD;
