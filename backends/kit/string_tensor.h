/* SPDX-License-Identifier: BSD-3-Clause */
/* BYTES tensors: each element is its length in four bytes, little-endian, followed by its bytes
 * (KServe v2, binary tensor data extension). Elements may contain any byte, including NUL.
 *
 * Ownership.  Decoded strings point into the tensor.
 * Threads.  The functions have no state.
 */
#pragma once

#include "kit/errors.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KIT_STRING_PREFIX 4 /* bytes of the length before each element */

struct kit_string {
        const char *chars; /* borrowed: the tensor; not NUL-terminated */
        uint32_t    len;
};

/* Decodes a tensor of exactly n elements. INVALID_ARG has the name `tensor` and both numbers. */
TRITONSERVER_Error *kit_strings_decode(const void *bytes, size_t n_bytes, size_t n,
                                       const char *tensor, struct kit_string *ret);

/* Many strings one after the other without prefixes: string i is chars[offsets[i]] up to offsets[i
 * + 1], the last one up to n_chars. */
struct kit_packed_strings {
        const char   *chars;
        const size_t *offsets;
        size_t        n;
        size_t        n_chars;
};

/* Returns the size of `count` strings, beginning with `first`, as elements of a BYTES tensor.
 * INVALID_ARG when a string is too long for its prefix. */
TRITONSERVER_Error *kit_strings_encoded_size(const struct kit_packed_strings *strings, size_t first,
                                             size_t count, size_t *ret);

/* Writes that many bytes to `out`. */
void kit_strings_encode(const struct kit_packed_strings *strings, size_t first, size_t count,
                        void *out);

/* The same for strings in separate places: the size, and the bytes. */
size_t kit_string_list_size(const struct kit_string *strings, size_t n);
void   kit_string_list_encode(const struct kit_string *strings, size_t n, void *out);

#ifdef __cplusplus
}
#endif
