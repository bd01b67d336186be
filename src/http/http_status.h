/* SPDX-License-Identifier: BSD-3-Clause */
/* HTTP status codes: their phrases, and the one that stands for an error's code.
 */
#pragma once

#include "base/error.h"

/* "OK"; 405 is "Not Allowed", as the reference writes it. */
const char *http_status_phrase(unsigned status);

/* KServe v2 as the reference maps it: INTERNAL 500, NOT_FOUND 404, UNAVAILABLE 503,
 * UNSUPPORTED 501, the rest 400. */
unsigned http_status_of_code(enum error_code code);
