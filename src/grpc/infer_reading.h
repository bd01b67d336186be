/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to the files that decode a ModelInferRequest: the state they share.
 *
 * Functions that return an error stop the decoding: the message is malformed, or memory is short.
 * What is wrong with values goes into a fault instead (infer_keep_first).
 */
#pragma once

#include "codec/pb_reader.h"
#include "grpc/infer_decode.h"

/* InferParameter: the member of its oneof that came last. */
enum wire_kind {
        WIRE_ABSENT, /* no such parameter */
        WIRE_UNSET,  /* a parameter without a value */
        WIRE_BOOL,
        WIRE_INT64,
        WIRE_STRING,
        WIRE_DOUBLE,
        WIRE_UINT64,
};

struct wire_value {
        enum wire_kind kind;
        union {
                bool       boolean;
                int64_t    int64;
                uint64_t   uint64;
                double     real;
                struct str text; /* borrowed: the message */
        };
};

/* The parameters of an input or output that mean something. */
struct wire_tensor_parameters {
        struct wire_value region, offset, byte_size, classification;
};

/* What there is to know of an input beside its struct infer_input. */
struct wire_input {
        struct str                    body; /* borrowed: its bytes in the message */
        bool                          has_contents;
        struct wire_tensor_parameters parameters;
};

struct infer_reading {
        const struct infer_source *source; /* borrowed */
        struct infer_wire         *wire;   /* borrowed */
        struct wire_input         *inputs; /* in arena; one for each of the request's inputs */
        struct str                *raws;   /* in arena; raw_input_contents */
        uint32_t                   n_raws, next_raw;
        struct str                 model_name, model_version, id; /* borrowed: the last of each */
        struct error              *data_fault, *output_fault; /* owned */
};

/* Remembers the first fault, frees later ones. */
static inline void infer_keep_first(struct error **kept, struct error *err) {
        if (LIKELY(err == NULL))
                return;
        if (*kept == NULL)
                *kept = err;
        else
                error_free(err);
}

struct error *infer_malformed(void) COLD;

/* A NUL-terminated copy in the arena. A NUL inside is refused: the C API would cut there. */
struct error *infer_copy_text(struct infer_reading *d, struct str text, const char **ret) NODISCARD;

/* infer_decode_parameter.c */

/* One entry of a map<string, InferParameter>; a failure sticks in `r`. */
struct str infer_read_entry(struct pb_reader *r, struct wire_value *ret);
/* One entry of the request's own parameters. */
struct error *infer_read_parameter(struct infer_reading *d, struct pb_reader *r) NODISCARD;
/* Of entries with the same name the last one stays. */
struct error *infer_drop_repeated(struct infer_reading *d) NODISCARD;
/* One entry of a tensor's parameters. */
void infer_read_tensor_parameter(struct pb_reader *r, struct wire_tensor_parameters *p);
/* "shared memory extension": the region named, or a fault. */
struct error *infer_read_region(struct infer_reading *d, const struct wire_tensor_parameters *p,
                                const char *tensor, struct infer_shared_memory *ret,
                                struct error **fault) NODISCARD;

/* infer_decode_contents.c */

/* The typed contents of an input, whose datatype is known, into in->bytes. */
struct error *infer_read_contents(struct infer_reading *d, const struct wire_input *wire,
                                  struct infer_input *in) NODISCARD;
