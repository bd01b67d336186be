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

/* Of an Accept-Encoding value: the one with the highest weight, the first of equals. Absent,
 * unknown or weightless names count for nothing. */
enum http_encoding http_encoding_choose(struct str accept);
const char        *http_encoding_name(enum http_encoding encoding);
