/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads a media type with parameters (RFC 9110, 8.3.1), the value of Content-Type:
 *
 *     application/vnd.sagemaker-triton.binary+json;json-header-size=120
 *
 * The case of the type and of names does not count. Blanks may surround a semicolon. A value is a word
 * or a quoted string; escapes in a quoted string are not resolved.
 *
 * Threads.  Any.
 */
#pragma once

#include "base/str.h"

/* Returns the value of the parameter; ptr NULL when the media type is another one, or has no such
 * parameter. A parameter that stands there twice would be read differently by different readers: the
 * result is then everything behind the type, which is no plausible value. */
struct str http_media_type_find(struct str content_type, const char *type, const char *parameter);
