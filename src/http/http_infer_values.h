/* SPDX-License-Identifier: BSD-3-Clause */
/* Readers of JSON values for the decoders of request bodies (infer, generate, shared memory), and the
 * state that these share. Private to the .c files of these decoders.
 *
 * Every http_infer_read_*() function consumes one JSON value of any type, so that the decoder can continue
 * after an error and find a syntax error further on. A syntax error is not returned here: the JSON reader
 * keeps it, and the decoder checks for it at the end.
 */
#pragma once

#include "codec/json_reader.h"
#include "http/http_infer_decode.h"

struct http_infer_decoder {
        const struct http_infer_source *source;  /* borrowed */
        struct infer_request           *request; /* borrowed */
        struct json_reader              json;
        struct str                      binary; /* binary bytes that no input has taken yet */
};

/* Read a scalar. The error is "Unable to parse '<what>': attempt to access JSON non-... as ...". */
struct error *http_infer_read_text(struct http_infer_decoder *d, const char *what, const char **ret)
        NODISCARD;
/* As http_infer_read_text(), with the length. */
struct error *http_infer_read_str(struct http_infer_decoder *d, const char *what, struct str *ret)
        NODISCARD;
struct error *http_infer_read_bool(struct http_infer_decoder *d, const char *what, bool *ret)
        NODISCARD;
struct error *http_infer_read_u64(struct http_infer_decoder *d, const char *what, uint64_t *ret)
        NODISCARD;

/* Copies text into the arena and terminates it with NUL. Refuses text that contains a NUL, which the C API
 * would cut. */
struct error *http_infer_copy_text(struct http_infer_decoder *d, const char *what, struct str text,
                                   const char **ret) NODISCARD;

struct error *http_infer_missing(const char *member) COLD;

/* Enters an array or object; the error for another type is that of a scalar. */
struct error *http_infer_enter(struct http_infer_decoder *d, const char *what,
                               enum json_type expected) NODISCARD;
/* Reads an array: calls read_one() for each element, and skips the rest after the first error. */
typedef struct error *(*http_infer_read_fn)(struct http_infer_decoder *d);
struct error *http_infer_read_list(struct http_infer_decoder *d, const char *what,
                                   http_infer_read_fn read_one) NODISCARD;
/* The parameters of http_infer_read_place() seen so far; the first of several equal ones counts. */
struct http_infer_place {
        bool has_region, has_offset, has_size;
};

/* Reads a parameter that locates a tensor in shared memory; skips any other parameter. */
struct error *http_infer_read_place(struct http_infer_decoder *d, struct str key,
                                    struct http_infer_place *seen, struct infer_shared_memory *ret)
        NODISCARD;

/* Reads a parameter of any name for the backend. */
struct error *http_infer_read_free_parameter(struct http_infer_decoder *d, struct str key)
        NODISCARD;

/* Reads the elements of "data" at `json` into in->bytes and moves `json` behind the value. Name, datatype
 * and shape of the input are known. */
struct error *http_infer_read_tensor(struct http_infer_decoder *d, struct json_reader *json,
                                     struct infer_input *in) NODISCARD;
