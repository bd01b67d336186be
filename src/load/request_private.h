/* SPDX-License-Identifier: BSD-3-Clause */
/* For request_*.c only: what a request is made of. */
#pragma once

#include "codec/json_writer.h"
#include "load/load_regions.h"
#include "load/request_set.h"

struct request_input {
        const struct load_tensor *tensor;
        struct load_shape         shape; /* of the whole batch */
        struct str                bytes; /* of all rows */
        const struct shm_part    *part;  /* NULL: in the request */
};

enum request_parameter_kind { PARAMETER_TEXT, PARAMETER_INT, PARAMETER_BOOL, PARAMETER_REAL };

struct request_parameter {
        enum request_parameter_kind kind;
        struct str                  name, text;
        int64_t                     number; /* INT, BOOL */
        double                      real;
};

struct request_content {
        const struct target          *target;
        const struct load_model      *model;
        const struct request_options *options;
        struct request_input         *inputs;
        size_t                        n_inputs;
        struct request_parameter     *parameters;
        size_t                        n_parameters;
};

/* All requests together: they are made before the load. */
#define REQUEST_SET_MAX_BYTES ((size_t)4 << 30)

/* Reads "name:value:type"; INVALID_ARG. The parameter borrows the text. */
struct error *request_parameter_read(const char *text, struct request_parameter *ret) NODISCARD;
/* Puts it as a member of a JSON object. */
void request_parameter_put(struct json_writer *w, const struct request_parameter *p);

/* Length of the part that request_set_patch() writes for HTTP, which must not depend on its values. */
#define REQUEST_HTTP_PATCH_BYTES 90

struct error *request_http_make(const struct request_content *p, struct strbuf *before,
                                struct strbuf *after) NODISCARD;
/* A request of generate_stream: plain JSON. */
struct error *request_http_make_generate(const struct request_content *p, struct strbuf *out)
        NODISCARD;
struct error *request_grpc_make(const struct request_content *p, struct strbuf *message) NODISCARD;
