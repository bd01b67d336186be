/* SPDX-License-Identifier: BSD-3-Clause */
/* BYTES tensors: each element is its length in four bytes, little-endian, and then its bytes
 * (KServe v2, binary tensor data extension). Elements may hold any byte, NUL included.
 *
 * Ownership.  Strings that were decoded point into the tensor they came from.
 * Threads.  Nothing here has state.
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

/* Exactly n elements, no byte more or less. INVALID_ARG names `tensor` and both numbers. */
TRITONSERVER_Error *kit_strings_decode(const void *bytes, size_t n_bytes, size_t n,
                                       const char *tensor, struct kit_string *ret);

/* Many strings one after the other without prefixes: string i is chars[offsets[i]] up to
 * offsets[i + 1], the last one up to n_chars. */
struct kit_packed_strings {
        const char   *chars;
        const size_t *offsets;
        size_t        n;
        size_t        n_chars;
};

/* The size of `count` strings from `first` on as elements of a BYTES tensor. INVALID_ARG when a
 * string is too long for its prefix. */
TRITONSERVER_Error *kit_strings_encoded_size(const struct kit_packed_strings *strings, size_t first,
                                             size_t count, size_t *ret);

/* Writes that many bytes to `out`. */
void kit_strings_encode(const struct kit_packed_strings *strings, size_t first, size_t count,
                        void *out);

/* The same for strings that lie anywhere: the size, and the bytes. */
size_t kit_string_list_size(const struct kit_string *strings, size_t n);
void   kit_string_list_encode(const struct kit_string *strings, size_t n, void *out);

#ifdef __cplusplus
}
#endif
