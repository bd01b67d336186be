/* SPDX-License-Identifier: BSD-3-Clause */
/* A response as the bytes that a cache keeps, and back.
 *
 * One buffer, of the machine's own byte order, every part at a multiple of 8 from its beginning:
 *
 *     head        magic, version, number of outputs, number of parameters
 *     parameter   type, length of name and value (with their NULs), name, value
 *     output      data type, dimensions, place among the model's, length of name, bytes; shape,
 *                 name (with its NUL; only of an output that has no place), bytes
 *
 * Reading trusts nothing: a cache may keep its entries anywhere.
 *
 * Ownership.  The bytes are the caller's; a response that was read has copies.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct request;
struct response;

/* The bytes it takes; false for what is not kept: failures, outputs that are not in CPU memory,
 * parameters of bytes. */
bool kept_response_measure(const struct response *r, size_t *ret) NODISCARD;
/* `to` has as many bytes as were measured. */
void kept_response_write(const struct response *r, void *to);

/* A response to `req` with the outputs that it asks for, in memory of its allocator. NOT_FOUND when
 * one of them was not kept, INTERNAL for bytes that are no kept response. */
struct error *kept_response_read(const void *bytes, size_t n_bytes, const struct request *req,
                                 struct response **ret) NODISCARD;
