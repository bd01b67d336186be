/* SPDX-License-Identifier: BSD-3-Clause */
/* Serializes a response into the bytes that a cache keeps, and back.
 *
 * One buffer in the machine's byte order, with every part at a multiple of 8 from its beginning:
 *
 *     head        magic, version, number of outputs, number of parameters
 *     parameter   type, length of name and value (with their NULs), name, value
 *     output      data type, dimensions, place among the model's, length of name, bytes; shape,
 *                 name (with its NUL; only of an output that has no place), bytes
 *
 * Reading checks everything: a cache may keep its entries outside the process.
 *
 * Ownership.  The bytes belong to the caller; a response that was read has copies.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct request;
struct response;

/* Computes the size in bytes; false for responses that are not kept: failures, outputs that are not
 * in memory that the server can read or whose bytes are not those of their shape, parameters of bytes. */
bool serialized_response_measure(const struct response *r, size_t *ret) NODISCARD;
/* `to` has the measured number of bytes. Outputs on devices are copied from there. UNAVAILABLE when the
 * driver refuses that; INTERNAL when texts that were on a device do not have their shape. */
struct error *serialized_response_write(const struct response *r, void *to) NODISCARD;

/* Creates a response to `req` with the outputs that it asks for, in memory of its allocator.
 * NOT_FOUND when one of them was not kept, INTERNAL when the bytes are not a kept response. */
struct error *serialized_response_read(const void *bytes, size_t n_bytes, const struct request *req,
                                       struct response **ret) NODISCARD;
