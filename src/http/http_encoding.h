/* SPDX-License-Identifier: BSD-3-Clause */
/* Which compression an answer gets ("KServe over HTTP, compression").
 */
#pragma once

#include "base/str.h"

enum http_encoding {
        HTTP_ENCODING_IDENTITY,
        HTTP_ENCODING_GZIP,
        HTTP_ENCODING_DEFLATE,
};

/* { 0 } before the first field is considered. */
struct http_encoding_choice {
        enum http_encoding best;
        unsigned           weight; /* thousandths */
};

/* The next Accept-Encoding field; several count as one list. The encoding with the highest weight is
 * chosen, the first of equals. Absent, unknown or weightless names count for nothing. */
void http_encoding_consider(struct http_encoding_choice *choice, struct str accept);
const char        *http_encoding_name(enum http_encoding encoding);
