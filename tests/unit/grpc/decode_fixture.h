/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of the ModelInferRequest decoder share: a message, and what became of it.
 */
#pragma once

#include "suite.h"

#include "base/strbuf.h"
#include "grpc/infer_decode.h"
#include "grpc_service.pb-c.h"

struct decode_fixture {
        struct arena      arena;
        struct strbuf     message;
        struct infer_wire wire;
        char             *bytes; /* exactly as long as the message, so that overruns show */
};

extern struct decode_fixture f;

int decode_setup(void **state);
int decode_teardown(void **state);

/* f.message into f.wire. */
struct error *decode(void);
/* Without an error and without a fault. */
void assert_decodes(void);
void assert_fault(const struct error *fault, const char *text);
void assert_malformed(void);

/* f.message as protobuf-c writes it. */
void put_message(const ProtobufCMessage *m);

/* One input and what it needs, to be changed by tests. */
struct one_input {
        Inference__ModelInferRequest                    request;
        Inference__ModelInferRequest__InferInputTensor  input;
        Inference__ModelInferRequest__InferInputTensor *inputs[1];
        Inference__InferTensorContents                  contents;
        ProtobufCBinaryData                             raws[2];
        int64_t                                         shape[2];
};

void one_input_init(struct one_input *m, const char *datatype);

#define BYTES(literal)                                                                             \
        { sizeof("" literal) - 1, (uint8_t *)(literal) }

#define PUT(literal)                                                                               \
        do {                                                                                       \
                strbuf_clear(&f.message);                                                          \
                STRBUF_PUT_LIT(&f.message, literal);                                               \
        } while (0)

#define DECODE_TEST(function)                                                                      \
        cmocka_unit_test_setup_teardown(function, decode_setup, decode_teardown)
