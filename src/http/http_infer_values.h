/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to the files that decode an infer request: the state they share. (And its scalars, to
 * http_shm.c.)
 *
 * Every read_* function consumes one JSON value whatever it is, so that the walk can go on after
 * a fault and find a syntax error further on. A fault of syntax is not an error here: it sticks in
 * the reader and is asked for at the end.
 */
#pragma once

#include "codec/json_reader.h"
#include "http/http_infer_decode.h"

struct http_infer_decoder {
        const struct http_infer_source *source;  /* borrowed */
        struct infer_request           *request; /* borrowed */
        struct json_reader              json;
        struct str                      binary; /* what no input has taken yet */
};

/* Scalars. The error is "Unable to parse '<what>': attempt to access JSON non-... as ...". */
struct error *http_infer_read_text(struct http_infer_decoder *d, const char *what, const char **ret)
        NODISCARD;
/* The same, with its length. */
struct error *http_infer_read_str(struct http_infer_decoder *d, const char *what, struct str *ret)
        NODISCARD;
struct error *http_infer_read_bool(struct http_infer_decoder *d, const char *what, bool *ret)
        NODISCARD;
struct error *http_infer_read_u64(struct http_infer_decoder *d, const char *what, uint64_t *ret)
        NODISCARD;

/* A NUL-terminated copy in the arena; refuses text with a NUL inside, which the C API would cut. */
struct error *http_infer_copy_text(struct http_infer_decoder *d, const char *what, struct str text,
                                   const char **ret) NODISCARD;

/* Remembers the first error, frees later ones. */
static inline void http_infer_keep_first(struct error **kept, struct error *err) {
        if (LIKELY(err == NULL))
                return;
        if (*kept == NULL)
                *kept = err;
        else
                error_free(err);
}

struct error *http_infer_missing(const char *member) COLD;

/* Goes into an array or object; the error is that of a scalar of another type. */
struct error *http_infer_enter(struct http_infer_decoder *d, const char *what,
                               enum json_type expected) NODISCARD;
/* An array: each element by read_one(), the rest unread after the first error. */
typedef struct error *(*http_infer_read_fn)(struct http_infer_decoder *d);
struct error *http_infer_read_list(struct http_infer_decoder *d, const char *what,
                                   http_infer_read_fn read_one) NODISCARD;
/* Which of the parameters below were seen: of equal ones the first counts. */
struct http_infer_place {
        bool has_region, has_offset, has_size;
};

/* One of the parameters that say where in shared memory a tensor is; any other is passed over. */
struct error *http_infer_read_place(struct http_infer_decoder *d, struct str key,
                                    struct http_infer_place *seen, struct infer_shared_memory *ret)
        NODISCARD;

/* One parameter that travels to the backend, whatever its name. */
struct error *http_infer_read_free_parameter(struct http_infer_decoder *d, struct str key)
        NODISCARD;

/* The elements of "data" under `json`, which is left behind the value, into in->bytes. Name,
 * datatype and shape of the input are known. */
struct error *http_infer_read_tensor(struct http_infer_decoder *d, struct json_reader *json,
                                     struct infer_input *in) NODISCARD;
