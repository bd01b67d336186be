/* SPDX-License-Identifier: BSD-3-Clause */
/* One inference in the form that both protocols share: the request of the client and the response
 * of the model.
 *
 * A protocol decodes its bytes into a struct infer_request. infer_call passes that through the C
 * API. The response comes back as a struct infer_response, which the protocol encodes. Both are
 * plain structs, so that decoders and encoders can be tested without a server.
 *
 * Ownership.  Names, shapes and parameters live in the arena of the HTTP request or gRPC call.
 * Tensor bytes are ranges of the request's body. Converted bytes are an exception: the input holds
 * them, and infer_request_done() releases them. A struct infer_response borrows everything from the
 * response of the C API from which it was read.
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/compiler.h"
#include "base/error.h"
#include "base/str.h"
#include "triton/core/tritonserver.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cuda_region;

/* Far beyond any model, and small enough that a hostile message stays cheap. */
#define INFER_MAX_TENSORS 4096
#define INFER_MAX_PARAMETERS 4096
#define INFER_MAX_DIMS 256

/* The parameter with the name of the client's API key. Only the server sets it. */
#define INFER_API_KEY_NAME "triton_api_key_name"

struct infer_parameter {
        const char                *name; /* in arena */
        TRITONSERVER_ParameterType type; /* STRING, INT, BOOL or DOUBLE */
        union {
                const char *text; /* in arena */
                int64_t     integer;
                bool        boolean;
                double      real;
        } value;
};

/* A range of a registered shared-memory region. `region` is NULL when the tensor is not in shared
 * memory. */
struct infer_shared_memory {
        const char *region; /* in arena */
        uint64_t    offset;
        uint64_t    byte_size;
};

struct infer_input {
        const char           *name;          /* in arena */
        const char           *datatype_name; /* in arena; as the client wrote it */
        TRITONSERVER_DataType datatype;
        uint32_t              n_dims;
        const int64_t        *shape;     /* in arena */
        struct str            bytes;     /* borrowed: in the body, in the arena or in `converted` */
        struct buf           *converted; /* ref; NULL when bytes are elsewhere */
        struct infer_shared_memory shared_memory;
        const struct cuda_region  *gpu; /* borrowed: `bytes` are memory of its device, which the
                                         * CPU must not read; NULL: memory of the host */
};

struct infer_requested_output {
        const char                *name;      /* in arena */
        bool                       is_binary; /* HTTP: raw bytes after the JSON */
        uint32_t                   n_classes; /* 0 = the tensor itself */
        struct infer_shared_memory shared_memory;
};

struct infer_request {
        const char *id;            /* in arena; "" when the client gave none */
        uint32_t    flags;         /* TRITONSERVER_RequestFlag, or'ed */
        uint64_t    priority;      /* 0 = the model's default */
        uint64_t    timeout_us;    /* 0 = none */
        uint64_t    sequence_id;   /* when sequence_name is NULL */
        const char *sequence_name; /* in arena; a correlation id that is text */

        struct infer_parameter        *parameters; /* in arena */
        struct infer_input            *inputs;     /* in arena */
        struct infer_requested_output *outputs;    /* in arena */
        uint32_t                       n_parameters;
        uint32_t                       n_inputs;
        uint32_t                       n_outputs;

        /* The form of outputs that are not in `outputs`. */
        bool is_binary_by_default;

        /* The whole body is the only input of the model, without name and shape. `raw` is the
         * body. */
        bool       is_raw;
        struct str raw; /* borrowed: the body */
};

/* Limit of the arena memory that the decoder of a message may use: lists (INFER_MAX_TENSORS inputs,
 * outputs and raw contents, and as many parameters) and copies of texts. */
#define INFER_ARENA_BASE_BYTES ((size_t)4 << 20)
#define INFER_ARENA_PER_BYTE 8

/* Limits the arena from now on. infer_arena_release() takes *ret_before. */
void infer_arena_limit(struct arena *a, size_t message_bytes, size_t *ret_before);
void infer_arena_release(struct arena *a, size_t before);

/* The error when memory is short, or when the request needs more memory than its size justifies.
 * Static, because there may be no memory for another one. */
struct error *infer_no_memory(void) COLD;

void infer_request_init(struct infer_request *q);
void infer_request_done(struct infer_request *q);

/* Makes room for one more element after the first n, all of which were added in this way. *array
 * moves when it grows. */
struct error *infer_array_grow(struct arena *arena, void **array, uint32_t n, size_t element_bytes);
/* Appends an element of zeros. An error when there are too many, or when the arena is full. */
struct error *infer_request_add_parameter(struct infer_request *q, struct arena *arena,
                                          struct infer_parameter **ret);
struct error *infer_request_add_input(struct infer_request *q, struct arena *arena,
                                      struct infer_input **ret);
/* Adds the name of the client's API key to a request whose only input is a body of the OpenAI API: models
 * that read it keep the prompts of different keys apart. Nothing for other requests, or without a name. */
struct error *infer_request_add_key_name(struct infer_request *q, struct arena *arena,
                                         struct str name) NODISCARD;
struct error *infer_request_add_output(struct infer_request *q, struct arena *arena,
                                       struct infer_requested_output **ret);

/* Returns what the request asks for this output; NULL when the request does not list it. */
const struct infer_requested_output *infer_request_find_output(const struct infer_request *q,
                                                               const char                 *name);

/* Number of bytes that the server reads element by element after decoding: all strings, also those
 * in shared memory. */
size_t infer_request_work(const struct infer_request *q);

/* The form in which an output is sent. */
enum infer_output_form {
        INFER_OUTPUT_JSON,
        INFER_OUTPUT_BINARY,
        INFER_OUTPUT_SHARED_MEMORY, /* already in the region: nothing is sent */
};

struct infer_output {
        const char            *name;
        TRITONSERVER_DataType  datatype;
        uint32_t               n_dims;
        const int64_t         *shape;
        struct str             bytes;  /* INFER_OUTPUT_SHARED_MEMORY: perhaps a device's memory */
        struct buf            *holder; /* borrowed: the buffer that `bytes` is in, NULL if none */
        uint32_t               index;  /* in the response of the C API */
        uint32_t               n_classes;
        enum infer_output_form form;
};

struct infer_response {
        const char             *id; /* "" when there is none */
        const char             *model_name;
        int64_t                 model_version;
        struct infer_parameter *parameters; /* in arena */
        struct infer_output    *outputs;    /* in arena */
        uint32_t                n_parameters;
        uint32_t                n_outputs;
};

const struct infer_output *infer_response_find_output(const struct infer_response *r,
                                                      const char                  *name);
/* Number of bytes that the server processes element by element to encode the response: classes, and
 * JSON. */
size_t infer_response_work(const struct infer_response *r);
/* Sum of the bytes of all outputs that are sent. */
size_t infer_response_bytes(const struct infer_response *r);
