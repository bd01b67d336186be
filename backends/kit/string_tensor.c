/* SPDX-License-Identifier: BSD-3-Clause */
#include "kit/string_tensor.h"

#include <string.h>

static uint32_t read_length(const unsigned char *at) {
        return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
               (uint32_t)at[3] << 24;
}

static char *write_element(char *out, const char *chars, size_t len) {
        for (int i = 0; i < KIT_STRING_PREFIX; i++)
                *out++ = (char)(unsigned char)(len >> (8 * i) & 0xff);
        if (len > 0)
                memcpy(out, chars, len);
        return out + len;
}

TRITONSERVER_Error *kit_strings_decode(const void *bytes, size_t n_bytes, size_t n,
                                       const char *tensor, struct kit_string *ret) {
        const unsigned char *at = bytes;
        size_t               left = n_bytes;

        for (size_t i = 0; i < n; i++) {
                uint32_t len;

                if (left < KIT_STRING_PREFIX)
                        return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                         "unexpected number of string elements %zu for inference "
                                         "input '%s', expecting %zu",
                                         i, tensor, n);
                len = read_length(at);
                at += KIT_STRING_PREFIX;
                left -= KIT_STRING_PREFIX;
                if (len > left)
                        return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                         "incomplete string data for inference input '%s', "
                                         "expecting string of length %u but only %zu bytes "
                                         "available",
                                         tensor, len, left);
                ret[i] = (struct kit_string){ .chars = (const char *)at, .len = len };
                at += len;
                left -= len;
        }
        if (left > 0)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "unexpected %zu bytes after the %zu string elements of inference "
                                 "input '%s'",
                                 left, n, tensor);
        return NULL;
}

static size_t packed_length(const struct kit_packed_strings *strings, size_t i) {
        size_t end = i + 1 < strings->n ? strings->offsets[i + 1] : strings->n_chars;

        return end - strings->offsets[i];
}

TRITONSERVER_Error *kit_strings_encoded_size(const struct kit_packed_strings *strings, size_t first,
                                             size_t count, size_t *ret) {
        size_t size = count * KIT_STRING_PREFIX;

        for (size_t i = first; i < first + count; i++) {
                size_t len = packed_length(strings, i);

                if (len > UINT32_MAX)
                        return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                         "a string of %zu bytes is too long for a BYTES tensor",
                                         len);
                size += len;
        }
        *ret = size;
        return NULL;
}

void kit_strings_encode(const struct kit_packed_strings *strings, size_t first, size_t count,
                        void *out) {
        char *at = out;

        for (size_t i = first; i < first + count; i++)
                at = write_element(at, strings->chars + strings->offsets[i],
                                   packed_length(strings, i));
}

size_t kit_string_list_size(const struct kit_string *strings, size_t n) {
        size_t size = n * KIT_STRING_PREFIX;

        for (size_t i = 0; i < n; i++)
                size += strings[i].len;
        return size;
}

void kit_string_list_encode(const struct kit_string *strings, size_t n, void *out) {
        char *at = out;

        for (size_t i = 0; i < n; i++)
                at = write_element(at, strings[i].chars, strings[i].len);
}
