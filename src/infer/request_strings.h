/* SPDX-License-Identifier: BSD-3-Clause */
/* BYTES inputs: each element is a 4-byte little-endian length and that many bytes.
 * KServe v2, binary tensor data extension.
 */
#pragma once

#include "base/error.h"

struct request;
struct request_input;

/* Checks that the input has as many elements as its shape, and that none is cut short. An element may
 * span chunks, its length may not. */
struct error *request_check_strings(const struct request *req, const struct request_input *in);
